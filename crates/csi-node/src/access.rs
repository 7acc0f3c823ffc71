//! Whether a pod may use its connectors, and the wait until it may.
//!
//! One [`Case`] per connector. The evaluation service decides, the API server confirms: both must say yes. Everything
//! else (no answer, a broken stream, an unknown word) is no yes, and the case continues to wait. A look makes
//! nothing. A case that has room to wait makes the request.

mod making;

use std::time::Duration;

use connectors_api::{
    AccessResource, ConnectorKey, access_request::Phase, foreign::waits_elsewhere,
    pod_wish::attributes::OnRejected, reason::Ready,
};
use evaluation_api::access::{AccessAnswer, Decision, RequestSeen, Requestable};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::{
    error::{PublishError, Unreachable, awaited, quota_full},
    evaluator::{AnswerStream, Evaluator, question},
    event_cache::{EventCache, Topic},
    kubernetes::{EventWord, Kubernetes, NoAnswer, review},
    refusal::AccessRefusal,
    refused_reviews::{AGE, RefusedReviews, StandingReview},
    request_quota::RequestQuota,
    volume::Wish,
};
use making::{Attempt, Making};

/// How long the API server, which reads caches, may miss a granted permission.
const UNSEEN: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_millis(800);
/// The pause between two tries while the API server does not answer. Each try already took its time.
const TROUBLED_PAUSE: Duration = Duration::from_secs(1);
/// The pause between two tries while an old request is being deleted.
const BLOCKED_PAUSE: Duration = Duration::from_secs(5);

/// The pod may use the connector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Admitted {
    /// The name of the request that gives access. Empty if none does.
    pub(crate) request: String,
    /// The time since which that is known.
    pub(crate) since: Instant,
}

/// The result of a look at an answer, when it is no error.
#[derive(Debug)]
enum AccessStep {
    Go(Admitted),
    Wait { again: Option<Duration> },
}

impl AccessStep {
    /// A wait is over after this time at the latest.
    fn within(self, left: Option<Duration>) -> Self {
        match self {
            Self::Go(_) => self,
            Self::Wait { again } => Self::Wait {
                again: again.into_iter().chain(left).min(),
            },
        }
    }
}

/// The memory of earlier calls.
#[derive(Clone, Copy)]
pub(crate) struct CaseMemory<'a> {
    /// The events that were written.
    pub(crate) events: &'a EventCache,
    /// The requests that pods caused.
    pub(crate) asked: &'a RequestQuota,
    /// The standing permissions that were refused.
    pub(crate) refused: &'a RefusedReviews,
}

/// One connector of one call.
pub(crate) struct Case<'a, E, K> {
    evaluator: &'a E,
    kubernetes: &'a K,
    events: &'a EventCache,
    refused: &'a RefusedReviews,
    wish: &'a Wish,
    connector: &'a ConnectorKey,
    making: Making<'a, K>,
    /// There is room for the wait, so that the request may be made.
    may_make: bool,
    /// When this call began.
    begun: Instant,
    /// When the API server itself refused a standing permission in this call.
    refused_at: Option<Instant>,
    /// A request was seen. When it is gone, a user wants a new start.
    seen: bool,
    /// The time since which the API server misses a permission, and the next pause.
    unseen: Option<(Instant, Duration)>,
    trouble: Option<Unreachable>,
    awaited: String,
}

impl<'a, E: Evaluator, K: Kubernetes> Case<'a, E, K> {
    /// Nothing is known yet.
    pub(crate) fn new(
        evaluator: &'a E,
        kubernetes: &'a K,
        CaseMemory {
            events,
            asked,
            refused,
        }: CaseMemory<'a>,
        wish: &'a Wish,
        connector: &'a ConnectorKey,
    ) -> Self {
        Self {
            evaluator,
            kubernetes,
            events,
            refused,
            wish,
            connector,
            making: Making::new(kubernetes, asked, wish, connector),
            may_make: false,
            begun: Instant::now(),
            refused_at: None,
            seen: false,
            unseen: None,
            trouble: Some(Unreachable::Evaluator),
            awaited: awaited(None, "", false),
        }
    }

    /// One look, which makes nothing.
    pub(crate) async fn ask(
        &mut self,
        deadline: Instant,
    ) -> Result<Option<Admitted>, PublishError> {
        let question = question(self.wish, self.connector);
        let look = async {
            let answer = self.evaluator.ask(question).await;
            self.judge(answer.as_ref()).await
        };
        match timeout_at(deadline, look).await {
            Ok(Ok(AccessStep::Go(admitted))) => Ok(Some(admitted)),
            Ok(Ok(AccessStep::Wait { .. })) => Ok(None),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(self.too_late()),
        }
    }

    /// Waits for access, and makes the request if there is none, because there is room for the wait.
    pub(crate) async fn hold(&mut self, deadline: Instant) -> Result<Admitted, PublishError> {
        self.may_make = true;
        match timeout_at(deadline, self.follow()).await {
            Ok(result) => result,
            Err(_) => Err(self.too_late()),
        }
    }

    /// Makes the request, or meets it, for a pod that does not wait for it. False when the API server gave no answer.
    pub(crate) async fn ask_for(&mut self, requestable: Requestable) -> Result<bool, PublishError> {
        self.may_make = true;
        self.ensure_request(requestable).await?;
        Ok(self.trouble.is_none())
    }

    /// The error when the time is over.
    pub(crate) fn too_late(&self) -> PublishError {
        let connector = self.connector.clone();
        match self.trouble {
            Some(trouble) => PublishError::Unreachable { connector, trouble },
            None => PublishError::Waiting {
                connector,
                awaited: self.awaited.clone(),
            },
        }
    }

    async fn follow(&mut self) -> Result<Admitted, PublishError> {
        let mut answers = self.evaluator.follow(question(self.wish, self.connector));
        let mut answer = None;
        let mut again: Option<Instant> = None;
        loop {
            tokio::select! {
                biased;
                next = answers.next() => answer = next,
                // Polled only when another look is due.
                () = sleep_until(again.unwrap_or_else(Instant::now)), if again.is_some() => {}
            }
            match self.judge(answer.as_ref()).await? {
                AccessStep::Go(admitted) => return Ok(admitted),
                AccessStep::Wait { again: pause } => {
                    again = pause.map(|pause| Instant::now() + pause);
                }
            }
        }
    }

    async fn judge(&mut self, answer: Option<&AccessAnswer>) -> Result<AccessStep, PublishError> {
        let Some(AccessAnswer {
            decision,
            request,
            requestable,
            ..
        }) = answer
        else {
            return Ok(self.troubled(Unreachable::Evaluator, None));
        };
        match decision {
            Decision::AllowedStanding(_) => self.confirm(false, request.as_ref()).await,
            Decision::AllowedPod(_) => self.confirm(true, request.as_ref()).await,
            Decision::Denied => self.denied(request.as_ref(), *requestable).await,
        }
    }

    /// The API server has the last word on a yes.
    async fn confirm(
        &mut self,
        pod_form: bool,
        request: Option<&RequestSeen>,
    ) -> Result<AccessStep, PublishError> {
        let resource = to_confirm(self.wish, pod_form);
        let question = review(&self.wish.pod, self.connector, &resource);
        let since = Instant::now();
        match self.kubernetes.review_access(question).await {
            Err(NoAnswer) => Ok(self.troubled(Unreachable::Kubernetes, Some(TROUBLED_PAUSE))),
            Ok(false) => self.unseen(request),
            Ok(true) => Ok(AccessStep::Go(Admitted {
                request: request
                    .filter(|_| pod_form)
                    .map(|request| request.name.clone())
                    .unwrap_or_default(),
                since,
            })),
        }
    }

    async fn denied(
        &mut self,
        request: Option<&RequestSeen>,
        requestable: Requestable,
    ) -> Result<AccessStep, PublishError> {
        let since = Instant::now();
        match self.standing(since).await {
            Err(NoAnswer) => Ok(self.troubled(Unreachable::Kubernetes, Some(TROUBLED_PAUSE))),
            // Other authorizers than RBAC may know more.
            Ok(StandingReview::Allowed) => Ok(AccessStep::Go(Admitted {
                request: String::new(),
                since,
            })),
            Ok(StandingReview::RefusedAt(at)) => {
                let step = self.without_standing(request, requestable).await?;
                // A wait with a no from before this call ends when that is old, and asks again.
                let left = (at < self.begun).then(|| (at + AGE).saturating_duration_since(since));
                Ok(step.within(left))
            }
        }
    }

    /// The API server's answer to a standing permission: a no of this call, or of the moment before, or a new one.
    async fn standing(&mut self, now: Instant) -> Result<StandingReview, NoAnswer> {
        let oldest = now.checked_sub(AGE).unwrap_or(now).min(self.begun);
        if let Some(at) = self.refused_at {
            return Ok(StandingReview::RefusedAt(at));
        }
        let standing = AccessResource::standing(self.wish.permission);
        let question = review(&self.wish.pod, self.connector, &standing);
        let answer = self.refused.ask(self.kubernetes, question, oldest).await;
        if let Ok(StandingReview::RefusedAt(at)) = answer {
            self.refused_at = Some(at).filter(|at| *at >= self.begun);
        }
        answer
    }

    async fn without_standing(
        &mut self,
        request: Option<&RequestSeen>,
        requestable: Requestable,
    ) -> Result<AccessStep, PublishError> {
        let Some(request) = request else {
            self.unseen = None;
            return self.ensure_request(requestable).await;
        };
        self.seen = true;
        if is_ending(request.ready_reason) {
            return Err(PublishError::PodEnding);
        }
        if request.makes_way() {
            // The permission that ended the request is gone again. Once the request is gone, a new one is made.
            return Ok(self.waiting(request));
        }
        match request.phase {
            Some(Phase::Granted) => self.unseen(Some(request)),
            Some(phase @ (Phase::Rejected | Phase::Revoked | Phase::Invalid | Phase::Ended)) => {
                Err(self.refused(request, phase))
            }
            Some(Phase::Pending) | None => Ok(self.waiting(request)),
        }
    }

    /// The request is over. A pod that gets a volume nevertheless learns so when the volume is there.
    fn refused(&self, request: &RequestSeen, phase: Phase) -> PublishError {
        let refusal = AccessRefusal::of(self.wish, self.connector, request, phase);
        let starts =
            self.wish.options.on_rejected == OnRejected::ErrorFile && refusal.is_for_good();
        let error = PublishError::Denied(Box::new(refusal));
        if !starts {
            self.tell(EventWord::AccessDenied, &request.uid, error.text());
        }
        error
    }

    /// The next answer is awaited.
    fn waiting(&mut self, request: &RequestSeen) -> AccessStep {
        self.unseen = None;
        self.trouble = None;
        self.awaited = awaited(request.ready_reason, &request.message, self.at_home());
        AccessStep::Wait { again: None }
    }

    /// There is a permission that a review does not see. Caches get some seconds to catch up.
    fn unseen(&mut self, request: Option<&RequestSeen>) -> Result<AccessStep, PublishError> {
        self.trouble = None;
        let now = Instant::now();
        let (since, pause) = self.unseen.unwrap_or((now, FIRST_PAUSE));
        let left = (since + UNSEEN).saturating_duration_since(now);
        if left.is_zero() {
            let error = PublishError::Unusable {
                connector: self.connector.clone(),
            };
            let uid = request.map_or("", |request| &request.uid);
            self.tell(EventWord::AccessUnusable, uid, error.text());
            return Err(error);
        }
        self.unseen = Some((since, (pause * 2).min(LONGEST_PAUSE)));
        Ok(AccessStep::Wait {
            again: Some(pause.min(left)),
        })
    }

    /// There is no request. One is made, if there is room to wait for it.
    async fn ensure_request(
        &mut self,
        requestable: Requestable,
    ) -> Result<AccessStep, PublishError> {
        self.trouble = None;
        self.awaited = awaited(None, "", self.at_home());
        if !self.may_make {
            return Ok(AccessStep::Wait { again: None });
        }
        if std::mem::take(&mut self.seen) {
            self.making.again();
        }
        match self.making.ensure(requestable).await {
            Attempt::There => Ok(AccessStep::Wait { again: None }),
            Attempt::Nowhere => Ok(self.elsewhere(None)),
            Attempt::QuotaFull(until) => Ok(self.no_quota(until)),
            Attempt::Blocked => Ok(AccessStep::Wait {
                again: Some(BLOCKED_PAUSE),
            }),
            Attempt::NoAnswer => Ok(self.troubled(Unreachable::Kubernetes, Some(TROUBLED_PAUSE))),
            Attempt::Refused => Err(PublishError::RequestRefused {
                connector: self.connector.clone(),
            }),
            Attempt::Squatted => Err(self.squatted()),
            Attempt::TooMany(full) => Err(full.into()),
        }
    }

    /// The namespace accepts no more requests. Only its own pods learn why.
    fn no_quota(&mut self, until: Instant) -> AccessStep {
        let again = Some(until.saturating_duration_since(Instant::now()));
        if !self.at_home() {
            return self.elsewhere(again);
        }
        self.awaited = quota_full(&self.connector.namespace);
        let note = format!("connector {}: {}", self.connector, self.awaited);
        self.tell(EventWord::AccessPending, "", note);
        AccessStep::Wait { again }
    }

    /// No request is made. A pod of another namespace gets the text of any waiting request. So it learns neither what
    /// exists there nor why it waits.
    fn elsewhere(&self, again: Option<Duration>) -> AccessStep {
        if !self.at_home() {
            let ConnectorKey { namespace, name } = self.connector;
            self.tell(
                EventWord::AccessPending,
                "",
                waits_elsewhere(namespace, name),
            );
        }
        AccessStep::Wait { again }
    }

    fn squatted(&self) -> PublishError {
        let error = PublishError::Squatted {
            connector: self.connector.clone(),
        };
        self.tell(EventWord::AccessDenied, "", error.text());
        error
    }

    fn troubled(&mut self, trouble: Unreachable, again: Option<Duration>) -> AccessStep {
        self.trouble = Some(trouble);
        AccessStep::Wait { again }
    }

    fn tell(&self, word: EventWord, request_uid: &str, note: String) {
        let topic = Topic {
            word,
            pod_uid: self.wish.pod.uid.clone(),
            connector: self.connector.clone(),
            request_uid: request_uid.to_owned(),
        };
        if self.events.is_news(topic) {
            self.kubernetes.tell(&self.wish.pod, word, note);
        }
    }

    /// The pod is in the connector's namespace, and may read about the connector.
    fn at_home(&self) -> bool {
        self.connector.is_home_of(&self.wish.pod)
    }
}

/// The part of a yes that the API server has to confirm: the pod's permission, or the standing permission.
pub(crate) fn to_confirm(wish: &Wish, pod_form: bool) -> AccessResource {
    let Wish {
        pod, permission, ..
    } = wish;
    if pod_form {
        AccessResource::pod(*permission, &pod.namespace, &pod.name)
    } else {
        AccessResource::standing(*permission)
    }
}

/// The pod will not start any more.
fn is_ending(reason: Option<Ready>) -> bool {
    matches!(
        reason,
        Some(Ready::PodTerminating | Ready::PodGone | Ready::PodFinished)
    )
}
