//! Many questions over one stream.
//!
//! Who subscribes writes into a shared table and wakes the session, which alone talks to the server.
//! Nothing queues up: a question is in the table once, and a subscriber sees the latest event only,
//! however slow it is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};
use tonic::Code;

use super::{Service, session};
use crate::access::{AccessAnswer, AccessQuestion};
use crate::refusal::Refusal;
use crate::v1::{
    Subscribe, Unsubscribe, WatchAccessRequest, WatchAccessResponse, watch_access_request::Action,
    watch_access_response::Event as WireEvent,
};

/// What is known about a question now. Only an answer that says so is a yes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The current answer.
    Answer(Box<AccessAnswer>),
    /// The service does not answer this question, or not in a way that can be used.
    Refused(Refusal),
    /// The service cannot be reached: an earlier answer may not hold any more. The question is asked
    /// again as soon as it can be.
    Disconnected,
}

/// Subscribes questions. Clones share one stream, which is open while anybody is interested.
#[derive(Clone)]
pub struct AccessWatcher {
    table: Arc<Table>,
    _interest: Arc<Interest>,
}

/// One question that is being followed, until it is dropped.
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

/// The questions of the process. Ids are never used again, not even on another stream.
#[derive(Default)]
pub(super) struct Table {
    inner: Mutex<Questions>,
    /// Wakes the session: something is to be said, or everything is over.
    pub(super) changed: Notify,
}

#[derive(Default)]
pub(super) struct Questions {
    next: u64,
    open: BTreeMap<u64, Open>,
    /// Not subscribed on the present stream yet.
    unsaid: BTreeSet<u64>,
    /// Subscribed on the present stream, and nobody listens any more.
    dropped: BTreeSet<u64>,
    pub(super) closed: bool,
}

struct Open {
    question: AccessQuestion,
    events: watch::Sender<Option<Event>>,
}

impl AccessWatcher {
    pub(super) fn start(service: Service) -> Self {
        let table = Arc::new(Table::default());
        tokio::spawn(session::run(service, Arc::clone(&table)));
        Self {
            _interest: Arc::new(Interest(Arc::clone(&table))),
            table,
        }
    }

    /// Asks, and keeps asking until the subscription is dropped.
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
    /// The next thing to know, which is the latest there is: what came and went in between is not
    /// told. None when the client's task is gone, which only the end of the runtime can bring about.
    ///
    /// Nothing is lost when the future is dropped before it is done.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            self.events.changed().await.ok()?;
            if let Some(event) = self.events.borrow_and_update().clone() {
                return Some(event);
            }
        }
    }

    /// What is known now; nothing before the first event.
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
    pub(super) fn lock(&self) -> MutexGuard<'_, Questions> {
        // Every change is one step, so a panic elsewhere leaves the table whole.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Questions {
    fn add(&mut self, question: AccessQuestion, events: watch::Sender<Option<Event>>) -> u64 {
        self.next += 1;
        self.open.insert(self.next, Open { question, events });
        self.unsaid.insert(self.next);
        self.next
    }

    fn remove(&mut self, id: u64) {
        // One that the server has not heard of needs no goodbye.
        if self.open.remove(&id).is_some() && !self.unsaid.remove(&id) {
            self.dropped.insert(id);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// A new stream knows of nothing.
    pub(super) fn start_over(&mut self) {
        self.dropped.clear();
        self.unsaid = self.open.keys().copied().collect();
    }

    pub(super) fn has_something_to_say(&self) -> bool {
        !self.dropped.is_empty() || !self.unsaid.is_empty()
    }

    /// The next thing to tell the server. Goodbyes first: they make room.
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

    /// Hands on what the server says. Something about a question that nobody follows any more, or a
    /// word that is not understood, is not passed on as an answer.
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

    /// Tells everybody once that their answers are stale.
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
    Event::Refused(Refusal {
        code: Code::Internal,
        reason: None,
        message,
    })
}
