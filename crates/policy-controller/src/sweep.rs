//! Removes the managed objects of policies that are gone: at the start before anything else, and every few
//! minutes, for changes without an event.

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

/// The result of a sweep.
#[derive(Debug, Default)]
pub struct Swept {
    /// The number of deleted policies whose objects are all removed now.
    pub removed: usize,
    /// The policies of which objects remain.
    pub left: Vec<Job>,
}

/// Removes the managed objects of deleted policies. It also wakes the policies whose turn it is, regardless
/// of the caches: that finds changes that a watch lost. A failed removal is tried again from the queue and
/// does not stop the others.
pub async fn sweep(reconciler: &Reconciler, turn: Option<Turn>) -> Result<Swept, ReconcileError> {
    // Policies after the objects: the policy of an object exists before it.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{api_server, job_of, managed_for, put_policy, rbac, reconciler};

    #[test]
    fn each_policy_has_its_turn_once_and_each_turn_its_part_of_them() {
        let first = Turn::default();
        let turns = [first, first.next(), first.next().next()];
        assert_eq!(turns[2].next(), first);
        let jobs = (0..300).map(|it| job_of(&it.to_string()));
        let mut parts = [0; 3];
        for job in jobs {
            let of_it = turns.map(|it| it.is_of(&job));
            assert_eq!(of_it.iter().filter(|it| **it).count(), 1, "{job:?}");
            for (part, is_of) in parts.iter_mut().zip(of_it) {
                *part += usize::from(is_of);
            }
        }
        assert!(parts.iter().all(|it| (60..140).contains(it)), "{parts:?}");
    }

    #[tokio::test]
    async fn what_no_policy_owns_is_removed_and_counted_by_policy() {
        let server = api_server();
        let uid = put_policy(&server, "p");
        for (name, uid) in [
            ("a1", "a"),
            ("a2", "a"),
            ("b", "b"),
            ("none", ""),
            ("p", &*uid),
        ] {
            let rest = json!({"rules": []});
            server.create(rbac("Role", name, &managed_for(uid), &rest));
        }
        let swept = sweep(&reconciler(&server), None).await.unwrap();
        assert_eq!((swept.removed, swept.left), (3, Vec::new()));
        let [left] = server.list("roles").try_into().unwrap();
        assert_eq!(left["metadata"]["name"], "p");
    }
}
