//! Rules about the conduct of processes: leadership, the order of actions, and messages.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;
use testkit::{CallFault, CallRecord, ChangeKind, ChangeRecord, Verb};

use super::history::{Snapshot, is_going, label, list, text};
use crate::{
    process::OTHER,
    stage::{ASKERS, SECOND_SYSTEM, SYSTEM},
};
use request_controller::shards::{ShardCount, lease, next_lease};

/// The time after its last renewal during which the holder of the lease may write: it gives up well before
/// another process takes the lease.
const LEASE: Duration = Duration::from_secs(10);
/// The time during which a failed attempt is a reason to proceed with the next action.
const ATTEMPT: Duration = Duration::from_mins(3);
/// The action of every event for a pod of another namespace, regardless of the reason.
const UNSAID: &str = "Decide";
/// The resources that are read first for a request, and in which an end is recorded.
const LOOKED_AT: [&str; 2] = ["accessrequests", "pods"];
/// Words that no message for a pod of another namespace may contain with a name: these, and requests.
const NAMED: [&str; 2] = ["policy", "check"];
const REQUEST: &str = "for-";
/// The beginnings or ends of messages about approvals, which are in the pod's namespace.
const OF_APPROVALS: [&str; 5] = [
    "is pending",
    "is rejected",
    "in state",
    "with labels",
    "being deleted",
];

/// The last holder of a lease, and the time of its last renewal.
#[derive(Clone)]
struct Held {
    by: String,
    renewed: Duration,
}

/// The observed conduct of all processes.
#[derive(Default)]
pub(super) struct Conduct {
    /// By namespace and name.
    leases: BTreeMap<(String, String), Held>,
    /// Leases that were deleted while they were held.
    vanished: BTreeMap<(String, String), Held>,
    /// The time at which each process took a lease for the first time.
    led: BTreeMap<String, Duration>,
    /// The last attempt of a process to delete a binding.
    tried: BTreeMap<(String, String), Duration>,
    /// The last failed look of a process at a request: the request or its pod could not be read, or nothing
    /// could be recorded in it.
    stumbled: BTreeMap<(String, String, String), Duration>,
}

impl Conduct {
    /// Records a change of a lease. A deleted one still counts as held, because its holder is not told.
    pub(super) fn lease(&mut self, at: Duration, change: &ChangeRecord) {
        // It makes no process the leader of anything.
        if change.name == next_lease() {
            return;
        }
        let lease = (change.namespace.clone(), change.name.clone());
        let Some(after) = &change.after else {
            if let Some(held) = self.leases.get(&lease) {
                self.vanished.insert(lease, held.clone());
            }
            return;
        };
        let by = text(after, "/spec/holderIdentity").to_owned();
        self.led.entry(change.by.clone()).or_insert(at);
        let held = Held { by, renewed: at };
        self.leases.insert(lease, held);
    }

    /// True when a process has ever led.
    pub(super) fn is_controller(&self, process: &str) -> bool {
        self.led.contains_key(process)
    }

    /// Records an attempt to delete an object, also if the object could not even be read.
    pub(super) fn tried(&mut self, call: &CallRecord) {
        let point = &call.point;
        let answered = call.code == Some(200) && call.fault != CallFault::Garbage;
        let failed = point.verb == Verb::Get && !answered;
        if (point.verb == Verb::Delete || failed) && point.resource == "rolebindings" {
            let tried = (point.process.clone(), point.name.clone());
            self.tried.insert(tried, call.begun);
        }
        let looks = matches!(point.verb, Verb::Get | Verb::Update)
            && LOOKED_AT.contains(&point.resource.as_str());
        // "Not found" is an answer.
        if looks && !answered && call.code != Some(404) {
            let (process, resource) = (point.process.clone(), point.resource.clone());
            let stumbled = (process, resource, point.name.clone());
            self.stumbled.insert(stumbled, call.begun);
        }
    }

    /// The problem of an executed write, if its process did not lead the shard of the namespace.
    ///
    /// A process that could not read the lease before it was deleted cannot know that it was held.
    pub(super) fn leads(
        &self,
        call: &CallRecord,
        disturbed: bool,
        shards: [ShardCount; 2],
    ) -> Option<String> {
        let point = &call.point;
        let decides = matches!(
            point.resource.as_str(),
            "roles" | "rolebindings" | "accessrequests"
        );
        if !decides || !call.carried_out {
            return None;
        }
        let mut places = [SYSTEM, SECOND_SYSTEM].into_iter();
        let place = places.find(|it| point.user.contains(&format!(":{it}:")))?;
        // A call sent while it led may arrive later.
        let pod = point.process.split('.').next().unwrap_or_default();
        let shards = shards[usize::from(pod == OTHER)];
        let shard = shards.of(&point.namespace);
        let place = &(place.to_owned(), lease(shard));
        let held = self.leases.get(place);
        let holds = |held: &Held| held.by == pod && call.begun <= held.renewed + LEASE;
        if disturbed && self.vanished.get(place).is_some_and(holds) {
            return None;
        }
        match held {
            Some(held) if holds(held) => None,
            Some(held) => Some(format!(
                "{} {} by {}, and {} led",
                point.verb, point.resource, point.process, held.by
            )),
            None => Some(format!("{} wrote, but there was no leader", point.process)),
        }
    }

    /// The problem of a Role's deletion: its binding still exists, and no attempt was made to delete it.
    pub(super) fn role_gone(
        &self,
        at: Duration,
        change: &ChangeRecord,
        snapshot: &Snapshot,
    ) -> Option<String> {
        let name = change.name.as_str();
        if change.kind != ChangeKind::Deleted || change.by == "cluster" {
            return None;
        }
        let binding = snapshot.get("rolebindings", &change.namespace, name)?;
        let ours = !label(binding, "accessRequestUid").is_empty() && !is_going(binding);
        let tried = self.tried.get(&(change.by.clone(), name.to_owned()));
        let is_recent = tried.is_some_and(|it| at.saturating_sub(*it) <= ATTEMPT);
        (ours && !is_recent).then(|| format!("role {name} is removed before its binding"))
    }

    /// The problem of a grant by a process that found a grant to revoke when it began to lead.
    pub(super) fn first<'a>(
        &self,
        at: Duration,
        by: &str,
        mut overdue: impl Iterator<Item = (&'a str, Duration)>,
        snapshot: &Snapshot,
    ) -> Option<String> {
        let led = self.led.get(by).copied()?;
        let left = overdue.find_map(|(uid, since)| {
            let binding = snapshot.by_uid("rolebindings", uid)?;
            let name = text(binding, "/metadata/name");
            let tried = (by.to_owned(), name.to_owned());
            let namespace = text(binding, "/metadata/namespace");
            let request = label(binding, "accessRequest");
            let found = snapshot.get("accessrequests", namespace, request);
            let pod = found.map(|it| text(it, "/spec/context/objectRef/name"));
            let is_recent =
                |when: Option<&Duration>| when.is_some_and(|it| at.saturating_sub(*it) <= ATTEMPT);
            let stumbled = |resource: &str, name: &str| {
                let stumbled = (by.to_owned(), resource.to_owned(), name.to_owned());
                is_recent(self.stumbled.get(&stumbled))
            };
            let begun = is_recent(self.tried.get(&tried))
                || stumbled("accessrequests", request)
                || pod.is_some_and(|it| stumbled("pods", it));
            (since < led && !begun).then_some(name)
        });
        left.map(|name| format!("{by} grants before it takes back {name}, which it found"))
    }
}

/// The problem of a request's status: the connector's namespace may see the result of a policy, and of
/// approvals in the pod's namespace only those that pass.
pub(super) fn shown(request: &Value) -> Option<String> {
    let is_undecided = |entry: &&Value| {
        let grant = entry.get("grant").filter(|it| !it.is_null());
        grant.is_none_or(|it| ["CheckRejected", "PendingTimeout"].contains(&text(it, "/reason")))
    };
    let mut entries = list(request, "/status/policies")
        .iter()
        .filter(is_undecided);
    let owner = text(request, "/metadata/namespace");
    if let Some(entry) = entries.find(|it| !list(it, "/checkRefs").is_empty()) {
        return Some(format!("{owner} is shown {}", entry["checkRefs"]));
    }
    let mut conditions = list(request, "/status/conditions").iter();
    let ready = conditions.find(|it| text(it, "/type") == "Ready")?;
    let is_awaited = [
        "ChecksPending",
        "ChecksFailed",
        "CheckRejected",
        "PendingTimeout",
    ]
    .contains(&text(ready, "/reason"));
    let message = text(ready, "/message");
    let says = OF_APPROVALS.iter().any(|it| message.contains(it));
    (is_awaited && says).then(|| format!("{owner} is told: {message}"))
}

/// The problem of an event: a pod of another namespace may learn the outcome of its request and the state of
/// approvals in its own namespace, and nothing else.
pub(super) fn told(event: &Value) -> Option<String> {
    let home = text(event, "/metadata/namespace");
    if !ASKERS.contains(&home) {
        return None;
    }
    let (action, note) = (text(event, "/action"), text(event, "/note"));
    let words: Vec<_> = note.split_whitespace().collect();
    let mut pairs = words.iter().zip(words.iter().skip(1));
    let names = pairs.any(|(what, name)| NAMED.contains(what) && name.ends_with(':'));
    (action != UNSAID || names || note.contains(REQUEST))
        .then(|| format!("a pod of {home} is told {action}: {note}"))
}
