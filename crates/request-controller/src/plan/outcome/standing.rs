//! A request whose pod has a standing permission: it ends, and is deleted so that a later one can be created.

use connectors_api::{
    access_request::{AccessRequestStatus, Phase},
    reason::Ready,
};
use jiff::{SignedDuration, Timestamp};

use crate::{
    plan::{conditions, policy::Followed},
    seen::{Freshness, Observed, StandingSeen},
};
use service_kit::clock::Now;

/// The time for which it stays after its end, so that users and mounts can see the outcome.
const STAYS: SignedDuration = SignedDuration::from_mins(1);

/// True when a standing permission ends a request. It does not if a policy has decided: a grant is revoked by its own
/// rules, and a rejection must not be deleted with its request.
pub(super) fn suffices(seen: &Observed, now: Now, followed: &[Followed]) -> bool {
    let counts = match seen.freshness {
        // A reason for a live read.
        Freshness::Cached => true,
        Freshness::Live(_) => seen.freshness.left(now.mono).is_some(),
    };
    let status = seen.request.status.as_ref();
    let entries = status.iter().flat_map(|it| &it.policies);
    let mut entries = entries.chain(followed.iter().map(|it| &it.entry));
    let decided =
        entries.any(|it| it.grant.is_some()) || status.is_some_and(|it| it.granted_at.is_some());
    seen.standing == StandingSeen::There && counts && !decided
}

/// Whether a request with this end is deleted now, and the time of its deletion. None for all other requests.
pub(super) fn makes_way(status: &AccessRequestStatus, now: Timestamp) -> Option<(bool, Timestamp)> {
    let is_it = status.phase == Some(Phase::Ended)
        && conditions::ready(&status.conditions) == Some(Ready::StandingPermission);
    let ended = status.ended_at.filter(|_| is_it)?;
    let due = ended.checked_add(STAYS).ok()?;
    // A clock that was set back must not keep the request.
    Some((now >= due || now < ended, due))
}
