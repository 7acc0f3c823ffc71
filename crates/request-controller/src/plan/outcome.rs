//! The status as it should be: the table of the design, row by row.

mod draft;
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
    policy::{self, Followed, Moment, Standing, Waiting},
    tell,
};
use crate::{
    evidence::ListRoom,
    grant,
    seen::{Held, Observed, PodSeen},
    snapshot,
};
use draft::Draft;
use service_kit::clock::Now;

/// A request that waits for leave, or for somebody to repair something, has no event that wakes it.
const PATIENT: Duration = Duration::from_secs(30);
/// Somebody could not be asked.
const IMPATIENT: Duration = Duration::from_secs(3);
/// How long a request that never gave anything is kept after its pod is gone.
const NEVER_GRANTED: SignedDuration = SignedDuration::from_hours(1);
/// The texts of all policies that refused, together.
const LARGEST_REFUSED: usize = 256 * 1024;

/// The status as it should be, and what follows from it.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) status: AccessRequestStatus,
    /// UIDs of the policies whose permission is to be written now.
    pub(super) write: BTreeSet<String>,
    /// Caches, or old reads, are not enough to tell.
    pub(super) look: bool,
    pub(super) due: Option<Timestamp>,
    pub(super) again: Option<Duration>,
    /// The request itself is to be deleted.
    pub(super) delete: bool,
    /// What a pod of another namespace is told beside the status.
    pub(super) at_pod: String,
}

pub(super) fn of(seen: &Observed, now: Now, terms: Terms) -> Outcome {
    let old = seen.request.status.clone().unwrap_or_default();
    if seen.request.metadata.deletion_timestamp.is_some() {
        // It counts as deleted: its status describes nothing any more, and nobody writes it.
        return Outcome::plain(old);
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

impl Outcome {
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

/// A terminal status never changes again, but for the note that its pod is gone, which starts the time
/// after which the request is deleted. One that needs no pod to be gone is deleted soon.
fn terminal(seen: &Observed, old: AccessRequestStatus, now: Timestamp, terms: Terms) -> Outcome {
    let is_duplicate = old.phase == Some(Phase::Invalid)
        && conditions::ready(&old.conditions) == Some(Ready::DuplicateRequest);
    if is_duplicate && !seen.tuple.has_others {
        return Outcome {
            delete: true,
            ..Outcome::plain(old)
        };
    }
    if let Some((delete, due)) = standing::makes_way(&old, now) {
        return Outcome {
            delete,
            due: Some(due),
            ..Outcome::plain(old)
        };
    }
    if seen.pod != PodSeen::Gone {
        return Outcome::plain(old);
    }
    let not_found = ContextObjectValid::NotFound.to_string();
    let noted = conditions::find(&old.conditions, Is::ContextObjectValid)
        .filter(|it| it.reason == not_found)
        .map(|it| it.last_transition_time);
    let Some(since) = noted else {
        let mut status = old.clone();
        let generation = seen.request.metadata.generation;
        // Told anew, so that its time is that of the end.
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
        return Outcome {
            due: now.checked_add(kept_for(&old, terms)).ok(),
            ..Outcome::plain(status)
        };
    };
    let due = since.checked_add(kept_for(&old, terms)).ok();
    Outcome {
        // Not before what was granted is known to be gone.
        delete: due.is_some_and(|due| now >= due)
            && (old.phase != Some(Phase::Revoked) || old.revoked_at.is_some()),
        due,
        ..Outcome::plain(old)
    }
}

/// How long a request is kept after its pod is gone. One that never gave anything and was not refused says nothing that
/// anybody has to prove later, and pods make as many as they like.
fn kept_for(status: &AccessRequestStatus, terms: Terms) -> SignedDuration {
    let is_record = status.granted_at.is_some() || status.phase == Some(Phase::Rejected);
    if is_record {
        terms.retention
    } else {
        terms.retention.min(NEVER_GRANTED)
    }
}

/// Every policy that was, and every one that applies now.
fn follow(at: Moment<'_>, entries: &[MatchedPolicy]) -> Vec<Followed> {
    let status = at.seen.request.status.clone().unwrap_or_default();
    let mut followed = Vec::new();
    let mut settled = BTreeSet::new();
    for entry in entries {
        let Some(grant) = &entry.grant else { continue };
        let was_granted = grant::was_in_force(&status, entry);
        let one = match grant.state {
            GrantState::Ended => Followed {
                entry: entry.clone(),
                standing: Standing::Ended(grant.reason.unwrap_or(Ready::CheckLapsed)),
                told: Disclosure::default(),
                due: None,
            },
            GrantState::Granting | GrantState::Granted if was_granted => {
                let Some(followed) = policy::frozen(at, entry, grant) else {
                    continue;
                };
                followed
            }
            // Decided and never in force: it is decided anew, or not at all.
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
    followed.extend(open.into_iter().map(|it| policy::open(at, it, list)));
    bound_refused(&mut followed);
    // One order, wherever a policy stands: a status that says the same is not written again.
    let key = |it: &Followed| {
        let identity = grant::identity(&it.entry);
        identity.map(|(name, uid)| (name.to_owned(), uid.to_owned()))
    };
    followed.sort_by_cached_key(key);
    followed
}

/// Keeps the texts of policies that refused within what a status can hold, the earlier ones first: a refusal is
/// recorded whatever the size of its policy.
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

const fn again(standing: Standing) -> Option<Duration> {
    match standing {
        Standing::Granted { sure: false }
        | Standing::Lost(Waiting::Answer)
        | Standing::Waiting(Waiting::Answer) => Some(IMPATIENT),
        Standing::Lost(_) | Standing::Waiting(Waiting::Leave | Waiting::Repair) => Some(PATIENT),
        Standing::Granted { sure: true }
        | Standing::Granting
        | Standing::Waiting(Waiting::Decision | Waiting::Look)
        | Standing::Ended(_) => None,
    }
}

/// What the check that stopped holding says now.
fn lapsed_verdict(seen: &Observed) -> AccessCheckReady {
    let mut verdicts = seen.frozen.iter().filter_map(|it| match &it.held {
        Held::Lapsed { verdict, .. } => Some(*verdict),
        Held::Holds | Held::Unknown => None,
    });
    verdicts
        .find(|it| *it != AccessCheckReady::AccessCheckPassed)
        .unwrap_or(AccessCheckReady::AccessCheckFailed)
}

/// Why a request cannot be one at all. The webhook fills in what is missing; nobody guesses here.
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
