//! A request whose pod needs none: it ends, and makes way for a later one.

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

/// How long it stays after its end: for people, and for mounts that ask what became of it.
const STAYS: SignedDuration = SignedDuration::from_mins(1);

/// Whether a standing permission ends a request. Not where a policy has come to anything: a grant is taken back by its
/// own rules, and a no must not be forgotten with its request.
pub(super) fn suffices(seen: &Observed, now: Now, followed: &[Followed]) -> bool {
    let counts = match seen.freshness {
        // A reason to look live.
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

/// Whether a request that ended so is deleted now, and when it is; none for every other request.
pub(super) fn makes_way(status: &AccessRequestStatus, now: Timestamp) -> Option<(bool, Timestamp)> {
    let is_it = status.phase == Some(Phase::Ended)
        && conditions::ready(&status.conditions) == Some(Ready::StandingPermission);
    let ended = status.ended_at.filter(|_| is_it)?;
    let due = ended.checked_add(STAYS).ok()?;
    // A clock that was set back must not keep it.
    Some((now >= due || now < ended, due))
}
