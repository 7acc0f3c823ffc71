//! The promises, one after the other, over the whole log.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use serde_json::Value;
use testkit::{CallRecord, ChangeKind, ChangeRecord, Entry, Verb, What};

use super::{
    Allowance, Rule, Seen, Violation,
    history::{Snapshot, label, list, text},
    truth::{self, Evidence, Known},
};
use crate::stage::{APPS, CONNECTOR, SECOND_SYSTEM, SYSTEM, TOOLS};

/// How old a read may be.
const FRESH: Duration = Duration::from_secs(5);
/// How long a call may be on its way, when two processes write.
const RACE: Duration = Duration::from_secs(10);

struct Judge<'a> {
    allowance: &'a Allowance,
    snapshot: Snapshot,
    known: Known,
    /// Since when bindings should not be there, and why.
    overdue: BTreeMap<String, (Duration, String)>,
    /// When requests became terminal.
    terminal: BTreeMap<String, Duration>,
    /// Reads of the last seconds.
    reads: VecDeque<&'a CallRecord>,
    violations: Vec<Violation>,
    seen: Seen,
}

pub(super) fn judge(log: &[Entry], allowance: &Allowance) -> (Vec<Violation>, Seen) {
    let mut judge = Judge {
        allowance,
        snapshot: Snapshot::default(),
        known: Known::new(),
        overdue: BTreeMap::new(),
        terminal: BTreeMap::new(),
        reads: VecDeque::new(),
        violations: Vec::new(),
        seen: Seen::default(),
    };
    for entry in log {
        judge.time(entry.at);
        match &entry.what {
            What::Call(call) => judge.call(entry.at, call),
            What::Change(change) => judge.change(entry.at, change),
            What::Sent(_) | What::Killed(_) => {}
        }
    }
    if let Some(last) = log.last() {
        judge.still_there(last.at);
    }
    (judge.violations, judge.seen)
}

fn is_managed(change: &ChangeRecord) -> bool {
    let object = change.after.as_ref().or(change.before.as_ref());
    object.is_some_and(|it| !label(it, "accessRequestUid").is_empty())
}

impl<'a> Judge<'a> {
    fn complain(&mut self, rule: Rule, at: Duration, what: String) {
        self.violations.push(Violation { rule, at, what });
    }

    /// Forgets reads that are too old to matter.
    fn time(&mut self, now: Duration) {
        while self
            .reads
            .front()
            .is_some_and(|read| read.begun + FRESH < now)
        {
            self.reads.pop_front();
        }
    }

    fn call(&mut self, at: Duration, call: &'a CallRecord) {
        let point = &call.point;
        if point.verb.writes() {
            self.tenants(at, call);
            return;
        }
        let approvals = matches!(
            point.resource.as_str(),
            "signoffs" | "latecomers" | "configmaps"
        );
        let elsewhere = ![APPS, SYSTEM, SECOND_SYSTEM, ""].contains(&point.namespace.as_str());
        if approvals && elsewhere {
            let what = format!("{} of {} are read", point.resource, point.namespace);
            self.complain(Rule::Tenants, at, what);
        }
        let newest = call
            .query
            .get("resourceVersion")
            .is_none_or(String::is_empty)
            && call.query.get("continue").is_none_or(String::is_empty);
        let answered = call.code == Some(200) && call.answer.is_some();
        if answered && newest && point.verb != Verb::Watch {
            self.reads.push_back(call);
        }
    }

    /// I3: what the controller writes is about the connector's namespace, or an event on a pod.
    fn tenants(&mut self, at: Duration, call: &CallRecord) {
        let point = &call.point;
        let allowed = match point.resource.as_str() {
            "leases" => [SYSTEM, SECOND_SYSTEM].contains(&point.namespace.as_str()),
            "events" => [TOOLS, APPS].contains(&point.namespace.as_str()),
            "roles" | "rolebindings" | "accessrequests" => point.namespace == TOOLS,
            _ => false,
        };
        if !allowed {
            let what = format!("{} {} in {:?}", point.verb, point.resource, point.namespace);
            self.complain(Rule::Tenants, at, what);
        }
    }

    fn change(&mut self, at: Duration, change: &'a ChangeRecord) {
        self.snapshot.take(change);
        match change.plural.as_str() {
            "rolebindings" if is_managed(change) => self.binding(at, change),
            "roles" if is_managed(change) => self.role(at, change),
            "accessrequests" => self.request(at, change),
            _ => {}
        }
        self.look(at);
    }

    /// Finds bindings that lost their reason with this change.
    fn look(&mut self, at: Duration) {
        let bindings = self.snapshot.all("rolebindings");
        let bindings = bindings.filter(|it| !label(it, "accessRequestUid").is_empty());
        let mut found = BTreeMap::new();
        for binding in bindings {
            if let Some(why) = truth::reason_to_go(&self.snapshot, binding, &self.known) {
                found.insert(text(binding, "/metadata/uid").to_owned(), why);
            }
        }
        self.overdue.retain(|uid, _| found.contains_key(uid));
        for (uid, why) in found {
            self.overdue.entry(uid).or_insert((at, why));
        }
    }

    fn role(&mut self, at: Duration, change: &ChangeRecord) {
        let (ChangeKind::Added, Some(role)) = (change.kind, &change.after) else {
            return;
        };
        if change.by == "cluster" {
            return;
        }
        let request = truth::request_of(&self.snapshot, role);
        let pod = request.map_or("", |it| text(it, "/spec/context/objectRef/name"));
        let resource = format!("connectors/apis/v1/pod/{APPS}/{pod}");
        let rules = list(role, "/rules");
        let shaped = |rule: &Value| {
            rule["apiGroups"] == serde_json::json!(["connectors.alauda.io"])
                && rule["resourceNames"] == serde_json::json!([CONNECTOR])
                && rule["resources"] == serde_json::json!([resource])
                && rule.get("nonResourceURLs").is_none()
        };
        if request.is_some() && (rules.is_empty() || !rules.iter().all(shaped)) {
            self.complain(Rule::Shape, at, format!("a role with rules {rules:?}"));
        }
    }

    fn binding(&mut self, at: Duration, change: &ChangeRecord) {
        match (change.kind, &change.after, &change.before) {
            (ChangeKind::Added, Some(binding), _) if change.by != "cluster" => {
                self.granted(at, &change.by, binding);
            }
            (ChangeKind::Deleted, _, Some(before)) => self.gone(at, before),
            _ => {}
        }
    }

    fn gone(&mut self, at: Duration, binding: &Value) {
        self.seen.revocations += 1;
        let uid = text(binding, "/metadata/uid");
        if let Some((since, why)) = self.overdue.remove(uid) {
            let took = at.saturating_sub(since);
            self.seen.longest = self.seen.longest.max(took);
            if at > self.allowance.until(since) {
                let what = format!("a binding outlived its reason by {took:?}: {why}");
                self.complain(Rule::Revoked, at, what);
            }
        }
    }

    fn still_there(&mut self, end: Duration) {
        let overdue = std::mem::take(&mut self.overdue);
        for (since, why) in overdue.into_values() {
            if end > self.allowance.until(since) {
                let what = format!("a binding is still there since {since:?}: {why}");
                self.complain(Rule::Revoked, end, what);
            }
        }
    }

    /// I1, I3 and I5 of a new binding.
    fn granted(&mut self, at: Duration, by: &str, binding: &Value) {
        self.seen.grants += 1;
        let subjects =
            serde_json::json!([{"kind": "ServiceAccount", "name": "builder", "namespace": APPS}]);
        if binding["subjects"] != subjects {
            let what = format!("a binding for {}", binding["subjects"]);
            self.complain(Rule::Tenants, at, what);
        }
        let request = truth::request_of(&self.snapshot, binding).cloned();
        let Some(request) = request else {
            if !self.allowance.races {
                // A deletion right before the write is a race that nobody can win.
                let uid = label(binding, "accessRequestUid").to_owned();
                self.after_the_end(at, &uid, "is not there");
            }
            return;
        };
        let uid = text(&request, "/metadata/uid").to_owned();
        if truth::is_terminal(&request) {
            self.after_the_end(at, &uid, "is terminal");
        }
        self.one_of_a_tuple(at, &request);
        match self.read_live(by, &request, label(binding, "accessPolicyUid")) {
            Ok(evidence) => {
                self.known
                    .insert(text(binding, "/metadata/uid").to_owned(), evidence);
            }
            Err(why) => self.complain(Rule::Fresh, at, format!("a binding was written, and {why}")),
        }
    }

    fn after_the_end(&mut self, at: Duration, uid: &str, what: &str) {
        let since = self.terminal.get(uid).copied();
        if since.is_none_or(|since| at.saturating_sub(since) > RACE) {
            let what = format!("a binding was written for a request that {what}");
            self.complain(Rule::Final, at, what);
        }
    }

    fn one_of_a_tuple(&mut self, at: Duration, request: &Value) {
        let of = |it: &Value| {
            let pointers = [
                "/spec/subject",
                "/spec/connectorRef",
                "/spec/context",
                "/spec/permission",
            ];
            pointers.map(|pointer| it.pointer(pointer).cloned())
        };
        let uid = text(request, "/metadata/uid");
        let others = self.snapshot.all("accessrequests").filter(|it| {
            text(it, "/metadata/uid") != uid
                && of(it) == of(request)
                && it.pointer("/metadata/deletionTimestamp").is_none()
        });
        let decided = others
            .filter(|it| ["Granted", "Rejected", "Revoked"].contains(&text(it, "/status/phase")))
            .map(|it| text(it, "/metadata/name").to_owned())
            .next();
        if let Some(other) = decided {
            let what = format!("a binding was written although {other} decided for the pod");
            self.complain(Rule::Final, at, what);
        }
    }

    /// What the process read live in the last seconds, if that lets it grant.
    fn read_live(&self, by: &str, request: &Value, policy_uid: &str) -> Result<Evidence, String> {
        let pod = text(request, "/spec/context/objectRef/name");
        let uid = text(request, "/spec/context/objectRef/uid");
        let read = self.last_read(by, "pods", APPS, |it| text(it, "/metadata/name") == pod);
        match read {
            None => return Err("the pod was not found live".to_owned()),
            Some(it) if text(it, "/metadata/uid") != uid => {
                return Err("the pod that was read is another one".to_owned());
            }
            Some(it) if truth::is_finished(it) => {
                return Err("the pod that was read had ended".to_owned());
            }
            Some(it) if it.pointer("/metadata/deletionTimestamp").is_some() => {
                return Err("the pod that was read was being deleted".to_owned());
            }
            Some(_) => {}
        }
        let connector = text(request, "/spec/connectorRef/name");
        let connector = self.last_read(by, "connectors", TOOLS, |it| {
            text(it, "/metadata/name") == connector
        });
        if connector.is_none() {
            return Err("the connector was not read live".to_owned());
        }
        let policy = self.last_read(by, "accesspolicies", TOOLS, |it| {
            text(it, "/metadata/uid") == policy_uid
        });
        let Some(policy) = policy else {
            return Err("the policy was not read live".to_owned());
        };
        truth::passes(policy, pod, |check| {
            self.last_list(by, &truth::plural(check), &truth::selector(check, pod))
        })
    }

    /// An object of the last read that could have had it.
    fn last_read(
        &self,
        by: &str,
        resource: &str,
        namespace: &str,
        is_it: impl Fn(&Value) -> bool,
    ) -> Option<&'a Value> {
        let reads = self.reads.iter().rev();
        let mut reads = reads.filter(|it| {
            it.point.process == by
                && it.point.resource == resource
                && it.point.namespace == namespace
        });
        reads.find_map(|read| {
            let answer = read.answer.as_deref()?;
            if read.point.verb == Verb::List {
                list(answer, "/items").iter().find(|it| is_it(it))
            } else {
                is_it(answer).then_some(answer)
            }
        })
    }

    /// The objects of the last list of the pod's namespace by these labels.
    fn last_list(&self, by: &str, resource: &str, selector: &str) -> Option<Vec<&'a Value>> {
        let read = self.reads.iter().rev().find(|it| {
            it.point.process == by
                && it.point.resource == resource
                && it.point.namespace == APPS
                && it.point.verb == Verb::List
                && it
                    .query
                    .get("labelSelector")
                    .is_some_and(|it| it == selector)
        })?;
        Some(list(read.answer.as_deref()?, "/items").iter().collect())
    }

    /// I5, and that nothing is called done that is not.
    fn request(&mut self, at: Duration, change: &ChangeRecord) {
        let Some(after) = &change.after else {
            self.terminal.entry(change.uid.clone()).or_insert(at);
            return;
        };
        let before = change.before.as_deref();
        let was = before.map_or("", |it| text(it, "/status/phase"));
        let phase = text(after, "/status/phase");
        if before.is_some_and(truth::is_terminal) && was != phase {
            self.complain(Rule::Final, at, format!("{was} became {phase}"));
        }
        if truth::is_terminal(after) {
            self.terminal.entry(change.uid.clone()).or_insert(at);
        }
        let finished = |it: &Value| {
            it.pointer("/status/revokedAt")
                .is_some_and(|it| !it.is_null())
        };
        if finished(after) && !before.is_some_and(finished) {
            let left = ["rolebindings", "roles"].into_iter().find(|plural| {
                let mut all = self.snapshot.all(plural);
                all.any(|it| label(it, "accessRequestUid") == change.uid)
            });
            if let Some(left) = left.filter(|_| !self.allowance.races) {
                let what = format!("recorded as gone, and its {left} are there");
                self.complain(Rule::Revoked, at, what);
            }
        }
    }
}
