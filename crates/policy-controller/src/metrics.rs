//! Numbers that answer an operator's questions. No label contains a name that a tenant chose.

use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry};

/// The counters and histograms.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// From the notice of a change to the last write that it caused.
    pub syncing: Histogram,
    /// Existing policies.
    pub policies: IntGauge,
    /// Policies that wait to be looked at.
    pub waiting: IntGauge,
    /// Writes to the API server.
    pub writes: IntCounterVec,
    /// Looks that failed.
    pub failures: IntCounterVec,
    /// Looks that panicked.
    pub panics: IntCounter,
    /// Sweeps over everything managed.
    pub sweeps: IntCounterVec,
}

const SECONDS: &[f64] = &[
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

impl Metrics {
    /// Makes the metrics, once per process.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counters = |name: &str, help: &str, labels: &[&str]| {
            IntCounterVec::new(Opts::new(name, help), labels)
        };
        let syncing = HistogramOpts::new(
            "policy_syncing_seconds",
            "Time from noticing a change to the last write that it asked for",
        );
        let metrics = Self {
            syncing: Histogram::with_opts(syncing.buckets(SECONDS.to_vec()))?,
            policies: IntGauge::new("policies", "Access policies that are there")?,
            waiting: IntGauge::new(
                "policies_waiting",
                "Access policies that wait to be looked at",
            )?,
            writes: counters(
                "policy_api_writes_total",
                "Writes to the API server, by verb and resource",
                &["verb", "resource"],
            )?,
            failures: counters(
                "policy_failures_total",
                "Looks at an access policy that failed and are repeated",
                &["cause"],
            )?,
            panics: IntCounter::new("policy_panics_total", "Looks that panicked")?,
            sweeps: counters(
                "policy_sweeps_total",
                "Sweeps over everything managed, by result",
                &["result"],
            )?,
        };
        let Self {
            syncing,
            policies,
            waiting,
            writes,
            failures,
            panics,
            sweeps,
        } = metrics.clone();
        registry.register(Box::new(syncing))?;
        registry.register(Box::new(policies))?;
        registry.register(Box::new(waiting))?;
        registry.register(Box::new(writes))?;
        registry.register(Box::new(failures))?;
        registry.register(Box::new(panics))?;
        registry.register(Box::new(sweeps))?;
        Ok(metrics)
    }
}
