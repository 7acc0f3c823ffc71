//! All decisions about a request, as a function of the observed values and the time.
//!
//! Two kinds of decisions need live reads: a grant, and every final end. A plan from caches that reaches one of them
//! only says "read live".

mod conditions;
mod disclosure;
pub mod gate;
mod outcome;
pub mod pace;
mod policy;
mod prepared;
mod settle;
pub mod tell;

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, time::Duration};

use connectors_api::{
    AccessRequest,
    access_request::{AccessRequestStatus, GrantState, Phase},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::rbac::v1::Role;

pub use settle::{NotOurs, finished, granted, not_written, too_slow, unreadable};
pub use tell::Told;

use crate::grant::{self, Grant};
use crate::seen::{Freshness, GrantKind, Managed, Observed};
use outcome::RequestOutcome;
use service_kit::clock::Now;

/// The settings that do not depend on the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The time for which a final request is kept after its pod is gone.
    pub retention: SignedDuration,
}

/// The plan for a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The caches are not sufficient for a decision, or the live reads are too old.
    pub look_live: bool,
    /// The new status, if it differs. It is written before all actions.
    pub status: Option<AccessRequestStatus>,
    /// The actions, in this order.
    pub actions: Vec<Action>,
    /// The delay until the next reconciliation at the latest.
    pub requeue: Option<Duration>,
    /// Something ends: the removals are carried out even if the status cannot be written.
    pub ends: bool,
    /// The events to publish afterwards.
    pub events: Vec<Told>,
    /// The event about the wait for a pod of another namespace. It may change while the status stays the same, so
    /// [`pace`] compares it with the last event to decide whether it is published.
    pub wait: Option<Told>,
}

/// One action.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Deletes an object that the status does not describe.
    Remove {
        /// Its kind.
        kind: GrantKind,
        /// Its name.
        name: String,
        /// Its UID: another object of the same name is left for the next reconciliation.
        uid: Option<String>,
    },
    /// Writes a Role and a RoleBinding, then confirms that the request still wants them.
    Grant(Box<Grant>),
    /// Writes a Role to which no RoleBinding refers. Its failure only makes the grant slower.
    Prepare(Box<Role>),
    /// Confirms that no grant is left, and records that.
    Finish,
    /// Deletes the request, which is no longer needed.
    DeleteRequest,
}

impl Plan {
    const NOTHING: Self = Self {
        look_live: false,
        status: None,
        actions: Vec::new(),
        requeue: None,
        ends: false,
        events: Vec::new(),
        wait: None,
    };

    fn look_live() -> Self {
        Self {
            look_live: true,
            ..Self::NOTHING
        }
    }

    /// True when nothing at all would be written.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        !self.look_live && self.status.is_none() && self.actions.is_empty()
    }
}

/// The delay of a grant that was postponed in favour of a revocation.
const SOON: Duration = Duration::from_millis(100);

/// Computes the plan.
#[must_use]
pub fn plan(seen: &Observed, now: Now, terms: Terms) -> Plan {
    let old = seen.request.status.clone().unwrap_or_default();
    let RequestOutcome {
        status,
        write,
        look,
        due,
        again,
        delete,
        at_pod,
    } = outcome::of(seen, now, terms);
    let mut future = seen.request.clone();
    future.status = Some(status.clone());

    let stray: Vec<_> = seen
        .grants
        .iter()
        .filter(|object| object.is_ours() && !object.is_going())
        .filter(|object| !grant::keep(object, Some(&future), now.wall))
        .collect();
    let grants = grants(&future, &write);
    let prepared = prepared::to_write(&old, &future);
    let ends = ends_something(&old, &status);
    let finish = status.phase == Some(Phase::Revoked) && status.revoked_at.is_none();
    // Of these, the removal of Roles to which no RoleBinding refers takes nothing away. It follows a status that is
    // written on the version that was seen.
    let is_bound = |it: &Managed| {
        let mut all = seen.grants.iter();
        all.any(|other| other.kind() == GrantKind::RoleBinding && other.name() == it.name())
    };
    let strays_give = status == old || stray.iter().any(|it| is_bound(it));
    let takes = !stray.is_empty() && strays_give || ends || finish || delete;
    let must_look = match seen.freshness {
        Freshness::Cached => look || takes || drops_something(&old, &status),
        Freshness::Live(_) if seen.only_for_grants => {
            look || takes || drops_something(&old, &status)
        }
        // A revocation does not wait for reads that only another policy's grant needs.
        Freshness::Live(_) => look && !takes,
    };
    if must_look {
        return Plan::look_live();
    }
    let again = if look { Some(SOON) } else { again };

    let mut removals: Vec<_> = stray
        .into_iter()
        .map(|object| (object.kind(), object.name(), object.metadata.uid.clone()))
        .collect();
    // RoleBindings first: without them a Role grants nothing.
    removals.sort();
    let removals = removals
        .into_iter()
        .map(|(kind, name, uid)| Action::Remove {
            kind,
            name: name.to_owned(),
            uid,
        });
    let grants = grants
        .into_iter()
        .map(|grant| Action::Grant(Box::new(grant)));
    let prepared = prepared.into_iter().map(Box::new).map(Action::Prepare);
    let finish = finish.then_some(Action::Finish);
    let delete = delete.then_some(Action::DeleteRequest);
    Plan {
        look_live: false,
        ends: takes,
        actions: removals
            .chain(grants)
            .chain(prepared)
            .chain(finish)
            .chain(delete)
            .collect(),
        requeue: requeue(now.wall, due, again),
        events: tell::of_change(&seen.request, &old, &status, &at_pod),
        wait: tell::wait(&seen.request, &status, &at_pod),
        status: (status != old).then_some(status),
    }
}

/// The grants to write, built only from the entries of the new status.
fn grants(future: &AccessRequest, write: &BTreeSet<String>) -> Vec<Grant> {
    let entries = future.status.iter().flat_map(|status| &status.policies);
    entries
        .filter(|entry| grant::identity(entry).is_some_and(|(_, uid)| write.contains(uid)))
        .filter_map(|entry| grant::of_entry(future, entry))
        .collect()
}

fn ends_something(old: &AccessRequestStatus, new: &AccessRequestStatus) -> bool {
    let is_terminal = |status: &AccessRequestStatus| status.phase.is_some_and(grant::is_terminal);
    let ended = |status: &AccessRequestStatus| {
        let ended = status.policies.iter().filter(|entry| {
            let grant = entry.grant.as_ref();
            grant.is_some_and(|grant| grant.state == GrantState::Ended)
        });
        ended.count()
    };
    is_terminal(new) && !is_terminal(old) || ended(new) > ended(old)
}

/// True when the new status drops a decided grant, which another replica that believes it leads may be writing.
fn drops_something(old: &AccessRequestStatus, new: &AccessRequestStatus) -> bool {
    let granting = |status: &AccessRequestStatus| -> BTreeSet<String> {
        let granting = status.policies.iter().filter(|entry| {
            let grant = entry.grant.as_ref();
            grant.is_some_and(|grant| grant.state == GrantState::Granting)
        });
        let uids = granting.filter_map(grant::identity).map(|(_, uid)| uid);
        uids.map(str::to_owned).collect()
    };
    !granting(old).is_subset(&granting(new))
}

fn requeue(now: Timestamp, due: Option<Timestamp>, again: Option<Duration>) -> Option<Duration> {
    let until = due.map(|due| {
        let left = due.duration_since(now);
        // Never zero: everything that was due has been dealt with.
        Duration::try_from(left)
            .unwrap_or_default()
            .max(Duration::from_millis(100))
    });
    [until, again].into_iter().flatten().min()
}
