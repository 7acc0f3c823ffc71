//! The behaviour of a process while it leads, and while another one leads.

use std::time::Duration;

use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tracing::info;

use crate::{chance, lease::Leadership, readiness::ReadinessPart, shutdown::Stop};

/// A controller, as the leader election sees it.
pub trait Leader: Send {
    /// Leads until this is dropped: takes work again, begins, releases the part once the first sweep is over, and goes on.
    fn lead(&self, first_sweep: &mut Option<ReadinessPart>) -> impl Future<Output = ()> + Send;

    /// Starts no more work, forgets the waiting work, and takes none until it leads.
    fn pause(&self);
}

/// Leads whenever this process is the leader, until it is to end.
pub async fn follow(
    leader: impl Leader,
    mut leadership: watch::Receiver<Leadership>,
    first_sweep: ReadinessPart,
    stop: Stop,
) {
    let mut first_sweep = Some(first_sweep);
    let led = async {
        leader.pause();
        while Leadership::known(&mut leadership).await {
            if leadership.borrow().may_begin() {
                leader.pause();
                tokio::select! {
                    biased;
                    () = Leadership::lost(leadership.clone()) => {}
                    () = leader.lead(&mut first_sweep) => {}
                }
                info!("starting no more work: another process leads");
                leader.pause();
            } else if let Some(part) = first_sweep.take() {
                // Another process leads, and sweeps.
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

/// Waits for about this long. Replicas of all installations must not sweep at the same moment.
pub async fn about(period: Duration) {
    sleep(period.mul_f64(0.9 + chance::fraction() / 5.0)).await;
}

/// Waits until this holds, but no longer than a limit. It is tried again after each pause.
pub async fn wait_until(holds: impl Fn() -> bool, pause: Duration, limit: Duration) {
    let deadline = Instant::now() + limit;
    while !holds() && Instant::now() < deadline {
        sleep(pause).await;
    }
}

#[cfg(test)]
mod tests;
