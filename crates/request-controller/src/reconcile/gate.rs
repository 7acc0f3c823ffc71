//! observe → plan → apply for the scheduling gate of a pod.

use std::time::Duration;

use tokio::time::Instant;

use super::{ReconcileError, Reconciler};
use crate::{
    api::Name,
    observe::LOOK,
    plan::gate::{self, GateTold},
};

impl Reconciler {
    /// Reconciles the gate of one pod. Returns the delay until the next look.
    pub async fn gate(&self, pod: &Name) -> Result<Option<Duration>, ReconcileError> {
        let rest = self.world.read().gated.rest(pod, (self.clock)().mono);
        if rest.is_some() {
            return Ok(rest);
        }
        let until = Instant::now() + LOOK;
        let Some(seen) = self.observer.gate(pod, gate::QUESTIONS, until).await? else {
            return Ok(None);
        };
        let plan = gate::plan(&seen);
        let applied = self.applier.gate(&seen, plan, until).await?;
        let Some(told) = applied.told else {
            return Ok(applied.again);
        };
        let (is_news, again) = match told {
            GateTold::Removed(_) => (true, applied.again),
            GateTold::Kept => {
                let now = (self.clock)().mono;
                let rest = self.world.write().gated.refused(pod, &seen.uid, now);
                let is_first = rest.is_some_and(|it| it.is_first);
                (is_first, rest.map(|it| it.pause))
            }
        };
        if is_news {
            self.events.gate(&seen.pod, &seen.uid, told).await;
        }
        Ok(again)
    }
}
