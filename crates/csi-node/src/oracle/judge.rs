//! Reads what happened and says what should not have. A change counts by what was true in the moments before it;
//! how long a look at the cluster may take is known, because no answer takes longer than `LATE`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    bounds,
    cluster::LATE,
    disk::{Change, State, What},
    node::{Call, Gate, Kind, Node, Outcome},
    rejected,
    server::proven,
    steady,
    truth::{Asker, Says, Truth, Verb},
};
use crate::{
    error::{PublishError, is_final},
    volume::VolumePath,
};

/// What there was to judge, by kind.
pub(super) type Tally = BTreeMap<&'static str, usize>;

/// A usual run meets each of these.
pub(super) const MUST_BE_MET: [&str; 27] = [
    "mounted, gated",
    "mounted, while off",
    "refilled",
    "emptied, gated",
    "emptied, while off",
    "removed",
    "mounted, error alone",
    "hung up",
    "final error",
    "token of another pod",
    "no room on the node",
    "no room for the namespace",
    "in flight",
    "steady: mounted",
    "steady: not mounted",
    "steady: refused",
    "steady: error alone",
    "steady: error stays",
    "steady: kept",
    "steady: emptied",
    "steady: refilled",
    "steady: kept while off",
    "steady: left without an answer",
    "held to the end",
    "request made",
    "event",
    "process died in a change",
];

/// How long a first mount may rest on what was heard.
const FRESH: Duration = LATE.saturating_mul(5);
/// The same of a call that looks after a volume, which listens twice.
pub(super) const LOOKED_AFTER: Duration =
    Duration::from_secs(1).saturating_add(LATE.saturating_mul(8));
/// Between two looks of which both must say no.
pub(super) const TWICE: Duration = Duration::from_secs(1);

/// What was found.
pub(super) struct Verdict {
    pub(super) problems: Vec<String>,
    pub(super) tally: Tally,
}

/// Everything that happened.
pub(super) struct Story<'a> {
    pub(super) node: &'a Node,
    pub(super) calls: &'a [Call],
    pub(super) changes: Vec<Change>,
    pub(super) versions: Vec<(Instant, Arc<Truth>)>,
    pub(super) began: Instant,
    pub(super) glitches: Vec<Instant>,
    pub(super) failures: Vec<Instant>,
    problems: Vec<String>,
    tally: Tally,
}

/// A place in few words.
pub(super) fn short(place: &VolumePath) -> String {
    let path = place.parent();
    let volume = path.file_name().unwrap().to_string_lossy();
    format!("{}/{volume}", place.pod_uid())
}

pub(super) fn judge(node: &Node) -> Verdict {
    let calls = node.calls();
    let (began, versions, glitches, mut problems) = {
        let log = node.shared.log();
        let problems = log.problems.clone();
        (
            log.began,
            log.versions.clone(),
            log.glitches.clone(),
            problems,
        )
    };
    let (changes, failures) = {
        let disk = node.disk();
        problems.extend(disk.problems.clone());
        (disk.changes.clone(), disk.failures.clone())
    };
    problems.extend(node.problems.clone());
    let mut story = Story {
        node,
        calls: &calls,
        changes,
        versions,
        began,
        glitches,
        failures,
        problems,
        tally: Tally::new(),
    };
    for change in story.changes.clone() {
        story.change(&change);
    }
    for (number, call) in calls.iter().enumerate() {
        story.answer(number, call);
        steady::judge(&mut story, number, call);
    }
    rejected::judge(&mut story);
    bounds::judge(&mut story);
    Verdict {
        problems: story.problems,
        tally: story.tally,
    }
}

impl Story<'_> {
    pub(super) fn met(&mut self, what: &'static str) {
        *self.tally.entry(what).or_insert(0) += 1;
    }

    pub(super) fn wrong(&mut self, at: Instant, what: impl std::fmt::Display) {
        let millis = at.duration_since(self.began).as_millis();
        self.problems.push(format!("WRONG {millis:>8} {what}"));
    }

    /// What was true between two moments, with the span of each.
    pub(super) fn truths(&self, from: Instant, to: Instant) -> Vec<(Instant, Instant, Arc<Truth>)> {
        let ends = self.versions.iter().skip(1).map(|(at, _)| *at);
        let spans = self.versions.iter().zip(ends.chain([to.max(from)]));
        let spans = spans.filter(|((start, _), end)| *start <= to && *end >= from);
        spans
            .map(|((start, truth), end)| ((*start).max(from), end.min(to), Arc::clone(truth)))
            .collect()
    }

    pub(super) fn gates(&self, process: usize, from: Instant, to: Instant) -> Vec<Gate> {
        let own: Vec<_> = self
            .node
            .gates
            .iter()
            .filter(|(_, of, _)| *of == process)
            .collect();
        let ends = own.iter().skip(1).map(|(at, ..)| *at).chain([to.max(from)]);
        let spans = own.iter().zip(ends);
        let spans = spans.filter(|((start, ..), end)| *start <= to && *end >= from);
        spans.map(|((_, _, gate), _)| *gate).collect()
    }

    /// The evaluation service said yes, and the API server confirmed it, at most so much later.
    fn was_allowed(&self, asker: &Asker, from: Instant, to: Instant) -> bool {
        let truths = self.truths(from, to);
        let confirmed = |since: Instant, until: Instant, check: &dyn Fn(&Truth) -> bool| {
            truths.iter().any(|(start, end, truth)| {
                *end >= since
                    && *start <= until + LATE
                    && !truth.failing.contains(&Verb::ReviewAccess)
                    && check(truth)
            })
        };
        truths
            .iter()
            .any(|(start, end, truth)| match truth.says(asker) {
                Says::Nothing => false,
                Says::Standing | Says::No(_) => {
                    confirmed(*start, *end, &|it| it.reviews_standing(&asker.right))
                }
                Says::Granted(_) => confirmed(*start, *end, &|it| {
                    it.reviews_pod(&asker.right, &asker.pod_name)
                }),
            })
    }

    /// The call that may have done something at this moment: of a kubelet that hung up only what was begun by then.
    fn doer(&self, change: &Change, patience: Duration, publishes: bool) -> Option<(usize, &Call)> {
        let at = change.at;
        let candidate = |call: &Call| {
            let waits = call.hung.is_none_or(|hung| hung + patience >= at);
            let ended = call.end.as_ref();
            let is_refused = ended.is_some_and(|end| {
                matches!(
                    &end.outcome,
                    Outcome::Published(Err(PublishError::InFlight))
                )
            });
            call.process == change.process
                && call.place == change.place
                && matches!(call.kind, Kind::Publish { .. }) == publishes
                && call.start <= at
                && ended.is_none_or(|end| end.at >= at)
                && waits
                && !is_refused
        };
        let mut calls = self.calls.iter().enumerate();
        calls.find(|(_, call)| candidate(call))
    }

    fn change(&mut self, change: &Change) {
        let first = match &change.what {
            What::Delivered { first, .. } => *first,
            What::Rejected(_) => true,
            What::Emptied { .. } | What::Cleared => false,
        };
        if change.what == What::Cleared {
            return self.met("removed");
        }
        let patience = if first { Duration::ZERO } else { LOOKED_AFTER };
        let found = self.doer(change, patience, true);
        let Some((number, call)) = found.map(|(number, _)| (number, &self.calls[number])) else {
            return self.wrong(
                change.at,
                format!("{} changed for no call", short(&change.place)),
            );
        };
        let at = change.at;
        match &change.what {
            What::Delivered {
                first: true,
                while_off,
                ..
            } => {
                let from = call.start.max(at - FRESH);
                let gates = self.gates(change.process, from, at);
                self.passage(number, call, at, (*while_off, &gates), from);
                self.content(number, call, change);
                self.bearer(number, call, at);
            }
            What::Delivered { while_off, .. } => {
                let from = call.start.max(at - LOOKED_AFTER);
                let gates = self.gates(change.process, from, at);
                if *while_off {
                    self.wrong(
                        at,
                        format!("call {number} refilled a volume as one from before"),
                    );
                }
                if !gates.contains(&Gate::Off) {
                    self.allowed(number, call, from, at);
                }
                self.met("refilled");
                self.content(number, call, change);
            }
            What::Emptied { while_off } => self.emptied(number, call, at, *while_off),
            What::Rejected(text) => self.rejected(number, call, at, text),
            What::Cleared => {}
        }
    }

    fn passage(
        &mut self,
        number: usize,
        call: &Call,
        at: Instant,
        (while_off, gates): (bool, &[Gate]),
        from: Instant,
    ) {
        if while_off {
            self.met("mounted, while off");
            if !gates.contains(&Gate::Off) {
                self.wrong(
                    at,
                    format!("call {number} mounted as if nothing was gated: {gates:?}"),
                );
            }
            return;
        }
        self.met("mounted, gated");
        if !gates.iter().any(|gate| matches!(gate, Gate::On(_))) {
            self.wrong(at, format!("call {number} was gated: {gates:?}"));
        }
        self.allowed(number, call, from, at);
    }

    fn allowed(&mut self, number: usize, call: &Call, from: Instant, at: Instant) {
        for asker in askers(call) {
            if !self.was_allowed(asker, from, at) {
                self.wrong(
                    at,
                    format!("call {number}: content without access: {asker:?}"),
                );
            }
        }
    }

    /// The token was that of the very pod that the volume is for.
    pub(super) fn bearer(&mut self, number: usize, call: &Call, at: Instant) {
        let Kind::Publish { askers, token, .. } = &call.kind else {
            return;
        };
        let began = self.began;
        let is_pod = |start: Instant, truth: &Truth| {
            let uid = proven(truth, token, start - began)?;
            let pod = &truth.pods[&uid];
            let is = askers.iter().all(|asker| {
                asker.pod_uid == uid
                    && asker.pod_name == pod.name
                    && asker.right.namespace == pod.namespace
                    && asker.right.account == pod.account
            });
            is.then_some(())
        };
        let truths = self.truths(call.start, at);
        if !truths
            .iter()
            .any(|(start, _, truth)| is_pod(*start, truth).is_some())
        {
            self.wrong(
                at,
                format!("call {number} mounted with {token} for {askers:?}"),
            );
        }
    }

    /// Every fact of every connector, as it was during the call, and nothing else.
    fn content(&mut self, number: usize, call: &Call, change: &Change) {
        let What::Delivered { content, .. } = &change.what else {
            return;
        };
        let askers = askers(call);
        let truths = self.truths(call.start, change.at);
        let is_right = askers.len() == content.len()
            && askers.iter().all(|asker| {
                let right = &asker.right;
                let (namespace, name) = right.connector.split_once('/').unwrap();
                let Some(files) = content.get(&format!("{namespace}_{name}")) else {
                    return false;
                };
                let file = |name: &str| files.get(name).map(String::as_str);
                let addresses = truths
                    .iter()
                    .filter_map(|(.., it)| it.address(&right.connector));
                let request = file("request").unwrap_or("?");
                let granted = truths
                    .iter()
                    .any(|(.., it)| it.says(asker) == Says::Granted(request.to_owned()));
                files.len() == 6
                    && file("name") == Some(name)
                    && file("namespace") == Some(namespace)
                    && file("class") == Some("oci")
                    && file("permission") == Some(right.permission.as_str())
                    && addresses.into_iter().any(|it| file("address") == Some(it))
                    && (request.is_empty() || granted)
            });
        if !is_right {
            self.wrong(change.at, format!("call {number} delivered {content:?}"));
        }
    }

    fn answer(&mut self, number: usize, call: &Call) {
        if call.hung.is_some() {
            self.met("hung up");
        }
        let Some(end) = &call.end else {
            return;
        };
        let alone = !self.calls.iter().any(|other| {
            !std::ptr::eq(other, call)
                && other.place == call.place
                && other.start <= end.at
                && other.hung.is_none_or(|hung| hung + LOOKED_AFTER >= end.at)
                && other.end.as_ref().is_none_or(|it| it.at >= end.at)
        });
        match &end.outcome {
            Outcome::Published(Ok(())) if alone => {
                let files = match end.state {
                    State::Full { .. } => askers(call).len(),
                    State::Empty | State::Rejected => 0,
                    State::Absent | State::Partial => usize::MAX,
                };
                let broke = |at: &Instant| *at >= call.start && *at <= end.at;
                let broke = self.failures.iter().any(broke);
                if !broke && (files != end.files || !end.is_sealed) {
                    self.wrong(end.at, format!("call {number}: OK with {end:?}"));
                }
            }
            Outcome::Published(Err(error)) if is_final(error.code()) => {
                self.met("final error");
                if alone && end.state != State::Absent {
                    self.wrong(
                        end.at,
                        format!("call {number}: {error} left {:?}", end.state),
                    );
                }
            }
            Outcome::Unpublished(Ok(())) if alone && end.state != State::Absent => {
                self.wrong(
                    end.at,
                    format!("call {number}: removed, and left {:?}", end.state),
                );
            }
            Outcome::Published(_) | Outcome::Unpublished(_) => {}
        }
    }
}

pub(super) fn askers(call: &Call) -> &[Asker] {
    match &call.kind {
        Kind::Publish { askers, .. } => askers,
        Kind::Unpublish => &[],
    }
}
