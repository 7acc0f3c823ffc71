//! The work of a leader, in its order: remove the objects of policies that are gone, look at every policy
//! that has managed objects, then at all others. The same is repeated every few minutes, for changes without
//! an event. A part of the policies is then read again, for changes that the caches missed.

use std::{sync::Arc, time::Duration};

use service_kit::{
    controller::{
        leader::{Leader, about, wait_until},
        queue::Urgency,
    },
    readiness::{Readiness, ReadinessPart},
    report,
    retry::Backoff,
};
use tokio::time::sleep;
use tracing::{info, warn};

use crate::{
    cache::Job,
    reconcile::Reconciler,
    sweep::{Swept, Turn, sweep},
};

const PAUSES: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
/// How long the first look at all policies with managed objects may take before the rest begins.
const FIRST_LOOK: Duration = Duration::from_secs(30);
const MOMENT: Duration = Duration::from_millis(20);
/// How often a sweep that cannot read is repeated before the work begins without it.
const ATTEMPTS: usize = 3;

/// The leader's part of the process.
pub struct Leading {
    /// Looks at policies.
    pub reconciler: Arc<Reconciler>,
    /// Whether the caches are complete.
    pub caches: Readiness,
    /// How often everything managed is compared with the policies.
    pub every: Duration,
}

impl Leader for Leading {
    async fn lead(&self, first_sweep: &mut Option<ReadinessPart>) {
        let queue = &self.reconciler.queue;
        queue.listen();
        self.caches.ready().await;
        // The caches were listed a moment ago.
        let left = self.sweep(None).await;
        self.wake_all(Urgency::Urgent);
        self.wake_left(left);
        for urgency in Urgency::ALL {
            queue.open(urgency);
        }
        wait_until(|| queue.depth() == 0, MOMENT, FIRST_LOOK).await;
        let mut turn = Turn::default();
        loop {
            self.wake_all(Urgency::Normal);
            if let Some(part) = first_sweep.take() {
                part.ready();
            }
            about(self.every).await;
            let left = self.sweep(Some(turn)).await;
            turn = turn.next();
            self.wake_left(left);
        }
    }

    fn pause(&self) {
        self.reconciler.queue.close();
    }
}

impl Leading {
    fn wake_left(&self, left: Vec<Job>) {
        for job in left {
            self.reconciler.queue.wake(job, Urgency::Urgent);
        }
    }

    /// Everything that is at least that urgent.
    fn wake_all(&self, least: Urgency) {
        let all = self.reconciler.world.read().all();
        for (job, urgency) in all {
            if urgency <= least {
                self.reconciler.queue.wake(job, urgency);
            }
        }
    }

    /// Returns the jobs whose objects could not be removed.
    async fn sweep(&self, turn: Option<Turn>) -> Vec<Job> {
        let mut pauses = PAUSES;
        for _ in 0..ATTEMPTS {
            let swept = sweep(&self.reconciler, turn).await;
            let is_whole = swept.as_ref().is_ok_and(|it| it.left.is_empty());
            let result = if is_whole { "ok" } else { "failed" };
            let sweeps = &self.reconciler.metrics.sweeps;
            sweeps.with_label_values(&[result]).inc();
            match swept {
                Ok(Swept { removed, left }) => {
                    info!(removed, left = left.len(), "swept");
                    return left;
                }
                Err(error) => {
                    warn!(error = report(&error), "the sweep failed and is repeated");
                    sleep(pauses.pause()).await;
                }
            }
        }
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::time::Instant;

    use super::*;
    use crate::{
        seen::{ManagedCached, ManagedKind, Name},
        testing::{OWN, Refuses, api_server, managed_for, rbac, reconciler},
    };

    #[tokio::test(start_paused = true)]
    async fn the_rest_begins_when_nothing_urgent_is_left_or_it_takes_too_long() {
        for (in_cache, in_cluster, longest) in [
            (false, false, MOMENT),
            (true, false, FIRST_LOOK + 2 * MOMENT),
            (false, true, FIRST_LOOK + 2 * MOMENT),
        ] {
            let server = api_server();
            let reconciler = Arc::new(reconciler(&server));
            if in_cluster {
                // The sweep finds it, and cannot remove it.
                let rest = json!({"rules": []});
                server.create(rbac("Role", "policy-b", &managed_for("uid-b"), &rest));
                server.set_faults(Arc::new(Refuses(403)));
            }
            if in_cache {
                let name = Name::new(OWN, "policy-a");
                let object = ManagedCached {
                    version: String::new(),
                    said: None,
                    terminating: false,
                };
                let mut world = reconciler.world.write();
                world.object(ManagedKind::Role, &name, Some(("uid-a", object)));
            }
            let (caches, start) = Readiness::starting();
            start.ready();
            let (readiness, start) = Readiness::starting();
            start.ready();
            let leading = Leading {
                reconciler,
                caches,
                every: Duration::from_mins(5),
            };
            let mut first_sweep = Some(readiness.part("first sweep"));
            let begun = Instant::now();
            let leads = leading.lead(&mut first_sweep);
            let swept = async {
                readiness.ready().await;
                begun.elapsed()
            };
            tokio::select! {
                () = leads => panic!("it leads until it is dropped"),
                after = swept => {
                    assert!(after <= longest, "{after:?}");
                    assert_eq!(after >= FIRST_LOOK, in_cache || in_cluster, "{after:?}");
                }
            }
        }
    }
}
