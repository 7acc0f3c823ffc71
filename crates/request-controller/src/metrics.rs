//! Metrics for operators. No label contains a name that a client chose.

use std::time::Duration;

use connectors_api::{
    AccessRequest, AccessRequestCondition,
    access_request::{AccessRequestStatus, Phase},
};
use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry};

use service_kit::{clock::seconds_between, families};

/// The metrics of the controller.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// From the creation of a request to its grant.
    pub waited: Histogram,
    /// From the moment when the last approval was noticed to the grant.
    pub granting: Histogram,
    /// From the moment when the reason of a revocation was noticed to the removal of the grant.
    pub revoking: Histogram,
    /// Waiting requests.
    pub pending: IntGauge,
    /// Granted requests.
    pub granted: IntGauge,
    /// Scheduling gates.
    pub gates: GateMetrics,
    /// Managed Roles and RoleBindings that no request describes, according to the last sweep.
    pub orphaned: IntGauge,
    /// Decisions by outcome and reason.
    pub decisions: IntCounterVec,
    /// Writes to the API server.
    pub writes: IntCounterVec,
    /// Failed reconciliations of a request or grant.
    pub failures: IntCounterVec,
    /// Reconciliations that panicked.
    pub panics: IntCounter,
    /// Sweeps over everything managed.
    pub sweeps: IntCounterVec,
    /// Whether approvals are enabled, as last known.
    pub enabled: IntGauge,
    /// Whether the ConfigMap exists.
    pub config_present: IntGauge,
}

families! {
    /// The scheduling gates of pods.
    pub struct GateMetrics {
        /// Pods that wait with the gate.
        pub pods: gauge("pods_gated", "Pods that wait with the scheduling gate connectors.alauda.io/approval"),
        /// Whether pods wait with the gate, as last known.
        pub enabled: gauge(
            "connectors_scheduling_gate_enabled",
            "Whether new pods wait with the scheduling gate, as this process last knew it"
        ),
        /// Removed gates, by reason.
        pub removed: counters("pod_gates_removed_total", "Scheduling gates that were removed, by reason", &["reason"]),
        /// Refused removals.
        pub kept: counter(
            "pod_gates_kept_total", "Attempts to remove a scheduling gate that the API server refused"
        ),
    }
}

const SHORT: &[f64] = &[
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];
const LONG: &[f64] = &[
    1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 43200.0, 86400.0, 259_200.0,
];

impl Metrics {
    /// Registers the metrics, once per process.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let histogram = |name: &str, help: &str, buckets: &[f64]| {
            Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets.to_vec()))
        };
        let counters = |name: &str, help: &str, labels: &[&str]| {
            IntCounterVec::new(Opts::new(name, help), labels)
        };
        let metrics = Self {
            waited: histogram(
                "request_waiting_seconds",
                "Time from the creation of an access request to its grant",
                LONG,
            )?,
            granting: histogram(
                "request_granting_seconds",
                "Time from noticing that the checks pass to the grant",
                SHORT,
            )?,
            revoking: histogram(
                "request_revoking_seconds",
                "Time from noticing the end of a grant to its removal",
                SHORT,
            )?,
            pending: IntGauge::new("requests_pending", "Access requests that wait")?,
            granted: IntGauge::new("requests_granted", "Access requests that are granted")?,
            gates: GateMetrics::register(registry)?,
            orphaned: IntGauge::new(
                "request_grants_orphaned",
                "Managed Roles and RoleBindings that no access request describes",
            )?,
            decisions: counters(
                "request_decisions_total",
                "Access requests that were decided, by phase and reason",
                &["phase", "reason"],
            )?,
            writes: counters(
                "request_api_writes_total",
                "Writes to the API server, by verb and resource",
                &["verb", "resource"],
            )?,
            failures: counters(
                "request_failures_total",
                "Looks at a request or grant that failed and are repeated",
                &["cause"],
            )?,
            panics: IntCounter::new("request_panics_total", "Looks that panicked")?,
            sweeps: counters(
                "request_sweeps_total",
                "Sweeps over everything managed, by result",
                &["result"],
            )?,
            enabled: IntGauge::new(
                "connectors_approval_enabled",
                "Whether approvals grant anything, as this process last knew it",
            )?,
            config_present: IntGauge::new(
                "connectors_config_present",
                "Whether the ConfigMap of the switch is there; without it the last known value holds",
            )?,
        };
        let Self {
            waited,
            granting,
            revoking,
            pending,
            granted,
            gates: _,
            orphaned,
            decisions,
            writes,
            failures,
            panics,
            sweeps,
            enabled,
            config_present,
        } = metrics.clone();
        registry.register(Box::new(waited))?;
        registry.register(Box::new(granting))?;
        registry.register(Box::new(revoking))?;
        registry.register(Box::new(pending))?;
        registry.register(Box::new(granted))?;
        registry.register(Box::new(orphaned))?;
        registry.register(Box::new(decisions))?;
        registry.register(Box::new(writes))?;
        registry.register(Box::new(failures))?;
        registry.register(Box::new(panics))?;
        registry.register(Box::new(sweeps))?;
        registry.register(Box::new(enabled))?;
        registry.register(Box::new(config_present))?;
        Ok(metrics)
    }

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
    let known = connectors_api::reason::Ready::ALL.iter().copied();
    let mut known = known.filter(|it| Some(it.as_str()) == word);
    known
        .next()
        .map_or("", connectors_api::reason::Ready::as_str)
}
