//! The new status. A final request only ages, until it is deleted. Of all others, `decide` says what becomes of them.

mod decide;
mod standing;

use std::{collections::BTreeSet, time::Duration};

use connectors_api::{
    AccessRequestCondition as Is,
    access_request::{AccessRequestStatus, GrantState, MatchedPolicy, Phase},
    policy_order::MOST_PER_CONNECTOR,
    reason::{AccessCheckReady, ContextObjectValid, Ready},
};
use jiff::{SignedDuration, Timestamp};

use super::{
    Terms,
    conditions::{self, Conditions},
    disclosure::Disclosure,
    policy::{self, Followed, Moment, PolicyProgress, Waiting},
    prepared, tell,
};
use crate::{
    evidence::ListRoom,
    grant,
    seen::{EvidenceState, Observed, PodSeen},
    snapshot,
};
use decide::Draft;
use service_kit::clock::Now;

/// The delay for a request that waits for the permission to write or for a repair, because no event wakes it.
const PATIENT: Duration = Duration::from_secs(30);
/// The delay after the evaluation service did not answer.
const IMPATIENT: Duration = Duration::from_secs(3);
/// The retention of a request that was never granted, after its pod is gone.
const NEVER_GRANTED: SignedDuration = SignedDuration::from_hours(1);
/// The limit of the texts of all policies that refused, together.
const LARGEST_REFUSED: usize = 256 * 1024;

/// The new status, and its consequences.
#[derive(Clone, Debug)]
pub(super) struct RequestOutcome {
    pub(super) status: AccessRequestStatus,
    /// The UIDs of the policies whose grants must be written now.
    pub(super) write: BTreeSet<String>,
    /// The reads come from caches or are too old for a decision.
    pub(super) look: bool,
    pub(super) due: Option<Timestamp>,
    pub(super) again: Option<Duration>,
    /// True when the request must be deleted.
    pub(super) delete: bool,
    /// The text for a pod of another namespace.
    pub(super) at_pod: String,
}

pub(super) fn of(seen: &Observed, now: Now, terms: Terms) -> RequestOutcome {
    let old = seen.request.status.clone().unwrap_or_default();
    if seen.request.metadata.deletion_timestamp.is_some() {
        // The request counts as deleted: its status no longer describes grants, and is not written.
        return RequestOutcome::plain(old);
    }
    if old.phase.is_some_and(grant::is_terminal) {
        return terminal(seen, old, now.wall, terms);
    }
    let generation = seen.request.metadata.generation;
    let mut status = old.clone();
    status.observed_generation = generation;
    let conditions = Conditions::after(&old.conditions, generation, now.wall);
    Draft {
        seen,
        now: now.wall,
        status,
        conditions,
    }
    .decide(now)
}

impl RequestOutcome {
    fn plain(status: AccessRequestStatus) -> Self {
        Self {
            status,
            write: BTreeSet::new(),
            look: false,
            due: None,
            again: None,
            delete: false,
            at_pod: String::new(),
        }
    }
}

/// A final status never changes again, except for the note that its pod is gone, from which the retention counts. A
/// duplicate and a request that ended because of a standing permission are deleted without waiting for the pod's end.
fn terminal(
    seen: &Observed,
    old: AccessRequestStatus,
    now: Timestamp,
    terms: Terms,
) -> RequestOutcome {
    let is_duplicate = old.phase == Some(Phase::Invalid)
        && conditions::ready(&old.conditions) == Some(Ready::DuplicateRequest);
    if is_duplicate && !seen.tuple.has_others {
        return RequestOutcome {
            delete: true,
            ..RequestOutcome::plain(old)
        };
    }
    if let Some((delete, due)) = standing::makes_way(&old, now) {
        return RequestOutcome {
            delete,
            due: Some(due),
            ..RequestOutcome::plain(old)
        };
    }
    if seen.pod != PodSeen::Gone {
        return RequestOutcome::plain(old);
    }
    let not_found = ContextObjectValid::NotFound.to_string();
    let noted = conditions::find(&old.conditions, Is::ContextObjectValid)
        .filter(|it| it.reason == not_found)
        .map(|it| it.last_transition_time);
    let Some(since) = noted else {
        let mut status = old.clone();
        let generation = seen.request.metadata.generation;
        // Without the old condition, so that the transition time is that of the pod's end.
        let without: Vec<_> = old
            .conditions
            .iter()
            .filter(|it| it.type_ != Is::ContextObjectValid)
            .cloned()
            .collect();
        let mut fresh = Conditions::after(&without, generation, now);
        fresh.is_false(ContextObjectValid::NotFound, tell::POD_GONE);
        fresh.keep_the_rest();
        status.conditions = fresh.finish();
        return RequestOutcome {
            due: now.checked_add(kept_for(&old, terms)).ok(),
            ..RequestOutcome::plain(status)
        };
    };
    // A request is kept until its grants are confirmed gone. The failure of a removal repeats the look, and no time does.
    let is_confirmed = old.phase != Some(Phase::Revoked) || old.revoked_at.is_some();
    let due = since.checked_add(kept_for(&old, terms)).ok();
    let due = due.filter(|_| is_confirmed);
    RequestOutcome {
        delete: due.is_some_and(|due| now >= due),
        due,
        ..RequestOutcome::plain(old)
    }
}

/// The retention of a request after its pod is gone. A request that was neither granted nor rejected is no record
/// that must be kept, and pods may create any number of them.
fn kept_for(status: &AccessRequestStatus, terms: Terms) -> SignedDuration {
    let is_record = status.granted_at.is_some() || status.phase == Some(Phase::Rejected);
    if is_record {
        terms.retention
    } else {
        terms.retention.min(NEVER_GRANTED)
    }
}

/// Every policy with a decision, and every policy that applies now.
fn follow(at: Moment<'_>, entries: &[MatchedPolicy]) -> Vec<Followed> {
    let status = at.seen.request.status.clone().unwrap_or_default();
    let mut followed = Vec::new();
    let mut settled = BTreeSet::new();
    for entry in entries {
        let Some(grant) = &entry.grant else { continue };
        let was_granted = status.was_in_force(entry);
        let one = match grant.state {
            GrantState::Ended => Followed {
                entry: entry.clone(),
                standing: PolicyProgress::Ended(grant.reason.unwrap_or(Ready::CheckLapsed)),
                told: Disclosure::default(),
                due: None,
            },
            GrantState::Granting | GrantState::Granted if was_granted => {
                let Some(followed) = policy::frozen(at, entry, grant) else {
                    continue;
                };
                followed
            }
            // Decided but never in force: it is decided anew if the policy still applies.
            GrantState::Granting | GrantState::Granted => continue,
        };
        if let Some((_, uid)) = grant::identity(entry) {
            settled.insert(uid.to_owned());
        }
        followed.push(one);
    }
    let open = at
        .seen
        .policies
        .iter()
        .filter(|policy| !settled.contains(&policy.uid));
    let room = MOST_PER_CONNECTOR.saturating_sub(followed.len());
    let open: Vec<_> = open.take(room).collect();
    let list = ListRoom::shared_by(open.len());
    let mut open: Vec<_> = open
        .into_iter()
        .map(|it| (it, policy::open(at, it, list)))
        .collect();
    // A Role in advance delays no grant.
    let mut all = followed.iter().chain(open.iter().map(|it| &it.1));
    let grants = all.any(|it| it.standing == PolicyProgress::Granting);
    let may_begin = at.may_grant && status.granted_at.is_none() && !grants;
    let mut room = prepared::MOST;
    for (policy, one) in &mut open {
        if room > 0 && prepared::add(at, policy, one, may_begin) {
            room -= 1;
        }
    }
    followed.extend(open.into_iter().map(|it| it.1));
    bound_refused(&mut followed);
    // A fixed order, so that an unchanged status is not written again.
    let key = |it: &Followed| {
        let identity = grant::identity(&it.entry);
        identity.map(|(name, uid)| (name.to_owned(), uid.to_owned()))
    };
    followed.sort_by_cached_key(key);
    followed
}

/// Keeps the texts of refusing policies within the size of a status, the earlier ones first. A refusal is recorded
/// whatever the size of its policy.
fn bound_refused(followed: &mut [Followed]) {
    let mut left = LARGEST_REFUSED;
    for one in followed {
        let grant = one.entry.grant.as_ref();
        if grant.is_none_or(|it| it.state != GrantState::Ended || it.granted_at.is_some()) {
            continue;
        }
        let snapshot = &mut one.entry.policy.0;
        let size = serde_json::to_vec(snapshot).map_or(usize::MAX, |json| json.len());
        match left.checked_sub(size) {
            Some(rest) => left = rest,
            None => *snapshot = snapshot::identity_of(snapshot),
        }
    }
}

const fn again(standing: PolicyProgress) -> Option<Duration> {
    match standing {
        PolicyProgress::Granted { sure: false }
        | PolicyProgress::Lost(Waiting::Answer)
        | PolicyProgress::Waiting(Waiting::Answer) => Some(IMPATIENT),
        PolicyProgress::Lost(_) | PolicyProgress::Waiting(Waiting::Leave | Waiting::Repair) => {
            Some(PATIENT)
        }
        PolicyProgress::Granted { sure: true }
        | PolicyProgress::Granting
        | PolicyProgress::Waiting(Waiting::Decision | Waiting::Look)
        | PolicyProgress::Ended(_) => None,
    }
}

/// The verdict of the check that no longer passes.
fn lapsed_verdict(seen: &Observed) -> AccessCheckReady {
    let mut verdicts = seen.frozen.iter().filter_map(|it| match &it.held {
        EvidenceState::Lapsed { verdict, .. } => Some(*verdict),
        EvidenceState::Holds | EvidenceState::Unknown => None,
    });
    verdicts
        .find(|it| *it != AccessCheckReady::AccessCheckPassed)
        .unwrap_or(AccessCheckReady::AccessCheckFailed)
}

/// The reason why a request is invalid. The webhook fills in missing fields, so the controller does not guess them.
fn unusable(seen: &Observed) -> Option<&'static str> {
    let spec = &seen.request.spec;
    let namespace = seen.request.metadata.namespace.as_deref();
    if spec
        .context
        .object_ref
        .uid
        .as_deref()
        .unwrap_or_default()
        .is_empty()
    {
        return Some(tell::NO_UID);
    }
    if spec.connector_ref.namespace.is_some()
        && spec.connector_ref.namespace.as_deref() != namespace
    {
        return Some(tell::OTHER_NAMESPACE);
    }
    None
}
