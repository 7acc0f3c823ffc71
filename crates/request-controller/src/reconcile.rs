//! observe → plan → apply, with spans, metrics and events; and the same for managed objects. No decision is made
//! here.

mod gate;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use connectors_api::{AccessRequest, access_request::Phase};
use service_kit::{
    clock::Clock,
    controller::{
        queue::{Looked, Taken, Urgency},
        unless_panicked,
        worker::{self, LookError, Notice},
    },
    retry::CallError,
};
use thiserror::Error;
use tokio::time::Instant;
use tracing::{Instrument, debug, info_span, warn};

use crate::{
    api::{Live, Name},
    apply::{Applier, ApplyError},
    cache::{Job, World},
    events::Events,
    grant,
    metrics::{Metrics, RequestFailureCause, RequestGauges},
    observe::{LiveLook, ObserveError, Observer},
    plan::{
        self, Terms, Told,
        pace::{Pace, Paced},
    },
    seen::Managed,
    shards::{JobQueues, LeadsNamespace},
    sweep::reads::SweepReads,
};

/// The number of live observations in one reconciliation before another job gets the worker.
const LOOKS: usize = 3;

/// The reason why a reconciliation failed. It is retried with backoff.
#[derive(Debug, Error)]
pub enum ReconcileError {
    /// Reading failed.
    #[error(transparent)]
    Observe(#[from] ObserveError),
    /// Writing failed.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// A live read failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The lists of a sweep failed, which several shards waited for.
    #[error(transparent)]
    Lists(#[from] Arc<CallError>),
    /// The live reads were too old each time.
    #[error("reading takes longer than what was read may be old")]
    TooSlow,
    /// The reconciliation panicked.
    #[error("the look panicked")]
    Panicked,
}

impl ReconcileError {
    /// Whether the API server took too long for the reads, or what was read was too old at the end.
    fn is_late(&self) -> bool {
        match self {
            Self::TooSlow | Self::Apply(ApplyError::Stale) => true,
            Self::Observe(error) => error.is_late(),
            Self::Call(error) => error.is_late(),
            Self::Lists(error) => error.is_late(),
            Self::Apply(_) | Self::Panicked => false,
        }
    }
}

impl LookError for ReconcileError {
    fn word(&self) -> &'static str {
        let cause = match self {
            Self::Observe(_) => RequestFailureCause::Observe,
            Self::Apply(ApplyError::Conflict(_)) => RequestFailureCause::Conflict,
            Self::Apply(
                ApplyError::NotOurs(_) | ApplyError::NotExact(..) | ApplyError::Foreign(..),
            ) => RequestFailureCause::NotOurs,
            Self::Apply(ApplyError::Stale) | Self::TooSlow => RequestFailureCause::Stale,
            Self::Apply(ApplyError::NotLeading) => RequestFailureCause::NotLeading,
            Self::Apply(ApplyError::Unrecorded(_)) => RequestFailureCause::Unrecorded,
            Self::Apply(ApplyError::Call(_) | ApplyError::Kept(..) | ApplyError::Stuck(..)) => {
                RequestFailureCause::Apply
            }
            Self::Call(_) | Self::Lists(_) => RequestFailureCause::Read,
            Self::Panicked => RequestFailureCause::Panic,
        };
        cause.as_str()
    }

    fn notice(&self) -> Notice {
        match self {
            Self::Apply(ApplyError::Conflict(_) | ApplyError::NotLeading) => Notice::Routine,
            Self::Observe(_)
            | Self::Apply(_)
            | Self::Call(_)
            | Self::Lists(_)
            | Self::TooSlow
            | Self::Panicked => Notice::Problem,
        }
    }
}

/// Rate limits of events, by the names of requests, with their UIDs. Boxed, because a node of the tree has room for eleven
/// entries and is half full.
pub type Paces = BTreeMap<Name, Box<(Box<str>, Pace)>>;

/// Reconciles requests and managed objects.
pub struct Reconciler {
    /// The caches.
    pub world: Arc<World>,
    /// The jobs.
    pub queues: Arc<JobQueues>,
    /// Reads from the API server.
    pub live: Live,
    /// Reads.
    pub observer: Observer,
    /// Writes.
    pub applier: Applier,
    /// Publishes events.
    pub events: Events,
    /// Counts.
    pub metrics: Metrics,
    /// Tell the state of the cluster's requests, by shard.
    pub gauges: Vec<RequestGauges>,
    /// Tells the time.
    pub clock: Clock,
    /// Whether this process leads the shard of a namespace.
    pub leads: LeadsNamespace,
    /// The lists of the last sweep of any shard.
    pub sweeps: SweepReads,
    /// The settings that do not depend on a request.
    pub terms: Terms,
    /// The rate limits of events about waiting requests.
    pub paces: Mutex<Paces>,
}

impl Reconciler {
    /// Looks at one job.
    pub async fn look(&self, taken: &Taken<Job>) -> Looked {
        // Only the leader of its shard starts a reconciliation.
        if !(self.leads)(taken.job.namespace()) {
            return Looked::Done;
        }
        let look = async {
            match &taken.job {
                Job::Request(name) => {
                    let span = info_span!("request", %name);
                    self.request(name, taken.since).instrument(span).await
                }
                Job::Grant(name) => {
                    let span = info_span!("grant", %name);
                    self.grant(name).instrument(span).await.map(|_| None)
                }
                Job::Gate(pod) => {
                    let span = info_span!("gate", %pod);
                    let again = self.gate(pod).instrument(span).await;
                    again.map(|it| it.map(|pause| (pause, Urgency::Normal)))
                }
            }
        };
        let panics = &self.metrics.panics;
        match unless_panicked(panics, &taken.job, ReconcileError::Panicked, look).await {
            Ok(again) => {
                if let Some((pause, urgency)) = again {
                    self.queues.wake_after(taken.job.clone(), urgency, pause);
                }
                Looked::Done
            }
            Err(problem) => {
                worker::failed(&taken.job, &problem, &self.metrics.failures);
                if let Job::Request(name) = &taken.job {
                    // What it does not describe goes, whatever else could not be read.
                    self.look_at_grants(name);
                }
                match problem {
                    ReconcileError::Apply(ApplyError::Unrecorded(_)) => Looked::FailedSafely,
                    ReconcileError::Observe(_)
                    | ReconcileError::Apply(_)
                    | ReconcileError::Call(_)
                    | ReconcileError::Lists(_)
                    | ReconcileError::TooSlow
                    | ReconcileError::Panicked => Looked::Failed,
                }
            }
        }
    }

    /// Reconciles one request. Returns the time of the next reconciliation.
    pub async fn request(
        &self,
        name: &Name,
        since: Instant,
    ) -> Result<Option<(Duration, Urgency)>, ReconcileError> {
        let seen = match self.observer.cached(name).await {
            Ok(Some(seen)) => seen,
            Ok(None) => {
                self.forget(name);
                return Ok(None);
            }
            Err(ObserveError::Unreadable(problem)) => {
                return self.unreadable(name, &problem).await.map(|()| None);
            }
            Err(error) => return Err(error.into()),
        };
        let plan = plan::plan(&seen, (self.clock)(), self.terms);
        if !plan.look_live {
            return self.carry_out(name, &seen, plan, since).await;
        }
        let decided = self.decide_live(name, since).await;
        if decided.as_ref().is_err_and(ReconcileError::is_late) {
            self.applier.tell_too_slow(&seen.request).await;
        }
        decided
    }

    /// Decides on reads from the API server.
    async fn decide_live(
        &self,
        name: &Name,
        since: Instant,
    ) -> Result<Option<(Duration, Urgency)>, ReconcileError> {
        let mut look = LiveLook::First;
        for _ in 0..LOOKS {
            let Some(seen) = self.observer.live(name, look).await? else {
                return Ok(None);
            };
            let now = (self.clock)();
            let plan = plan::plan(&seen, now, self.terms);
            let is_old = seen.freshness.left(now.mono).is_none();
            look = if is_old {
                LiveLook::Late
            } else {
                LiveLook::Whole
            };
            if plan.look_live {
                continue;
            }
            match self.carry_out(name, &seen, plan, since).await {
                // The caches had an older request, or another client changed one of the objects.
                Err(ReconcileError::Apply(error))
                    if seen.only_for_grants && error.is_conflict() => {}
                done => return done,
            }
        }
        Err(ReconcileError::TooSlow)
    }

    /// An unreadable request describes no grant, so its grants are removed.
    async fn unreadable(&self, name: &Name, problem: &str) -> Result<(), ReconcileError> {
        warn!(problem, "the request cannot be read");
        self.look_at_grants(name);
        Ok(self.applier.refuse_unreadable(name, problem).await?)
    }

    /// Wakes the managed objects of a request.
    fn look_at_grants(&self, name: &Name) {
        let wakes = {
            let state = self.world.read();
            let uid = state.requests.get(name).and_then(|it| it.uid.clone());
            uid.map(|uid| state.grants_under(&uid))
        };
        for (job, lane) in wakes.into_iter().flatten() {
            self.queues.wake(job, lane);
        }
    }

    async fn carry_out(
        &self,
        name: &Name,
        seen: &crate::seen::Observed,
        mut plan: plan::Plan,
        since: Instant,
    ) -> Result<Option<(Duration, Urgency)>, ReconcileError> {
        let requeue = plan.requeue;
        let wait = plan.wait.take();
        let was = phase(&seen.request);
        let idle = plan.is_idle();
        let next = plan.status.as_ref().and_then(|it| it.phase).or(was);
        let applied = self.applier.apply(seen, plan).await;
        if let (Err(_), Some(pause)) = (&applied, requeue) {
            // A failed job is retried with backoff, but an end that is due at a certain time must not wait for the
            // backoff.
            let job = Job::Request(name.clone());
            self.queues.wake_after(job, self.urgency(name), pause);
        }
        let events = applied?;
        if !idle {
            let granted = events
                .iter()
                .any(|it| it.kind == plan::tell::ToldKind::AccessGranted);
            let now = if granted { Some(Phase::Granted) } else { next };
            if now != was {
                self.metrics.took(now, since.elapsed());
            }
            debug!(?now, "looked at");
            self.queues.changed(&Job::Request(name.clone()));
        }
        if next.is_some_and(grant::is_terminal) {
            // Later reconciliations read live, or ask no questions.
            self.observer.forget(&seen.request);
        }
        let Paced { tell, again } = self.pace(name, &seen.request, (events, wait), next);
        self.events.tell(&seen.request, tell).await;
        let again = [requeue, again].into_iter().flatten().min();
        Ok(again.map(|pause| (pause, self.urgency(name))))
    }

    /// The lane of a request: urgent if it has a grant.
    fn urgency(&self, name: &Name) -> Urgency {
        if self.world.read().requests.holds(name) {
            Urgency::Urgent
        } else {
            Urgency::Normal
        }
    }

    /// The events to publish now for a waiting request. The rate limit is dropped when the wait ends.
    fn pace(
        &self,
        name: &Name,
        request: &AccessRequest,
        (events, wait): (Vec<Told>, Option<Told>),
        phase: Option<Phase>,
    ) -> Paced {
        let mut paces = self.paces();
        let uid = request.metadata.uid.as_deref().unwrap_or_default();
        let known = paces.remove(name).filter(|it| it.0.as_ref() == uid);
        let mut known = known.unwrap_or_else(|| Box::new((uid.into(), Pace::default())));
        let told = known.1.next(events, wait, (self.clock)());
        if phase == Some(Phase::Pending) {
            paces.insert(name.clone(), known);
        }
        told
    }

    /// Drops the rate limit of a request that is gone.
    pub fn forget(&self, name: &Name) {
        self.paces().remove(name);
    }

    /// Drops everything about a request that is gone.
    pub fn gone(&self, request: &AccessRequest) {
        let name = Name::of(request);
        self.forget(&name);
        self.observer.forget(request);
        self.queues.forget(&Job::Request(name));
    }

    fn paces(&self) -> MutexGuard<'_, Paces> {
        self.paces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies the rule about managed objects to the two under one name.
    pub async fn grant(&self, name: &Name) -> Result<usize, ReconcileError> {
        let request = self.owner(name).await?;
        let removed = self.applier.enforce(name, request.as_ref()).await?;
        if removed > 0
            && let Some(request) = &request
        {
            // The grant may have to be rewritten, or recorded as gone.
            self.queues
                .wake(Job::Request(Name::of(request)), Urgency::Urgent);
        }
        Ok(removed)
    }

    /// The request in the owner references of the objects under a name, read live.
    async fn owner(&self, name: &Name) -> Result<Option<AccessRequest>, ReconcileError> {
        for kind in crate::seen::GrantKind::ALL {
            // Any client may write an owner into an object that is not managed.
            let found = self.live.grant(kind, name).await?;
            let Some(found) = found.filter(Managed::is_ours) else {
                continue;
            };
            let Some(owner) = grant::owner_name(&found.metadata) else {
                continue;
            };
            let owner = Name::new(&name.namespace, owner);
            // An unreadable request describes no grant.
            return Ok(self.live.request(&owner).await?.and_then(Result::ok));
        }
        Ok(None)
    }
}

fn phase(request: &AccessRequest) -> Option<Phase> {
    request.status.as_ref().and_then(|it| it.phase)
}
