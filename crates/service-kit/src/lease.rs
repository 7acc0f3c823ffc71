//! The leader lease: of all replicas one leads, by a Lease object of `coordination.k8s.io`.
//!
//! Clock readings of two machines are never compared. A candidate takes over when it has seen an unchanged record for
//! the lease's duration, by its own monotonic clock. A holder stops earlier: it counts from the moment it *sent* its last
//! successful renewal, which the others can only have seen later. The times in the record are for people. Writes carry
//! the resource version that the decision was made from, so that a takeover and a renewal exclude each other.
//!
//! [`Leadership::is_leader`] compares with the clock on every call. A process that was frozen, or whose lease task is
//! late, is no leader once its time is up, also when no event has told it yet.
//!
//! A process whose caches are incomplete leaves a lease that became free to others for some time: a container that restarts
//! would often be faster than a replica that is ready to work.
//!
//! One gap is left: when the object is deleted, a replica that starts just then finds no trace of a holder.
//! It leads at once, because otherwise every first installation would wait. A replica that lost a race to
//! another one, and then finds no object, does wait. The gap also exists for a replica that looks late when
//! the object is deleted twice: it has not seen a claim in between.

mod candidate;
mod leading;
mod next;
mod record;
mod spread;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::{future::pending, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, api::PostParams};
use thiserror::Error;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout, timeout_at},
};
use tracing::{info, warn};

use crate::gets;
use crate::readiness::{Readiness, Status};
use crate::{clock, report};
use candidate::{Candidate, LeaseStep, Patience};
pub use next::NextShard;
pub use spread::{ShardPlace, Spread, WorkEnded};

/// A process that has to take back what it handed over keeps it for this time: the other one may be unable to take it.
const LEFT_AGAIN: Duration = Duration::from_mins(5);

/// How long a lease lasts and how it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    duration: Duration,
    hold: Duration,
    period: Duration,
}

/// Terms under which two could lead, or none.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("a lease of {duration:?} cannot be held for {hold:?} and renewed every {period:?}")]
pub struct TermsError {
    duration: Duration,
    hold: Duration,
    period: Duration,
}

impl Default for LeaseTerms {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            hold: Duration::from_secs(10),
            period: Duration::from_secs(2),
        }
    }
}

impl LeaseTerms {
    /// `duration`, in whole seconds: how long the others leave a silent holder alone. `hold`: how long a
    /// holder leads after a renewal, at most nine tenths of that, for clocks that do not run at one rate.
    /// `period`: how often it renews.
    pub fn new(duration: Duration, hold: Duration, period: Duration) -> Result<Self, TermsError> {
        let whole = duration.subsec_nanos() == 0 && i32::try_from(duration.as_secs()).is_ok();
        if whole && !period.is_zero() && period * 2 <= hold && hold <= duration * 9 / 10 {
            Ok(Self {
                duration,
                hold,
                period,
            })
        } else {
            Err(TermsError {
                duration,
                hold,
                period,
            })
        }
    }
}

/// Whether this process leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// Another one leads, or none.
    Follower,
    /// This process leads until then, unless it renews.
    Leader {
        /// When its time is up.
        until: Instant,
    },
    /// The same, but it begins nothing more: it is about to hand the lease over.
    Leaving {
        /// When its time is up.
        until: Instant,
    },
}

impl Leadership {
    /// Whether this process leads at this very moment: to be asked right before each write.
    #[must_use]
    pub fn is_leader(self) -> bool {
        self.is_leader_at(Instant::now())
    }

    /// Whether this process leads, and may begin more work.
    #[must_use]
    pub fn may_begin(self) -> bool {
        matches!(self, Self::Leader { .. }) && self.is_leader()
    }

    fn is_leader_at(self, now: Instant) -> bool {
        self.until().is_some_and(|until| now < until)
    }

    const fn until(self) -> Option<Instant> {
        match self {
            Self::Follower => None,
            Self::Leader { until } | Self::Leaving { until } => Some(until),
        }
    }
}

/// Why a call came to nothing.
#[derive(Debug)]
struct LeaseProblem {
    text: String,
    /// Whether another process was faster.
    overtaken: bool,
}

/// A process that stands for election.
#[derive(Debug)]
pub struct Election {
    api: Api<Lease>,
    name: String,
    terms: LeaseTerms,
    candidate: Candidate,
    leadership: watch::Sender<Leadership>,
    /// The place among the shards of a controller; none if it has no shards.
    place: Option<ShardPlace>,
    /// Whether the caches are complete; none if the process needs none.
    caches: Option<Readiness>,
    /// Until when this process waits for the end of its work, before it hands the lease over.
    leaving: Option<Instant>,
    /// When it began to hand the lease over, if no other process has taken it since.
    left: Option<Instant>,
}

impl Election {
    /// Stands for the lease of that name. No other living process may have the same identity; a pod's
    /// name is one, and lets a restarted container go on where it was killed.
    #[must_use]
    pub fn new(
        client: Client,
        namespace: &str,
        name: &str,
        identity: &str,
        terms: LeaseTerms,
    ) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
            terms,
            candidate: Candidate::new(identity, terms),
            leadership: watch::Sender::new(Leadership::Follower),
            place: None,
            caches: None,
            leaving: None,
            left: None,
        }
    }

    /// The lease is that of a shard: it is left to processes that lead fewer shards.
    #[must_use]
    pub fn shared(self, place: ShardPlace) -> Self {
        Self {
            place: Some(place),
            ..self
        }
    }

    /// Until these caches are complete, a lease that became free is left to other processes for some time. This process
    /// goes on with its own lease at once.
    #[must_use]
    pub fn preparing(self, caches: Readiness) -> Self {
        Self {
            caches: Some(caches),
            ..self
        }
    }

    /// Whether this process leads, now and whenever that changes. Renewals count as changes.
    #[must_use]
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.subscribe()
    }

    /// Acquires and renews until `released` is over, and then gives the lease back. All work that needs
    /// leadership should have ended by then: the next leader starts at once.
    pub async fn run(mut self, released: impl Future<Output = ()>) {
        let mut released = std::pin::pin!(released);
        loop {
            // Never interrupted: a call that was sent and forgotten may still change the record.
            let next = self.step().await;
            tokio::select! {
                biased;
                () = &mut released => break,
                () = self.work_has_ended() => self.give_back().await,
                () = self.prepared() => {}
                () = self.until(sleep_until(next)) => {}
            }
        }
        self.give_back().await;
    }

    /// One step, and when the next one is due.
    async fn step(&mut self) -> Instant {
        let started = Instant::now();
        let due = started + self.terms.period;
        let (verb, failure) = match self.candidate.plan(started, self.patience()) {
            // A holder may let go sooner than its time is up.
            LeaseStep::Wait(until) => {
                self.candidate.rest();
                return due.min(until);
            }
            LeaseStep::Look => ("read", self.look().await.err()),
            LeaseStep::Write => ("write", self.write().await.err()),
        };
        if let Some(LeaseProblem { text, overtaken }) = &failure {
            if *overtaken && verb == "write" {
                self.candidate.overtaken(Instant::now());
            }
            warn!(lease = self.name, problem = text, "cannot {verb} the lease");
            self.candidate.rest();
        }
        self.consider_others();
        self.publish();
        // A successful read is acted on at once.
        if verb == "read" && failure.is_none() {
            Instant::now()
        } else {
            due
        }
    }

    /// How long a lease that became free is left to others.
    fn patience(&self) -> Patience {
        let place = self.place.as_ref();
        let of_place = place.map_or(Duration::ZERO, ShardPlace::patience);
        // Another one looks once in each period.
        let of_caches = if self.is_prepared() {
            Duration::ZERO
        } else {
            self.terms.period * 2
        };
        Patience {
            always: of_place,
            with_others: of_caches,
        }
    }

    /// Whether the caches are complete, if the process needs any.
    fn is_prepared(&self) -> bool {
        let caches = self.caches.as_ref();
        caches.is_none_or(|it| it.status() == Status::Ready)
    }

    /// Waits until the caches are complete; for ever if they are.
    async fn prepared(&self) {
        match &self.caches {
            Some(caches) if !self.is_prepared() => caches.ready().await,
            Some(_) | None => pending().await,
        }
    }

    async fn look(&mut self) -> Result<(), LeaseProblem> {
        let lease = self.answer(gets::find(&self.api, &self.name)).await?;
        self.candidate.saw(lease, Instant::now());
        Ok(())
    }

    async fn write(&mut self) -> Result<(), LeaseProblem> {
        let claim = self.candidate.claim(&self.name, clock::now());
        let params = PostParams::default();
        let sent = Instant::now();
        let lease = if claim.metadata.resource_version.is_some() {
            self.answer(self.api.replace(&self.name, &params, &claim))
                .await?
        } else {
            self.answer(self.api.create(&params, &claim)).await?
        };
        self.candidate.wrote(lease, sent, Instant::now());
        Ok(())
    }

    /// The answer to a call that leaves a leader time for another one.
    async fn answer<T>(
        &self,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, LeaseProblem> {
        match self.until(timeout(self.terms.hold / 2, call)).await {
            Ok(answer) => answer.map_err(|error| LeaseProblem {
                text: report(&error),
                overtaken: matches!(&error, kube::Error::Api(status) if status.code == 409),
            }),
            Err(_) => Err(LeaseProblem {
                text: "no answer in time".to_owned(),
                overtaken: false,
            }),
        }
    }

    /// Waits, and says so when leadership ends meanwhile.
    async fn until<F: Future>(&self, what: F) -> F::Output {
        let mut what = std::pin::pin!(what);
        if let Leadership::Leader { until } = self.candidate.leadership() {
            tokio::select! {
                biased;
                done = &mut what => return done,
                () = sleep_until(until) => self.publish_as(Leadership::Follower),
            }
        }
        what.await
    }

    /// Tells the other shards of this process about this one, and notices if it is to be handed over.
    fn consider_others(&mut self) {
        let Some(place) = &self.place else { return };
        let holder = self.candidate.holder();
        place.tell(holder);
        if holder.is_some_and(|it| it != place.spread.me) {
            self.left = None;
        }
        let now = Instant::now();
        if !self.candidate.leadership().is_leader_at(now) {
            self.leaving = None;
            return;
        }
        let is_soon = self.left.is_some_and(|left| now < left + LEFT_AGAIN);
        if self.leaving.is_none() && !is_soon && place.is_wanted() {
            info!(
                lease = self.name,
                "leaving it to a process that leads fewer"
            );
            // Nothing begins meanwhile. Work that takes longer finds that this process does not lead.
            self.leaving = Some(now + self.terms.period * 2);
            self.left = Some(now);
        }
    }

    /// Waits for the end of the work under a lease that is to be handed over; for ever under any other.
    async fn work_has_ended(&self) {
        match (&self.place, self.leaving) {
            (Some(place), Some(limit)) => {
                let _ = timeout_at(limit, place.ended()).await;
            }
            (None, _) | (_, None) => pending().await,
        }
    }

    fn publish(&self) {
        let now = Instant::now();
        let leadership = self.candidate.leadership();
        let leadership = leadership.until().filter(|until| now < *until);
        self.publish_as(match (leadership, self.leaving) {
            (None, _) => Leadership::Follower,
            (Some(until), None) => Leadership::Leader { until },
            (Some(until), Some(_)) => Leadership::Leaving { until },
        });
    }

    fn publish_as(&self, leadership: Leadership) {
        let before = self.leadership.send_replace(leadership);
        match (before.until(), leadership.until()) {
            (None, Some(_)) => info!(lease = self.name, "leading"),
            (Some(_), None) => warn!(lease = self.name, "no longer leading"),
            (None, None) | (Some(_), Some(_)) => {}
        }
    }

    /// Releases the lease if this process holds it.
    async fn give_back(&mut self) {
        self.leaving = None;
        let held = self.candidate.held(Instant::now());
        let held = held.map(|lease| record::released(lease, clock::now()));
        self.candidate.resign();
        // First: from here on no task of this process may act as leader.
        self.leadership.send_replace(Leadership::Follower);
        let Some(lease) = held else { return };
        match self
            .answer(self.api.replace(&self.name, &PostParams::default(), &lease))
            .await
        {
            Ok(_) => info!(lease = self.name, "lease released"),
            // It runs out by itself.
            Err(LeaseProblem { text, .. }) => {
                warn!(
                    lease = self.name,
                    problem = text,
                    "cannot release the lease"
                );
            }
        }
    }
}
