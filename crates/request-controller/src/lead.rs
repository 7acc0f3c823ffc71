//! The work of a leader, in its order: a sweep, which needs no cache, then the requests with a grant, then everything
//! else.

#[cfg(test)]
mod tests;

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
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::{
    cache::{Job, KindState},
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

/// The leading replica.
pub struct Leading {
    /// Reconciles requests.
    pub reconciler: Arc<Reconciler>,
    /// Whether the caches are complete.
    pub caches: Caches,
    /// How often everything managed is compared with the requests.
    pub every: Duration,
}

impl Leader for Leading {
    async fn lead(&self, first_sweep: &mut Option<ReadinessPart>) {
        let Self {
            reconciler,
            caches,
            every,
        } = self;
        reconciler.queue.listen();
        begin(reconciler, caches, *every).await;
        if let Some(part) = first_sweep.take() {
            part.ready();
        }
        loop {
            about(*every).await;
            swept(reconciler, PAUSES).await;
            wake_all(reconciler);
        }
    }

    fn pause(&self) {
        self.reconciler.queue.close();
    }
}

async fn begin(reconciler: &Reconciler, caches: &Caches, every: Duration) {
    let mut last = swept(reconciler, PAUSES).await;
    caches_known(reconciler, &caches.of_grants, every, &mut last, |_| ()).await;
    kinds_known(reconciler).await;
    wake_holding(reconciler);
    reconciler.queue.open(Urgency::Urgent);
    let is_drained = || reconciler.queue.is_drained(Urgency::Urgent);
    wait_until(is_drained, MOMENT, FIRST_LOOK).await;
    caches_known(reconciler, &caches.complete, every, &mut last, wake_holding).await;
    wake_all(reconciler);
    reconciler.queue.open(Urgency::Normal);
}

/// Waits until these caches are complete. Meanwhile the sweep is repeated, so that stray grants are removed even if a
/// kind is unavailable for long. The first sweep of each interval wakes what it would wake later.
async fn caches_known(
    reconciler: &Reconciler,
    caches: &Readiness,
    every: Duration,
    last: &mut Swept,
    wake: fn(&Reconciler),
) {
    let mut pauses = LEFT;
    let mut woken = Instant::now();
    loop {
        let pause = if last.left == 0 {
            every
        } else {
            pauses.pause()
        };
        tokio::select! {
            biased;
            () = caches.ready() => return,
            () = sleep(pause) => {
                *last = swept(reconciler, PAUSES).await;
                if woken.elapsed() >= every {
                    wake(reconciler);
                    woken = Instant::now();
                }
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

/// Repeats the sweep until one succeeds, because nothing else may begin before.
async fn swept(reconciler: &Reconciler, mut pauses: Backoff) -> Swept {
    loop {
        match sweep(reconciler).await {
            Ok(swept) => {
                reconciler.metrics.sweeps.with_label_values(&["ok"]).inc();
                return swept;
            }
            Err(error) => {
                reconciler
                    .metrics
                    .sweeps
                    .with_label_values(&["failed"])
                    .inc();
                warn!(error = report(&error), "the sweep failed and is repeated");
                sleep(pauses.pause()).await;
            }
        }
    }
}

/// Wakes all requests with a grant.
fn wake_holding(reconciler: &Reconciler) {
    let holding: Vec<_> = {
        let state = reconciler.world.read();
        let all = state.requests.all().into_iter();
        all.filter(|it| state.requests.holds(it)).collect()
    };
    info!(
        requests = holding.len(),
        "looking at everything that holds something"
    );
    for name in holding {
        reconciler.queue.wake(Job::Request(name), Urgency::Urgent);
    }
}

/// Wakes all requests and all gates, in case an event was lost.
fn wake_all(reconciler: &Reconciler) {
    let state = reconciler.world.read();
    let mut wakes = state.requests.wakes(state.requests.all());
    wakes.extend(state.gated.wakes());
    drop(state);
    for (job, lane) in wakes {
        reconciler.queue.wake(job, lane);
    }
}
