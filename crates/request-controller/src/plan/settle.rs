//! The status after an action: a grant was written, removed, or could not be written. When a request is deleted is
//! decided in `outcome`.

use connectors_api::{
    AccessRequest,
    access_request::{AccessRequestStatus, GrantState, MatchedPolicy, Phase},
    hex,
    reason::{AccessCheckReady, AccessPermissionSync, AccessPolicyMatched, Ready},
};
use jiff::Timestamp;
use serde_json::json;
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::{
    conditions::Conditions,
    tell::{self, Told},
};
use crate::{
    grant::{self, Grant},
    snapshot,
};

/// The reason why a new grant must be removed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotOurs {
    /// The request is gone or being deleted, or another one has its name.
    #[error("the request is gone")]
    Gone,
    /// The request ended meanwhile.
    #[error("the request was ended meanwhile")]
    Ended,
    /// The evidence in the request's status has changed.
    #[error("the request shows other evidence")]
    OtherEvidence,
}

/// The status of a request whose grants were written, if it still wants exactly them.
pub fn granted(
    live: Option<&AccessRequest>,
    decided: &AccessRequest,
    grants: &[Grant],
    now: Timestamp,
) -> Result<(AccessRequestStatus, Vec<Told>), NotOurs> {
    let live = live
        .filter(|live| live.metadata.uid == decided.metadata.uid)
        .filter(|live| live.metadata.deletion_timestamp.is_none())
        .ok_or(NotOurs::Gone)?;
    let old = live.status.clone().unwrap_or_default();
    if old.phase.is_some_and(grant::is_terminal) {
        return Err(NotOurs::Ended);
    }
    let evidence = |request: &AccessRequest| {
        let status = request.status.as_ref();
        status.and_then(|status| status.evidence.clone())
    };
    if evidence(live).is_none() || evidence(live) != evidence(decided) {
        return Err(NotOurs::OtherEvidence);
    }
    let mut status = old.clone();
    for grant in grants {
        let is_it = |entry: &&mut MatchedPolicy| {
            grant::identity(entry).is_some_and(|(_, uid)| uid == grant.policy_uid)
        };
        let described = |entry: &&mut MatchedPolicy| {
            grant::in_force(entry, now).is_some()
                && grant::of_entry(live, entry).as_ref() == Some(grant)
        };
        let entry = status
            .policies
            .iter_mut()
            .find(is_it)
            .filter(described)
            .ok_or(NotOurs::OtherEvidence)?;
        confirm(entry, now);
    }
    status.phase = Some(Phase::Granted);
    status.granted_at.get_or_insert(now);
    status.expires_at = expires_at(&status.policies);
    let mut conditions = Conditions::after(&old.conditions, live.metadata.generation, now);
    conditions.is_true(AccessPolicyMatched::AccessPolicyMatched, "");
    conditions.is_true(AccessCheckReady::AccessCheckPassed, "");
    conditions.is_true(AccessPermissionSync::AccessPermissionGranted, "");
    conditions.is_true(Ready::Granted, tell::granted(&status.policies));
    conditions.keep_the_rest();
    status.conditions = conditions.finish();
    let events = tell::of_change(live, &old, &status, "");
    Ok((status, events))
}

fn confirm(entry: &mut MatchedPolicy, now: Timestamp) {
    let limit = snapshot::frozen(&entry.policy.0)
        .and_then(|granted| granted.spec.limits)
        .and_then(|limits| limits.max_duration);
    if let Some(grant) = &mut entry.grant {
        grant.state = GrantState::Granted;
        // A rewritten grant does not last longer.
        let since = *grant.granted_at.get_or_insert(now);
        grant.expires_at = limit.and_then(|limit| since.checked_add(limit.get()).ok());
    }
}

/// The time at which access ends at the latest: with the last grant in force, unless one has no end.
#[must_use]
pub(super) fn expires_at(policies: &[MatchedPolicy]) -> Option<Timestamp> {
    let grants = policies.iter().filter_map(|entry| entry.grant.as_ref());
    let ends = grants
        .filter(|grant| grant.state == GrantState::Granted)
        .map(|grant| grant.expires_at);
    ends.collect::<Option<Vec<_>>>()?.into_iter().max()
}

/// The status of a revoked request without remaining grants.
#[must_use]
pub fn finished(request: &AccessRequest, now: Timestamp) -> Option<AccessRequestStatus> {
    let status = request.status.as_ref()?;
    let is_open = status.phase == Some(Phase::Revoked) && status.revoked_at.is_none();
    is_open.then(|| {
        let mut status = status.clone();
        status.revoked_at = Some(now);
        let entries = status.policies.iter_mut();
        entries.for_each(|it| it.prepared_rules.clear());
        status
    })
}

/// The status of a request whose grant could not be written. None if it is unchanged.
#[must_use]
pub fn not_written(
    request: &AccessRequest,
    problem: &str,
    now: Timestamp,
) -> Option<AccessRequestStatus> {
    let old = request.status.as_ref()?;
    if old.phase != Some(Phase::Pending) {
        return None;
    }
    let mut conditions = Conditions::after(&old.conditions, request.metadata.generation, now);
    conditions.is_false(AccessPermissionSync::AccessPermissionSyncFailed, problem);
    conditions.is_false(Ready::GrantNotWritten, problem);
    told(old, conditions)
}

/// The status of a request whose decision rests on reads that take too long. None if it is unchanged.
#[must_use]
pub fn too_slow(request: &AccessRequest, now: Timestamp) -> Option<AccessRequestStatus> {
    let old = request.status.as_ref()?;
    // An error of a write says more, and is not overwritten in turn.
    let is_granting = |it: &MatchedPolicy| {
        let grant = it.grant.as_ref();
        grant.is_some_and(|it| it.state == GrantState::Granting)
    };
    if old.phase != Some(Phase::Pending) || old.policies.iter().any(is_granting) {
        return None;
    }
    let mut conditions = Conditions::after(&old.conditions, request.metadata.generation, now);
    // The same words each time: others would be a write for each attempt.
    conditions.is_false(Ready::ReadTooSlow, tell::TOO_SLOW);
    told(old, conditions)
}

/// The status with new words for some conditions. None if it is unchanged.
fn told(old: &AccessRequestStatus, mut conditions: Conditions) -> Option<AccessRequestStatus> {
    conditions.keep_the_rest();
    let status = AccessRequestStatus {
        conditions: conditions.finish(),
        ..old.clone()
    };
    (status != *old).then_some(status)
}

/// The status of an unreadable request.
#[must_use]
pub fn unreadable(problem: &str, now: Timestamp) -> AccessRequestStatus {
    let mut conditions = Conditions::after(&[], None, now);
    conditions.is_false(Ready::Unreadable, problem);
    AccessRequestStatus {
        phase: Some(Phase::Invalid),
        ended_at: Some(now),
        conditions: conditions.finish(),
        ..AccessRequestStatus::default()
    }
}

/// The digest of a grant's evidence.
#[must_use]
pub(super) fn digest(request: &AccessRequest, status: &AccessRequestStatus) -> String {
    let policies: Vec<_> = status
        .policies
        .iter()
        .filter_map(|entry| {
            let grant = entry.grant.as_ref()?;
            let active = match grant.state {
                GrantState::Granting | GrantState::Granted => true,
                GrantState::Ended => false,
            };
            active.then(|| json!({"policy": entry.policy, "checks": entry.check_refs, "rules": grant.rules}))
        })
        .collect();
    let made_from = json!({
        "request": request.metadata.uid,
        "spec": request.spec,
        "connector": status.connector_uid,
        "policies": policies,
    });
    let digest = Sha256::digest(made_from.to_string());
    format!("sha256:{}", hex(&digest))
}
