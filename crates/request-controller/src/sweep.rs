//! The rule about managed objects, applied to all of them: at the start before requests that hold nothing are looked at, and
//! then every few minutes, in case an event was lost.

pub mod reads;

use std::time::Duration;

use futures::stream::{self, StreamExt};
use service_kit::{controller::queue::Urgency, report};
use tracing::{info, warn};

use crate::{
    api::Name,
    apply::ApplyError,
    cache::Job,
    reconcile::{ReconcileError, Reconciler},
};

/// The number of Roles without a RoleBinding that are removed at a time.
const AT_A_TIME: usize = 16;

/// The result of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Managed Roles and RoleBindings of requests.
    pub managed: usize,
    /// How many of them were removed.
    pub removed: usize,
    /// How many of them should be removed but still exist.
    pub left: usize,
}

/// Removes every managed object of a shard that no request describes. Lists up to this age show where to look.
pub async fn sweep(
    reconciler: &Reconciler,
    shard: usize,
    age: Duration,
) -> Result<Swept, ReconcileError> {
    let shards = reconciler.queues.shards();
    let is_ours = |name: &&Name| shards.of(&name.namespace) == shard;
    let from = (&reconciler.live, &reconciler.world, &reconciler.clock);
    let found = reconciler.sweeps.found(from, age).await?;
    let managed = found.managed.iter();
    let managed = managed.filter(|(namespace, _)| shards.of(namespace) == shard);
    let mut swept = Swept {
        managed: managed.map(|(_, count)| count).sum(),
        ..Swept::default()
    };
    let strays = |bound: bool| {
        let strays = found
            .strays
            .iter()
            .filter(|(_, is_bound)| **is_bound == bound);
        let strays = strays.map(|(name, _)| name).filter(is_ours);
        strays.cloned().collect::<Vec<_>>()
    };
    // Roles to which no RoleBinding refers give nothing. What gives something does not wait for their removal.
    for (names, at_a_time) in [(strays(true), 1), (strays(false), AT_A_TIME)] {
        let removals = stream::iter(names).map(|name| async move {
            let removed = reconciler.grant(&name).await;
            (name, removed)
        });
        let mut removals = removals.buffer_unordered(at_a_time);
        while let Some((name, removed)) = removals.next().await {
            match removed {
                Ok(removed) => swept.removed += removed,
                Err(error @ ReconcileError::Apply(ApplyError::NotLeading)) => return Err(error),
                // An object that cannot be removed must not delay the others or the start of the work.
                Err(error) => {
                    warn!(object = %name, error = report(&error), "not removed; it is tried again");
                    reconciler.queues.wake(Job::Grant(name), Urgency::Urgent);
                    swept.left += 1;
                }
            }
        }
    }
    for (kind, name) in found.going.iter().filter(|(_, name)| is_ours(&name)) {
        // An object whose read fails may still exist.
        if !matches!(reconciler.live.grant(*kind, name).await, Ok(None)) {
            swept.left += 1;
        }
    }
    for name in found.without_pod.iter().filter(is_ours) {
        let job = Job::Request(name.clone());
        reconciler.queues.wake(job, Urgency::Urgent);
    }
    let orphaned = &reconciler.gauges[shard].orphaned;
    orphaned.set(swept.left.try_into().unwrap_or(i64::MAX));
    info!(shard, ?swept, "swept");
    Ok(swept)
}
