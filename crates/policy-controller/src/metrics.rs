//! Numbers that answer an operator's questions. No label contains a name that a tenant chose.

use service_kit::{families, label_values};

const SECONDS: &[f64] = &[
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

label_values! {
    /// Why a look at an access policy failed.
    pub enum PolicyFailureCause {
        /// A read failed.
        Read = "read",
        /// Another write was faster.
        Conflict = "conflict",
        /// Another object has a name of ours.
        NameTaken = "name-taken",
        /// The reads were too old.
        Stale = "stale",
        /// Another process leads.
        NotLeading = "not-leading",
        /// Another write failed.
        Apply = "apply",
        /// The look panicked.
        Panic = "panic",
    }
}

families! {
    /// The counters and histograms.
    pub struct Metrics {
        /// From the notice of a change to the last write that it caused.
        pub syncing: histogram(
            "connectors_policy_syncing_seconds", "Time from noticing a change to the last write that it asked for",
            SECONDS
        ),
        /// Writes to the API server.
        pub writes: counters(
            "connectors_policy_api_writes_total", "Writes to the API server, by verb and resource",
            &["verb", "resource"]
        ),
        /// Looks that failed.
        pub failures: counters_of(
            "connectors_policy_failures_total", "Looks at an access policy that failed and are repeated", &["cause"],
            PolicyFailureCause::WORDS
        ),
        /// Looks that panicked.
        pub panics: counter("connectors_policy_panics_total", "Looks that panicked"),
        /// Sweeps over everything managed.
        pub sweeps: counters_of(
            "connectors_policy_sweeps_total", "Sweeps over everything managed, by result", &["result"],
            &["ok", "failed"]
        ),
    }
}

families! {
    /// The state of the cluster's policies. The leader alone shows it.
    pub struct PolicyGauges {
        /// Existing policies.
        pub policies: gauge("connectors_policies", "Access policies that are there"),
    }
}
