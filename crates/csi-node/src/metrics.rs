//! The metrics about mounts.

use std::time::Duration;

use prometheus::{HistogramTimer, IntGauge};
use service_kit::families;

/// The words by which a call ends: three for calls that end well, and those of `PublishError`.
pub(crate) const PUBLISH_RESULTS: [&str; 24] = [
    "made",
    "looked_after",
    "error_file",
    "invalid",
    "not_proven",
    "driver_object",
    "no_address",
    "no_files",
    "renders_busy",
    "waiting",
    "denied",
    "unusable",
    "request_refused",
    "broken",
    "starting",
    "unreachable",
    "stopping",
    "in_flight",
    "pod_ending",
    "other_volume",
    "left_behind",
    "crowded",
    "no_memory",
    "cancelled",
];

families! {
    /// The state of the feature switch, as the process knows it.
    pub(crate) struct SwitchMetrics {
        /// The switch, once it is known.
        pub(crate) enabled: known(
            "connectors_approval_enabled", "Whether mounts are gated, as this process last knew it"
        ),
        /// Whether there is a `ConfigMap`.
        pub(crate) present: gauge(
            "connectors_config_present",
            "Whether the ConfigMap of the switch is there; without it the last known value holds"
        ),
    }
}

families! {
    /// The metrics of the driver.
    pub(crate) struct Metrics {
        publishes: counters_of(
            "connectors_mount_publishes_total", "Calls to publish a volume, by how they ended", &["result"],
            &PUBLISH_RESULTS
        ),
        requests: counters_of(
            "connectors_mount_requests_total", "Access requests that were to be created for pods, by how that ended",
            &["result"], &["made", "exists", "no_namespace", "quota_full", "refused", "no_answer"]
        ),
        refreshes: counters_of(
            "connectors_mount_refreshes_total", "Looks at the content of volumes with access, by what came of them",
            &["result"], &["renewed", "unchanged", "failed"]
        ),
        tokens: histogram(
            "connectors_mount_token_remaining_seconds",
            "How long the pod's token in a volume still lived when a call had looked after the volume",
            &[1.0, 60.0, 300.0, 600.0, 1800.0, 3600.0, 14400.0, 43200.0]
        ),
        /// Volumes that were emptied.
        pub(crate) emptied: counter(
            "connectors_mount_emptied_total", "Volumes whose content was taken away because access ended"
        ),
        /// Volumes that have content without a permission.
        pub(crate) kept: gauge(
            "connectors_mount_kept",
            "Volumes that were mounted while approvals were off and have content without a permission"
        ),
        /// Volumes whose newer content cannot be made.
        pub(crate) outdated: gauge(
            "connectors_mount_outdated",
            "Volumes whose newer content could not be made at the latest call, and whose older content stays"
        ),
        /// The memory of all volumes.
        pub(crate) memory: gauge(
            "connectors_mount_volume_bytes",
            "Memory that the volumes of this node may take, with a second set of their files"
        ),
        held: gauge("connectors_mount_held", "Calls that wait for access now"),
        waits: histogram(
            "connectors_mount_hold_seconds", "How long calls waited for access",
            &[0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 90.0, 115.0]
        ),
        mount: histogram(
            "connectors_mount_after_grant_seconds", "From the moment that access was seen to the mounted volume",
            &[0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0]
        ),
    }
}

impl Metrics {
    /// A call ended.
    pub(crate) fn published(&self, result: &'static str) {
        self.publishes.with_label_values(&[result]).inc();
    }

    /// The creation of a request was tried.
    pub(crate) fn asked(&self, result: &'static str) {
        self.requests.with_label_values(&[result]).inc();
    }

    /// How often the creation of a request ended in this way.
    #[cfg(test)]
    pub(crate) fn requests(&self, result: &str) -> u64 {
        self.requests.with_label_values(&[result]).get()
    }

    /// The content of a volume was compared with what it should hold.
    pub(crate) fn refreshed(&self, result: &'static str) {
        self.refreshes.with_label_values(&[result]).inc();
    }

    /// A volume holds the present token of its pod, which lives that much longer.
    pub(crate) fn token_lives(&self, remaining: Option<Duration>) {
        if let Some(remaining) = remaining {
            self.tokens.observe(remaining.as_secs_f64());
        }
    }

    /// A volume was mounted, this long after access to it was seen.
    pub(crate) fn mounted(&self, after: Duration) {
        self.mount.observe(after.as_secs_f64());
    }

    /// A call waits, until the returned value is dropped.
    pub(crate) fn hold(&self) -> Hold {
        self.held.inc();
        Hold {
            held: self.held.clone(),
            _timer: self.waits.start_timer(),
        }
    }
}

/// A call that waits.
#[derive(Debug)]
pub(crate) struct Hold {
    held: IntGauge,
    /// Observes when it is dropped.
    _timer: HistogramTimer,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.held.dec();
    }
}
