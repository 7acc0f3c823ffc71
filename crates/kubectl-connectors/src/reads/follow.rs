//! A list, and then each change.

use std::collections::HashMap;
use std::fmt::Debug;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::NamespaceResourceScope;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use service_kit::watches::{Guarded, Parse};
use tokio::time::sleep;

use super::{ClusterReads, Found, ReadResult, list, resource_of};

/// The pause before a list after a watch that broke.
const PAUSE: Duration = Duration::from_secs(1);
/// The status of a watch from a version that is too old.
const GONE: u16 = 410;

impl ClusterReads {
    /// Passes on all objects, and then those of each change, until `each` returns that this is enough. A deleted
    /// object is passed on once more.
    pub async fn follow<K, P>(
        &self,
        namespace: &str,
        mut each: impl FnMut(Vec<Found<K>>) -> bool,
    ) -> ReadResult<()>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + 'static,
        P: Parse<K> + 'static,
        Guarded<K, P>: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + DeserializeOwned
            + Clone
            + Debug
            + 'static,
    {
        let api: Api<Guarded<K, P>> = if namespace.is_empty() {
            Api::all(self.client.clone())
        } else {
            Api::namespaced(self.client.clone(), namespace)
        };
        let resource = resource_of::<K>();
        let read = list(&resource, namespace);
        // The versions that were passed on. A list after a gap repeats known versions.
        let mut known: HashMap<String, String> = HashMap::new();
        loop {
            let params = ListParams::default();
            let listed = self.call(read, || api.list(&params)).await?;
            let mut version = listed.metadata.resource_version.unwrap_or_default();
            let is_first = known.is_empty();
            let news = listed.items.into_iter().filter(|it| is_new(&mut known, it));
            let news: Vec<_> = news.map(|it| it.object.map_err(Box::new)).collect();
            if (is_first || !news.is_empty()) && !each(news) {
                return Ok(());
            }
            loop {
                let params = WatchParams::default();
                let changes = self.calls.call(read, || api.watch(&params, &version));
                let changes = match changes.await {
                    Err(error) if error.status() == Some(GONE) => break,
                    other => other.map_err(|error| self.unread(read, &error))?,
                };
                let mut changes = pin!(changes);
                let mut is_over = false;
                while let Some(change) = changes.next().await {
                    match change {
                        Ok(WatchEvent::Added(it) | WatchEvent::Modified(it)) => {
                            version = it.resource_version().unwrap_or(version);
                            if is_new(&mut known, &it) && !each(vec![it.object.map_err(Box::new)]) {
                                return Ok(());
                            }
                        }
                        Ok(WatchEvent::Deleted(it)) => {
                            version = it.resource_version().unwrap_or(version);
                            known.remove(&it.uid().unwrap_or_default());
                            if !each(vec![it.object.map_err(Box::new)]) {
                                return Ok(());
                            }
                        }
                        Ok(WatchEvent::Bookmark(it)) => version = it.metadata.resource_version,
                        // The version is too old, or the connection broke.
                        Ok(WatchEvent::Error(_)) | Err(_) => {
                            is_over = true;
                            break;
                        }
                    }
                }
                if is_over {
                    sleep(PAUSE).await;
                    break;
                }
            }
        }
    }
}

/// True for an object in a version that was not passed on yet.
fn is_new<K: Resource>(known: &mut HashMap<String, String>, object: &K) -> bool {
    let uid = object.uid().unwrap_or_default();
    let version = object.resource_version().unwrap_or_default();
    known.insert(uid, version.clone()) != Some(version)
}
