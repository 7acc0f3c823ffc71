//! The state of one policy for one request: it passes, waits, is rejected by a check object or by `pendingTimeout`, lapses,
//! or its grant is written again. Also when the policy must be looked at again (`due`). Policies are independent of each
//! other.

use connectors_api::{
    access_policy::Limits,
    access_request::{GrantState, MatchedPolicy, PolicyGrant},
    opaque::Opaque,
    reason::{
        AccessCheckReady::{
            AccessCheckFailed, AccessCheckPassed, AccessCheckPending, AccessCheckRejected,
        },
        Ready,
    },
};
use jiff::Timestamp;

use super::disclosure::{self, Disclosure};
use crate::seen::{EvidenceState, FrozenSeen, Observed, PolicyAnswer, PolicyJudgement, PolicySeen};
use crate::{
    evidence::{self, ListRoom, Listed},
    grant, snapshot,
};

/// One policy as the next status shows it.
#[derive(Clone, Debug)]
pub(super) struct Followed {
    /// The entry.
    pub(super) entry: MatchedPolicy,
    /// Its state.
    pub(super) standing: PolicyProgress,
    /// The reason, as sentences for users.
    pub(super) told: Disclosure,
    /// The time at which it changes by itself.
    pub(super) due: Option<Timestamp>,
}

/// The state of one policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PolicyProgress {
    /// Its grant is in force; `sure` if that was confirmed.
    Granted { sure: bool },
    /// Its grant must be written now.
    Granting,
    /// Its grant was in force, no longer exists, and cannot be written now.
    Lost(Waiting),
    /// Its checks are pending.
    Waiting(Waiting),
    /// It grants nothing any more.
    Ended(Ready),
}

/// The reason of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// Ready to grant, but writing is not allowed now: the feature is disabled, or the pod is terminating.
    Leave,
    /// A check without a decision.
    Decision,
    /// An error that a person has to repair.
    Repair,
    /// An answer from the evaluation service.
    Answer,
    /// A live read.
    Look,
}

/// The values that are the same for all policies of one request at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment<'a> {
    pub(super) seen: &'a Observed,
    pub(super) now: Timestamp,
    /// True when grants are allowed at all: the feature is enabled and the pod is not terminating.
    pub(super) may_grant: bool,
    /// True when the reads are fresh enough for a grant.
    pub(super) is_live: bool,
}

impl Moment<'_> {
    /// The information about an answer that may be shown.
    fn disclosed(&self, answer: &PolicyAnswer) -> Disclosure {
        Disclosure::of(answer, disclosure::is_foreign(&self.seen.request))
    }
}

/// A policy that has granted before.
///
/// None if it is judged like a policy that has never granted: its grant is gone, and the policy has changed.
pub(super) fn frozen(
    at: Moment<'_>,
    entry: &MatchedPolicy,
    grant: &PolicyGrant,
) -> Option<Followed> {
    let again = match lasting(at, entry, grant) {
        Ok(followed) => return Some(followed),
        Err(again) => again,
    };
    let gone = "the permission was removed by somebody else";
    let ended = |why: &str| {
        let told = Disclosure::here(format!("{gone}, and {why}"));
        ended(at, entry, Ready::CheckLapsed, told)
    };
    let uid = again.seen.uid.as_str();
    let now = at.seen.policies.iter().find(|it| it.uid == uid);
    match now.map(|it| &it.judged) {
        _ if !again.seen.changed || !at.may_grant => Some(self::again(at, entry, grant, &again)),
        None => Some(ended("the policy is another one now, which does not apply")),
        Some(PolicyJudgement::Unanswered) => Some(again.lost(Waiting::Answer, gone)),
        Some(PolicyJudgement::Answered(answer)) if answer.verdict == AccessCheckPassed => None,
        Some(PolicyJudgement::Answered(answer)) if answer.verdict == AccessCheckFailed => {
            Some(again.lost(Waiting::Repair, &unjudged(at, gone, answer)))
        }
        Some(PolicyJudgement::Answered(answer)) => Some(ended(&format!(
            "the policy is another one now, whose checks do not pass: {}",
            at.disclosed(answer).message
        ))),
    }
}

/// A policy whose grant was in force and no longer exists.
struct LostGrant<'a> {
    seen: &'a FrozenSeen,
    entry: MatchedPolicy,
    due: Option<Timestamp>,
}

impl LostGrant<'_> {
    fn lost(&self, why: Waiting, message: &str) -> Followed {
        Followed {
            entry: self.entry.clone(),
            standing: PolicyProgress::Lost(why),
            told: Disclosure::here(message.to_owned()),
            due: self.due,
        }
    }
}

/// The state of a policy that has granted, unless its grant must be rewritten.
fn lasting<'a>(
    at: Moment<'a>,
    entry: &MatchedPolicy,
    grant: &PolicyGrant,
) -> Result<Followed, Box<LostGrant<'a>>> {
    let uid = grant::identity(entry).map(|(_, uid)| uid);
    let seen = at
        .seen
        .frozen
        .iter()
        .find(|it| Some(it.uid.as_str()) == uid);
    let follow = |state: GrantState, standing| {
        let entry = MatchedPolicy {
            grant: Some(PolicyGrant {
                state,
                ..grant.clone()
            }),
            ..entry.clone()
        };
        Followed {
            entry,
            standing,
            told: Disclosure::default(),
            due: grant.expires_at,
        }
    };
    if grant.expires_at.is_some_and(|end| at.now >= end) {
        let told = Disclosure::here("the grant reached the end of its time".to_owned());
        return Ok(ended(at, entry, Ready::Expired, told));
    }
    // Not observed: nothing changes.
    let Some(seen) = seen else {
        return Ok(follow(grant.state, PolicyProgress::Granted { sure: false }));
    };
    if !seen.exists {
        return Ok(ended(
            at,
            entry,
            Ready::PolicyDeleted,
            Disclosure::here("the policy was deleted".to_owned()),
        ));
    }
    if let EvidenceState::Lapsed { check, message, .. } = &seen.held {
        let told = Disclosure::of_lapse(check.as_deref(), message);
        return Ok(ended(at, entry, Ready::CheckLapsed, told));
    }
    if grant.state == GrantState::Granted
        && grant::is_written(&at.seen.request, entry, &at.seen.grants)
    {
        let sure = seen.held == EvidenceState::Holds;
        return Ok(follow(
            GrantState::Granted,
            PolicyProgress::Granted { sure },
        ));
    }
    let lost = follow(GrantState::Granting, PolicyProgress::Lost(Waiting::Look));
    if !at.is_live {
        return Ok(lost);
    }
    Err(Box::new(LostGrant {
        seen,
        entry: lost.entry,
        due: lost.due,
    }))
}

/// A removed grant is rewritten only under the conditions of the first grant: every check passes, read live.
fn again(
    at: Moment<'_>,
    entry: &MatchedPolicy,
    grant: &PolicyGrant,
    again: &LostGrant<'_>,
) -> Followed {
    let lost = |why, message: &str| again.lost(why, message);
    let gone = "the permission was removed by somebody else";
    match &again.seen.again {
        _ if !at.may_grant => lost(Waiting::Leave, gone),
        None | Some(PolicyJudgement::Unanswered) => lost(Waiting::Answer, gone),
        Some(PolicyJudgement::Answered(answer)) if answer.verdict == AccessCheckPassed => {
            let listed = match evidence::of_grant(answer) {
                Ok(listed) => listed,
                Err(why) => return lost(Waiting::Repair, &format!("{gone}, and {why}")),
            };
            let mut followed = lost(Waiting::Look, "");
            followed.standing = PolicyProgress::Granting;
            listed.put_into(&mut followed.entry);
            followed.entry.grant = Some(PolicyGrant {
                state: GrantState::Granting,
                rules: answer.rules.clone(),
                ..grant.clone()
            });
            followed
        }
        Some(PolicyJudgement::Answered(answer)) if answer.verdict == AccessCheckFailed => {
            lost(Waiting::Repair, &unjudged(at, gone, answer))
        }
        Some(PolicyJudgement::Answered(answer)) => {
            let Disclosure { message, at_pod } = at.disclosed(answer);
            let message = format!("{gone}, and its checks do not pass any more: {message}");
            let told = Disclosure { message, at_pod };
            ended(at, entry, Ready::CheckLapsed, told)
        }
    }
}

/// Checks that cannot be judged are neither a pass nor a rejection, and no grant exists that would have to be
/// removed.
fn unjudged(at: Moment<'_>, gone: &str, answer: &PolicyAnswer) -> String {
    let told = at.disclosed(answer).message;
    format!("{gone}, and its checks cannot be judged: {told}")
}

/// A policy that applies now and has not granted yet, with its objects listed within this room.
pub(super) fn open(at: Moment<'_>, policy: &PolicySeen, room: ListRoom) -> Followed {
    let Limits {
        pending_timeout, ..
    } = &policy.limits;
    let created = at.seen.request.metadata.creation_timestamp.as_ref();
    let due = pending_timeout
        .zip(created)
        .and_then(|(limit, created)| created.0.checked_add(limit.get()).ok());
    let entry = |snapshot, listed: Listed| {
        let mut entry = MatchedPolicy {
            policy: Opaque(snapshot),
            check_refs: vec![],
            check_refs_left_out: None,
            prepared_rules: vec![],
            grant: None,
        };
        listed.put_into(&mut entry);
        entry
    };
    let follow = |listed, standing, told| Followed {
        entry: entry(snapshot::identity(&policy.policy.policy), listed),
        standing,
        told,
        due,
    };
    // A refusing policy is kept in the status like a granting one.
    let end = |listed, reason, told| {
        let kept = snapshot::snapshot(&policy.policy.policy);
        ended(at, &entry(kept, listed), reason, told)
    };
    let is_foreign = disclosure::is_foreign(&at.seen.request);
    let of_refusal = |answer: &PolicyAnswer| {
        disclosure::listed(is_foreign, || evidence::of_refusal(answer, room))
    };
    let late = |answer: Option<&PolicyAnswer>| {
        let listed = answer.map(of_refusal).unwrap_or_default();
        let message = "the checks took longer than the policy allows".to_owned();
        let told = Disclosure {
            at_pod: answer.and_then(|it| at.disclosed(it).at_pod),
            message,
        };
        end(listed, Ready::PendingTimeout, told)
    };
    let is_late = due.is_some_and(|due| at.now >= due);
    let answer = match &policy.judged {
        PolicyJudgement::Unanswered if is_late => return late(None),
        PolicyJudgement::Unanswered => {
            let message =
                "the evaluation service does not answer; its checks are judged as soon as it does"
                    .to_owned();
            let told = Disclosure::here(message);
            return follow(
                Listed::default(),
                PolicyProgress::Waiting(Waiting::Answer),
                told,
            );
        }
        PolicyJudgement::Answered(answer) => answer,
    };
    let awaited = |standing| {
        let listed = disclosure::listed(is_foreign, || evidence::awaited(answer, room));
        follow(listed, standing, at.disclosed(answer))
    };
    match answer.verdict {
        AccessCheckRejected => end(
            of_refusal(answer),
            Ready::CheckRejected,
            at.disclosed(answer),
        ),
        _ if is_late => late(Some(answer)),
        AccessCheckPending => awaited(PolicyProgress::Waiting(Waiting::Decision)),
        AccessCheckFailed => awaited(PolicyProgress::Waiting(Waiting::Repair)),
        AccessCheckPassed if !at.may_grant => awaited(PolicyProgress::Waiting(Waiting::Leave)),
        AccessCheckPassed if !at.is_live => awaited(PolicyProgress::Waiting(Waiting::Look)),
        AccessCheckPassed => granting(policy, answer, &awaited(PolicyProgress::Granting)),
    }
}

fn granting(policy: &PolicySeen, answer: &PolicyAnswer, followed: &Followed) -> Followed {
    let mut followed = followed.clone();
    let listed = match evidence::of_grant(answer) {
        Ok(listed) => listed,
        Err(why) => {
            followed.standing = PolicyProgress::Waiting(Waiting::Repair);
            followed.told = Disclosure::here(why);
            return followed;
        }
    };
    followed.entry = MatchedPolicy {
        policy: Opaque(snapshot::snapshot(&policy.policy.policy)),
        check_refs: listed.refs,
        check_refs_left_out: listed.left_out,
        prepared_rules: vec![],
        grant: Some(PolicyGrant {
            state: GrantState::Granting,
            reason: None,
            rules: answer.rules.clone(),
            granted_at: None,
            expires_at: None,
            ended_at: None,
        }),
    };
    followed
}

/// The end of a policy for this request, which is final.
pub(super) fn ended(
    at: Moment<'_>,
    entry: &MatchedPolicy,
    reason: Ready,
    told: Disclosure,
) -> Followed {
    Followed {
        entry: closed(entry, reason, at.now),
        standing: PolicyProgress::Ended(reason),
        told,
        due: None,
    }
}

/// An entry that grants nothing any more.
pub(super) fn closed(entry: &MatchedPolicy, reason: Ready, now: Timestamp) -> MatchedPolicy {
    let grant = entry.grant.clone().unwrap_or(PolicyGrant {
        state: GrantState::Ended,
        reason: None,
        rules: vec![],
        granted_at: None,
        expires_at: None,
        ended_at: None,
    });
    MatchedPolicy {
        grant: Some(PolicyGrant {
            state: GrantState::Ended,
            reason: Some(reason),
            ended_at: Some(now),
            ..grant
        }),
        ..entry.clone()
    }
}
