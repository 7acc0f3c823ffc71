//! Metrics for operators. No label contains a name that a client chose.

use std::time::Duration;

use connectors_api::{
    AccessRequest, AccessRequestCondition,
    access_request::{AccessRequestStatus, Phase},
    reason::Ready,
};
use jiff::Timestamp;
use service_kit::{clock::seconds_between, families, label_values};

use crate::{cache::Counts, plan::gate::GateEnd};

const SHORT: &[f64] = &[
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];
const LONG: &[f64] = &[
    1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 43200.0, 86400.0, 259_200.0,
];

fn phases() -> Vec<&'static str> {
    Phase::ALL.iter().map(|it| it.as_str()).collect()
}

fn reasons() -> Vec<&'static str> {
    Ready::ALL.iter().map(|it| it.as_str()).collect()
}

label_values! {
    /// Why a look at a request or grant failed.
    pub enum RequestFailureCause {
        /// The objects that decide could not be read.
        Observe = "observe",
        /// Another write was faster.
        Conflict = "conflict",
        /// An object with a name of ours is not ours, or not as it was written.
        NotOurs = "not-ours",
        /// The reads were too old.
        Stale = "stale",
        /// Another process leads.
        NotLeading = "not-leading",
        /// The status could not be written.
        Unrecorded = "unrecorded",
        /// Another write failed.
        Apply = "apply",
        /// A read before the decision failed.
        Read = "read",
        /// The look panicked.
        Panic = "panic",
    }
}

families! {
    /// The metrics of the controller.
    pub struct Metrics {
        /// From the creation of a request to its grant.
        pub waited: histogram(
            "connectors_request_waiting_seconds", "Time from the creation of an access request to its grant", LONG
        ),
        /// From the moment when the last approval was noticed to the grant.
        pub granting: histogram(
            "connectors_request_granting_seconds", "Time from noticing that the checks pass to the grant", SHORT
        ),
        /// From the moment when the reason of a revocation was noticed to the removal of the grant.
        pub revoking: histogram(
            "connectors_request_revoking_seconds", "Time from noticing the end of a grant to its removal", SHORT
        ),
        /// Decisions by outcome and reason.
        pub decisions: counters_of_pairs(
            "connectors_request_decisions_total", "Access requests that were decided, by phase and reason",
            &["phase", "reason"], (&phases(), &reasons())
        ),
        /// Writes to the API server.
        pub writes: counters(
            "connectors_request_api_writes_total", "Writes to the API server, by verb and resource",
            &["verb", "resource"]
        ),
        /// Failed reconciliations of a request or grant.
        pub failures: counters_of(
            "connectors_request_failures_total", "Looks at a request or grant that failed and are repeated", &["cause"],
            RequestFailureCause::WORDS
        ),
        /// Reconciliations that panicked.
        pub panics: counter("connectors_request_panics_total", "Looks that panicked"),
        /// Sweeps over everything managed.
        pub sweeps: counters_of(
            "connectors_request_sweeps_total", "Sweeps over everything managed, by result", &["result"],
            &["ok", "failed"]
        ),
        /// The number of shards.
        pub shards: gauge(
            "connectors_request_shards", "Into how many shards the namespaces are divided, each with a leader of its own"
        ),
        /// Whether approvals are enabled, as last known.
        pub enabled: known(
            "connectors_approval_enabled", "Whether approvals grant anything, as this process last knew it"
        ),
        /// Whether pods wait with the scheduling gate, as last known.
        pub gate_enabled: known(
            "connectors_scheduling_gate_enabled",
            "Whether new pods wait with the scheduling gate, as this process last knew it"
        ),
        /// Removed scheduling gates, by reason.
        pub gates_removed: counters_of(
            "connectors_pod_gates_removed_total", "Scheduling gates that were removed, by reason", &["reason"],
            &GateEnd::ALL.iter().map(|it| it.as_str()).collect::<Vec<_>>()
        ),
        /// Refused removals of scheduling gates.
        pub gates_kept: counter(
            "connectors_pod_gates_kept_total", "Attempts to remove a scheduling gate that the API server refused"
        ),
        /// Whether the ConfigMap exists.
        pub config_present: gauge(
            "connectors_config_present",
            "Whether the ConfigMap of the switch is there; without it the last known value holds"
        ),
    }
}

families! {
    /// The state of the cluster's requests. The leader alone shows it.
    pub struct RequestGauges {
        /// Waiting requests.
        pub pending: gauge("connectors_requests_pending", "Access requests that wait"),
        /// Granted requests.
        pub granted: gauge("connectors_requests_granted", "Access requests that are granted"),
        /// Pods that wait with the scheduling gate.
        pub gated: gauge(
            "connectors_pods_gated", "Pods that wait with the scheduling gate connectors.alauda.io/approval"
        ),
        /// Requests that are over, and whose grant may be in force.
        pub revoking: gauge(
            "connectors_requests_revoking", "Access requests that are over and whose grant is not known to be gone"
        ),
        /// How long the first of these has been over.
        pub revoking_age: gauge(
            "connectors_requests_revoking_age_seconds",
            "How long ago the first of the requests ended whose grant is not known to be gone"
        ),
        /// Managed Roles and RoleBindings that no request describes, according to the last sweep.
        pub orphaned: gauge(
            "connectors_request_grants_orphaned",
            "Managed Roles and RoleBindings that no access request describes and that the last sweep could not remove"
        ),
    }
}

impl RequestGauges {
    /// Shows the numbers of requests and of gated pods.
    pub fn count(&self, counts: Counts, gated: usize, now: Timestamp) {
        let Counts {
            pending,
            granted,
            revoking,
            revoking_since,
        } = counts;
        let number = |count: usize| count.try_into().unwrap_or(i64::MAX);
        self.pending.set(number(pending));
        self.granted.set(number(granted));
        self.gated.set(number(gated));
        self.revoking.set(number(revoking));
        let age = revoking_since.map_or(0, |since| now.duration_since(since).as_secs());
        self.revoking_age.set(age.max(0));
    }
}

impl Metrics {
    /// Counts a decision that was written.
    pub fn decided(&self, phase: Phase, after: &AccessRequest) {
        let Some(now) = &after.status else {
            return;
        };
        let labels = [phase.as_str(), reason(now)];
        self.decisions.with_label_values(&labels).inc();
        let created = after.metadata.creation_timestamp.as_ref();
        if let (Phase::Granted, Some(created), Some(granted)) = (phase, created, now.granted_at) {
            self.waited.observe(seconds_between(created.0, granted));
        }
    }

    /// Observes a revocation that the reconciliation of its end could not complete. It counts from the recorded end, which
    /// has whole seconds.
    pub fn finished(&self, before: &AccessRequest, after: &AccessRequest) {
        let Some(status) = &after.status else {
            return;
        };
        let was = before.status.as_ref().and_then(|it| it.phase);
        let is_late = was == Some(Phase::Revoked) && status.phase == was;
        if let (true, Some(ended), Some(revoked)) = (is_late, status.ended_at, status.revoked_at) {
            self.revoking.observe(seconds_between(ended, revoked));
        }
    }

    /// Observes the duration of a reconciliation that granted or revoked.
    pub fn took(&self, phase: Option<Phase>, time: Duration) {
        match phase {
            Some(Phase::Granted) => self.granting.observe(time.as_secs_f64()),
            Some(Phase::Revoked) => self.revoking.observe(time.as_secs_f64()),
            Some(Phase::Pending | Phase::Rejected | Phase::Invalid | Phase::Ended) | None => {}
        }
    }
}

/// A reason of the fixed set, or nothing: a client that can write a status must not be able to add label values.
fn reason(status: &AccessRequestStatus) -> &'static str {
    let conditions = status.conditions.iter();
    let mut ready = conditions.filter(|it| it.type_ == AccessRequestCondition::Ready);
    let word = ready.next().map(|it| it.reason.as_str());
    let known = Ready::ALL.iter().copied();
    let mut known = known.filter(|it| Some(it.as_str()) == word);
    known.next().map_or("", Ready::as_str)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use prometheus::Registry;

    use super::*;

    #[test]
    fn a_revocation_that_took_several_looks_counts_from_its_end() {
        let metrics = Metrics::register(&Registry::new()).unwrap();
        let of = |phase: &str, revoked: Option<&str>| -> AccessRequest {
            let mut request = serde_json::json!({
                "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessRequest",
                "metadata": {"name": "a", "namespace": "n"},
                "spec": {
                    "connectorRef": {"name": "prod"},
                    "subject": {"kind": "ServiceAccount", "name": "builder"},
                    "context": {"objectRef": {"apiVersion": "v1", "kind": "Pod", "namespace": "apps", "name": "p", "uid": "u"}},
                },
                "status": {"phase": phase, "endedAt": "2026-01-01T00:00:00Z"},
            });
            if let Some(revoked) = revoked {
                request["status"]["revokedAt"] = revoked.into();
            }
            serde_json::from_value(request).unwrap()
        };
        let after = of("Revoked", Some("2026-01-01T00:00:40Z"));
        // The look that ends it is measured by `took`.
        metrics.finished(&of("Granted", None), &after);
        metrics.finished(&of("Revoked", None), &of("Revoked", None));
        assert_eq!(metrics.revoking.get_sample_count(), 0);
        metrics.finished(&of("Revoked", None), &after);
        assert_eq!(metrics.revoking.get_sample_count(), 1);
        assert!((metrics.revoking.get_sample_sum() - 40.0).abs() < 0.1);
    }

    #[test]
    fn the_failures_of_each_cause_are_there_from_the_start() {
        let registry = Registry::new();
        let _metrics = Metrics::register(&registry).unwrap();
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather());
        let text = text.unwrap();
        for cause in RequestFailureCause::WORDS {
            let line = format!("connectors_request_failures_total{{cause=\"{cause}\"}} 0\n");
            assert!(text.contains(&line), "{line}{text}");
        }
    }

    #[test]
    fn a_revocation_is_as_old_as_the_end_of_its_request() {
        let gauges = RequestGauges::register(&Registry::new()).unwrap();
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24);
        let since = |seconds| Counts {
            revoking: 1,
            revoking_since: Some(now - SignedDuration::from_secs(seconds)),
            ..Counts::default()
        };
        // An end in the future is one of another clock.
        for (seconds, age) in [(90, 90), (0, 0), (-5, 0)] {
            gauges.count(since(seconds), 2, now);
            assert_eq!((gauges.revoking.get(), gauges.revoking_age.get()), (1, age));
        }
        gauges.count(Counts::default(), 0, now);
        assert_eq!((gauges.revoking.get(), gauges.revoking_age.get()), (0, 0));
    }
}
