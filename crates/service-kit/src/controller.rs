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
