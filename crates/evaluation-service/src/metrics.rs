//! The metrics of the service.

use std::time::Duration;

use connectors_api::judge::RegoFailure;
use evaluation_api::access::{AccessAnswer, Decision};
use evaluation_api::v1::AccessDecision;
use rego_workers::{ModuleOutcome, PoolWatcher};
use service_kit::families;
use tonic::Code;

use crate::call_names::COUNTED_CALLS;

const SECONDS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// The codes of calls that the service failed to answer. A rate over their first occurrence needs a zero before it.
const FAILED: [&str; 2] = ["Internal", "Unavailable"];

families! {
    /// The metrics of the service. No label takes a value that a caller chooses.
    pub struct Metrics {
        calls: counters_of_pairs(
            "connectors_evaluation_calls_total", "Calls, by what was asked and the gRPC code of the answer",
            &["call", "code"], (&COUNTED_CALLS, &FAILED)
        ),
        call_seconds: histograms("connectors_evaluation_call_seconds", "Time to the answer of a call", SECONDS, &["call"]),
        decisions: counters_of(
            "connectors_evaluation_decisions_total", "Answers to access questions, by decision", &["decision"],
            &["denied", "allowed_standing", "allowed_pod"]
        ),
        reviews: counters(
            "connectors_evaluation_reviews_total", "Reviews of callers by the API server, by kind and result", &["review", "result"]
        ),
        caller_limits: counters_of(
            "connectors_evaluation_caller_limits_total",
            "Calls and streams refused because their caller has as many as it may, by what it has",
            &["limit"], &["calls", "streams"]
        ),
        checks: counters_of(
            "connectors_evaluation_checks_total", "Answers about the checks of a policy, by where they come from",
            &["source"], &["judged", "remembered"]
        ),
        rego: counters_of(
            "connectors_evaluation_rego_jobs_total", "Rego evaluations, by result", &["result"],
            &["answered", "limit", "failed", "native"]
        ),
        rego_seconds: histogram(
            "connectors_evaluation_rego_seconds", "Time of a Rego evaluation, waiting for a worker included", SECONDS
        ),
        rego_workers: counter(
            "connectors_evaluation_rego_workers_started_total", "Worker processes for Rego that were started"
        ),
        /// Streams that are open.
        pub(crate) streams: gauge("connectors_evaluation_streams", "Streams of access answers"),
        /// Questions on all streams.
        pub(crate) subscriptions: gauge("connectors_evaluation_subscriptions", "Questions on all streams of access answers"),
        /// Connections that are open.
        pub(crate) connections: gauge("connectors_evaluation_connections", "Connections of callers"),
        /// Objects of which the caches have an older version, because the newer one could not be read.
        pub(crate) dropped: counters(
            "connectors_evaluation_unreadable_objects_total",
            "Objects that were left out of decisions because they cannot be read, by kind",
            &["kind"]
        ),
        /// Whether mounts are gated.
        pub(crate) enabled: known(
            "connectors_approval_enabled", "Whether answers say that mounts are gated, as this process last knew it"
        ),
        /// Whether the `ConfigMap` of the installation is there.
        pub(crate) config_present: gauge(
            "connectors_config_present",
            "Whether the ConfigMap of the switch is there; without it the last known value holds"
        ),
    }
}

impl Metrics {
    pub(crate) fn call(&self, call: &str, code: Code, time: Duration) {
        let code = format!("{code:?}");
        self.calls.with_label_values(&[call, code.as_str()]).inc();
        self.call_seconds
            .with_label_values(&[call])
            .observe(time.as_secs_f64());
    }

    pub(crate) fn decision(&self, answer: &AccessAnswer) {
        let decision = match answer.decision {
            Decision::Denied => AccessDecision::Denied,
            Decision::AllowedStanding(_) => AccessDecision::AllowedStanding,
            Decision::AllowedPod(_) => AccessDecision::AllowedPod,
        };
        self.decisions(decision, 1);
    }

    pub(crate) fn decisions(&self, decision: AccessDecision, count: usize) {
        let decision = match decision {
            AccessDecision::Denied => "denied",
            AccessDecision::AllowedStanding => "allowed_standing",
            AccessDecision::AllowedPod => "allowed_pod",
            AccessDecision::Unspecified => return,
        };
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.decisions.with_label_values(&[decision]).inc_by(count);
    }

    pub(crate) fn review(&self, review: &str, result: &str) {
        self.reviews.with_label_values(&[review, result]).inc();
    }

    pub(crate) fn caller_limit(&self, limit: &str) {
        self.caller_limits.with_label_values(&[limit]).inc();
    }

    /// Modules that were evaluated without a worker.
    pub(crate) fn native_rego(&self, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.rego.with_label_values(&["native"]).inc_by(count);
    }

    pub(crate) fn checks(&self, source: &str) {
        self.checks.with_label_values(&[source]).inc();
    }
}

impl PoolWatcher for Metrics {
    fn started(&self) {
        self.rego_workers.inc();
    }

    fn evaluated(&self, outcome: &ModuleOutcome, time: Duration) {
        let result = match outcome {
            Ok(_) => "answered",
            Err(RegoFailure::Limit(_)) => "limit",
            Err(RegoFailure::Failed(_)) => "failed",
        };
        self.rego.with_label_values(&[result]).inc();
        self.rego_seconds.observe(time.as_secs_f64());
    }
}
