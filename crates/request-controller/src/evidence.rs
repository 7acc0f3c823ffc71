//! The check objects as a status lists them, within the limits of its schema.

use connectors_api::{
    access_policy::Match,
    access_request::{CheckRef, CheckRefStatus, MatchedPolicy, ObservedObject},
    reason::AccessCheckReady::AccessCheckPassed,
};

use crate::seen::{CheckSeen, LeftOut, ObjectSeen, PolicyAnswer};

/// The limit of a condition's message. Longer messages are cut: the policies' entries have the details.
pub(crate) const LONGEST: usize = 1024;
/// The limit of objects in one entry.
pub(crate) const MOST_OBJECTS: usize = 512;
/// The limit of approvers of one object.
const MOST_PEOPLE: usize = 100;
/// The limit of approvals of one object with a group or a message.
const MOST_APPROVALS: usize = 16;

/// The approximate limit of the lists of all policies that refused, in one status. The API server stores no object
/// above 1.5 MB.
const MOST_REFUSED: usize = 384 * 1024;
/// The same limit while checks are awaited. It is lower because every waiting request is in memory, and no decision
/// depends on these lists.
const MOST_AWAITED: usize = 48 * 1024;
/// The size of an entry without its texts.
const OVERHEAD: usize = 256;

/// The number of policies that share the room of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListRoom {
    policies: usize,
}

impl ListRoom {
    /// The room is divided equally among this many policies.
    pub(crate) fn shared_by(policies: usize) -> Self {
        Self {
            policies: policies.max(1),
        }
    }

    const fn part_of(self, bytes: usize) -> usize {
        bytes / self.policies
    }
}

/// Listed objects, and how many more there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listed {
    /// The objects that fit.
    pub(crate) refs: Vec<CheckRef>,
    /// The number of objects that do not fit.
    pub(crate) left_out: Option<i32>,
}

/// The answer without the objects that no status would list. Many policies may see the same many objects, and all
/// their answers are in memory at the same time.
pub(crate) fn listable(answer: PolicyAnswer, room: ListRoom) -> PolicyAnswer {
    let kept: Vec<Vec<ObjectSeen>> = match Followable::of(&answer) {
        Some(followable) if answer.verdict == AccessCheckPassed => {
            let checks = answer.checks.iter();
            checks
                .map(|check| followable.objects(check).map(short).collect())
                .collect()
        }
        Some(_) | None => {
            let all: Vec<_> = answer.checks.iter().flat_map(lines).collect();
            let chosen = chosen(&answer, &all, room.part_of(MOST_REFUSED));
            let of = |check: &CheckSeen| {
                let chosen = chosen.iter().filter(|it| std::ptr::eq(it.check, check));
                chosen.filter_map(|it| it.object).map(short).collect()
            };
            answer.checks.iter().map(of).collect()
        }
    };
    let mut answer = answer;
    for (check, kept) in answer.checks.iter_mut().zip(kept) {
        let passed = |objects: &[ObjectSeen]| objects.iter().filter(|it| passes(it)).count();
        let passed = passed(&check.objects) - passed(&kept);
        check.left_out.passed += passed;
        check.left_out.others += check.objects.len() - kept.len() - passed;
        check.objects = kept;
    }
    answer
}

/// An object with at most as many approvers as a status shows.
fn short(object: &ObjectSeen) -> ObjectSeen {
    let people = object.approved_by.iter().take(MOST_PEOPLE);
    let approvals = object.approvals.iter().take(MOST_APPROVALS);
    ObjectSeen {
        object: object.object.clone(),
        verdict: object.verdict,
        state: object.state.clone(),
        reason: object.reason.clone(),
        message: object.message.clone(),
        approved_by: people.cloned().collect(),
        approvals: approvals.cloned().collect(),
        lineage: object.lineage.clone(),
        run_creator: object.run_creator.clone(),
    }
}

fn passes(object: &ObjectSeen) -> bool {
    object.verdict == AccessCheckPassed
}

/// The number of objects of a check that pass, kept or not.
fn passed(check: &CheckSeen) -> usize {
    check.objects.iter().filter(|it| passes(it)).count() + check.left_out.passed
}

impl Listed {
    fn of(refs: Vec<CheckRef>, left_out: usize) -> Self {
        let left_out = i32::try_from(left_out).unwrap_or(i32::MAX);
        Self {
            refs,
            left_out: (left_out > 0).then_some(left_out),
        }
    }

    /// Writes the list into an entry.
    pub(crate) fn put_into(self, entry: &mut MatchedPolicy) {
        entry.check_refs = self.refs;
        entry.check_refs_left_out = self.left_out;
    }
}

/// The objects of awaited checks, without versions: then an object that changes without changing its state causes no
/// write.
pub(crate) fn awaited(answer: &PolicyAnswer, room: ListRoom) -> Listed {
    let unversioned = |object: &ObjectSeen| ObservedObject {
        resource_version: None,
        ..object.object.clone()
    };
    within(answer, room.part_of(MOST_AWAITED), unversioned)
}

/// The objects of a refusal, in the version that was judged.
pub(crate) fn of_refusal(answer: &PolicyAnswer, room: ListRoom) -> Listed {
    within(answer, room.part_of(MOST_REFUSED), |object| {
        object.object.clone()
    })
}

/// The objects of a grant: those that pass, in the version that was judged.
///
/// Only listed objects are followed after the grant. Where all objects must pass, an object that is not listed could
/// stop passing unnoticed, so all of them must fit, or nothing is granted. Where any suffices, the rest is left out,
/// which can only end the grant earlier.
pub(crate) fn of_grant(answer: &PolicyAnswer) -> Result<Listed, String> {
    let Some(followable) = Followable::of(answer) else {
        return Err(format!(
            "its checks rest on {} objects, and no more than {MOST_OBJECTS} can be followed; let their selectors find fewer",
            Rest::of(answer).objects()
        ));
    };
    let (mut refs, mut left_out) = (Vec::new(), 0);
    for check in &answer.checks {
        let before = refs.len();
        let objects = followable.objects(check);
        refs.extend(objects.map(|it| reference_to(check, it, it.object.clone())));
        left_out += passed(check).saturating_sub(refs.len() - before);
    }
    Ok(Listed::of(refs, left_out))
}

/// The number of objects on which a grant depends.
struct Rest {
    /// Objects that must all pass.
    must: usize,
    /// Checks of which one object must pass.
    any: usize,
}

impl Rest {
    fn of(answer: &PolicyAnswer) -> Self {
        let checks = |match_: Match| answer.checks.iter().filter(move |it| it.match_ == match_);
        Self {
            must: checks(Match::All).map(passed).sum(),
            any: checks(Match::Any).count(),
        }
    }

    const fn objects(&self) -> usize {
        self.must + self.any
    }
}

/// The objects of each check that a grant follows: all for `match: All`, a share for `match: Any`.
struct Followable {
    /// The number of objects for each check with `match: Any`.
    share: usize,
}

impl Followable {
    /// None if there are too many objects, or if one that must pass is not kept.
    fn of(answer: &PolicyAnswer) -> Option<Self> {
        let rest = Rest::of(answer);
        let mut checks = answer.checks.iter();
        let is_short = checks.any(|it| it.match_ == Match::All && it.left_out.passed > 0);
        if is_short || rest.objects() > MOST_OBJECTS {
            return None;
        }
        let share = (MOST_OBJECTS - rest.must).checked_div(rest.any);
        Some(Self {
            share: share.unwrap_or_default(),
        })
    }

    /// The followed objects of a check.
    fn objects<'a>(&self, check: &'a CheckSeen) -> impl Iterator<Item = &'a ObjectSeen> + use<'a> {
        let room = match check.match_ {
            Match::All => MOST_OBJECTS,
            Match::Any => self.share,
        };
        check.objects.iter().filter(|it| passes(it)).take(room)
    }
}

/// The objects that fit, and how many more there are.
fn within(
    answer: &PolicyAnswer,
    bytes: usize,
    as_shown: impl Fn(&ObjectSeen) -> ObservedObject,
) -> Listed {
    let all: Vec<_> = answer.checks.iter().flat_map(lines).collect();
    let chosen = chosen(answer, &all, bytes);
    let left_out = all.len() - chosen.len() + not_kept(answer);
    let refs = chosen
        .into_iter()
        .map(|ListLine { check, object }| match object {
            Some(object) => reference_to(check, object, as_shown(object)),
            None => CheckRef {
                name: check.name.clone(),
                ref_: None,
                status: Some(status(None, &check.reason, &check.message)),
                lineage: Vec::new(),
            },
        });
    Listed::of(refs.collect(), left_out)
}

/// The number of objects that an answer omits.
fn not_kept(answer: &PolicyAnswer) -> usize {
    let counts = answer.checks.iter().map(|it| it.left_out);
    counts.map(|it| it.passed + it.others).sum()
}

/// The lines that fit, in the policy's order. If not all fit, those with the policy's own verdict come first, because
/// they are the obstacle.
fn chosen<'a>(answer: &PolicyAnswer, all: &[ListLine<'a>], bytes: usize) -> Vec<ListLine<'a>> {
    let chosen = fitting(all, bytes);
    if chosen.len() == all.len() && not_kept(answer) == 0 {
        return chosen;
    }
    let is_in_the_way = |line: &ListLine<'_>| {
        line.object.map_or(line.check.verdict, |it| it.verdict) == answer.verdict
    };
    let (mut first, rest): (Vec<_>, Vec<_>) = all.iter().copied().partition(is_in_the_way);
    first.extend(rest);
    fitting(&first, bytes)
}

/// One line of a list: an object of a check, or a check that found none.
#[derive(Clone, Copy)]
struct ListLine<'a> {
    check: &'a CheckSeen,
    object: Option<&'a ObjectSeen>,
}

fn lines(check: &CheckSeen) -> impl Iterator<Item = ListLine<'_>> {
    let is_empty = check.objects.is_empty() && check.left_out == LeftOut::default();
    let none = is_empty.then_some(None);
    let objects = none.into_iter().chain(check.objects.iter().map(Some));
    objects.map(move |object| ListLine { check, object })
}

/// The first lines that fit. The size of a line is computed before it is copied.
fn fitting<'a>(lines: &[ListLine<'a>], bytes: usize) -> Vec<ListLine<'a>> {
    let mut left = bytes;
    let fitting = lines.iter().copied().filter(|line| {
        let rest = left.checked_sub(line.weight());
        left = rest.unwrap_or(left);
        rest.is_some()
    });
    fitting.take(MOST_OBJECTS).collect()
}

impl ListLine<'_> {
    /// The approximate bytes of its entry.
    fn weight(&self) -> usize {
        let Some(seen) = self.object else {
            let Self { check, .. } = self;
            return OVERHEAD + check.name.len() + check.reason.len() + check.message.len();
        };
        let object = &seen.object;
        let optional = [&object.namespace, &object.uid, &seen.run_creator];
        let optional = optional.into_iter().flatten();
        let texts = [
            &self.check.name,
            &object.api_version,
            &object.kind,
            &object.name,
            &seen.state,
            &seen.reason,
            &seen.message,
        ];
        let people = seen.approved_by.iter().take(MOST_PEOPLE);
        let approvals = seen.approvals.iter().take(MOST_APPROVALS);
        let approvals = approvals.flat_map(|it| {
            let added = [&it.group, &it.message].into_iter().flatten();
            added.chain([&it.user])
        });
        let links = seen.lineage.iter().map(|it| OVERHEAD + it.name.len());
        let texts = texts.into_iter().chain(optional);
        let all = texts.chain(people).chain(approvals);
        OVERHEAD + all.map(String::len).sum::<usize>() + links.sum::<usize>()
    }
}

fn reference_to(check: &CheckSeen, object: &ObjectSeen, reference: ObservedObject) -> CheckRef {
    let ObjectSeen {
        approved_by,
        approvals,
        run_creator,
        ..
    } = short(object);
    CheckRef {
        name: check.name.clone(),
        ref_: Some(reference),
        status: Some(CheckRefStatus {
            approved_by,
            approvals,
            run_creator,
            ..status(Some(&object.state), &object.reason, &object.message)
        }),
        lineage: object.lineage.clone(),
    }
}

fn status(state: Option<&str>, reason: &str, message: &str) -> CheckRefStatus {
    let given = |text: &str| (!text.is_empty()).then(|| shortened(text.to_owned()));
    CheckRefStatus {
        state: state.and_then(given),
        reason: given(reason),
        message: given(message),
        ..CheckRefStatus::default()
    }
}

/// Cuts a text to the limit of a condition.
pub(crate) fn shortened(text: String) -> String {
    cut(text, LONGEST)
}

/// Cuts a text to a limit, between characters.
pub(crate) fn cut(mut text: String, longest: usize) -> String {
    if text.len() > longest {
        let end = (0..=longest.saturating_sub(3))
            .rev()
            .find(|end| text.is_char_boundary(*end))
            .unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}
