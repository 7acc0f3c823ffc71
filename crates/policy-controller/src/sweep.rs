//! Removes what is managed for policies that are gone: at the start before anything else, and every few minutes, for
//! changes that no event told.

use std::hash::{DefaultHasher, Hash, Hasher};

use service_kit::{
    controller::{queue::Urgency, unless_panicked},
    report,
};
use tracing::warn;

use crate::{
    cache::Job,
    reconcile::{ReconcileError, Reconciler, Tells},
};

/// A part of all policies, so that each has its turn after some sweeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn(u64);

impl Turn {
    const COUNT: u64 = 3;

    /// The one after this.
    #[must_use]
    pub const fn next(self) -> Self {
        Self((self.0 + 1) % Self::COUNT)
    }

    fn is_of(self, job: &Job) -> bool {
        let mut hasher = DefaultHasher::new();
        job.hash(&mut hasher);
        hasher.finish() % Self::COUNT == self.0
    }
}

/// What a sweep came to.
#[derive(Debug, Default)]
pub struct Swept {
    /// So many policies are not there any more, and now nothing is left of them.
    pub removed: usize,
    /// Something is left of these.
    pub left: Vec<Job>,
}

/// Takes away what is managed for policies that are not there, and has those looked at whose turn it is whatever the
/// caches show: what a watch lost is found like that. What fails is tried again from the queue and keeps nothing
/// else from being done.
pub async fn sweep(reconciler: &Reconciler, turn: Option<Turn>) -> Result<Swept, ReconcileError> {
    // Policies after the objects: what an object is made for is there before it.
    let managed = reconciler.observer.managed_jobs().await?;
    let policies = reconciler.observer.jobs().await?;
    let mut swept = Swept::default();
    for job in managed.difference(&policies) {
        let look = reconciler.reconcile(job, Tells::Everything);
        let panics = &reconciler.metrics.panics;
        match unless_panicked(panics, job, ReconcileError::Panicked, look).await {
            Ok(()) => swept.removed += 1,
            Err(error) => {
                warn!(?job, error = report(&error), "what no policy owns stays");
                swept.left.push(job.clone());
            }
        }
    }
    for job in policies
        .iter()
        .filter(|job| turn.is_some_and(|it| it.is_of(job)))
    {
        reconciler.unseen().insert(job.clone());
        reconciler.queue.wake(job.clone(), Urgency::Normal);
    }
    Ok(swept)
}
