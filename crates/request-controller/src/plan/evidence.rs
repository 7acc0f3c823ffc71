//! The objects of checks as a status lists them, within the bounds of its schema.

use connectors_api::{
    access_policy::Match,
    access_request::{CheckRef, CheckRefStatus, MatchedPolicy, ObservedObject},
    reason::AccessCheckReady::AccessCheckPassed,
};

use super::conditions::shortened;
use crate::seen::{Answer, CheckSeen, ObjectSeen};

/// The longest list of objects in one entry.
pub(super) const MOST_OBJECTS: usize = 512;
/// The longest list of people who approved, of one object.
const MOST_PEOPLE: usize = 100;

/// Objects, and how many more there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listed {
    /// Those that fit.
    pub(super) refs: Vec<CheckRef>,
    /// How many do not.
    pub(super) left_out: Option<i32>,
}

impl Listed {
    /// Cut at the bound.
    fn of(mut refs: Vec<CheckRef>, left_out: usize) -> Self {
        let left_out = left_out + refs.len().saturating_sub(MOST_OBJECTS);
        refs.truncate(MOST_OBJECTS);
        let left_out = i32::try_from(left_out).unwrap_or(i32::MAX);
        Self {
            refs,
            left_out: (left_out > 0).then_some(left_out),
        }
    }

    /// As an entry has them.
    pub(super) fn put_into(self, entry: &mut MatchedPolicy) {
        entry.check_refs = self.refs;
        entry.check_refs_left_out = self.left_out;
    }
}

/// What is shown of checks that are awaited. Without versions: an object that changes and says the same
/// costs no write.
pub(super) fn awaited(answer: &Answer) -> Listed {
    let unversioned = |object: &ObjectSeen| ObservedObject {
        resource_version: None,
        ..object.object.clone()
    };
    Listed::of(all(answer, unversioned), 0)
}

/// What a refusal was decided on: every object in the version that was judged.
pub(super) fn of_refusal(answer: &Answer) -> Listed {
    Listed::of(all(answer, |object| object.object.clone()), 0)
}

/// What a grant was decided on: the objects that let through, in the version that was judged.
///
/// Only listed objects are followed after the grant. Where all have to hold, one that is not listed could stop
/// holding unnoticed, so all of them fit or nothing is granted. Where any suffices, the rest is left out: that can
/// only end the grant earlier.
pub(super) fn of_grant(answer: &Answer) -> Result<Listed, String> {
    let passed = |check: &CheckSeen| {
        let passed = |it: &&ObjectSeen| it.verdict == AccessCheckPassed;
        check.objects.iter().filter(passed).count()
    };
    let count = |match_: Match| {
        let checks = answer.checks.iter().filter(|it| it.match_ == match_);
        let counts: Vec<_> = checks.map(passed).filter(|count| *count > 0).collect();
        counts
    };
    let must: usize = count(Match::All).iter().sum();
    let any = count(Match::Any).len();
    if must + any > MOST_OBJECTS {
        return Err(format!(
            "its checks rest on {} objects, and no more than {MOST_OBJECTS} can be followed; let their selectors find fewer",
            must + any
        ));
    }
    let share = (MOST_OBJECTS - must).checked_div(any).unwrap_or_default();
    let (mut refs, mut left_out) = (Vec::new(), 0);
    for check in &answer.checks {
        let room = match check.match_ {
            Match::All => MOST_OBJECTS,
            Match::Any => share,
        };
        let objects = check.objects.iter();
        let objects = objects.filter(|it| it.verdict == AccessCheckPassed);
        refs.extend(
            objects
                .take(room)
                .map(|it| reference_to(check, it, it.object.clone())),
        );
        left_out += passed(check).saturating_sub(room);
    }
    Ok(Listed::of(refs, left_out))
}

fn all(answer: &Answer, as_shown: impl Fn(&ObjectSeen) -> ObservedObject) -> Vec<CheckRef> {
    let mut shown = Vec::new();
    for check in &answer.checks {
        if check.objects.is_empty() {
            shown.push(CheckRef {
                name: check.name.clone(),
                ref_: None,
                status: Some(status(None, &check.reason, &check.message, &[])),
            });
        }
        for object in &check.objects {
            shown.push(reference_to(check, object, as_shown(object)));
        }
    }
    shown
}

fn reference_to(check: &CheckSeen, object: &ObjectSeen, reference: ObservedObject) -> CheckRef {
    let mut approved_by = object.approved_by.clone();
    approved_by.truncate(MOST_PEOPLE);
    CheckRef {
        name: check.name.clone(),
        ref_: Some(reference),
        status: Some(status(
            Some(&object.state),
            &object.reason,
            &object.message,
            &approved_by,
        )),
    }
}

fn status(
    state: Option<&str>,
    reason: &str,
    message: &str,
    approved_by: &[String],
) -> CheckRefStatus {
    let given = |text: &str| (!text.is_empty()).then(|| shortened(text.to_owned()));
    CheckRefStatus {
        state: state.and_then(given),
        reason: given(reason),
        message: given(message),
        approved_by: approved_by.to_vec(),
    }
}
