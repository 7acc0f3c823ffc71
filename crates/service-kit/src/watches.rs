//! Guarded watches: one object that cannot be read never hides the others, nor its own change.
//!
//! kube's `watcher` fails as a whole when one object does not parse, and lists again for ever. Its
//! `DeserializeGuard` repairs most of that, but parses all JSON into a tree first. `serde_json` refuses trees
//! deeper than 128 levels, but the API server stores such objects. So any account that may create one could
//! stop every watch of its kind: a whole page of a list fails again and again, and a line of a watch is
//! skipped in silence, which leaves the object's last version in the cache.
//!
//! [`Guarded`] takes each object as its text first, which `serde_json` finds without recursion at any depth,
//! and parses it on its own. The remaining case is a line that is no JSON at all: the watch then starts over
//! with a list, because an event was lost.
//!
//! An unreadable object arrives as an event like every other, as [`Unreadable`]. Consumers treat it as an
//! object that exists without content, and forget its last readable version.

mod changes;
mod guarded;
mod named;
mod observed;

#[cfg(test)]
mod tests;

use std::{fmt::Debug, time::Duration};

use futures::{
    Stream, StreamExt,
    stream::{BoxStream, unfold},
};
use kube::{
    Api, Resource,
    runtime::watcher::{Config, Error, Event, watcher},
};
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use crate::{readiness::ReadinessPart, report, retry::Backoff};
use observed::ObservedWatch;

pub use changes::{Change, Changes, ListState};
pub use guarded::{Guarded, Parse, Plain, Unreadable};
pub use named::{Identity, Labelled, Named, read};
pub use observed::WatchMetrics;

/// Short enough that a decision is not late for long, long enough for a server that has to recover.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));
/// Errors that lie further apart than this are not one trouble.
const CALM: Duration = Duration::from_mins(1);

/// How long a list may pause between two of its objects. Later on the watch itself has a limit.
const LISTING: Duration = Duration::from_mins(2);

/// A watch that is about to start.
#[derive(Debug)]
pub struct Watch<'a> {
    /// The watched kind, in the plural, for logs and metrics.
    pub name: &'a str,
    /// Which objects, and how they are listed.
    pub config: Config,
    /// Released with the first complete list. A watch that may never succeed, of a kind that may not
    /// exist, has none.
    pub ready: Option<ReadinessPart>,
    /// Where its troubles are counted.
    pub metrics: &'a WatchMetrics,
}

impl Watch<'_> {
    /// Watches for ever: errors are logged, counted and followed by a pause, and never end the stream.
    pub fn start<K, P>(
        self,
        api: Api<Guarded<K, P>>,
    ) -> impl Stream<Item = Event<Guarded<K, P>>> + Send + use<K, P>
    where
        K: Resource + Clone + Debug + Send + 'static,
        P: Parse<K> + 'static,
    {
        let running = RunningWatch {
            events: watcher(api.clone(), self.config.clone()).boxed(),
            observed: self.metrics.observe(self.name),
            name: self.name.to_owned(),
            config: self.config,
            ready: self.ready,
            listing: true,
            trouble: WatchPauses {
                pauses: PAUSES,
                last: None,
            },
            api,
        };
        unfold(running, |mut running| async {
            let event = running.next().await;
            Some((event, running))
        })
    }
}

struct RunningWatch<K: Clone, P> {
    name: String,
    api: Api<Guarded<K, P>>,
    config: Config,
    events: BoxStream<'static, Result<Event<Guarded<K, P>>, Error>>,
    ready: Option<ReadinessPart>,
    /// Whether the list is not complete yet.
    listing: bool,
    observed: ObservedWatch,
    trouble: WatchPauses,
}

impl<K, P> RunningWatch<K, P>
where
    K: Resource + Clone + Debug + Send + 'static,
    P: Parse<K> + 'static,
{
    async fn next(&mut self) -> Event<Guarded<K, P>> {
        loop {
            let next = self.events.next();
            let next = if self.listing {
                timeout(LISTING, next).await
            } else {
                Ok(next.await)
            };
            match next {
                Ok(Some(Ok(event))) => {
                    self.observed.event(&event);
                    match event {
                        Event::Init => self.listing = true,
                        Event::InitDone => self.listed(),
                        Event::InitApply(_) | Event::Apply(_) | Event::Delete(_) => {}
                    }
                    return event;
                }
                Ok(Some(Err(error))) => {
                    self.observed.restart();
                    warn!(
                        watch = self.name,
                        error = report(&error),
                        "watch interrupted"
                    );
                    if lost_an_event(&error) {
                        self.start_over();
                    }
                }
                Err(_) => {
                    self.observed.restart();
                    warn!(watch = self.name, "the list does not go on");
                    self.start_over();
                }
                // It has no end of its own; if it ever gets one, the watch still has none.
                Ok(None) => self.start_over(),
            }
            sleep(self.trouble.pause(Instant::now())).await;
        }
    }

    fn start_over(&mut self) {
        self.listing = true;
        self.events = watcher(self.api.clone(), self.config.clone()).boxed();
    }

    fn listed(&mut self) {
        self.listing = false;
        info!(watch = self.name, "watch has a complete list");
        if let Some(ready) = self.ready.take() {
            ready.ready();
        }
    }
}

/// kube reads on after a line that it cannot parse, as if nothing had happened.
fn lost_an_event(error: &Error) -> bool {
    matches!(
        error,
        Error::WatchFailed(
            kube::Error::SerdeError(_) | kube::Error::LinesCodecMaxLineLengthExceeded
        )
    )
}

/// Pauses that start small again after a calm time, not after the first success: a server that lists
/// well and breaks every watch would otherwise be listed without end.
#[derive(Debug)]
struct WatchPauses {
    pauses: Backoff,
    last: Option<Instant>,
}

impl WatchPauses {
    fn pause(&mut self, now: Instant) -> Duration {
        if self.last.is_some_and(|last| now - last > CALM) {
            self.pauses.reset();
        }
        self.last = Some(now);
        self.pauses.pause()
    }
}
