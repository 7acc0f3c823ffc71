//! How the writes are made: by which process, in which order, and whether they change anything.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use testkit::{CallFault, CallRecord, ChangeRecord, Entry, What};

use super::history::{History, label, text};
use crate::support::SYSTEMS;

/// How long a holder of the lease may write after it renewed it last.
const LEASE: Duration = Duration::from_secs(10);

/// The observed conduct of all processes.
#[derive(Default)]
pub(super) struct Conduct {
    /// The holder of the lease of an installation, and the time of its last renewal.
    leases: BTreeMap<String, (String, Duration)>,
    /// The time at which a process took a lease for the first time, and the UIDs of the policies with objects then.
    led: BTreeMap<String, (Duration, BTreeSet<String>)>,
    /// Processes with a call that broke. They are excused from the rule that removals come first.
    stumbled: BTreeSet<String>,
    /// Which process wrote which object.
    tried: BTreeSet<(String, String)>,
    /// Objects that changed since the last call: process, plural and name.
    changed: BTreeSet<(String, String, String)>,
}

/// When the call was sent that the first entry is a change by; its own entry stands behind its changes.
pub(super) fn sent(log: &[Entry]) -> Option<Duration> {
    let (first, rest) = log.split_first()?;
    let What::Change(change) = &first.what else {
        return None;
    };
    rest.iter().find_map(|entry| match &entry.what {
        What::Call(call) if is_by(change, call) => Some(call.begun),
        What::Call(_) | What::Change(_) | What::Sent(_) | What::Killed(_) => None,
    })
}

/// The UIDs of the policies that have Roles or RoleBindings.
fn with_objects(history: &History) -> BTreeSet<String> {
    let roles = history.all("roles");
    let objects = roles.chain(history.all("rolebindings"));
    let uids = objects.map(|it| label(it, "accessPolicyUid").to_owned());
    uids.filter(|uid| !uid.is_empty()).collect()
}

fn is_by(change: &ChangeRecord, call: &CallRecord) -> bool {
    call.point.process == change.by
        && call.point.resource == change.plural
        && call.point.name == change.name
        && call.point.verb.writes()
}

impl Conduct {
    pub(super) fn change(&mut self, change: &ChangeRecord, history: &History, now: Duration) {
        if change.plural == "leases"
            && let Some(after) = &change.after
        {
            let holder = text(after, "/spec/holderIdentity").to_owned();
            let led = self.led.entry(holder.clone());
            led.or_insert_with(|| (now, with_objects(history)));
            self.leases.insert(change.namespace.clone(), (holder, now));
        }
        let key = (
            change.by.clone(),
            change.plural.clone(),
            change.name.clone(),
        );
        self.changed.insert(key);
    }

    /// The faults of a call.
    pub(super) fn call(
        &mut self,
        call: &CallRecord,
        history: &History,
        now: Duration,
    ) -> Vec<String> {
        let point = &call.point;
        let mut wrong = Vec::new();
        if call.fault != CallFault::None && point.resource != "leases" {
            self.stumbled.insert(point.process.clone());
        }
        let decides =
            ["roles", "rolebindings", "accesspolicies"].contains(&point.resource.as_str());
        if !point.verb.writes() || !decides || !point.user.ends_with(":policy-controller") {
            return wrong;
        }
        self.tried
            .insert((point.process.clone(), point.name.clone()));
        if !call.carried_out {
            return wrong;
        }
        let (verb, what) = (point.verb, format!("{} {}", point.resource, point.name));
        let key = (
            point.process.clone(),
            point.resource.clone(),
            point.name.clone(),
        );
        let is_changed = self.changed.remove(&key);
        let is_done = call.code.is_some_and(|code| code < 300);
        if is_done && !is_changed {
            wrong.push(format!(
                "{} makes {verb} of {what}, which changes nothing",
                point.process
            ));
        }
        // A status is of the policy; all else is in a namespace with policies.
        if history.get("namespaces", "", &point.namespace).is_none() {
            wrong.push(format!("{verb} {what} is in no namespace"));
        }
        wrong.extend(self.leads(call, now));
        wrong
    }

    /// The fault of a carried out write, if its process did not lead when it sent it.
    fn leads(&self, call: &CallRecord, now: Duration) -> Option<String> {
        let point = &call.point;
        let place = SYSTEMS
            .iter()
            .find(|it| point.user.contains(&format!(":{it}:")))?;
        match self.leases.get(*place) {
            Some((holder, renewed))
                if *holder == point.process && call.begun <= *renewed + LEASE =>
            {
                None
            }
            Some((holder, _)) => Some(format!(
                "{} {} by {} at {now:?}, and {holder} led",
                point.verb, point.resource, point.process
            )),
            None => Some(format!("{} wrote, and nobody led", point.process)),
        }
    }

    /// The fault of a write that gives permissions to a policy, if its process found permissions to remove when it
    /// began to lead. The policies that had objects then come first, in any order, and each of them is served at once.
    pub(super) fn gives_first<'a>(
        &self,
        by: &str,
        uid: &str,
        mut overdue: impl Iterator<Item = (&'a str, &'a str, Duration)>,
    ) -> Option<String> {
        let (led, had_objects) = self.led.get(by).filter(|_| !self.stumbled.contains(by))?;
        if had_objects.contains(uid) {
            return None;
        }
        let is_tried = |uid: &str| {
            self.tried
                .iter()
                .any(|(who, name)| who == by && name.contains(uid))
        };
        let (_, left, _) = overdue.find(|(uid, _, since)| since < led && !is_tried(uid))?;
        Some(format!(
            "{by} gives before it takes back what it found: {left}"
        ))
    }
}
