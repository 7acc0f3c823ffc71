//! The properties by which runs are compared: their final states, and their writes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use jiff::Timestamp;
use serde_json::Value;
use testkit::{CallRecord, Entry, Verb, What};

use super::history::{is_going, label, list, text};
use crate::stage::{Stage, TOOLS};

/// The final state, without values that differ from run to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndState {
    requests: BTreeMap<String, Vec<String>>,
    managed: BTreeSet<String>,
}

impl EndState {
    /// The current state.
    #[must_use]
    pub fn of(stage: &Stage) -> Self {
        let requests = stage.list("accessrequests").into_iter().map(|it| {
            let [place, name] = ["/metadata/namespace", "/metadata/name"].map(|at| text(&it, at));
            let name = match place {
                TOOLS => name.to_owned(),
                _ => format!("{place}/{name}"),
            };
            (name, lines(&it))
        });
        let managed = ["rolebindings", "roles"].into_iter().flat_map(|plural| {
            let all = stage.given(plural).into_iter();
            all.map(move |it| {
                let (request, policy) = (label(&it, "accessRequest"), label(&it, "accessPolicy"));
                let given = [&it["rules"], &it["subjects"]].map(ToString::to_string);
                let place = text(&it, "/metadata/namespace");
                format!(
                    "{plural} in {place} of {request} for {policy}: {}",
                    given.concat()
                )
            })
        });
        Self {
            requests: requests.collect(),
            managed: managed.collect(),
        }
    }

    /// The difference of two states as text.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<String> {
        (self != other).then(|| format!("expected {self}, found {other}"))
    }
}

impl fmt::Display for EndState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, lines) in &self.requests {
            write!(f, "{name}: {}; ", lines.join(", "))?;
        }
        write!(f, "managed: {:?}", self.managed)
    }
}

fn lines(request: &Value) -> Vec<String> {
    let phase = text(request, "/status/phase");
    let mut lines = vec![phase.to_owned()];
    for condition in list(request, "/status/conditions") {
        let [kind, status, reason] = ["/type", "/status", "/reason"].map(|it| text(condition, it));
        // For a request that cannot be decided, the last observation of its checks stays unchanged.
        if phase == "Invalid" && kind == "AccessCheckReady" {
            continue;
        }
        // Messages are for readers, and name what the last look saw. Unit tests compare them.
        lines.push(format!("{kind}={status}/{reason}"));
    }
    for policy in list(request, "/status/policies") {
        let [name, state, reason] =
            ["/policy/metadata/name", "/grant/state", "/grant/reason"].map(|it| text(policy, it));
        lines.push(format!("{name}:{state}/{reason}"));
        lines.extend(evidence(policy).map(|it| format!("{name} rests on {it}")));
        lines.extend(lasts(policy).map(|it| format!("{name} lasts {it} s")));
    }
    // The time of the grant is not included: the grant may have ended before it was recorded.
    for time in ["revokedAt", "expiresAt"] {
        if request["status"][time].is_string() {
            lines.push(time.to_owned());
        }
    }
    lines
}

/// The evidence of a grant.
fn evidence(policy: &Value) -> impl Iterator<Item = String> {
    let refs = list(policy, "/checkRefs").iter();
    let mut all: Vec<_> = refs
        .map(|it| {
            let [check, object, state] =
                ["/name", "/ref/name", "/status/state"].map(|pointer| text(it, pointer));
            format!(
                "{check}: {object} {state} by {}",
                it["status"]["approvedBy"]
            )
        })
        .collect();
    all.sort();
    all.into_iter()
}

/// The duration of a grant from its start, in whole seconds.
fn lasts(policy: &Value) -> Option<i64> {
    let time = |pointer: &str| text(policy, pointer).parse::<Timestamp>().ok();
    let (since, until) = (time("/grant/grantedAt")?, time("/grant/expiresAt")?);
    Some(until.duration_since(since).as_secs())
}

/// The writes of the controllers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writes {
    /// The number of writes per verb and resource, without leases and events.
    pub counts: BTreeMap<String, usize>,
    /// Events.
    pub events: usize,
    /// Write calls, including refused ones.
    pub attempts: usize,
    /// Writes that changed nothing.
    pub redundant: Vec<String>,
}

impl Writes {
    /// The writes from that time on.
    #[must_use]
    pub fn since(log: &[Entry], from: Duration) -> Self {
        let mut writes = Self::default();
        let mut changed: BTreeSet<(String, String)> = BTreeSet::new();
        let mut dead: BTreeSet<&str> = BTreeSet::new();
        for entry in log {
            match &entry.what {
                What::Killed(process) => {
                    dead.insert(process);
                }
                // Calls of a dead process have no effect.
                What::Call(call) if dead.contains(call.point.process.as_str()) => {}
                What::Change(change) => {
                    changed.insert((change.by.clone(), change.name.clone()));
                }
                What::Call(call) if entry.at >= from => writes.take(call, &changed),
                What::Call(_) | What::Sent(_) => {}
            }
            if let What::Call(call) = &entry.what {
                changed.remove(&(call.point.process.clone(), call.point.name.clone()));
            }
        }
        writes
    }

    fn take(&mut self, call: &CallRecord, changed: &BTreeSet<(String, String)>) {
        let point = &call.point;
        let succeeded = call.carried_out && call.code.is_none_or(|code| (200..300).contains(&code));
        if !point.verb.writes() || point.resource == "leases" {
            return;
        }
        self.attempts += 1;
        if !succeeded {
            return;
        }
        if point.resource == "events" {
            self.events += 1;
            return;
        }
        // A foreign finalizer keeps it, so repeated attempts do not help.
        if point.verb == Verb::Delete && call.answer.as_deref().is_some_and(is_going) {
            return;
        }
        let subresource = point.subresource.as_deref().unwrap_or_default();
        let what = format!("{} {} {subresource}", point.verb, point.resource);
        if !changed.contains(&(point.process.clone(), point.name.clone())) {
            self.redundant.push(format!("{what} {}", point.name));
        }
        *self.counts.entry(what).or_default() += 1;
    }

    /// All writes, without events.
    #[must_use]
    pub fn total(&self) -> usize {
        self.counts.values().sum()
    }
}
