//! What an operator can ask about mounts.

use std::time::Duration;

use prometheus::{
    Histogram, HistogramOpts, HistogramTimer, IntCounter, IntCounterVec, IntGauge, Opts, Registry,
};

/// The metrics of the driver.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    publishes: IntCounterVec,
    emptied: IntCounter,
    kept: IntGauge,
    held: IntGauge,
    waits: Histogram,
    mount: Histogram,
}

/// What the process knows of the feature switch.
#[derive(Clone, Debug)]
pub(crate) struct SwitchMetrics {
    enabled: IntGauge,
    present: IntGauge,
}

impl SwitchMetrics {
    /// Makes them, once per process.
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let enabled = IntGauge::new(
            "connectors_approval_enabled",
            "Whether mounts are gated, as this process last knew it",
        )?;
        let present = IntGauge::new(
            "connectors_config_present",
            "Whether the ConfigMap of the switch is there; without it the last known value holds",
        )?;
        registry.register(Box::new(enabled.clone()))?;
        registry.register(Box::new(present.clone()))?;
        Ok(Self { enabled, present })
    }

    /// The switch is known.
    pub(crate) fn enabled(&self, enabled: bool) {
        self.enabled.set(enabled.into());
    }

    /// The `ConfigMap` came or went.
    pub(crate) fn present(&self, present: bool) {
        self.present.set(present.into());
    }
}

impl Metrics {
    /// Makes them, once per process.
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let publishes = IntCounterVec::new(
            Opts::new(
                "mount_publishes_total",
                "Calls to publish a volume, by how they ended",
            ),
            &["result"],
        )?;
        let emptied = IntCounter::new(
            "mount_emptied_total",
            "Volumes whose content was taken away because access ended",
        )?;
        let kept = IntGauge::new(
            "mount_kept",
            "Volumes that were mounted while approvals were off and have content without a permission",
        )?;
        let held = IntGauge::new("mount_held", "Calls that wait for access now")?;
        let waits = Histogram::with_opts(
            HistogramOpts::new("mount_hold_seconds", "How long calls waited for access")
                .buckets(vec![0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 90.0, 115.0]),
        )?;
        let mount = Histogram::with_opts(
            HistogramOpts::new(
                "mount_after_grant_seconds",
                "From the moment that access was seen to the mounted volume",
            )
            .buckets(vec![0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0]),
        )?;
        registry.register(Box::new(publishes.clone()))?;
        registry.register(Box::new(emptied.clone()))?;
        registry.register(Box::new(kept.clone()))?;
        registry.register(Box::new(held.clone()))?;
        registry.register(Box::new(waits.clone()))?;
        registry.register(Box::new(mount.clone()))?;
        Ok(Self {
            publishes,
            emptied,
            kept,
            held,
            waits,
            mount,
        })
    }

    /// A call ended.
    pub(crate) fn published(&self, result: &'static str) {
        self.publishes.with_label_values(&[result]).inc();
    }

    /// A volume was emptied.
    pub(crate) fn emptied(&self) {
        self.emptied.inc();
    }

    /// How many volumes have content without a permission.
    pub(crate) fn kept(&self) -> IntGauge {
        self.kept.clone()
    }

    /// A volume was mounted, this long after access to it was seen.
    pub(crate) fn mounted(&self, after: Duration) {
        self.mount.observe(after.as_secs_f64());
    }

    /// A call waits, until what is returned is dropped.
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
