//! The parts of every controller: a queue of jobs, workers, watches that fill it, and the start order of a
//! leader.
//!
//! Owns: the order of the jobs, and the enforcement of shares and pauses. Each controller gives the numbers
//! of workers, shares and pauses in its own `controller.rs`. Refuses to know: the meaning of a job, and the
//! content of a look.
//!
//! Invariant: one worker looks at a job at a time; a job that comes up meanwhile is looked at once more; an urgent job
//! never waits for a job that is not.

pub mod feeds;
pub mod leader;
pub mod leader_metrics;
pub mod queue;
pub mod worker;

use std::{fmt::Debug, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt;
use prometheus::IntCounter;
use tokio::time::sleep;
use tracing::error;

use crate::shutdown::Stop;

/// Whether this process leads. The answer can change at any time, so every write asks again.
pub type Leads = Arc<dyn Fn() -> bool + Send + Sync>;

/// Repeats a measurement until the process is to end.
pub async fn measure(every: Duration, stop: Stop, measurement: impl Fn()) {
    loop {
        measurement();
        tokio::select! {
            biased;
            () = stop.stopped() => return,
            () = sleep(every) => {}
        }
    }
}

/// The result of a look at a job. A panic is counted and becomes this error, because one job must not stop the work on
/// all others.
pub async fn unless_panicked<T, E>(
    panics: &IntCounter,
    job: &impl Debug,
    panicked: E,
    look: impl Future<Output = Result<T, E>> + Send,
) -> Result<T, E> {
    let look = AssertUnwindSafe(look).catch_unwind().boxed();
    look.await.unwrap_or_else(|_| {
        panics.inc();
        error!(?job, "a look panicked");
        Err(panicked)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::time::timeout;

    use super::*;
    use crate::shutdown::Tasks;

    #[tokio::test(start_paused = true)]
    async fn a_measurement_is_repeated_until_the_process_ends() {
        let (count, tasks) = (Arc::new(AtomicU32::new(0)), Tasks::new());
        let (counted, stop) = (Arc::clone(&count), tasks.stop());
        let every = Duration::from_secs(10);
        let measuring = tokio::spawn(measure(every, stop, move || {
            counted.fetch_add(1, Ordering::SeqCst);
        }));
        sleep(Duration::from_secs(25)).await;
        assert_eq!(count.load(Ordering::SeqCst), 3);
        drop(tasks);
        timeout(every, measuring).await.unwrap().unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 3);
    }
}
