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
//! One gap is left: when the object is deleted, a replica that starts just then finds no trace of a holder.
//! It leads at once, because otherwise every first installation would wait. A replica that lost a race to
//! another one, and then finds no object, does wait. The gap also exists for a replica that looks late when
//! the object is deleted twice: it has not seen a claim in between.

mod candidate;
mod leading;
mod record;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, api::PostParams};
use thiserror::Error;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};
use tracing::{info, warn};

use crate::gets;
use crate::{clock, report};
use candidate::{Candidate, LeaseStep};

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
}

impl Leadership {
    /// Whether this process leads at this very moment: to be asked right before each write.
    #[must_use]
    pub fn is_leader(self) -> bool {
        self.is_leader_at(Instant::now())
    }

    fn is_leader_at(self, now: Instant) -> bool {
        match self {
            Self::Follower => false,
            Self::Leader { until } => now < until,
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
                () = self.until(sleep_until(next)) => {}
            }
        }
        self.release().await;
    }

    /// One step, and when the next one is due.
    async fn step(&mut self) -> Instant {
        let started = Instant::now();
        let due = started + self.terms.period;
        let (verb, failure) = match self.candidate.plan(started) {
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
        self.publish();
        // A successful read is acted on at once.
        if verb == "read" && failure.is_none() {
            Instant::now()
        } else {
            due
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

    fn publish(&self) {
        let leadership = self.candidate.leadership();
        let now = Instant::now();
        self.publish_as(if leadership.is_leader_at(now) {
            leadership
        } else {
            Leadership::Follower
        });
    }

    fn publish_as(&self, leadership: Leadership) {
        let before = self.leadership.send_replace(leadership);
        match (before, leadership) {
            (Leadership::Follower, Leadership::Leader { .. }) => {
                info!(lease = self.name, "leading");
            }
            (Leadership::Leader { .. }, Leadership::Follower) => {
                warn!(lease = self.name, "no longer leading");
            }
            (Leadership::Follower, Leadership::Follower)
            | (Leadership::Leader { .. }, Leadership::Leader { .. }) => {}
        }
    }

    async fn release(self) {
        let held = self
            .candidate
            .held(Instant::now())
            .map(|lease| record::released(lease, clock::now()));
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
