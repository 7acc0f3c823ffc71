//! Takes the log line by line, and judges it at the end.

use jiff::Timestamp;

use super::{
    Settings,
    canary::holds_token,
    event::{AuditEvent, Stage},
    facts::{Facts, Request},
    report::{Report, Rule, Seen, Violation},
    rules::{self, Case},
    wire,
};

/// Facts that a test knows and the log cannot show.
#[derive(Debug, Clone)]
pub(super) struct Ended {
    pub(super) namespace: String,
    pub(super) pod: String,
    /// Any pod of that name when empty.
    pub(super) uid: String,
    /// Only the grant of this policy; all grants when absent.
    pub(super) policy: Option<String>,
    pub(super) at: Timestamp,
}

#[derive(Debug, Default)]
pub(super) struct Declared {
    pub(super) ended: Vec<Ended>,
    pub(super) outages: Vec<(Timestamp, Timestamp)>,
}

/// Watches the API server through its audit log.
#[derive(Debug, Default)]
pub struct Observer {
    settings: Settings,
    events: Vec<AuditEvent>,
    declared: Declared,
    violations: Vec<Violation>,
    lines: usize,
}

/// Resources with many writes and no facts.
const NOISE: [&str; 5] = [
    "coordination.k8s.io",
    "events.k8s.io",
    "authorization.k8s.io",
    "authentication.k8s.io",
    "discovery.k8s.io",
];

impl Observer {
    /// An observer that has seen nothing.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// Takes a line of the log; gives the time at which its call was answered.
    pub fn line(&mut self, line: &str) -> Option<Timestamp> {
        self.lines += 1;
        match AuditEvent::parse(line) {
            Ok(event) => {
                if holds_token(line) {
                    self.complain(Rule::Secret, "holds a token", &event.audit_id);
                }
                let done = event.done();
                self.event(event);
                Some(done)
            }
            Err(error) => {
                self.lost(&format!("cannot be read: {error}"));
                None
            }
        }
    }

    /// Something of the log was not seen.
    pub(super) fn lost(&mut self, what: &str) {
        let line = self.lines.to_string();
        self.complain(Rule::Log, what, &format!("line {line}"));
    }

    fn complain(&mut self, rule: Rule, what: &str, shown_by: &str) {
        self.violations.push(Violation {
            rule,
            about: "the audit log".to_owned(),
            what: what.to_owned(),
            shown_by: vec![shown_by.to_owned()],
        });
    }

    /// Takes one event.
    pub fn event(&mut self, event: AuditEvent) {
        let answered = matches!(event.stage, Stage::ResponseComplete | Stage::Panic);
        if answered && self.tells_something(&event) {
            self.events.push(event);
        }
    }

    fn tells_something(&self, event: &AuditEvent) -> bool {
        let by_controller = self.settings.controllers.contains(&event.user.username);
        let group = event.object_ref.api_group.as_str();
        if event.is_read() {
            return by_controller;
        }
        if !event.is_write() || event.is_dry_run() || NOISE.contains(&group) {
            return false;
        }
        // Writes of other Roles by an installation and its operators are no grants.
        group != wire::RBAC || by_controller || !event.creates() || carries_our_labels(event)
    }

    /// Declares that a pod ended: the log does not show its phase. An empty UID means any pod of that name.
    pub fn pod_ended(&mut self, namespace: &str, pod: &str, uid: &str, at: Timestamp) {
        self.ended(namespace, pod, uid, None, at);
    }

    /// Declares that the approvals behind a policy's grant to a pod do not hold any more.
    pub fn approval_ended(&mut self, namespace: &str, pod: &str, policy: &str, at: Timestamp) {
        self.ended(namespace, pod, "", Some(policy.to_owned()), at);
    }

    fn ended(
        &mut self,
        namespace: &str,
        pod: &str,
        uid: &str,
        policy: Option<String>,
        at: Timestamp,
    ) {
        self.declared.ended.push(Ended {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            uid: uid.to_owned(),
            policy,
            at,
        });
    }

    /// Declares a time in which no controller could work: it does not count against revocations.
    pub fn outage(&mut self, from: Timestamp, to: Timestamp) {
        self.declared.outages.push((from, to));
    }

    /// Judges everything that was seen, as of `end`.
    #[must_use]
    pub fn finish(self, end: Timestamp) -> Report {
        let Self {
            settings,
            events,
            declared,
            mut violations,
            lines,
        } = self;
        let facts = Facts::of(events);
        let case = Case {
            facts: &facts,
            settings: &settings,
            declared: &declared,
            end,
        };
        let judgement = rules::judge(&case);
        violations.extend(judgement.violations);
        let across = case.grants().filter(|grant| {
            let request = facts.requests.get(grant.request_uid());
            request.is_some_and(|request| request.tuple.pod_namespace != request.tuple.namespace)
        });
        let ended = |request: &&Request| {
            request
                .statuses
                .iter()
                .any(|write| wire::is_final(write.phase()))
        };
        let seen = Seen {
            lines,
            reads: facts.reads.len(),
            requests: facts.requests.len(),
            final_requests: facts.requests.values().filter(ended).count(),
            policies: facts.policies.len(),
            grants: case.grants().count(),
            grants_across: across.count(),
            refused_grants: facts.refused_grants,
            ended_grants: judgement.ended,
            open_grants: judgement.open,
            races: judgement.races,
        };
        Report {
            violations,
            seen,
            revocations: judgement.revocations,
            until: end,
        }
    }
}

fn carries_our_labels(event: &AuditEvent) -> bool {
    event.object().is_some_and(|object| {
        let labels = &object["metadata"]["labels"];
        labels[wire::MANAGED_BY] == wire::MANAGED_BY_US && labels.get(wire::REQUEST_UID).is_some()
    })
}
