//! How things are done: by whom, in which order, and what is said about them.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;
use testkit::{CallFault, CallRecord, ChangeKind, ChangeRecord, Verb};

use super::history::{Snapshot, is_going, label, list, text};
use crate::stage::{ASKERS, SECOND_SYSTEM, SYSTEM};

/// How long a holder of the lease may write after he renewed it last: he gives up well before the others take it.
const LEASE: Duration = Duration::from_secs(10);
/// How long an attempt that failed is a reason to go on with the next thing.
const ATTEMPT: Duration = Duration::from_mins(3);
/// What a pod of another namespace is told, whatever the reason.
const UNSAID: &str = "Decide";
/// What a look at a request begins with, and what an end is recorded in.
const LOOKED_AT: [&str; 2] = ["accessrequests", "pods"];
/// What no sentence to a pod of another namespace names: these, and requests.
const NAMED: [&str; 2] = ["policy", "check"];
const REQUEST: &str = "for-";
/// How sentences about approvals begin or end, which are in the pod's namespace.
const OF_APPROVALS: [&str; 5] = [
    "is pending",
    "is rejected",
    "in state",
    "with labels",
    "being deleted",
];

/// Who held a lease last, and since when nobody has renewed it.
#[derive(Clone)]
struct Held {
    by: String,
    renewed: Duration,
}

/// What was seen of the conduct of all processes.
#[derive(Default)]
pub(super) struct Conduct {
    /// By their namespaces.
    leases: BTreeMap<String, Held>,
    /// Those whose record somebody deleted under their holder.
    vanished: BTreeMap<String, Held>,
    /// When processes took a lease for the first time.
    led: BTreeMap<String, Duration>,
    /// Who tried to delete which binding, and when last.
    tried: BTreeMap<(String, String), Duration>,
    /// Whose look at which request came to nothing, and when last: it, or its pod, could not be read, or nothing recorded
    /// in it.
    stumbled: BTreeMap<(String, String, String), Duration>,
}

impl Conduct {
    /// A lease changed. One that is deleted still counts as held: nobody told its holder.
    pub(super) fn lease(&mut self, at: Duration, change: &ChangeRecord) {
        let Some(after) = &change.after else {
            if let Some(held) = self.leases.get(&change.namespace) {
                self.vanished.insert(change.namespace.clone(), held.clone());
            }
            return;
        };
        let by = text(after, "/spec/holderIdentity").to_owned();
        self.led.entry(change.by.clone()).or_insert(at);
        let held = Held { by, renewed: at };
        self.leases.insert(change.namespace.clone(), held);
    }

    /// Whether a process has ever led.
    pub(super) fn is_controller(&self, process: &str) -> bool {
        self.led.contains_key(process)
    }

    /// Somebody asked for a deletion, or could not even look at what he would delete.
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
        // That there is no such object is an answer.
        if looks && !answered && call.code != Some(404) {
            let (process, resource) = (point.process.clone(), point.resource.clone());
            let stumbled = (process, resource, point.name.clone());
            self.stumbled.insert(stumbled, call.begun);
        }
    }

    /// What is wrong with a write that was carried out, if its process did not lead.
    ///
    /// Whoever could not look at the record before it was deleted cannot know that somebody held it.
    pub(super) fn leads(&self, call: &CallRecord, disturbed: bool) -> Option<String> {
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
        // What was sent while it led may arrive later.
        let held = self.leases.get(place);
        let pod = point.process.split('.').next().unwrap_or_default();
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
            None => Some(format!("{} wrote, and nobody led", point.process)),
        }
    }

    /// What is wrong with the end of a Role: that its binding is still there, and not for want of an attempt.
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

    /// What is wrong with a grant by a process that found something to take back when it began to lead.
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

/// What is wrong with a request's status: the connector's namespace is told what a policy came to, and of approvals in
/// the pod's namespace those alone that let through.
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

/// What is wrong with an event: a pod of another namespace learns what becomes of its request and what approvals in its
/// own namespace say, and nothing else.
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
