//! Watches of the kinds that policies name, as long as any policy names them.
//!
//! Whether a kind exists and may be read is polled: neither CustomResourceDefinitions nor the controller's own rights
//! are watched, and both may change at any time.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use connectors_api::access_policy::ObjectKind;
use futures::StreamExt;
use kube::{Api, Client, api::ListParams, core::ApiResource, runtime::watcher};
use service_kit::{
    chance,
    kinds::{self, Served},
    shutdown::Stop,
    watches::{Change, Changes, Guarded, Listing, Watch, WatchMetrics},
};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};
use tracing::info;

use crate::{
    cache::{Job, KindState, Wakes, World},
    check_kinds,
    check_object::{AsText, CheckObject},
};

/// The interval of looking for new kinds in policies.
const NOTICE: Duration = Duration::from_millis(250);
/// The polling interval of a kind that does not exist or may not be read.
const RETRY: Duration = Duration::from_secs(5);
/// The polling interval of a kind that is watched.
const RECHECK: Duration = Duration::from_secs(30);
/// The timeout of a single call.
const LIMIT: Duration = Duration::from_secs(10);

/// Objects per page of a list. A tenant's object may have 1.5 MB.
const PAGE: u32 = 50;

/// Takes jobs for the queue.
pub type Sink = Arc<dyn Fn(Wakes) + Send + Sync>;

/// Takes jobs that are not urgent, for a later reconciliation.
pub type Later = Arc<dyn Fn(Vec<Job>) + Send + Sync>;

/// Watches the wanted kinds until the process stops.
pub async fn follow(
    client: Client,
    world: Arc<World>,
    (sink, later): (Sink, Later),
    metrics: WatchMetrics,
    stop: Stop,
) {
    let mut running: BTreeMap<ObjectKind, JoinHandle<()>> = BTreeMap::new();
    let mut known = None;
    loop {
        let revision = world.read().revision();
        if known.replace(revision) == Some(revision) {
            tokio::select! {
                biased;
                () = stop.stopped() => break,
                () = sleep(NOTICE) => continue,
            }
        }
        let wanted = world.read().wanted_kinds();
        running.retain(|kind, task| {
            let keep = wanted.contains(kind);
            if !keep {
                task.abort();
                world.write().forget_kind(kind);
                info!(kind = kind.kind, "kind is not needed any more");
            }
            keep
        });
        for kind in wanted {
            running.entry(kind.clone()).or_insert_with(|| {
                // Two statements, because `sink` reads the caches, and a write lock lives until the end of its
                // statement.
                let wakes = world.write().kind(&kind, KindState::Starting);
                sink(wakes);
                let one = One {
                    client: client.clone(),
                    world: Arc::clone(&world),
                    sink: Arc::clone(&sink),
                    later: Arc::clone(&later),
                    metrics: metrics.clone(),
                    kind,
                };
                tokio::spawn(async move { one.run().await })
            });
        }
    }
    for task in running.into_values() {
        task.abort();
    }
}

struct One {
    client: Client,
    world: Arc<World>,
    sink: Sink,
    later: Later,
    metrics: WatchMetrics,
    kind: ObjectKind,
}

impl One {
    async fn run(&self) {
        loop {
            match find(&self.client, &self.kind).await {
                Some(Found::Readable(resource)) => self.watch(resource).await,
                Some(Found::Not(state)) => self.becomes(state),
                // No answer: the last known state stays.
                None => {}
            }
            sleep(RETRY.mul_f64(0.8 + chance::fraction() / 2.5)).await;
        }
    }

    fn becomes(&self, state: KindState) {
        let wakes = self.world.write().kind(&self.kind, state);
        (self.sink)(wakes);
    }

    /// Watches until the kind can no longer be read.
    async fn watch(&self, resource: ApiResource) {
        let watch = Watch {
            name: &resource.plural.clone(),
            config: watcher::Config::default().page_size(PAGE),
            ready: None,
            metrics: &self.metrics,
        };
        self.becomes(KindState::Listing(resource.clone()));
        let api: Api<Guarded<CheckObject, AsText>> = Api::all_with(self.client.clone(), &resource);
        let mut events = Box::pin(watch.start(api));
        let mut changes = Changes::default();
        let mut recheck = Box::pin(sleep(RECHECK));
        loop {
            tokio::select! {
                biased;
                () = &mut recheck => {
                    match find(&self.client, &self.kind).await {
                        Some(Found::Readable(now)) if now == resource => {}
                        None => {}
                        Some(Found::Readable(_)) => return,
                        Some(Found::Not(state)) => {
                            self.becomes(state);
                            return;
                        }
                    }
                    recheck = Box::pin(sleep(RECHECK));
                }
                event = events.next() => {
                    let Some(event) = event else { return };
                    let (list, listing) = changes.of(event);
                    for change in list {
                        self.changed(&resource, change);
                    }
                    if listing == Some(Listing::Ends) {
                        self.becomes(KindState::Watching(resource.clone()));
                    }
                }
            }
        }
    }

    fn changed(&self, resource: &ApiResource, change: Change<Guarded<CheckObject, AsText>>) {
        let (name, object) = match change {
            Change::There(name, object) => {
                let object = object.object.map(|it| it.of_kind(resource));
                (name, Some(object))
            }
            Change::Gone(name) => (name, None),
        };
        let (wakes, later) = {
            let mut state = self.world.write();
            let wakes = state.object(&self.kind, &name, object);
            (wakes, state.may_get_more(&self.kind, &name))
        };
        (self.later)(later);
        (self.sink)(wakes);
    }
}

/// The state of a kind that discovery found.
pub(crate) enum Found {
    /// The objects can be read.
    Readable(ApiResource),
    /// The objects cannot be read.
    Not(KindState),
}

/// Asks the API server whether the kind exists and may be read. None if it does not answer.
pub(crate) async fn find(client: &Client, wanted: &ObjectKind) -> Option<Found> {
    let ObjectKind { api_version, kind } = wanted;
    if check_kinds::may_be_check(wanted).is_err() {
        return Some(Found::Not(KindState::Refused));
    }
    let resource = match kinds::served(client, api_version, kind).await? {
        Served::Missing => return Some(Found::Not(KindState::Missing)),
        Served::ClusterScoped => return Some(Found::Not(KindState::NotNamespaced)),
        Served::Namespaced(resource) => resource,
    };
    let api: Api<Guarded<CheckObject, AsText>> = Api::all_with(client.clone(), &resource);
    let params = ListParams::default().limit(1);
    match timeout(LIMIT, api.list(&params)).await {
        Ok(Ok(_)) => Some(Found::Readable(resource)),
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
            Some(Found::Not(KindState::Forbidden {
                plural: resource.plural,
                group: resource.group,
            }))
        }
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => {
            Some(Found::Not(KindState::Missing))
        }
        Ok(Err(_)) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response, StatusCode};
    use kube::client::Body;

    use super::*;

    #[tokio::test]
    async fn of_what_is_never_a_check_nothing_is_asked() {
        let asked = tower::service_fn(|_: Request<Body>| async {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            Ok::<_, Infallible>(response)
        });
        let client = Client::new(asked, "tools");
        let kind = |api_version: &str, kind: &str| ObjectKind {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        };
        let pods = find(&client, &kind("v1", "Pod")).await;
        assert!(matches!(pods, Some(Found::Not(KindState::Refused))));
        // For an allowed kind the API server is asked, and here it does not answer.
        assert!(find(&client, &kind("v1", "ConfigMap")).await.is_none());
    }
}
