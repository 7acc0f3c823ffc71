//! The rule about managed objects, applied to all of them: at the start before anything else, and then every few
//! minutes, in case an event was lost.

use std::collections::{BTreeMap, BTreeSet};

use connectors_api::{AccessRequest, labels, names};
use futures::stream::{self, StreamExt};
use service_kit::{controller::queue::Urgency, report};
use tracing::{info, warn};

use crate::{
    api::Name,
    apply::ApplyError,
    cache::{Job, holds, pod_of},
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

/// Removes every managed object that no request describes.
pub async fn sweep(reconciler: &Reconciler) -> Result<Swept, ReconcileError> {
    let mut managed = Vec::new();
    for kind in GrantKind::ALL {
        managed.extend(reconciler.live.grants(kind, &ours()).await?);
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
        let now = (reconciler.clock)().wall;
        let objects = of_requests.get(uid).into_iter().flatten().copied();
        described.extend(objects.filter(|it| keep(&managed[*it], Some(&request), now)));
        is_without_pod(reconciler, &request).then(|| Name::of(&request))
    };
    // Read after the objects, because a request describes an object before that object is written.
    let without_pod = reconciler.live.requests(look).await?;
    let strays = managed.iter().enumerate();
    let strays = strays.filter(|(number, _)| !described.contains(number));
    let stray: BTreeSet<Name> = strays
        .map(|(_, object)| Name::in_metadata(&object.metadata))
        .collect();
    let bindings = managed
        .iter()
        .filter(|it| it.kind() == GrantKind::RoleBinding);
    let bound: BTreeSet<Name> = bindings.map(|it| Name::in_metadata(&it.metadata)).collect();
    // Roles to which no RoleBinding refers give nothing. What gives something does not wait for their removal.
    let (bound, alone): (Vec<_>, Vec<_>) = stray.into_iter().partition(|it| bound.contains(it));
    let mut swept = Swept {
        managed: managed.len(),
        ..Swept::default()
    };
    for (names, at_a_time) in [(bound, 1), (alone, AT_A_TIME)] {
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
                    reconciler.queue.wake(Job::Grant(name), Urgency::Urgent);
                    swept.left += 1;
                }
            }
        }
    }
    for object in managed.iter().filter(|it| it.is_going()) {
        let name = Name::in_metadata(&object.metadata);
        // An object whose read fails may still exist.
        if !matches!(reconciler.live.grant(object.kind(), &name).await, Ok(None)) {
            swept.left += 1;
        }
    }
    for name in without_pod {
        reconciler.queue.wake(Job::Request(name), Urgency::Urgent);
    }
    reconciler
        .gauges
        .orphaned
        .set(swept.left.try_into().unwrap_or(i64::MAX));
    info!(?swept, "swept");
    Ok(swept)
}

/// True for a request with a grant whose pod is finished or gone. Its end may be missing in the status, because a write
/// may have failed.
fn is_without_pod(reconciler: &Reconciler, request: &AccessRequest) -> bool {
    if !holds(request) {
        return false;
    }
    let state = reconciler.world.read();
    let uid = request.spec.context.object_ref.uid.as_deref();
    let pod = state.pods.get(&pod_of(request));
    pod.filter(|it| Some(it.uid.as_str()) == uid)
        .is_none_or(|it| it.facts.as_ref().is_some_and(|facts| facts.finished))
}
