//! Does what was granted on still hold? Only the objects of the evidence count, whatever a check would
//! find today.

use std::collections::BTreeMap;

use connectors_api::{
    access_policy::{Check, Latch, Match},
    access_request::{CheckRef, MatchedPolicy},
    reason::AccessCheckReady,
};
use evaluation_api::{v1::EvaluateChecksResponse, verdict};

use super::select;
use crate::seen::Held;

/// An object of the evidence, looked at again.
#[derive(Clone, Debug, PartialEq)]
pub enum Looked {
    /// It is there, under its UID.
    There,
    /// It is gone, or another one has its name.
    Gone,
    /// It is there and cannot be read, or is too large to be a check.
    Useless,
    /// It could not be looked at.
    Unknown,
}

/// The objects that have to be looked at, by UID. None if the evidence cannot be read.
#[must_use]
pub fn to_look_at(entry: &MatchedPolicy) -> Option<Vec<&CheckRef>> {
    let checks = select::frozen(&entry.policy.0)?.spec.checks;
    let once = |name: &str| {
        checks
            .iter()
            .any(|check| check.name == name && check.latch == Latch::Once)
    };
    let refs = entry.check_refs.iter();
    Some(refs.filter(|it| !once(&it.name)).collect())
}

/// Whether every check still holds. The evaluation service is not asked when no object is left.
#[must_use]
pub fn held(
    entry: &MatchedPolicy,
    looked: &BTreeMap<String, Looked>,
    said: Option<&EvaluateChecksResponse>,
) -> Held {
    let Some(granted) = select::frozen(&entry.policy.0) else {
        return Held::Lapsed {
            verdict: AccessCheckReady::AccessCheckFailed,
            check: None,
            message: "the evidence of the grant cannot be read".to_owned(),
        };
    };
    let mut unknown = false;
    for check in &granted.spec.checks {
        match one(check, &entry.check_refs, looked, said) {
            Held::Holds => {}
            Held::Unknown => unknown = true,
            lapsed @ Held::Lapsed { .. } => return lapsed,
        }
    }
    if unknown { Held::Unknown } else { Held::Holds }
}

fn one(
    check: &Check,
    refs: &[CheckRef],
    looked: &BTreeMap<String, Looked>,
    said: Option<&EvaluateChecksResponse>,
) -> Held {
    if check.latch == Latch::Once {
        return Held::Holds;
    }
    let lapsed = |verdict, why: &str| Held::Lapsed {
        verdict,
        check: Some(check.name.clone()),
        message: why.to_owned(),
    };
    let (mut there, mut gone) = (0_usize, 0_usize);
    for reference in refs.iter().filter(|it| it.name == check.name) {
        let uid = reference.ref_.as_ref().and_then(|it| it.uid.as_ref());
        match uid.and_then(|uid| looked.get(uid)) {
            Some(Looked::There) => there += 1,
            Some(Looked::Gone) => gone += 1,
            Some(Looked::Useless) => {
                let failed = AccessCheckReady::AccessCheckFailed;
                return lapsed(failed, "an object that approved cannot be read any more");
            }
            Some(Looked::Unknown) | None => return Held::Unknown,
        }
    }
    let pending = AccessCheckReady::AccessCheckPending;
    let needs_the_rest = match (check.match_, check.latch) {
        _ if there + gone == 0 => {
            return lapsed(pending, "the evidence names no object");
        }
        (Match::All, Latch::WhileHolds) if gone > 0 => {
            return lapsed(pending, "an object that approved was deleted");
        }
        (Match::Any, Latch::WhileHolds) if there == 0 => {
            return lapsed(pending, "every object that approved was deleted");
        }
        // What was deleted had let through, and deletion changes nothing.
        (Match::Any, Latch::Auto | Latch::Once) if gone > 0 => false,
        (Match::All | Match::Any, Latch::Auto | Latch::WhileHolds | Latch::Once) => there > 0,
    };
    if !needs_the_rest {
        return Held::Holds;
    }
    let Some(said) = said else {
        return Held::Unknown;
    };
    let result = said.checks.iter().find(|it| it.check == check.name);
    match result.map(|it| (verdict::from_wire(it.verdict), it)) {
        Some((Ok(AccessCheckReady::AccessCheckPassed), _)) => Held::Holds,
        Some((Ok(verdict), it)) => lapsed(verdict, &it.message),
        Some((Err(_), _)) | None => lapsed(
            AccessCheckReady::AccessCheckFailed,
            "the evaluation service left it out",
        ),
    }
}
