//! What a leader does, in its order: what belongs to no policy any more goes, then every policy is looked at,
//! those that hold something first; and the same again every few minutes, for whatever no event told. A part of the
//! policies is read anew each time, for what the caches do not know.

use std::{sync::Arc, time::Duration};

use service_kit::{
    chance, lease::Leadership, readiness::Part, report, retry::Backoff, shutdown::Stop,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tracing::{info, warn};

use crate::{
    queue::Urgency,
    reconcile::{Reconciler, Swept, Turn},
    world::Job,
};

const PAUSES: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
/// How long the first look at everything that holds something may take before the rest begins.
const FIRST_LOOK: Duration = Duration::from_secs(30);
const MOMENT: Duration = Duration::from_millis(20);
/// How often a sweep that cannot read is repeated before the work begins all the same.
const ATTEMPTS: usize = 3;

/// Leads whenever this process is the leader, until it is time to end.
pub async fn lead(
    reconciler: Arc<Reconciler>,
    mut leadership: watch::Receiver<Leadership>,
    caches: impl Future<Output = ()>,
    first_sweep: Part,
    every: Duration,
    stop: Stop,
) {
    let mut first_sweep = Some(first_sweep);
    let led = async {
        caches.await;
        while Leadership::known(&mut leadership).await {
            if leadership.borrow().is_leader() {
                tokio::select! {
                    biased;
                    () = Leadership::lost(leadership.clone()) => {}
                    () = go_on(&reconciler, &mut first_sweep, every) => {}
                }
                info!("starting no more work: another process leads");
                reconciler.queue.close();
            } else if let Some(part) = first_sweep.take() {
                // Somebody else leads, and sweeps.
                part.ready();
            }
        }
    };
    tokio::select! {
        biased;
        () = stop.stopped() => {}
        () = led => {}
    }
}

async fn go_on(reconciler: &Reconciler, first_sweep: &mut Option<Part>, every: Duration) {
    let queue = &reconciler.queue;
    queue.close();
    // The caches were listed a moment ago.
    let left = swept(reconciler, None).await;
    wake_all(reconciler, Urgency::Urgent);
    wake_left(reconciler, left);
    queue.open();
    let deadline = Instant::now() + FIRST_LOOK;
    while queue.depth() > 0 && Instant::now() < deadline {
        sleep(MOMENT).await;
    }
    let mut turn = Turn::default();
    loop {
        wake_all(reconciler, Urgency::Normal);
        if let Some(part) = first_sweep.take() {
            part.ready();
        }
        // Not all replicas of all installations at the same moment.
        sleep(every.mul_f64(0.9 + chance::fraction() / 5.0)).await;
        let left = swept(reconciler, Some(turn)).await;
        turn = turn.next();
        wake_left(reconciler, left);
    }
}

fn wake_left(reconciler: &Reconciler, left: Vec<Job>) {
    for job in left {
        reconciler.queue.wake(job, Urgency::Urgent);
    }
}

/// Everything that is at least that urgent.
fn wake_all(reconciler: &Reconciler, least: Urgency) {
    let all = reconciler.world.read().all();
    for (job, urgency) in all {
        if urgency <= least {
            reconciler.queue.wake(job, urgency);
        }
    }
}

/// Says what could not be taken away.
async fn swept(reconciler: &Reconciler, turn: Option<Turn>) -> Vec<Job> {
    let mut pauses = PAUSES;
    for _ in 0..ATTEMPTS {
        let swept = reconciler.sweep(turn).await;
        let is_whole = swept.as_ref().is_ok_and(|it| it.left.is_empty());
        let result = if is_whole { "ok" } else { "failed" };
        let sweeps = &reconciler.metrics.sweeps;
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
