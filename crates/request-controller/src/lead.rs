//! The work of the leader of a shard, in its order: a sweep, which needs no cache, then the requests with a grant, then everything
//! else. A replica with complete caches revokes before its sweep, whose lists take seconds in a large cluster.

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use service_kit::{
    controller::{
        leader::{Leader, about, wait_until},
        queue::{Queue, Urgency},
    },
    readiness::{Readiness, ReadinessPart, Status},
    report,
    retry::Backoff,
};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::{
    api::Name,
    cache::{Job, KindState, State},
    reconcile::Reconciler,
    sweep::{Swept, sweep},
    watches::Caches,
};

/// The limit of the first reconciliation of all requests with a grant, before the rest begins.
const FIRST_LOOK: Duration = Duration::from_mins(1);
/// The limit of waiting for the kinds of check objects.
const KINDS: Duration = Duration::from_secs(10);
const MOMENT: Duration = Duration::from_millis(20);
const PAUSES: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
/// The backoff of objects that a sweep could not remove. Before the caches are complete, no worker retries them.
const LEFT: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));

/// The leader of a shard.
pub struct Leading {
    /// Reconciles requests.
    pub reconciler: Arc<Reconciler>,
    /// The shard.
    pub shard: usize,
    /// Whether the caches are complete.
    pub caches: Caches,
    /// How often everything managed is compared with the requests.
    pub every: Duration,
}

impl Leader for Leading {
    async fn lead(&self, first_sweep: &mut Option<ReadinessPart>) {
        let Self { every, .. } = self;
        self.queue().listen();
        self.begin().await;
        if let Some(part) = first_sweep.take() {
            part.ready();
        }
        loop {
            about(*every).await;
            // The lists of another shard of this process are as good: each removal reads live.
            self.swept(*every / 2).await;
            self.wake_all();
        }
    }

    fn pause(&self) {
        self.queue().close();
    }
}

impl Leading {
    fn queue(&self) -> &Queue<Job> {
        self.reconciler.queues.of(self.shard)
    }

    async fn begin(&self) {
        let Caches {
            of_grants,
            complete,
        } = &self.caches;
        if complete.status() == Status::Ready {
            // Requests that hold nothing are looked at only after the sweep. An event may have a grant written again or
            // another one added, by live reads as any.
            self.wake_without_pod();
            self.queue().open(Urgency::Urgent);
        }
        let mut last = self.swept(Duration::ZERO).await;
        self.caches_known(of_grants, &mut last, |_| ()).await;
        kinds_known(&self.reconciler).await;
        self.wake_holding();
        self.queue().open(Urgency::Urgent);
        let is_drained = || self.queue().is_drained(Urgency::Urgent);
        wait_until(is_drained, MOMENT, FIRST_LOOK).await;
        self.caches_known(complete, &mut last, Self::wake_holding)
            .await;
        self.wake_all();
        self.queue().open(Urgency::Normal);
    }

    /// Waits until these caches are complete. Meanwhile the sweep is repeated, so that stray grants are removed even if a
    /// kind is unavailable for long. The first sweep of each interval wakes what it would wake later.
    async fn caches_known(&self, caches: &Readiness, last: &mut Swept, wake: fn(&Self)) {
        let mut pauses = LEFT;
        let mut woken = Instant::now();
        loop {
            let pause = if last.left == 0 {
                self.every
            } else {
                pauses.pause()
            };
            tokio::select! {
                biased;
                () = caches.ready() => return,
                () = sleep(pause) => {
                    *last = self.swept(Duration::ZERO).await;
                    if woken.elapsed() >= self.every {
                        wake(self);
                        woken = Instant::now();
                    }
                }
            }
        }
    }

    /// Repeats the sweep until one succeeds, because requests that hold nothing are looked at only then.
    async fn swept(&self, age: Duration) -> Swept {
        let (mut pauses, sweeps) = (PAUSES, &self.reconciler.metrics.sweeps);
        loop {
            match sweep(&self.reconciler, self.shard, age).await {
                Ok(swept) => {
                    sweeps.with_label_values(&["ok"]).inc();
                    return swept;
                }
                Err(error) => {
                    sweeps.with_label_values(&["failed"]).inc();
                    warn!(error = report(&error), "the sweep failed and is repeated");
                    sleep(pauses.pause()).await;
                }
            }
        }
    }

    fn is_ours(&self, name: &Name) -> bool {
        self.reconciler.queues.shards().of(&name.namespace) == self.shard
    }

    /// Wakes all requests of the shard with a grant.
    fn wake_holding(&self) {
        let holding = self.holding(|_, _| true);
        info!(
            requests = holding.len(),
            "looking at everything that holds something"
        );
        self.wake_urgent(holding);
    }

    /// Wakes the requests of the shard with a grant whose pod is not known to run. It may have ended while no process led.
    fn wake_without_pod(&self) {
        let is_over = |state: &State, name: &Name| {
            let head = state.requests.head(name);
            head.is_some_and(|it| !state.has_living_pod(&it.pod, it.pod_uid.as_deref()))
        };
        let over = self.holding(is_over);
        info!(
            requests = over.len(),
            "looking where the pod has ended or is unknown"
        );
        self.wake_urgent(over);
    }

    /// The requests of the shard with a grant for which this is true.
    fn holding(&self, wanted: impl Fn(&State, &Name) -> bool) -> Vec<Name> {
        let state = self.reconciler.world.read();
        let holding = |it: &Name| self.is_ours(it) && state.requests.holds(it);
        let mut all = state.requests.all();
        all.retain(|it| holding(it) && wanted(&state, it));
        all
    }

    fn wake_urgent(&self, names: Vec<Name>) {
        for name in names {
            self.queue().wake(Job::Request(name), Urgency::Urgent);
        }
    }

    /// Wakes all requests and all gates of the shard, in case an event was lost.
    fn wake_all(&self) {
        let state = self.reconciler.world.read();
        let requests = state.requests.all().into_iter();
        let requests = requests.filter(|it| self.is_ours(it));
        let mut wakes = state.requests.wakes(requests);
        wakes.extend(state.gated.wakes());
        drop(state);
        let shards = self.reconciler.queues.shards();
        for (job, lane) in wakes {
            if shards.of(job.namespace()) == self.shard {
                self.queue().wake(job, lane);
            }
        }
    }
}

/// Waits until the kinds of all evidence are known, but only up to a limit: a kind may stay unavailable, and
/// revocations without it must not wait for it.
async fn kinds_known(reconciler: &Reconciler) {
    let is_known = || {
        let state = reconciler.world.read();
        let wanted = state.wanted_kinds();
        wanted.keys().all(|kind| {
            let known = state.kinds.get(kind).map(|it| &it.state);
            known.is_some_and(|it| !matches!(it, KindState::Starting | KindState::Listing(_)))
        })
    };
    wait_until(is_known, MOMENT * 5, KINDS).await;
}
