//! How a process ends: on a signal, or because one of its tasks did.
//!
//! The first SIGTERM or SIGINT makes the process unready, tells every task to stop and waits for them until a
//! deadline; the process then ends with 0. A second signal ends it at once with 1. A task that ends without a
//! stop signal, with or without an error, ends the process too, with 1: half a service that still reports
//! ready is worse than none.

use std::{
    collections::HashMap, convert::Infallible, error::Error, fmt, future::pending, io,
    time::Duration,
};

use futures::{
    FutureExt, Stream, StreamExt,
    stream::{self, BoxStream},
};
use thiserror::Error;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
    task::{Id, JoinSet},
    time::{Instant, timeout_at},
};
use tracing::{error, info, warn};

use crate::{readiness::Readiness, report};

#[cfg(test)]
mod tests;

/// The error of a task.
pub type TaskError = Box<dyn Error + Send + Sync>;

/// Signals cannot be listened to.
#[derive(Debug, Error)]
#[error("cannot listen to SIGTERM and SIGINT")]
pub struct SignalError(#[source] io::Error);

/// A signal that asks a process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM, from the kubelet
    Terminate,
    /// SIGINT, from a terminal
    Interrupt,
}

/// Listens from the moment of this call: signals before the first poll are not lost.
pub fn signals() -> Result<BoxStream<'static, Signal>, SignalError> {
    let terminate = signal(SignalKind::terminate()).map_err(SignalError)?;
    let interrupt = signal(SignalKind::interrupt()).map_err(SignalError)?;
    let next = |(mut terminate, mut interrupt): (
        tokio::signal::unix::Signal,
        tokio::signal::unix::Signal,
    )| async move {
        let signal = tokio::select! {
            _ = terminate.recv() => Signal::Terminate,
            _ = interrupt.recv() => Signal::Interrupt,
        };
        Some((signal, (terminate, interrupt)))
    };
    Ok(stream::unfold((terminate, interrupt), next).boxed())
}

/// Tells a task that it is time to end. Cheap to clone, to be asked as often as one likes.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Whether it is time to end.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is time to end.
    pub async fn stopped(&self) {
        // An error says that the tasks were dropped, which is an end as well.
        let _ = self.0.clone().wait_for(|stopping| *stopping).await;
    }
}

/// The tasks of a process, each under a name.
#[derive(Debug)]
pub struct Tasks {
    running: JoinSet<Result<(), TaskError>>,
    names: HashMap<Id, &'static str>,
    stop: watch::Sender<bool>,
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// Asked by a signal, and every task ended in time.
    Drained,
    /// Asked by a signal, but these tasks were still running at the deadline.
    Overrun(Vec<&'static str>),
    /// A second signal came before the tasks had ended.
    Aborted,
    /// A task failed, or ended without a stop signal.
    Failed(&'static str),
}

impl ProcessEnd {
    /// The exit code that the process reports to its parent.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Drained | Self::Overrun(_) => 0,
            Self::Aborted | Self::Failed(_) => 1,
        }
    }

    /// Ends the process. Returning from `main` instead would wait for blocking work that hangs.
    pub fn exit(self) -> ! {
        std::process::exit(self.exit_code().into())
    }
}

impl fmt::Display for ProcessEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drained => f.write_str("every task has ended"),
            Self::Overrun(tasks) => {
                write!(f, "still running at the deadline: {}", tasks.join(", "))
            }
            Self::Aborted => f.write_str("aborted by a second signal"),
            Self::Failed(task) => write!(f, "task {task} ended before its time"),
        }
    }
}

impl Default for Tasks {
    fn default() -> Self {
        Self::new()
    }
}

impl Tasks {
    /// No tasks yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            running: JoinSet::new(),
            names: HashMap::new(),
            stop: watch::Sender::new(false),
        }
    }

    /// The signal that tells tasks to end.
    #[must_use]
    pub fn stop(&self) -> Stop {
        Stop(self.stop.subscribe())
    }

    /// Starts a task that runs until it is told to stop.
    pub fn spawn<F, E>(&mut self, name: &'static str, task: F)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<TaskError>,
    {
        let started = self.running.spawn(async { task.await.map_err(Into::into) });
        self.names.insert(started.id(), name);
    }

    /// The same for a task that cannot fail.
    pub fn spawn_infallible<F>(&mut self, name: &'static str, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.spawn(name, task.map(Ok::<_, Infallible>));
    }

    /// Runs until the process is to end, and returns when it may.
    pub async fn run<S>(
        mut self,
        mut signals: S,
        readiness: &Readiness,
        drain: Duration,
    ) -> ProcessEnd
    where
        S: Stream<Item = Signal> + Unpin,
    {
        let mut asked = false;
        let mut failed = None;
        tokio::select! {
            biased;
            signal = next_signal(&mut signals) => {
                info!(?signal, "stopping");
                asked = true;
            }
            // A failure or not: the task got no stop signal.
            (name, _) = self.next_end() => failed = Some(name),
        }
        // Unready first: no client should send work to a server that is about to stop.
        readiness.stop();
        self.stop.send_replace(true);

        let deadline = Instant::now() + drain;
        while !self.running.is_empty() {
            tokio::select! {
                biased;
                signal = next_signal(&mut signals) => {
                    if asked {
                        warn!(?signal, "aborting");
                        return ProcessEnd::Aborted;
                    }
                    asked = true;
                }
                ended = timeout_at(deadline, self.next_end()) => match ended {
                    Ok((_, true)) => {}
                    Ok((name, false)) => failed = failed.or(Some(name)),
                    Err(_) => break,
                },
            }
        }
        self.outcome(failed)
    }

    fn outcome(&self, failed: Option<&'static str>) -> ProcessEnd {
        let mut late: Vec<_> = self.names.values().copied().collect();
        late.sort_unstable();
        let outcome = match failed {
            Some(name) => ProcessEnd::Failed(name),
            None if late.is_empty() => ProcessEnd::Drained,
            None => ProcessEnd::Overrun(late.clone()),
        };
        if late.is_empty() {
            info!(%outcome, "stopped");
        } else {
            warn!(%outcome, ?late, "stopped");
        }
        outcome
    }

    /// The next task that ends, and whether it ended well. Waits for ever when there is none.
    async fn next_end(&mut self) -> (&'static str, bool) {
        let Some(ended) = self.running.join_next_with_id().await else {
            return pending().await;
        };
        let (id, problem) = match ended {
            Ok((id, Ok(()))) => (id, None),
            Ok((id, Err(problem))) => (id, Some(report(problem.as_ref()))),
            Err(panic) => (panic.id(), Some(panic.to_string())),
        };
        let task = self.names.remove(&id).unwrap_or("unknown");
        let well = problem.is_none();
        if let Some(problem) = problem {
            error!(task, problem, "task failed");
        } else {
            info!(task, "task ended");
        }
        (task, well)
    }
}

/// Waits for ever when there are no further signals.
async fn next_signal<S: Stream<Item = Signal> + Unpin>(signals: &mut S) -> Signal {
    match signals.next().await {
        Some(signal) => signal,
        None => pending().await,
    }
}
