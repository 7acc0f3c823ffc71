//! The time of the last change of rights, in each namespace.
//!
//! Only the times are kept. Objects that the installation itself writes are left out, because there are many:
//! they are about its own group, and give no right to write approvals. A change in one namespace does not
//! affect the others: otherwise one tenant that edits a Role without end would cause reviews of the rights of
//! all tenants without end.

use std::{
    collections::HashMap,
    fmt::Debug,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use connectors_api::{labels, names::MANAGED_BY};
use futures::{StreamExt, future::BoxFuture};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::{
    Api, Client, Resource,
    runtime::watcher::{Config, Event},
};
use serde::de::DeserializeOwned;
use service_kit::{
    shutdown::Stop,
    watches::{Guarded, Named, Parse, Watch, WatchMetrics},
};
use tokio::time::Instant;

/// The limit of namespaces with times of their own. With more, a change counts for all namespaces.
const MOST_NAMESPACES: usize = 1024;

/// The times of the last changes of rights. Clones share one state.
#[derive(Clone, Debug)]
pub struct RightsChanges(Arc<Mutex<Changed>>);

#[derive(Debug)]
struct Changed {
    /// In all namespaces.
    everywhere: Instant,
    /// In one.
    namespaces: HashMap<String, Instant>,
}

impl RightsChanges {
    /// Nothing is known from before that moment.
    #[must_use]
    pub fn since(start: Instant) -> Self {
        Self(Arc::new(Mutex::new(Changed {
            everywhere: start,
            namespaces: HashMap::new(),
        })))
    }

    /// When rights changed last that count in a namespace; or, without one, in all of them.
    #[must_use]
    pub fn last(&self, namespace: Option<&str>) -> Instant {
        let changed = self.changed();
        let there = namespace.and_then(|it| changed.namespaces.get(it));
        there.map_or(changed.everywhere, |it| changed.everywhere.max(*it))
    }

    /// Rights changed in a namespace; or, without one, in all of them.
    pub fn note(&self, namespace: Option<&str>, now: Instant) {
        let mut changed = self.changed();
        let is_known = |it: &str| changed.namespaces.contains_key(it);
        let has_room = changed.namespaces.len() < MOST_NAMESPACES;
        if let Some(namespace) = namespace.filter(|it| has_room || is_known(it)) {
            changed.namespaces.insert(namespace.to_owned(), now);
        } else {
            changed.everywhere = now;
            changed.namespaces.clear();
        }
    }

    fn changed(&self) -> MutexGuard<'_, Changed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Follows Roles, ClusterRoles and their bindings until it is time to end.
pub async fn follow(client: Client, metrics: WatchMetrics, changes: RightsChanges, stop: Stop) {
    let feeds = [
        feed::<Role>(&client, &metrics, &changes, "foreign roles"),
        feed::<RoleBinding>(&client, &metrics, &changes, "foreign rolebindings"),
        feed::<ClusterRole>(&client, &metrics, &changes, "clusterroles"),
        feed::<ClusterRoleBinding>(&client, &metrics, &changes, "clusterrolebindings"),
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
    changes: &RightsChanges,
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
    let changes = changes.clone();
    Box::pin(async move {
        while let Some(event) = events.next().await {
            match event {
                Event::Apply(object) | Event::Delete(object) => {
                    changes.note(object.meta().namespace.as_deref(), Instant::now());
                }
                Event::Init | Event::InitDone => changes.note(None, Instant::now()),
                Event::InitApply(_) => {}
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_change_in_one_namespace_says_nothing_about_another() {
        let start = Instant::now();
        let changes = RightsChanges::since(start);
        let later = start + SECOND;
        changes.note(Some("loud"), later);
        assert_eq!(changes.last(Some("loud")), later);
        assert_eq!(changes.last(Some("quiet")), start);
        assert_eq!(changes.last(None), start);
    }

    #[test]
    fn a_change_in_all_namespaces_counts_in_each() {
        let start = Instant::now();
        let changes = RightsChanges::since(start);
        changes.note(Some("loud"), start + SECOND);
        changes.note(None, start + 2 * SECOND);
        for namespace in [Some("loud"), Some("quiet"), None] {
            assert_eq!(changes.last(namespace), start + 2 * SECOND);
        }
    }

    #[test]
    fn with_too_many_namespaces_a_change_counts_for_all_and_none_is_kept() {
        let start = Instant::now();
        let changes = RightsChanges::since(start);
        for n in 0..MOST_NAMESPACES {
            changes.note(Some(&n.to_string()), start + SECOND);
        }
        changes.note(Some("0"), start + 2 * SECOND);
        assert_eq!(changes.last(None), start);
        assert_eq!(changes.last(Some("0")), start + 2 * SECOND);
        changes.note(Some("one more"), start + 3 * SECOND);
        assert_eq!(changes.last(Some("1")), start + 3 * SECOND);
        assert!(changes.changed().namespaces.is_empty());
    }
}
