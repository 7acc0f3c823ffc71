//! The session: one stream after another, as long as there are watchers or subscriptions.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};
use tracing::{debug, warn};

use super::watcher::Table;
use super::{ClientParts, EvaluationCallError};
use crate::v1::{WatchAccessRequest, WatchAccessResponse};

/// The deadline of starting a stream.
const BEGIN: Duration = Duration::from_secs(10);
/// Backoff after failures: the initial and the longest pause.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A stream that lasted this long resets the backoff.
const GOOD: Duration = Duration::from_secs(10);
/// The capacity of messages that are not written to the network yet.
const UNWRITTEN: usize = 64;

/// Tells all subscribers that the session has ended, for any reason.
struct SessionEnd(Arc<Table>);

impl Drop for SessionEnd {
    fn drop(&mut self) {
        self.0.lock().end();
    }
}

/// Runs until there are no watchers and no subscriptions.
pub(super) async fn run(service: ClientParts, table: Arc<Table>) {
    let _end = SessionEnd(Arc::clone(&table));
    let mut pause = Duration::ZERO;
    while wanted(&table).await {
        let started = Instant::now();
        let ended = stream(&service, &table).await;
        table.lock().disconnected();
        pause = next_pause(pause, started.elapsed());
        match ended {
            Ok(()) => debug!("the stream of access answers ended"),
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                warn!(error, "the stream of access answers ended");
            }
        }
        tokio::select! {
            // Jitter, so that not all callers reconnect at the same time.
            () = sleep(pause.mul_f64(rand::random_range(0.5..1.0))) => {}
            () = closed(&table) => return,
        }
    }
}

/// The pause after a stream that lasted so long. `last` is the pause before it; zero if there was none.
fn next_pause(last: Duration, lasted: Duration) -> Duration {
    if lasted >= GOOD {
        return FIRST_PAUSE;
    }
    (last * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE)
}

/// Waits for the first question; false when there will be none.
async fn wanted(table: &Table) -> bool {
    loop {
        {
            let questions = table.lock();
            if questions.closed {
                return false;
            }
            if !questions.is_empty() {
                return true;
            }
        }
        table.changed.notified().await;
    }
}

async fn closed(table: &Table) {
    while !table.lock().closed {
        table.changed.notified().await;
    }
}

/// Runs one stream until it ends.
async fn stream(service: &ClientParts, table: &Table) -> Result<(), EvaluationCallError> {
    let (said, unwritten) = mpsc::channel(UNWRITTEN);
    table.lock().start_over();
    let heard = begin(service, unwritten);
    let heard = timeout(BEGIN, heard)
        .await
        .unwrap_or(Err(EvaluationCallError::Deadline {
            call: "WatchAccess",
            limit: BEGIN,
        }))?;
    converse(table, said, heard)
        .await
        .map_err(|status| EvaluationCallError::Status {
            call: "WatchAccess",
            status: Box::new(status),
        })
}

async fn begin(
    service: &ClientParts,
    unwritten: mpsc::Receiver<WatchAccessRequest>,
) -> Result<Streaming<WatchAccessResponse>, EvaluationCallError> {
    let ClientParts {
        mut stub, proof, ..
    } = service.clone();
    let request = proof.shown_with(ReceiverStream::new(unwritten), None)?;
    super::answered("WatchAccess", stub.watch_access(request).await)
}

/// Reads and writes concurrently: waiting to write to a server that waits to be read would be a deadlock.
async fn converse(
    table: &Table,
    said: mpsc::Sender<WatchAccessRequest>,
    mut heard: Streaming<WatchAccessResponse>,
) -> Result<(), Status> {
    loop {
        let (closed, more) = {
            let questions = table.lock();
            (questions.closed, questions.has_something_to_say())
        };
        if closed {
            return Ok(());
        }
        tokio::select! {
            message = heard.message() => match message? {
                Some(message) => table.lock().hear(message),
                None => return Ok(()),
            },
            place = said.reserve(), if more => {
                let Ok(place) = place else { return Ok(()) };
                if let Some(action) = table.lock().say() {
                    place.send(action);
                }
            },
            () = table.changed.notified() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_until_a_stream_lasted() {
        let mut pause = Duration::ZERO;
        for expected in [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000] {
            pause = next_pause(pause, GOOD.mul_f64(0.999));
            assert_eq!(pause, Duration::from_millis(expected));
        }
        assert_eq!(next_pause(pause, GOOD), FIRST_PAUSE);
    }
}
