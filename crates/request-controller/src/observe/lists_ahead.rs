//! Lists of check objects that begin with the first reads of a live look.
//!
//! A consistent LIST may wait for seconds until the API server's cache has caught up with etcd. One after the other, the
//! lists of a look would take longer than a live read is valid.

use std::{pin::pin, sync::Arc};

use connectors_api::{access_policy::ObjectKind, template::RenderedLabels};
use futures::{
    FutureExt,
    future::{BoxFuture, Either, Shared, join_all, select},
};
use kube::core::ApiResource;
use tokio::sync::Semaphore;

use crate::{
    api::{Live, Name},
    cache::{KindState, SoughtObjects, World},
    check_object::CheckObject,
};

/// The limit of bytes that all these lists have in the caches, and that each of them may bring. Lists of more objects come
/// one after the other, so that only one of them is in memory.
const MOST_BYTES: usize = 64 * 1024;
/// The limit of such lists at a time, of all looks. Pages are in memory before their objects are weighed.
const AT_ONCE: usize = 16;

/// None if the list failed: the next one tells why.
type AheadObjects = Option<Vec<Arc<CheckObject>>>;

/// The places of lists that begin ahead.
pub(super) struct AheadPlaces(Arc<Semaphore>);

impl Default for AheadPlaces {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

/// The lists of one look, by what they select in one namespace.
#[derive(Default)]
pub(super) struct ListsAhead {
    namespace: String,
    lists: Vec<(SoughtObjects, Shared<BoxFuture<'static, AheadObjects>>)>,
}

/// A list that the last look at a request has needed.
struct AheadList {
    sought: SoughtObjects,
    resource: ApiResource,
}

impl ListsAhead {
    /// The lists for a waiting request, as its last look has selected them.
    pub(super) fn of(request: &Name, world: &World, live: &Live, places: &AheadPlaces) -> Self {
        let Some((namespace, lists)) = few_objects(request, world) else {
            return Self::default();
        };
        let lists = lists
            .into_iter()
            .filter_map(|AheadList { sought, resource }| {
                let place = Arc::clone(&places.0).try_acquire_owned().ok()?;
                let (live, namespace) = (live.clone(), namespace.clone());
                let labels = sought.1.to_string();
                let list = async move {
                    let _place = place;
                    let listed = live.check_objects(&resource, &namespace, &labels, MOST_BYTES);
                    let objects = listed.await.ok()?.into_iter().map(Arc::new);
                    Some(objects.collect())
                };
                Some((sought, list.boxed().shared()))
            });
        let lists = lists.collect();
        Self { namespace, lists }
    }

    /// The objects of a list, when it has come. None if there is no such list.
    pub(super) async fn take(
        &self,
        kind: &ObjectKind,
        namespace: &str,
        labels: &RenderedLabels,
    ) -> AheadObjects {
        let mut lists = self.lists.iter().filter(|_| self.namespace == namespace);
        let (_, list) = lists.find(|((of, by), _)| of == kind && by == labels)?;
        list.clone().await
    }

    /// Makes a look while the lists come. Those that it has not waited for end with it.
    pub(super) async fn beside<T>(&self, look: impl Future<Output = T>) -> T {
        let lists = pin!(join_all(self.lists.iter().map(|(_, list)| list.clone())));
        match select(pin!(look), lists).await {
            Either::Left((seen, _)) => seen,
            Either::Right((_, look)) => look.await,
        }
    }
}

/// The lists of a request with few objects, and the namespace of these. None if one of their kinds is not in the caches.
fn few_objects(request: &Name, world: &World) -> Option<(String, Vec<AheadList>)> {
    let state = world.read();
    let (namespace, sought) = state.sought.of(request)?;
    let (mut lists, mut bytes) = (Vec::new(), 0);
    for (kind, labels) in sought {
        let cache = state.kinds.get(kind)?;
        let KindState::Watching(resource) = &cache.state else {
            return None;
        };
        let objects = cache.with_labels(namespace, labels)?;
        // The text of one that is too large is not in the cache.
        if objects.iter().any(|it| it.text().is_none()) {
            return None;
        }
        bytes += objects.into_iter().map(|it| it.weight()).sum::<usize>();
        if bytes > MOST_BYTES {
            return None;
        }
        lists.push(AheadList {
            sought: (kind.clone(), labels.clone()),
            resource: resource.clone(),
        });
    }
    Some((namespace.to_owned(), lists))
}
