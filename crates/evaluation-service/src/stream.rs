//! `WatchAccess`: one task per stream.
//!
//! A change wakes the task at once. The task computes answers only when there is room to send them. So a slow reader
//! gets the latest answers and never a queue of old ones.

use std::sync::Arc;
use std::time::Duration;

use crate::clock;
use authz::Learning;
use evaluation_api::access::AccessQuestion;
use evaluation_api::v1::{
    Subscribe, Unsubscribe, WatchAccessRequest, WatchAccessResponse, watch_access_request::Action,
    watch_access_response::Event,
};
use service_kit::shutdown::Stop;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout};
use tonic::{Status, Streaming};
use tracing::debug;

use crate::access_decision;
use crate::auth::{Caller, CallerReviews, Right};
use crate::error::Refused;
use crate::metrics::Metrics;
use crate::questions::Questions;
use crate::requestable;
use crate::waiting;
use crate::world::{ChangeReceiver, Shared, WorldChange};

/// A stream ends between one and two times this age, and the caller authenticates again.
const AGE: Duration = Duration::from_mins(5);
/// How often the caller's right to each namespace is reviewed again.
const AUTHORIZE_EVERY: Duration = Duration::from_secs(30);
/// Answers that are being sent.
pub(crate) const UNSENT: usize = 64;
/// Questions that are checked before other work gets its turn.
const AT_ONCE: usize = 64;
/// How long a caller may leave answers unread.
const UNREAD: Duration = Duration::from_secs(10);
/// Namespaces that are reviewed at the same time, for one stream.
const REVIEWS: usize = 8;
/// Changes to the whole cluster within this time count as one.
const TOGETHER: Duration = Duration::from_millis(20);

pub(crate) type StreamMessage = Result<WatchAccessResponse, Status>;

/// The parts of the service that a stream needs.
pub(crate) struct StreamContext {
    pub(crate) shared: Arc<Shared>,
    pub(crate) callers: CallerReviews,
    pub(crate) caller: Caller,
    pub(crate) metrics: Metrics,
    /// The maximum age of the basis of an answer.
    pub(crate) max_staleness: Duration,
    pub(crate) stop: Stop,
}

impl StreamContext {
    /// How long the known objects may still be used for answers.
    fn fresh_for(&self) -> Result<Duration, Refused> {
        let world = self.shared.read();
        world.fresh_for(clock::now(), self.max_staleness)
    }
}

struct RunningStream {
    context: StreamContext,
    questions: Questions,
    changes: ChangeReceiver,
    said: mpsc::Sender<StreamMessage>,
    reviews: JoinSet<(String, Result<(), Refused>)>,
    everything: Together,
}

/// When all questions are checked: soon after the first of several changes, however many follow.
#[derive(Debug, Default)]
struct Together(Option<Instant>);

impl Together {
    fn touch(&mut self, now: Instant) {
        self.0.get_or_insert(now + TOGETHER);
    }
}

/// Runs a stream to its end.
pub(crate) async fn run(
    context: StreamContext,
    heard: Streaming<WatchAccessRequest>,
    said: mpsc::Sender<StreamMessage>,
) {
    context.metrics.streams.inc();
    let memory = context.caller.quotas.stream_memory();
    let changes = context.shared.changes();
    let mut running = RunningStream {
        questions: Questions::new(memory, changes.marks()),
        changes,
        reviews: JoinSet::new(),
        everything: Together::default(),
        said: said.clone(),
        context,
    };
    let ended = running.converse(heard).await;
    let questions = i64::try_from(running.questions.len()).unwrap_or_default();
    running.context.metrics.subscriptions.sub(questions);
    running.context.metrics.streams.dec();
    if let Err(refused) = ended {
        debug!(reason = %refused, "a stream of access answers is ended");
        // It is lost when the caller is already gone.
        let _ = timeout(UNREAD, said.send(Err(refused.into()))).await;
    }
}

impl RunningStream {
    async fn converse(&mut self, mut heard: Streaming<WatchAccessRequest>) -> Result<(), Refused> {
        let now = Instant::now();
        let age = AGE.mul_f64(rand::random_range(1.0..2.0));
        let mut authorize = interval_at(now + AUTHORIZE_EVERY, AUTHORIZE_EVERY);
        authorize.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let stop = self.context.stop.clone();
        let unsaid = self.said.clone();
        let mut fresh_until = now + self.context.fresh_for()?;
        loop {
            let everything = self.everything.0.unwrap_or(now);
            tokio::select! {
                // A caller without any review waits for one when it has asked enough.
                message = heard.message(), if !self.waits_for_review() => match message {
                    Ok(Some(message)) => self.hear(message).await?,
                    // The caller is gone, with or without a goodbye.
                    Ok(None) | Err(_) => return Ok(()),
                },
                changes = self.changes.recv() => self.touch(&changes),
                () = sleep_until(everything), if self.everything.0.is_some() => {
                    self.everything = Together::default();
                    self.questions.touch(&WorldChange::Everything);
                }
                place = unsaid.reserve(), if self.questions.is_dirty() => {
                    let Ok(place) = place else { return Ok(()) };
                    if let Some(news) = self.news().await? {
                        place.send(Ok(news));
                    }
                }
                Some(review) = self.reviews.join_next(), if !self.reviews.is_empty() => {
                    let (namespace, result) = review.map_err(|_| Refused::Internal)?;
                    self.reviewed(&namespace, result).await?;
                    self.review();
                }
                _ = authorize.tick() => {
                    self.review_again();
                    // A grant ends at its time even without a write.
                    self.questions.touch(&WorldChange::Everything);
                }
                // A caller must not trust an old yes. The end of the stream revokes it.
                () = sleep_until(fresh_until) => {
                    fresh_until = Instant::now() + self.context.fresh_for()?;
                }
                () = sleep_until(now + age) => return Err(Refused::TooOld),
                () = stop.stopped() => return Err(Refused::NotReady),
            }
        }
    }

    async fn hear(&mut self, message: WatchAccessRequest) -> Result<(), Refused> {
        match message.action.ok_or(Refused::NoAction)? {
            Action::Unsubscribe(Unsubscribe { id }) => {
                let before = self.questions.len();
                self.questions.close(id);
                self.count(before);
            }
            Action::Subscribe(Subscribe { id, question }) => {
                match self.questions.take_id(id) {
                    Ok(()) => {}
                    Err(refused @ Refused::TooManyQuestions) => {
                        return self.refuse([id], &refused).await;
                    }
                    Err(refused) => return Err(refused),
                }
                let question: Result<AccessQuestion, _> = question.unwrap_or_default().try_into();
                let opened = question
                    .map_err(Refused::from)
                    .and_then(|question| self.open(id, question));
                if let Err(refused) = opened {
                    self.refuse([id], &refused).await?;
                }
            }
        }
        Ok(())
    }

    fn open(&mut self, id: u64, question: AccessQuestion) -> Result<(), Refused> {
        let before = self.questions.len();
        self.questions.open(id, question)?;
        self.count(before);
        self.review();
        Ok(())
    }

    fn count(&self, before: usize) {
        let change = i64::try_from(self.questions.len())
            .unwrap_or_default()
            .saturating_sub(i64::try_from(before).unwrap_or_default());
        self.context.metrics.subscriptions.add(change);
    }

    /// Starts as many reviews of namespaces as may run at the same time.
    fn review(&mut self) {
        while self.reviews.len() < REVIEWS {
            let Some(namespace) = self.questions.next_unreviewed() else {
                return;
            };
            let (callers, caller) = (self.context.callers.clone(), self.context.caller.clone());
            self.reviews.spawn(async move {
                let review = callers.authorize(&caller, Right::Mount, &namespace);
                let result = review.await;
                (namespace, result)
            });
        }
    }

    /// Reviews again, because a right may have been removed.
    fn review_again(&mut self) {
        self.questions.review_again();
        self.review();
    }

    async fn reviewed(
        &mut self,
        namespace: &str,
        result: Result<(), Refused>,
    ) -> Result<(), Refused> {
        match result {
            Ok(()) => {
                self.questions.allow(namespace);
                Ok(())
            }
            Err(Refused::Forbidden(_)) => {
                let before = self.questions.len();
                let refused = self.questions.refuse(namespace);
                self.count(before);
                let why = Refused::Forbidden(namespace.to_owned());
                self.refuse(refused, &why).await
            }
            // The right is unknown. The caller begins again, and gets no answers until it is known.
            Err(other) => Err(other),
        }
    }

    fn waits_for_review(&self) -> bool {
        !self.reviews.is_empty() && self.questions.is_unproven_and_full()
    }

    /// Refuses some questions. The caller has to read all refusals in the time of one.
    async fn refuse(
        &self,
        ids: impl IntoIterator<Item = u64>,
        refused: &Refused,
    ) -> Result<(), Refused> {
        let send = async {
            for id in ids {
                let event = Some(Event::Refusal(refused.into()));
                let sent = self.said.send(Ok(WatchAccessResponse { id, event })).await;
                // The receiving side detects that the caller is gone.
                let _ = sent;
            }
        };
        timeout(UNREAD, send).await.map_err(|_| Refused::Unread)
    }

    fn touch(&mut self, changes: &[WorldChange]) {
        for change in changes {
            match change {
                WorldChange::Everything => self.everything.touch(Instant::now()),
                WorldChange::Keys(_) | WorldChange::Namespace(_) => self.questions.touch(change),
            }
        }
    }

    /// The next answer. A no for which authorizers need lookups is sent after these.
    async fn news(&mut self) -> Result<Option<WatchAccessResponse>, Refused> {
        waiting::look(|learning| self.look(learning)).await
    }

    fn look(
        &mut self,
        mut learning: Option<&mut Vec<Learning>>,
    ) -> Result<Option<WatchAccessResponse>, Refused> {
        let StreamContext {
            shared,
            metrics,
            max_staleness,
            ..
        } = &self.context;
        let news = {
            let world = shared.read();
            let now = clock::now();
            world.fresh_for(now, *max_staleness)?;
            let answer = |question: &AccessQuestion| {
                let learning = &mut learning;
                let answer = access_decision::answer_learning(
                    &world,
                    question,
                    None,
                    now,
                    learning.as_deref_mut(),
                );
                if learning.as_ref().is_some_and(|it| !it.is_empty()) {
                    // Sent after the wait, with everything behind it.
                    return None;
                }
                let answer = requestable::add(answer, &world, question, now, *max_staleness);
                Some(answer)
            };
            self.questions.news(AT_ONCE, answer)
        };
        Ok(news.map(|(id, answer)| {
            metrics.decision(&answer);
            WatchAccessResponse {
                id,
                event: Some(Event::Answer(answer.into())),
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_changes_put_the_look_at_everything_off_no_more() {
        let mut together = Together::default();
        let now = Instant::now();
        for later in 0..100 {
            together.touch(now + later * TOGETHER / 2);
        }
        assert_eq!(together.0, Some(now + TOGETHER));
    }
}
