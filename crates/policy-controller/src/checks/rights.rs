//! When what people may do has changed last.
//!
//! Only the moment is kept. What the installation itself writes is about its own group and lets nobody write approvals,
//! so it is left out: there is much of it.

use std::fmt::Debug;

use connectors_api::{labels, names::MANAGED_BY};
use futures::{StreamExt, future::BoxFuture};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::{Api, Client, Resource, runtime::watcher::Config};
use serde::de::DeserializeOwned;
use service_kit::{
    shutdown::Stop,
    watches::{Guarded, Named, Parse, Watch, WatchMetrics},
};
use tokio::{sync::watch, time::Instant};

/// Follows Roles, ClusterRoles and their bindings until it is time to end.
pub async fn follow(
    client: Client,
    metrics: WatchMetrics,
    changed: watch::Sender<Instant>,
    stop: Stop,
) {
    let feeds = [
        feed::<Role>(&client, &metrics, &changed, "foreign roles"),
        feed::<RoleBinding>(&client, &metrics, &changed, "foreign rolebindings"),
        feed::<ClusterRole>(&client, &metrics, &changed, "clusterroles"),
        feed::<ClusterRoleBinding>(&client, &metrics, &changed, "clusterrolebindings"),
    ];
    tokio::select! {
        biased;
        () = stop.stopped() => {}
        _ = futures::future::join_all(feeds) => {}
    }
}

fn feed<K>(
    client: &Client,
    metrics: &WatchMetrics,
    changed: &watch::Sender<Instant>,
    name: &str,
) -> BoxFuture<'static, ()>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    Named: Parse<K>,
{
    let foreign = format!("{}!={}", labels::MANAGED_BY, MANAGED_BY);
    let watch = Watch {
        name,
        config: Config::default().labels(&foreign),
        ready: None,
        metrics,
    };
    let api: Api<Guarded<K, Named>> = Api::all(client.clone());
    let mut events = Box::pin(watch.start(api));
    let changed = changed.clone();
    Box::pin(async move {
        while events.next().await.is_some() {
            changed.send_replace(Instant::now());
        }
    })
}
