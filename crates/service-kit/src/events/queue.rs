//! Events that a worker leaves to a task of their own, so that no decision waits for them.
//!
//! Invariant: a worker waits for its event only while the queue is full, or after the process was told to stop.

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::mpsc::{
    self, Receiver, Sender,
    error::TrySendError::{Closed, Full},
};

use super::{News, Publisher};
use crate::shutdown::Stop;

/// The number of events that wait. A thousand grants at a time have three events each.
const ROOM: usize = 4096;
/// The number of events that are sent at a time. Grants and revocations come before them at the API server.
const AT_A_TIME: usize = 2;

type WaitingEvent = (News, ObjectReference);

/// Takes events. Cheap to clone.
#[derive(Clone)]
pub struct EventQueue {
    publisher: Publisher,
    waiting: Sender<WaitingEvent>,
}

/// The other end of the queue.
pub struct EventSender {
    publisher: Publisher,
    waiting: Receiver<WaitingEvent>,
}

/// A queue, and its other end. Without the other end, each event is sent by its worker.
#[must_use]
pub fn queue(publisher: Publisher) -> (EventQueue, EventSender) {
    let (sender, waiting) = mpsc::channel(ROOM);
    let queue = EventQueue {
        publisher: publisher.clone(),
        waiting: sender,
    };
    (queue, EventSender { publisher, waiting })
}

impl EventQueue {
    /// Leaves an event to the queue, or publishes it where the queue takes none.
    pub async fn publish(&self, news: News, about: ObjectReference) {
        if let Err(Full((news, about)) | Closed((news, about))) =
            self.waiting.try_send((news, about))
        {
            self.publisher.publish(news, &about).await;
        }
    }
}

impl EventSender {
    /// Sends the events until the process stops, and then those that still wait.
    pub async fn run(self, stop: Stop) {
        let Self { publisher, waiting } = self;
        let next = |mut waiting: Receiver<WaitingEvent>| {
            let stop = stop.clone();
            async move {
                let event = tokio::select! {
                    biased;
                    () = stop.stopped() => {
                        waiting.close();
                        waiting.recv().await
                    }
                    event = waiting.recv() => event,
                };
                Some((event?, waiting))
            }
        };
        let events = stream::unfold(waiting, next);
        let send = |(news, about)| {
            let publisher = publisher.clone();
            async move { publisher.publish(news, &about).await }
        };
        events.for_each_concurrent(AT_A_TIME, send).await;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering::SeqCst},
        },
        time::Duration,
    };
    use tokio::time::timeout;

    use super::*;
    use crate::{
        events::tests::{door, news, publisher},
        fake_api::client,
        shutdown::Tasks,
    };

    /// A publisher whose events are never answered, and the number of them at a time.
    fn unanswered() -> (Publisher, Arc<AtomicUsize>) {
        let begun = Arc::new(AtomicUsize::default());
        let counted = Arc::clone(&begun);
        let client = client(move |_| {
            counted.fetch_add(1, SeqCst);
            std::future::pending()
        });
        (Publisher::new(client, "door-keeper", "one"), begun)
    }

    #[tokio::test(start_paused = true)]
    async fn no_worker_waits_for_an_event_and_few_are_sent_at_a_time() {
        let (publisher, begun) = unanswered();
        let (queue, sender) = queue(publisher);
        for number in 0..ROOM {
            let left = queue.publish(news(&number.to_string()), door());
            assert!(left.now_or_never().is_some(), "{number}");
        }
        let tasks = Tasks::new();
        let sent = timeout(Duration::from_secs(1), sender.run(tasks.stop()));
        assert!(sent.await.is_err(), "no event is answered");
        assert_eq!(begun.load(SeqCst), AT_A_TIME);
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_sends_its_event_while_the_queue_is_full() {
        let (publisher, begun) = unanswered();
        let (queue, _sender) = queue(publisher);
        for _ in 0..=ROOM {
            queue.publish(news("to ann"), door()).await;
        }
        assert_eq!(begun.load(SeqCst), 1);
    }

    #[tokio::test]
    async fn events_that_wait_are_sent_when_the_process_stops_and_later_ones_by_their_workers() {
        let (publisher, mut sent) = publisher();
        let (queue, sender) = queue(publisher);
        for note in ["to ann", "to bob"] {
            queue.publish(news(note), door()).await;
        }
        let tasks = Tasks::new();
        let stop = tasks.stop();
        drop(tasks);
        sender.run(stop).await;
        queue.publish(news("to eve"), door()).await;
        for note in ["to ann", "to bob", "to eve"] {
            assert_eq!(sent.recv().await.unwrap().1, note);
        }
    }
}
