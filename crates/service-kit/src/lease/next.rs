//! The lease of the process that is to have a shard next.

use std::sync::Arc;

use kube::Client;
use tokio::time::{Instant, sleep_until};
use tracing::warn;

use super::{
    Election, LeaseProblem, LeaseTerms, Spread,
    candidate::{LeaseStep, Patience},
};
use crate::{readiness::Readiness, shutdown::Stop};

/// A holder that missed so many renewals is taken for dead.
const RENEWALS: u32 = 3;

/// Holds the lease while this process wants a shard, and notes its holder otherwise.
#[derive(Debug)]
pub struct NextShard {
    election: Election,
    spread: Arc<Spread>,
}

impl NextShard {
    /// For the shards of this spread.
    #[must_use]
    pub fn new(
        client: Client,
        namespace: &str,
        name: &str,
        spread: Arc<Spread>,
        terms: LeaseTerms,
    ) -> Self {
        let election = Election::new(client, namespace, name, &spread.me, terms);
        Self { election, spread }
    }

    /// The process wants no shard until these caches are complete: none would be led meanwhile.
    #[must_use]
    pub fn preparing(self, caches: Readiness) -> Self {
        Self {
            election: self.election.preparing(caches),
            ..self
        }
    }

    /// Runs until the process is to end.
    pub async fn run(mut self, stop: Stop) {
        loop {
            let next = Instant::now() + self.election.terms.period;
            if let Err(LeaseProblem { text, .. }) = self.step().await {
                warn!(lease = self.election.name, problem = text, "not known");
                // Without this knowledge no shard moves.
                self.spread.next_is(None);
            }
            tokio::select! {
                biased;
                () = stop.stopped() => break,
                () = sleep_until(next) => {}
            }
        }
        self.election.give_back().await;
    }

    async fn step(&mut self) -> Result<(), LeaseProblem> {
        let Self { election, spread } = self;
        election.look().await?;
        let (candidate, now) = (&election.candidate, Instant::now());
        if let LeaseStep::Wait(_) = candidate.plan(now, Patience::default()) {
            // Long before its time is up: nothing should be handed over to a process that has died.
            let is_alive = candidate.silence(now) < election.terms.period * RENEWALS;
            spread.next_is(candidate.holder().filter(|_| is_alive));
            return Ok(());
        }
        // It is free, or its holder is this process or silent.
        spread.next_is(None);
        if spread.wants() && election.is_prepared() {
            election.write().await?;
        } else {
            election.give_back().await;
        }
        Ok(())
    }
}
