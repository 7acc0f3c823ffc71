//! All decisions about a request, as a function of what was read and of the time.
//!
//! Two kinds of decisions are made on live reads alone: whatever grants, and whatever ends something for
//! good. A plan from caches that comes to one of them says "look again live" and nothing else.

mod conditions;
mod disclosure;
mod outcome;
pub mod pace;
mod policy;
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

pub use settle::{NotOurs, finished, granted, not_written, unreadable};
pub use tell::Told;

use crate::grant::{self, Grant};
use crate::seen::{Freshness, GrantKind, Observed};
use outcome::Outcome;
use service_kit::clock::Now;

/// What does not depend on the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long a terminal request stays after its pod is gone.
    pub retention: SignedDuration,
}

/// What is to be done about a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Nothing can be decided on what was read from caches, or what was read live is too old.
    pub look_live: bool,
    /// The status, if it is not right already. It is written before anything else is done.
    pub status: Option<AccessRequestStatus>,
    /// What is done then, in this order.
    pub actions: Vec<Action>,
    /// When to look again at the latest.
    pub requeue: Option<Duration>,
    /// Something ends: what goes, goes even if that cannot be recorded.
    pub ends: bool,
    /// What people are told once it is done.
    pub events: Vec<Told>,
    /// What a pod of another namespace waits for, as its own namespace may know it. It may change while the status
    /// stays, so whether it is told is decided by what was told before.
    pub wait: Option<Told>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Deletes an object that the status does not describe.
    Remove {
        /// Which kind.
        kind: GrantKind,
        /// Its name.
        name: String,
        /// Its UID: another object under the name is left for the next look.
        uid: Option<String>,
    },
    /// Writes a Role and a RoleBinding, then asks the request whether it still wants them.
    Grant(Box<Grant>),
    /// Makes sure that nothing is left of any grant, and records that.
    Finish,
    /// Deletes the request, which decides nothing any more.
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

    /// Whether nothing at all would be written.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        !self.look_live && self.status.is_none() && self.actions.is_empty()
    }
}

/// What was put off for something more urgent is looked at again right after it.
const SOON: Duration = Duration::from_millis(100);

/// Decides.
#[must_use]
pub fn plan(seen: &Observed, now: Now, terms: Terms) -> Plan {
    let old = seen.request.status.clone().unwrap_or_default();
    let Outcome {
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
    let ends = ends_something(&old, &status);
    let finish = status.phase == Some(Phase::Revoked) && status.revoked_at.is_none();
    let takes = !stray.is_empty() || ends || finish || delete;
    let must_look = match seen.freshness {
        Freshness::Cached => look || takes || drops_something(&old, &status),
        // What is taken back does not wait for what another policy may give.
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
    // RoleBindings first: without them a Role gives nothing.
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
    let finish = finish.then_some(Action::Finish);
    let delete = delete.then_some(Action::DeleteRequest);
    Plan {
        look_live: false,
        ends: takes,
        actions: removals.chain(grants).chain(finish).chain(delete).collect(),
        requeue: requeue(now.wall, due, again),
        events: tell::of_change(&seen.request, &old, &status, &at_pod),
        wait: tell::wait(&seen.request, &status, &at_pod),
        status: (status != old).then_some(status),
    }
}

/// What is to be written: what the status records as decided now, in the form that it records.
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

/// Whether what was decided, by whoever leads besides, would not be any more.
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
        // Never at once: what was due has been dealt with.
        Duration::try_from(left)
            .unwrap_or_default()
            .max(Duration::from_millis(100))
    });
    [until, again].into_iter().flatten().min()
}
