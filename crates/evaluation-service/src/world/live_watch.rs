//! A watch that is restarted when it is silent for too long.
//!
//! A connection that was lost without an error looks like a quiet cluster. kube waits five minutes for such a watch,
//! and the service could not answer for most of that time. The API server sends something about once a minute, so a
//! longer silence means a lost connection. (For a kind without changes since the API server started, it sends nothing
//! until the kind is listed: seen on 1.35.) A restart begins with a list, which shows the cluster as of now and waits
//! for no event.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::runtime::watcher::Event;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tracing::info;

/// Longer than the minute between two bookmarks, shorter than the shortest bound on staleness.
const SILENCE: Duration = Duration::from_secs(75);

/// The events of one watch after another.
pub(super) struct LiveWatch<K, B> {
    begin: B,
    events: BoxStream<'static, Event<K>>,
    /// Notified of everything that is received on the watch, also of bookmarks.
    alive: Arc<Notify>,
    /// None during a list, which has limits of its own.
    silent_at: Option<Instant>,
}

impl<K, B: Fn() -> BoxStream<'static, Event<K>>> LiveWatch<K, B> {
    pub(super) fn new(begin: B, alive: Arc<Notify>) -> Self {
        Self {
            events: begin(),
            begin,
            alive,
            silent_at: None,
        }
    }

    /// The next event. None when there will be none.
    pub(super) async fn next(&mut self, name: &str) -> Option<Event<K>> {
        loop {
            let silent_at = self.silent_at;
            let silence = async {
                match silent_at {
                    Some(moment) => sleep_until(moment).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // Received events are processed before the watch counts as silent.
                biased;
                event = self.events.next() => {
                    self.silent_at = match event {
                        Some(Event::Init | Event::InitApply(_)) => None,
                        Some(Event::InitDone | Event::Apply(_) | Event::Delete(_)) | None => Some(later()),
                    };
                    return event;
                }
                () = self.alive.notified() => {
                    self.silent_at = self.silent_at.map(|_| later());
                }
                () = silence => {
                    // A kind without objects is silent as well.
                    info!(watch = name, "nothing came for {SILENCE:?}: the watch begins anew");
                    self.events = (self.begin)();
                    self.silent_at = None;
                }
            }
        }
    }
}

fn later() -> Instant {
    Instant::now() + SILENCE
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::stream;
    use tokio::time::{sleep, timeout};

    use super::*;

    /// Watches that list two objects and then say nothing; how often one was begun.
    fn silent() -> (Arc<AtomicUsize>, Arc<Notify>, impl Future<Output = ()>) {
        let (started, alive) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let counted = Arc::clone(&started);
        let begin = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            let list = [
                Event::Init,
                Event::InitApply(1),
                Event::InitApply(2),
                Event::InitDone,
            ];
            // A list may pause between two objects.
            let list = stream::iter(list).then(async |event| {
                sleep(Duration::from_mins(1)).await;
                event
            });
            list.chain(stream::pending()).boxed()
        };
        let mut events = LiveWatch::new(begin, Arc::clone(&alive));
        let running = async move { while events.next("numbers").await.is_some() {} };
        (started, alive, running)
    }

    /// The duration of one list.
    const LIST: Duration = Duration::from_mins(4);

    #[tokio::test(start_paused = true)]
    async fn a_silent_watch_begins_anew_and_a_slow_list_is_let_be() {
        let (started, _alive, running) = silent();
        let count = || started.load(Ordering::Relaxed);
        let mut running = Box::pin(running);
        let second = Duration::from_secs(1);
        assert!(
            timeout(LIST + SILENCE.saturating_sub(second), &mut running)
                .await
                .is_err()
        );
        assert_eq!(count(), 1);
        assert!(timeout(2 * second, &mut running).await.is_err());
        assert_eq!(count(), 2);
        assert!(timeout(LIST + SILENCE, &mut running).await.is_err());
        assert_eq!(count(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_on_which_anything_comes_goes_on() {
        let (started, alive, running) = silent();
        let bookmarks = async {
            for _ in 0..100 {
                sleep(Duration::from_secs(62)).await;
                alive.notify_one();
            }
        };
        tokio::select! {
            () = running => panic!("it has no end"),
            () = bookmarks => {}
        }
        assert_eq!(started.load(Ordering::Relaxed), 1);
    }
}
