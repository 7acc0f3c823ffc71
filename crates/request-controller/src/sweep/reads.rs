//! The lists of sweeps, which the shards of a process share.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use connectors_api::{AccessRequest, labels, names};
use futures::future::try_join_all;
use service_kit::{
    clock::Clock,
    retry::CallError,
    shared_reads::{ReadMoment, SharedReads},
};
use tokio::time::Instant;

use crate::{
    api::{Live, Name},
    cache::{KeptGrant, World, holds, pod_of},
    grant::keep,
    seen::{GrantKind, Managed},
};

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
    pub(super) managed: BTreeMap<String, usize>,
    /// Names under which something may have to be removed, and whether a RoleBinding has the name.
    pub(super) strays: BTreeMap<Name, bool>,
    /// Objects that are being deleted.
    pub(super) going: Vec<(GrantKind, Name)>,
    /// Requests with a grant whose pod is finished or gone.
    pub(super) without_pod: Vec<Name>,
}

/// The lists of sweeps. Shards of this process share them.
#[derive(Debug, Default)]
pub struct SweepReads {
    reads: SharedReads<(), (), SweepFound>,
    last: Mutex<Option<(Instant, Arc<SweepFound>)>>,
}

impl SweepReads {
    /// The content of a read that began after this call, or at most this long before.
    pub(super) async fn found(
        &self,
        (live, world, clock): (&Live, &Arc<World>, &Clock),
        age: Duration,
    ) -> Result<Arc<SweepFound>, Arc<CallError>> {
        let began = Instant::now();
        if let Some((then, found)) = &*self.last()
            && began.duration_since(*then) < age
        {
            return Ok(Arc::clone(found));
        }
        let (live, world, clock) = (live.clone(), Arc::clone(world), Arc::clone(clock));
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

/// A managed object in the lists. There may be tens of thousands.
pub(crate) struct ListedGrant {
    kind: GrantKind,
    name: Name,
    kept: KeptGrant,
}

impl ListedGrant {
    pub(crate) fn of(object: &Managed) -> Self {
        let request = object.label(labels::ACCESS_REQUEST_UID);
        Self {
            kind: object.kind(),
            name: Name::in_metadata(&object.metadata),
            kept: KeptGrant::of(object, request.unwrap_or_default().into()),
        }
    }

    fn managed(&self) -> Managed {
        self.kept.managed(self.kind, &self.name)
    }
}

async fn list(live: &Live, world: &World, clock: &Clock) -> Result<SweepFound, CallError> {
    let ours = ours();
    let lists = GrantKind::ALL.map(|kind| live.grants(kind, &ours, ListedGrant::of));
    let managed: Vec<_> = try_join_all(lists).await?.into_iter().flatten().collect();
    let mut of_requests: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (number, object) in managed.iter().enumerate() {
        let of_request = of_requests.entry(object.kept.request()).or_default();
        of_request.push(number);
    }
    let mut described = BTreeSet::new();
    let look = |request: Result<AccessRequest, _>| {
        let request = request.ok()?;
        let uid = request.metadata.uid.as_deref()?;
        let now = clock().wall;
        let objects = of_requests.get(uid).into_iter().flatten().copied();
        described.extend(objects.filter(|it| keep(&managed[*it].managed(), Some(&request), now)));
        is_without_pod(world, &request).then(|| Name::of(&request))
    };
    // Read after the objects, because a request describes an object before that object is written.
    let without_pod = live.requests(look).await?;
    let mut found = SweepFound {
        without_pod,
        ..SweepFound::default()
    };
    for (number, object) in managed.iter().enumerate() {
        let ListedGrant { kind, name, .. } = object;
        *found.managed.entry(name.namespace.clone()).or_default() += 1;
        if object.managed().is_going() {
            found.going.push((*kind, name.clone()));
        }
        if !described.contains(&number) {
            found.strays.insert(name.clone(), false);
        }
    }
    for object in &managed {
        if object.kind == GrantKind::RoleBinding
            && let Some(bound) = found.strays.get_mut(&object.name)
        {
            *bound = true;
        }
    }
    Ok(found)
}

/// True for a request with a grant whose pod is finished or gone. Its end may be missing in the status, because a write
/// may have failed.
fn is_without_pod(world: &World, request: &AccessRequest) -> bool {
    if !holds(request) {
        return false;
    }
    let uid = request.spec.context.object_ref.uid.as_deref();
    !world.read().has_living_pod(&pod_of(request), uid)
}
