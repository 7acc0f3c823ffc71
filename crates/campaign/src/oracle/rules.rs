//! The rules, checked one after the other over the whole log.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use testkit::{CallRecord, ChangeKind, ChangeRecord, Entry, What};

use super::{
    Allowance, Rule, Seen, Violation,
    conduct::{self, Conduct},
    configured::Configured,
    ends::Ends,
    history::{Snapshot, is_going, label, list, namespace, text},
    lineage,
    reads::Reads,
    truth::{self, Known},
};
use crate::stage::{ASKERS, DECOY, OWNERS, SECOND_SYSTEM, SYSTEM};

/// Times in statuses have no fractions of a second.
const WHOLE: Duration = Duration::from_secs(1);

struct Judge<'a> {
    allowance: &'a Allowance,
    snapshot: Snapshot,
    known: Known,
    /// Bindings that should not exist, each with the time since when and the reason.
    overdue: BTreeMap<String, (Duration, String)>,
    /// The times at which requests became terminal, or were deleted.
    terminal: BTreeMap<String, Duration>,
    /// The times at which policies ended for requests; by the UIDs of both.
    ended: BTreeMap<(String, String), Duration>,
    /// Bindings whose time is over.
    expired: BTreeSet<String>,
    /// The times until which bindings may last; by their UID.
    limits: BTreeMap<String, Duration>,
    /// The time of a policy's first grant to a request; by the UIDs of both.
    first: BTreeMap<(String, String), Duration>,
    /// The creation times of requests.
    made: BTreeMap<String, Duration>,
    /// The latest state of requests.
    last: BTreeMap<String, Arc<Value>>,
    /// The time at which the write behind the current change was sent.
    sent: Duration,
    /// Reads of the last seconds.
    reads: Reads<'a>,
    /// The configuration of the installation.
    configured: Configured,
    conduct: Conduct,
    ends: Ends,
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
        ended: BTreeMap::new(),
        expired: BTreeSet::new(),
        limits: BTreeMap::new(),
        first: BTreeMap::new(),
        made: BTreeMap::new(),
        last: BTreeMap::new(),
        sent: Duration::ZERO,
        reads: Reads::default(),
        configured: Configured::default(),
        conduct: Conduct::default(),
        ends: Ends::new(allowance),
        violations: Vec::new(),
        seen: Seen::default(),
    };
    for (place, entry) in log.iter().enumerate() {
        judge.time(entry.at);
        judge.sent = sent(&log[place..]).unwrap_or(entry.at);
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

/// The time at which the call behind the first entry, a change, was sent; the call's own entry follows its
/// changes.
fn sent(log: &[Entry]) -> Option<Duration> {
    let (first, rest) = log.split_first()?;
    let What::Change(change) = &first.what else {
        return None;
    };
    if change.by == "cluster" {
        return None;
    }
    rest.iter().find_map(|entry| match &entry.what {
        What::Call(call)
            if call.point.process == change.by
                && call.point.resource == change.plural
                && call.point.name == change.name
                && call.point.verb.writes() =>
        {
            Some(call.begun)
        }
        What::Call(_) | What::Change(_) | What::Sent(_) | What::Killed(_) => None,
    })
}

fn is_managed(change: &ChangeRecord) -> bool {
    let object = change.after.as_ref().or(change.before.as_ref());
    object.is_some_and(|it| !label(it, "accessRequestUid").is_empty())
}

impl<'a> Judge<'a> {
    /// True when a controller changed or removed an object that is not a grant.
    fn is_somebodys(&self, change: &ChangeRecord) -> bool {
        let before = change.before.as_deref();
        let foreign = before.is_some_and(|it| label(it, "accessRequestUid").is_empty());
        foreign && self.conduct.is_controller(&change.by)
    }

    fn complain(&mut self, rule: Rule, at: Duration, what: String) {
        self.violations.push(Violation { rule, at, what });
    }

    /// Drops reads that are too old to matter, and finds bindings whose time is over.
    fn time(&mut self, now: Duration) {
        let over: Vec<_> = self
            .limits
            .iter()
            .filter(|(_, end)| **end <= now)
            .map(|(uid, end)| (uid.clone(), *end))
            .collect();
        for (uid, end) in over {
            self.limits.remove(&uid);
            let binding = self.snapshot.by_uid("rolebindings", &uid);
            if binding.is_some_and(|it| self.gives(it)) {
                self.expired.insert(uid.clone());
                let why = "its time is over".to_owned();
                self.overdue.entry(uid).or_insert((end, why));
            }
        }
        self.reads.forget(now);
    }

    fn call(&mut self, at: Duration, call: &'a CallRecord) {
        let point = &call.point;
        self.conduct.tried(call);
        if point.verb.writes() {
            self.tenants(at, call);
            let disturbed = self.allowance.is_disturbed(at);
            if let Some(what) = self.conduct.leads(call, disturbed, self.allowance.shards) {
                self.complain(Rule::Fresh, at, what);
            }
            return;
        }
        let approvals = matches!(
            point.resource.as_str(),
            "signoffs" | "latecomers" | "configmaps" | "approvaltasks"
        ) || lineage::BETWEEN.contains(&point.resource.as_str());
        let place = point.namespace.as_str();
        let is_here = ASKERS.contains(&place) || [SYSTEM, SECOND_SYSTEM, ""].contains(&place);
        if approvals && !is_here {
            let what = format!("{} of {} are read", point.resource, point.namespace);
            self.complain(Rule::Tenants, at, what);
        }
        self.reads.take(call);
    }

    /// I3: the controller writes only in the connector's namespace, except for events on a pod.
    fn tenants(&mut self, at: Duration, call: &CallRecord) {
        let point = &call.point;
        let place = point.namespace.as_str();
        let allowed = match point.resource.as_str() {
            "leases" => [SYSTEM, SECOND_SYSTEM].contains(&place),
            "events" => OWNERS.contains(&place) || ASKERS.contains(&place),
            "roles" | "rolebindings" | "accessrequests" => OWNERS.contains(&place),
            _ => false,
        };
        if !allowed {
            let what = format!("{} {} in {:?}", point.verb, point.resource, point.namespace);
            self.complain(Rule::Tenants, at, what);
        }
    }

    fn change(&mut self, at: Duration, change: &'a ChangeRecord) {
        self.snapshot.take(change);
        self.ends.look(at, &self.snapshot);
        match change.plural.as_str() {
            "roles" | "rolebindings" if self.is_somebodys(change) => {
                let what = format!("{} {} is a foreign object", change.plural, change.name);
                self.complain(Rule::Tenants, at, what);
            }
            "rolebindings" if is_managed(change) => self.binding(at, change),
            "roles" if is_managed(change) => self.role(at, change),
            "accessrequests" => self.request(at, change),
            "leases" => self.conduct.lease(at, change),
            "configmaps" => self.configured.learn(at, change),
            "events" => {
                if let Some(what) = change.after.as_deref().and_then(conduct::told) {
                    self.complain(Rule::Tenants, at, what);
                }
            }
            _ => {}
        }
        self.look(at);
    }

    /// True when a binding is in effect: one that cannot be deleted is not, without its Role.
    fn gives(&self, binding: &Value) -> bool {
        let name = text(binding, "/metadata/name");
        let role = self.snapshot.get("roles", namespace(binding), name);
        // A Role that a finalizer keeps counts as gone: a controller cannot do more than delete it.
        !self.allowance.kept || role.is_some_and(|it| !is_going(it))
    }

    /// True when a binding is in effect after its time.
    fn is_expired(&self, uid: &str) -> bool {
        let binding = self.snapshot.by_uid("rolebindings", uid);
        self.expired.contains(uid) && binding.is_none_or(|it| self.gives(it))
    }

    /// Finds bindings that lost their reason by this change.
    fn look(&mut self, at: Duration) {
        let bindings = self.snapshot.all("rolebindings");
        let bindings = bindings.filter(|it| !label(it, "accessRequestUid").is_empty());
        let bindings = bindings.filter(|it| self.gives(it));
        let mut found = BTreeMap::new();
        for binding in bindings {
            if let Some(why) = truth::reason_to_go(&self.snapshot, binding, &self.known) {
                found.insert(text(binding, "/metadata/uid").to_owned(), why);
            }
        }
        let cured: Vec<_> = self
            .overdue
            .iter()
            .filter(|(uid, _)| !found.contains_key(*uid) && !self.is_expired(uid))
            .map(|(uid, (since, why))| (uid.clone(), *since, why.clone()))
            .collect();
        for (uid, since, why) in cured {
            self.overdue.remove(&uid);
            self.took(at, since, &why);
        }
        for (uid, why) in found {
            self.overdue.entry(uid).or_insert((at, why));
        }
    }

    fn role(&mut self, at: Duration, change: &ChangeRecord) {
        // A Role that another client widened is deleted first: that is the fastest way to narrow it.
        let widened = change.before.as_deref().is_some_and(|before| {
            let request = self.last.get(label(before, "accessRequestUid"));
            request.is_some_and(|it| !truth::is_shaped(before, it))
        });
        let early = self.conduct.role_gone(at, change, &self.snapshot);
        if let Some(what) = early.filter(|_| !widened) {
            self.complain(Rule::Revoked, at, what);
        }
        // A Role that is changed in place is judged like a new one.
        let Some(role) = change.after.as_ref().filter(|_| change.by != "cluster") else {
            return;
        };
        let uid = label(role, "accessRequestUid");
        let request = self.last.get(uid);
        if request.is_none_or(|it| !truth::is_shaped(role, it)) {
            let what = format!("a role with rules {:?}", list(role, "/rules"));
            self.complain(Rule::Shape, at, what);
        }
    }

    fn binding(&mut self, at: Duration, change: &ChangeRecord) {
        match (change.kind, &change.after, &change.before) {
            (ChangeKind::Added, Some(binding), _) if change.by != "cluster" => {
                self.granted(at, &change.by, binding);
            }
            // A binding never changes its subjects.
            (ChangeKind::Modified, Some(after), Some(before)) if change.by != "cluster" => {
                let given = |it: &Value| (it["subjects"].clone(), it["roleRef"].clone());
                if given(after) != given(before) {
                    let what = format!("{} is changed to {}", change.name, after["subjects"]);
                    self.complain(Rule::Tenants, at, what);
                }
            }
            (ChangeKind::Deleted, _, Some(before)) => self.gone(at, &change.by, before),
            _ => {}
        }
    }

    fn gone(&mut self, at: Duration, by: &str, binding: &Value) {
        self.seen.revocations += 1;
        let [uid, name] = ["/metadata/uid", "/metadata/name"].map(|it| text(binding, it));
        if let Some((since, why)) = self.overdue.remove(uid) {
            self.took(at, since, &why);
            return;
        }
        // An incomplete grant is rewritten as a whole.
        let role = self.snapshot.get("roles", namespace(binding), name);
        let is_whole = !is_going(binding) && role.is_some_and(|it| !is_going(it));
        let has_no_reason = is_whole && !self.ends_by_time(at, uid);
        if has_no_reason && self.allowance.is_plain() && self.conduct.is_controller(by) {
            let what = format!("{name} is taken back for no reason");
            self.complain(Rule::Lost, at, what);
        }
    }

    /// True when the time of a binding is over, with the precision of whole seconds.
    fn ends_by_time(&self, at: Duration, uid: &str) -> bool {
        let end = self.limits.get(uid);
        self.expired.contains(uid) || end.is_some_and(|it| *it <= at + WHOLE)
    }

    /// An end must not affect other grants: each revoked grant needs its own reason.
    fn ended_for_nothing(&mut self, at: Duration, request: &Value) {
        let uid = text(request, "/metadata/uid");
        let ends = |policy: &str| {
            let policy = (uid.to_owned(), policy.to_owned());
            truth::is_terminal(request) || self.ended.contains_key(&policy)
        };
        let is_lost = |binding: &Value| {
            let (snapshot, known) = (&self.snapshot, &self.known);
            label(binding, "accessRequestUid") == uid
                && ends(label(binding, "accessPolicyUid"))
                && !self.ends_by_time(at, text(binding, "/metadata/uid"))
                && truth::reason_beside_its_record(snapshot, binding, request, known).is_none()
        };
        let lost = self
            .snapshot
            .all("rolebindings")
            .find(|it| is_lost(it))
            .map(|it| text(it, "/metadata/name").to_owned());
        if let Some(name) = lost {
            let phase = text(request, "/status/phase");
            let what = format!("{name} ends for no reason, and its request is {phase}");
            self.complain(Rule::Lost, at, what);
        }
    }

    fn took(&mut self, at: Duration, since: Duration, why: &str) {
        let took = at.saturating_sub(since);
        self.seen.longest = self.seen.longest.max(took);
        if at > self.allowance.until(since) {
            let what = format!("a binding outlived its reason by {took:?}: {why}");
            self.complain(Rule::Revoked, at, what);
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
        if label(binding, "accessPolicy").starts_with(DECOY) {
            let what = format!("a binding for policy {}", label(binding, "accessPolicy"));
            self.complain(Rule::Tenants, at, what);
        }
        let overdue = self.overdue.iter();
        let overdue = overdue.map(|(uid, (since, _))| (uid.as_str(), *since));
        if let Some(what) = self.conduct.first(at, by, overdue, &self.snapshot) {
            self.complain(Rule::Revoked, at, what);
        }
        let uid = label(binding, "accessRequestUid").to_owned();
        let policy = label(binding, "accessPolicyUid").to_owned();
        // A deletion immediately before the write is a race that cannot be avoided; the evidence counts all
        // the same.
        let Some(request) = self.last.get(&uid).cloned() else {
            self.complain(Rule::Final, at, "a binding for no request".to_owned());
            return;
        };
        let is_beside = namespace(binding) == namespace(&request);
        if binding["subjects"] != truth::subjects(&request) || !is_beside {
            let (subjects, place) = (&binding["subjects"], namespace(binding));
            let what = format!("a binding in {place} for {subjects}");
            self.complain(Rule::Tenants, at, what);
        }
        let ended = self.ended.get(&(uid.clone(), policy.clone()));
        let ended = [ended, self.terminal.get(&uid)].into_iter().flatten().min();
        if let Some(since) = ended
            .copied()
            .filter(|since| self.sent.saturating_sub(*since) > self.allowance.flight())
        {
            let what = format!("a binding was written for what had ended at {since:?}");
            self.complain(Rule::Final, at, what);
        }
        self.one_of_a_tuple(at, &request);
        // Until all processes know of a change, both values are accepted.
        let is_known = |since| self.sent > self.allowance.until(since);
        let is_known = self.configured.changed.is_none_or(is_known);
        if is_known && !self.configured.on {
            let what = "a binding was written while approvals were off".to_owned();
            self.complain(Rule::Fresh, at, what);
        }
        let anybody = self.configured.anybody || !is_known;
        let read = self.reads.live(by, &request, &policy, self.sent, anybody);
        match read {
            Ok(evidence) => {
                let binding = text(binding, "/metadata/uid").to_owned();
                if let Some(limit) = evidence.limit.filter(|_| self.allowance.true_clock) {
                    let first = self.first.entry((uid, policy)).or_insert(at);
                    // The time starts when the grant is recorded, which may be later than the grant itself.
                    let is_late = self.allowance.is_disturbed(*first);
                    let start = if is_late {
                        self.allowance.until(*first)
                    } else {
                        *first
                    };
                    self.limits.insert(binding.clone(), start + limit);
                }
                self.known.insert(binding, evidence);
            }
            Err(why) => self.complain(Rule::Fresh, at, format!("a binding was written, and {why}")),
        }
    }

    fn one_of_a_tuple(&mut self, at: Duration, request: &Value) {
        let of = |it: &Value| {
            let pointers = [
                "/metadata/namespace",
                "/spec/subject",
                "/spec/connectorRef",
                "/spec/context",
                "/spec/permission",
            ];
            pointers.map(|pointer| it.pointer(pointer).cloned())
        };
        let uid = text(request, "/metadata/uid");
        let others = self.snapshot.all("accessrequests").filter(|it| {
            text(it, "/metadata/uid") != uid && of(it) == of(request) && !is_going(it)
        });
        let decided = others
            .filter(|it| {
                ["Granted", "Rejected", "Revoked", "Ended"].contains(&text(it, "/status/phase"))
            })
            .map(|it| text(it, "/metadata/name").to_owned())
            .next();
        if let Some(other) = decided {
            let what = format!("a binding was written although {other} decided for the pod");
            self.complain(Rule::Final, at, what);
        }
    }

    /// I5, and that no incomplete action is recorded as done.
    fn request(&mut self, at: Duration, change: &ChangeRecord) {
        let Some(after) = &change.after else {
            let since = self.terminal.get(&change.uid).copied();
            let went = Ends::went(change, at, since, &self.snapshot, self.allowance);
            if let Some(what) = went {
                self.complain(Rule::Final, at, what);
            }
            self.terminal.entry(change.uid.clone()).or_insert(at);
            return;
        };
        self.last.insert(change.uid.clone(), Arc::clone(after));
        if let Some(what) = conduct::shown(after).filter(|_| change.by != "cluster") {
            self.complain(Rule::Tenants, at, what);
        }
        if change.kind == ChangeKind::Added {
            self.made.insert(change.uid.clone(), at);
        }
        for entry in list(after, "/status/policies") {
            if text(entry, "/grant/state") == "Ended" {
                let policy = text(entry, "/policy/metadata/uid").to_owned();
                if text(entry, "/grant/reason") == "PendingTimeout" {
                    self.waited(at, &change.uid, &policy);
                }
                self.ended.entry((change.uid.clone(), policy)).or_insert(at);
            }
        }
        let before = change.before.as_deref();
        let was = before.map_or("", |it| text(it, "/status/phase"));
        let phase = text(after, "/status/phase");
        if before.is_some_and(truth::is_terminal) && was != phase {
            self.complain(Rule::Final, at, format!("{was} became {phase}"));
        }
        if phase == "Granted" && was != "Granted" && change.by != "cluster" {
            self.called_granted(at, change, after);
        }
        if was != phase && change.by != "cluster" {
            let what = self.ends.called(self.sent, before, after, &self.snapshot);
            if let Some(what) = what {
                self.complain(Rule::Final, at, what.to_owned());
            }
        }
        if change.by != "cluster" && self.allowance.is_plain() {
            self.ended_for_nothing(at, after);
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
            // Of two leaders, the other one may have written them again since this one looked.
            if let Some(left) = left.filter(|_| !self.allowance.two_lead) {
                let what = format!("recorded as gone, and its {left} are there");
                self.complain(Rule::Revoked, at, what);
            }
        }
    }

    /// The waiting time of a policy starts when the request is created, regardless of later writes.
    fn waited(&mut self, at: Duration, request: &str, policy: &str) {
        let known = (request.to_owned(), policy.to_owned());
        let made = self.made.get(request).copied().unwrap_or_default();
        let policy = self.snapshot.by_uid("accesspolicies", policy);
        let Some(limit) = policy.and_then(truth::most_waiting) else {
            return;
        };
        let is_late = at > self.allowance.until(made + limit);
        if is_late && self.allowance.true_clock && !self.ended.contains_key(&known) {
            let took = at.saturating_sub(made);
            let what = format!("it waited {took:?}, and may wait {limit:?}");
            self.complain(Rule::Final, at, what);
        }
    }

    /// A grant that is recorded as granted must exist.
    fn called_granted(&mut self, at: Duration, change: &ChangeRecord, request: &Value) {
        let entries = list(request, "/status/policies").iter();
        let mut granted = entries.filter(|it| text(it, "/grant/state") == "Granted");
        let missing = granted.find(|entry| {
            let policy = text(entry, "/policy/metadata/uid");
            ["roles", "rolebindings"].into_iter().any(|plural| {
                !self.snapshot.all(plural).any(|it| {
                    label(it, "accessRequestUid") == change.uid
                        && label(it, "accessPolicyUid") == policy
                })
            })
        });
        let missing = missing.map(|entry| text(entry, "/policy/metadata/name").to_owned());
        // Of two leaders, the other one may have deleted them since this one looked.
        if let Some(policy) = missing.filter(|_| !self.allowance.two_lead) {
            let what = format!("called granted, and what {policy} gives is not there");
            self.complain(Rule::Fresh, at, what);
        }
    }
}
