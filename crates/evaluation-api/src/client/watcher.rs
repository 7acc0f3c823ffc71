//! Many questions over one stream.
//!
//! Subscribers write into a shared table and wake the session, which alone talks to the server. There are no
//! queues: a question is in the table once, and a subscriber sees the latest event only, however slow it is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};
use tonic::Code;

use crate::access::{AccessAnswer, AccessQuestion};
use crate::refusal::QuestionRefusal;
use crate::v1::{
    Subscribe, Unsubscribe, WatchAccessRequest, WatchAccessResponse, watch_access_request::Action,
    watch_access_response::Event as WireEvent,
};

/// The current state of a question. Only a positive answer is a yes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The current answer.
    Answer(Box<AccessAnswer>),
    /// The service refuses this question, or its answer cannot be used.
    Refused(QuestionRefusal),
    /// The service cannot be reached, so an earlier answer may be outdated. The question is subscribed again
    /// as soon as possible.
    Disconnected,
}

/// Subscribes questions. Clones share one stream, which is open as long as there are watchers or
/// subscriptions.
#[derive(Clone)]
pub struct AccessWatcher {
    table: Arc<Table>,
    _interest: Arc<Interest>,
}

/// One watched question, until it is dropped.
#[derive(Debug)]
pub struct Subscription {
    id: u64,
    events: watch::Receiver<Option<Event>>,
    watcher: AccessWatcher,
}

/// Ends the session with the last watcher and the last subscription.
struct Interest(Arc<Table>);

impl Drop for Interest {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.changed.notify_one();
    }
}

/// The questions of the process. Ids are never reused, not even on another stream.
#[derive(Default)]
pub(super) struct Table {
    inner: Mutex<WatchedQuestions>,
    /// Wakes the session: there is something to send, or the session should end.
    pub(super) changed: Notify,
}

#[derive(Default)]
pub(super) struct WatchedQuestions {
    next: u64,
    open: BTreeMap<u64, OpenStream>,
    /// Not yet subscribed on the current stream.
    unsaid: BTreeSet<u64>,
    /// Subscribed on the current stream, but the subscription was dropped.
    dropped: BTreeSet<u64>,
    pub(super) closed: bool,
}

struct OpenStream {
    question: AccessQuestion,
    events: watch::Sender<Option<Event>>,
}

impl AccessWatcher {
    pub(super) fn of(table: Arc<Table>) -> Self {
        Self {
            _interest: Arc::new(Interest(Arc::clone(&table))),
            table,
        }
    }

    /// Subscribes a question until the subscription is dropped.
    #[must_use]
    pub fn watch(&self, question: AccessQuestion) -> Subscription {
        let (sender, events) = watch::channel(None);
        let id = self.table.lock().add(question, sender);
        self.table.changed.notify_one();
        Subscription {
            id,
            events,
            watcher: self.clone(),
        }
    }
}

impl Subscription {
    /// The next event, which is always the latest: events in between are skipped. None when the client's task
    /// has ended, at the end of the runtime or by a panic.
    ///
    /// Cancel-safe: dropping the future loses no event.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            self.events.changed().await.ok()?;
            if let Some(event) = self.events.borrow_and_update().clone() {
                return Some(event);
            }
        }
    }

    /// The latest event; none before the first.
    #[must_use]
    pub fn latest(&self) -> Option<Event> {
        self.events.borrow().clone()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.watcher.table.lock().remove(self.id);
        self.watcher.table.changed.notify_one();
    }
}

impl fmt::Debug for AccessWatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessWatcher")
            .field("questions", &self.table.lock().open.len())
            .finish_non_exhaustive()
    }
}

impl Table {
    pub(super) fn lock(&self) -> MutexGuard<'_, WatchedQuestions> {
        // Every change is one step, so a panic elsewhere leaves the table consistent.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WatchedQuestions {
    fn add(&mut self, question: AccessQuestion, events: watch::Sender<Option<Event>>) -> u64 {
        self.next += 1;
        // Without a session the sender is dropped, so that the subscriber does not wait.
        if self.closed {
            events.send_replace(Some(Event::Disconnected));
        } else {
            self.open.insert(self.next, OpenStream { question, events });
            self.unsaid.insert(self.next);
        }
        self.next
    }

    /// There is no session any more. No answer counts, and there will be no other.
    pub(super) fn end(&mut self) {
        self.closed = true;
        self.disconnected();
        self.open.clear();
    }

    fn remove(&mut self, id: u64) {
        // A question that was not sent to the server need not be unsubscribed.
        if self.open.remove(&id).is_some() && !self.unsaid.remove(&id) {
            self.dropped.insert(id);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Resets the state for a new stream, which has no subscriptions.
    pub(super) fn start_over(&mut self) {
        self.dropped.clear();
        self.unsaid = self.open.keys().copied().collect();
    }

    pub(super) fn has_something_to_say(&self) -> bool {
        !self.dropped.is_empty() || !self.unsaid.is_empty()
    }

    /// The next message to the server. Unsubscriptions come first, because they free capacity.
    pub(super) fn say(&mut self) -> Option<WatchAccessRequest> {
        if let Some(id) = self.dropped.pop_first() {
            let action = Action::Unsubscribe(Unsubscribe { id });
            return Some(WatchAccessRequest {
                action: Some(action),
            });
        }
        let id = self.unsaid.pop_first()?;
        let question = self.open.get(&id)?.question.clone();
        let action = Action::Subscribe(Subscribe {
            id,
            question: Some(question.into()),
        });
        Some(WatchAccessRequest {
            action: Some(action),
        })
    }

    /// Distributes an event of the server. Events of dropped questions are ignored. Events that are not
    /// understood are not passed on as an answer.
    pub(super) fn hear(&mut self, WatchAccessResponse { id, event }: WatchAccessResponse) {
        let Some(open) = self.open.get(&id) else {
            return;
        };
        let event = match event {
            Some(WireEvent::Answer(answer)) => AccessAnswer::try_from(answer).map_or_else(
                |error| unusable(error.to_string()),
                |answer| Event::Answer(Box::new(answer)),
            ),
            Some(WireEvent::Refusal(refusal)) => Event::Refused(refusal.into()),
            None => unusable("the answer is empty".to_owned()),
        };
        open.events.send_replace(Some(event));
    }

    /// Tells every subscriber once that its answer is stale.
    pub(super) fn disconnected(&mut self) {
        for open in self.open.values() {
            open.events.send_if_modified(|event| {
                let is_news = *event != Some(Event::Disconnected);
                *event = Some(Event::Disconnected);
                is_news
            });
        }
    }
}

fn unusable(message: String) -> Event {
    Event::Refused(QuestionRefusal {
        code: Code::Internal,
        reason: None,
        message,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::question;
    use super::*;

    mod model;

    #[test]
    fn the_server_hears_of_the_end_of_those_questions_alone_that_it_knows() {
        let mut questions = WatchedQuestions::default();
        let add = |questions: &mut WatchedQuestions| {
            let (events, _) = watch::channel(None);
            questions.add(question("harbor"), events)
        };
        let never_said = add(&mut questions);
        questions.remove(never_said);
        questions.remove(77);
        assert!(!questions.has_something_to_say());
        assert_eq!(questions.say(), None);

        let id = add(&mut questions);
        assert!(questions.has_something_to_say());
        let said = questions.say().unwrap().action.unwrap();
        assert!(
            matches!(&said, Action::Subscribe(it) if it.id == id),
            "{said:?}"
        );
        assert!(!questions.has_something_to_say());

        questions.remove(id);
        assert!(questions.has_something_to_say());
        let said = questions.say().unwrap().action;
        assert_eq!(said, Some(Action::Unsubscribe(Unsubscribe { id })));
        assert!(!questions.has_something_to_say());
    }
}
