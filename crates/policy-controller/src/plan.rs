//! All decisions: the wanted objects of a policy, the writes that lead to them, and the events.
//!
//! Pure: nothing here reads, writes or waits, and the time is given.

pub mod objects;
pub mod order;
mod split;
pub mod status;
pub mod tell;
pub mod wanted;

use std::collections::{BTreeMap, BTreeSet};

use connectors_api::{
    AccessPolicyCondition, AccessPolicySpec, AccessPolicyStatus, ConditionStatus,
    policy_reason::PermissionSynced,
};
use jiff::Timestamp;

use crate::{
    checks::Checks,
    seen::{Managed, ManagedCached, ManagedKind, OwnerPolicy, Surroundings},
};
use objects::{of_binding, of_role, pairs};
use order::WriteStep;
use status::Summary;
use tell::Told;
use wanted::wanted;

/// How many bytes a list in an object may have: the API server takes 1.5 MiB of everything.
pub const MOST_BYTES: usize = 1 << 20;

/// A policy and all objects that concern it.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// Which policy.
    pub owner: &'a OwnerPolicy,
    /// Its content.
    pub policy: PolicySeen<'a>,
    /// The objects from which it selects.
    pub around: Surroundings<'a>,
    /// Its managed objects.
    pub there: &'a Managed,
    /// The state of its checks.
    pub checks: Checks,
}

/// A policy as it is now.
#[derive(Clone, Copy, Debug)]
pub enum PolicySeen<'a> {
    /// It is gone or being deleted.
    Gone,
    /// It exists.
    There {
        /// Its content, or why it cannot be parsed.
        spec: Result<&'a AccessPolicySpec, &'a str>,
        /// Which version of its spec that is.
        generation: Option<i64>,
        /// Its status as last written.
        status: Option<&'a AccessPolicyStatus>,
    },
}

/// The cached state of an existing policy.
#[derive(Clone, Debug)]
pub struct Cached<'a> {
    /// Which policy.
    pub owner: &'a OwnerPolicy,
    /// Its content.
    pub spec: &'a AccessPolicySpec,
    /// Which version of its spec that is.
    pub generation: Option<i64>,
    /// Its status as last written.
    pub status: Option<&'a AccessPolicyStatus>,
    /// The objects from which it selects.
    pub around: Surroundings<'a>,
    /// Its managed objects.
    pub there: &'a BTreeMap<(ManagedKind, String), ManagedCached>,
    /// The state of its checks.
    pub checks: Checks,
}

/// Whether a policy has its wanted objects and status, so that a live read is not worth its cost.
#[must_use]
pub fn is_settled(seen: &Cached<'_>, most: usize, now: Timestamp) -> bool {
    let wanted = wanted(seen.spec, &seen.owner.name.namespace, seen.around);
    let pairs = pairs(&wanted, seen.owner, most);
    // Names are unique: an equal number of objects, all of them wanted, means that all wanted objects exist.
    let are_same = seen.there.len() == ManagedKind::ALL.len() * pairs.len()
        && seen.there.iter().all(|((kind, name), found)| {
            pairs.get(name).is_some_and(|pair| {
                let wanted = match kind {
                    ManagedKind::Role => of_role(&pair.role),
                    ManagedKind::RoleBinding => of_binding(&pair.binding),
                };
                !found.terminating && found.said == Some(wanted)
            })
        });
    let known = Summary::of(&wanted, seen.checks.clone());
    are_same && known.status(seen.generation, seen.status, now).is_none()
}

/// The decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Writes in their order.
    pub steps: Vec<WriteStep>,
    /// The status after the writes have succeeded; none of a policy that is gone.
    pub known: Option<Summary>,
    /// The events to write then.
    pub told: Vec<Told>,
}

/// Decides, for lists of at most that many bytes.
#[must_use]
pub fn plan(seen: &Observed<'_>, most: usize) -> Plan {
    let Observed {
        owner,
        policy,
        around,
        there,
        checks,
    } = seen;
    let (wanted, known) = match policy {
        PolicySeen::Gone => (wanted::WantedPermissions::nothing(), None),
        PolicySeen::There { spec, .. } => match spec {
            Ok(spec) => {
                let wanted = wanted(spec, &owner.name.namespace, *around);
                let known = Summary::of(&wanted, checks.clone());
                (wanted, Some(known))
            }
            Err(problem) => (
                wanted::WantedPermissions::nothing(),
                Some(Summary::unreadable(problem)),
            ),
        },
    };
    let pairs = pairs(&wanted, owner, most);
    let steps = order::steps(&pairs, there);
    let told = if steps.is_empty() {
        Vec::new()
    } else {
        let was_in_force = known.as_ref().is_some_and(|it| was_in_force(policy, it));
        let names: BTreeSet<&String> = pairs.keys().collect();
        tell::of_change(there, &wanted, was_in_force, &names)
    };
    Plan { steps, known, told }
}

/// Whether the status said that exactly this is in force. Then another client removed the missing objects.
fn was_in_force(policy: &PolicySeen<'_>, known: &Summary) -> bool {
    let PolicySeen::There {
        generation,
        status: Some(status),
        ..
    } = policy
    else {
        return false;
    };
    let mut conditions = status.conditions.iter();
    known.synced == PermissionSynced::PermissionGranted
        && conditions.any(|it| {
            it.type_ == AccessPolicyCondition::PermissionSynced
                && it.status == ConditionStatus::True
                && it.reason == known.synced.as_str()
        })
        && status.observed_generation == *generation
        && status
            .matched_connectors
            .iter()
            .map(|it| &it.name)
            .eq(&known.connectors)
        && status.granted_subjects.map(usize::try_from) == known.holders.map(Ok)
}

/// The status to write, and its events.
#[must_use]
pub fn status(
    known: &Summary,
    generation: Option<i64>,
    last: Option<&AccessPolicyStatus>,
    now: Timestamp,
) -> Option<(AccessPolicyStatus, Vec<Told>)> {
    let status = known.status(generation, last, now)?;
    let told = tell::of_status(last, &status);
    Some((status, told))
}

#[cfg(test)]
mod tests;
