//! The rule about managed objects, applied to all of them: at the start before anything else, and then every few
//! minutes, in case an event was lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use connectors_api::{AccessRequest, labels, names};
use futures::stream::{self, StreamExt};
use service_kit::{
    clock::Clock,
    controller::queue::Urgency,
    report,
    retry::CallError,
    shared_reads::{ReadMoment, SharedReads},
};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::{
    api::{Live, Name},
    apply::ApplyError,
    cache::{Job, World, holds, pod_of},
    grant::keep,
    reconcile::{ReconcileError, Reconciler},
    seen::GrantKind,
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

/// The label selector of the managed objects of requests. The policy-controller's objects have no request UID.
pub(crate) fn ours() -> String {
    format!(
        "{}={},{}",
        labels::MANAGED_BY,
        names::MANAGED_BY,
        labels::ACCESS_REQUEST_UID
    )
}

/// The content of the lists of a sweep, for all shards.
#[derive(Debug, Default)]
pub struct SweepFound {
    /// The number of managed objects by namespace.
    managed: BTreeMap<String, usize>,
    /// Names under which something may have to be removed, and whether a RoleBinding has the name.
    strays: BTreeMap<Name, bool>,
    /// Objects that are being deleted.
    going: Vec<(GrantKind, Name)>,
    /// Requests with a grant whose pod is finished or gone.
    without_pod: Vec<Name>,
}

/// The lists of sweeps. Shards of this process share them.
#[derive(Debug, Default)]
pub struct SweepReads {
    reads: SharedReads<(), (), SweepFound>,
    last: Mutex<Option<(Instant, Arc<SweepFound>)>>,
}

impl SweepReads {
    /// The content of a read that began after this call, or at most this long before.
    async fn found(
        &self,
        reconciler: &Reconciler,
        age: Duration,
    ) -> Result<Arc<SweepFound>, ReconcileError> {
        let began = Instant::now();
        if let Some((then, found)) = &*self.last()
            && began.duration_since(*then) < age
        {
            return Ok(Arc::clone(found));
        }
        let (live, world) = (reconciler.live.clone(), Arc::clone(&reconciler.world));
        let clock = Arc::clone(&reconciler.clock);
        let list = move |_| async move { list(&live, &world, &clock).await };
        let found = self.reads.read((), (), ReadMoment::now(), list).await?;
        *self.last() = Some((began, Arc::clone(&found)));
        Ok(found)
    }

    fn last(&self) -> MutexGuard<'_, Option<(Instant, Arc<SweepFound>)>> {
        // It is replaced whole.
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn list(live: &Live, world: &World, clock: &Clock) -> Result<SweepFound, CallError> {
    let mut managed = Vec::new();
    for kind in GrantKind::ALL {
        managed.extend(live.grants(kind, &ours()).await?);
    }
    let mut of_requests: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (number, object) in managed.iter().enumerate() {
        let uid = object.label(labels::ACCESS_REQUEST_UID).unwrap_or_default();
        of_requests.entry(uid).or_default().push(number);
    }
    let mut described = BTreeSet::new();
    let look = |request: Result<AccessRequest, _>| {
        let request = request.ok()?;
        let uid = request.metadata.uid.as_deref()?;
        let now = clock().wall;
        let objects = of_requests.get(uid).into_iter().flatten().copied();
        described.extend(objects.filter(|it| keep(&managed[*it], Some(&request), now)));
        is_without_pod(world, &request).then(|| Name::of(&request))
    };
    // Read after the objects, because a request describes an object before that object is written.
    let without_pod = live.requests(look).await?;
    let mut found = SweepFound {
        without_pod,
        ..SweepFound::default()
    };
    for (number, object) in managed.iter().enumerate() {
        let name = Name::in_metadata(&object.metadata);
        *found.managed.entry(name.namespace.clone()).or_default() += 1;
        if object.is_going() {
            found.going.push((object.kind(), name.clone()));
        }
        if !described.contains(&number) {
            found.strays.insert(name, false);
        }
    }
    for object in managed
        .iter()
        .filter(|it| it.kind() == GrantKind::RoleBinding)
    {
        if let Some(bound) = found.strays.get_mut(&Name::in_metadata(&object.metadata)) {
            *bound = true;
        }
    }
    Ok(found)
}

/// Removes every managed object of a shard that no request describes. Lists up to this age show where to look.
pub async fn sweep(
    reconciler: &Reconciler,
    shard: usize,
    age: Duration,
) -> Result<Swept, ReconcileError> {
    let shards = reconciler.queues.shards();
    let is_ours = |name: &&Name| shards.of(&name.namespace) == shard;
    let found = reconciler.sweeps.found(reconciler, age).await?;
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

/// True for a request with a grant whose pod is finished or gone. Its end may be missing in the status, because a write
/// may have failed.
fn is_without_pod(world: &World, request: &AccessRequest) -> bool {
    if !holds(request) {
        return false;
    }
    let state = world.read();
    let uid = request.spec.context.object_ref.uid.as_deref();
    let pod = state.pods.get(&pod_of(request));
    pod.filter(|it| Some(it.uid.as_str()) == uid)
        .is_none_or(|it| it.facts.as_ref().is_some_and(|facts| facts.finished))
}
