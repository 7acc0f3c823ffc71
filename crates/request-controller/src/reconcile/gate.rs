//! observe → plan → apply for the scheduling gate of a pod.

use std::time::Duration;

use super::{ReconcileError, Reconciler};
use crate::{api::Name, plan::gate};

impl Reconciler {
    /// Reconciles the gate of one pod. Returns the delay until the next look.
    pub async fn gate(&self, pod: &Name) -> Result<Option<Duration>, ReconcileError> {
        let Some(seen) = self.observer.gate(pod).await? else {
            return Ok(None);
        };
        let plan = gate::plan(&seen);
        let applied = self.applier.gate(&seen, plan).await?;
        if let Some(told) = applied.told {
            self.events.gate(&seen.pod, &seen.uid, told).await;
        }
        Ok(applied.again)
    }
}
