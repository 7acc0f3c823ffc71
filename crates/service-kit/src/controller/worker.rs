//! A worker: it takes jobs out of the queue, one after the other.

use std::{fmt::Debug, hash::Hash};

use prometheus::IntCounterVec;
use tracing::{debug, info, warn};

use super::queue::{Looked, Queue, Taken, Urgency};
use crate::{report, shutdown::Stop};

/// A controller, as its workers see it.
pub trait Controller: Send + Sync + 'static {
    /// The unit of work.
    type Job: Clone + Debug + Eq + Hash + Send + Sync + 'static;

    /// The jobs that wait.
    fn queue(&self) -> &Queue<Self::Job>;

    /// Looks at one job. It must not panic: [`unless_panicked`](super::unless_panicked).
    fn look(&self, taken: &Taken<Self::Job>) -> impl Future<Output = Looked> + Send;
}

/// Takes jobs of these urgencies until the process is to end. A look that has begun is finished.
pub async fn work(controller: &impl Controller, urgencies: &[Urgency], stop: Stop) {
    let queue = controller.queue();
    loop {
        let taken = tokio::select! {
            biased;
            () = stop.stopped() => return,
            taken = queue.take(urgencies) => taken,
        };
        let looked = controller.look(&taken).await;
        queue.done(&taken.job, looked);
    }
}

/// How much of a failed look the log tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The status of the object tells it.
    Told,
    /// It happens where nothing is wrong: another process was first, or leads now.
    Routine,
    /// Everything else.
    Problem,
}

/// Why a look failed.
pub trait LookError: std::error::Error {
    /// One word for metrics.
    fn word(&self) -> &'static str;
    /// How much of it the log tells.
    fn notice(&self) -> Notice;
}

/// Counts and logs a look that failed.
pub fn failed(job: &impl Debug, problem: &impl LookError, failures: &IntCounterVec) {
    const AGAIN: &str = "the look failed and is repeated";
    failures.with_label_values(&[problem.word()]).inc();
    let why = report(problem);
    match problem.notice() {
        Notice::Told => debug!(?job, problem = why, "{AGAIN}"),
        Notice::Routine => info!(?job, problem = why, "{AGAIN}"),
        Notice::Problem => warn!(?job, problem = why, "{AGAIN}"),
    }
}

#[cfg(test)]
mod tests;
