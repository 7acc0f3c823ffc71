//! The watches, and how their events reach the caches and the queue.

use std::{fmt::Debug, sync::Arc};

use connectors_api::{AccessPolicy, config::CONFIG_MAP, connector};
use futures::{Stream, StreamExt, future::BoxFuture};
use k8s_openapi::api::{
    core::v1::{Namespace, ServiceAccount},
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    Api, Client, Resource,
    runtime::watcher::{Config, Event},
};
use service_kit::{
    config_map::{self, Heard},
    readiness::{Part, Readiness},
    shutdown::Stop,
    watches::{Change, Changes, Guarded, Labelled, Listing, Named, Parse, Watch, WatchMetrics},
};

use tracing::warn;

use crate::{
    live::{job_in, managed_by_us},
    parsers::Strict,
    plan::objects::{Fingerprint, of_binding, of_role},
    queue::Queue,
    seen::{Kind, Labels, Name},
    world::{Job, ManagedCached, PolicyCached, Wakes, World},
};

/// Called with a policy that was deleted at once.
pub type Deleted = Arc<dyn Fn(Name, PolicyCached) + Send + Sync>;

/// Everything that the watches need.
#[derive(Clone)]
pub struct Feeds {
    /// The client.
    pub client: Client,
    /// The namespace of the installation.
    pub namespace: Arc<str>,
    /// The caches.
    pub world: Arc<World>,
    /// The queue.
    pub queue: Arc<Queue<Job>>,
    /// Who hears of deleted policies.
    pub deleted: Deleted,
    /// The watches' own troubles.
    pub metrics: WatchMetrics,
}

impl Feeds {
    /// Follows every kind until it is time to end. The caches are complete when both are ready.
    pub fn start(&self, ready: [&Readiness; 2], stop: &Stop) -> impl Future<Output = ()> + use<> {
        let client = || self.client.clone();
        let all = || Config::default();
        let managed = Config::default().labels(&managed_by_us());
        let part = |name: &str| ready.map(|it| it.part(name));
        let feeds = [
            self.feed(
                "accesspolicies",
                Api::<Guarded<AccessPolicy, Strict>>::all(client()),
                all(),
                part("accesspolicies"),
                Self::policy,
            ),
            self.feed(
                "connectors",
                Api::<Guarded<connector::Selectable, Labelled>>::all(client()),
                all(),
                part("connectors"),
                Self::connector,
            ),
            self.feed(
                "namespaces",
                Api::<Guarded<Namespace, Named>>::all(client()),
                all(),
                part("namespaces"),
                Self::namespace,
            ),
            self.feed(
                "serviceaccounts",
                Api::<Guarded<ServiceAccount, Named>>::all(client()),
                all(),
                part("serviceaccounts"),
                Self::account,
            ),
            self.feed(
                "roles",
                Api::<Guarded<Role>>::all(client()),
                managed.clone(),
                part("roles"),
                |feeds, change| feeds.object(Kind::Role, change, of_role),
            ),
            self.feed(
                "rolebindings",
                Api::<Guarded<RoleBinding>>::all(client()),
                managed,
                part("rolebindings"),
                |feeds, change| feeds.object(Kind::RoleBinding, change, of_binding),
            ),
            self.configuration(part("configuration"), stop.clone()),
        ];
        let feeds = futures::future::join_all(feeds);
        let stop = stop.clone();
        async move {
            tokio::select! {
                biased;
                () = stop.stopped() => {}
                _ = feeds => {}
            }
        }
    }

    fn feed<K, P>(
        &self,
        name: &'static str,
        api: Api<Guarded<K, P>>,
        config: Config,
        ready: [Part; 2],
        take: fn(&Self, Change<Guarded<K, P>>) -> Wakes,
    ) -> BoxFuture<'static, ()>
    where
        K: Resource + Clone + Debug + Send + 'static,
        P: Parse<K> + 'static,
        Guarded<K, P>: Resource,
    {
        let watch = Watch {
            name,
            config,
            ready: None,
            metrics: &self.metrics,
        };
        let events = watch.start(api);
        let feeds = self.clone();
        Box::pin(async move { feeds.drain(events, ready, take).await })
    }

    /// Nothing is given or taken before it is known what the installation says, or that it says nothing.
    fn configuration(&self, ready: [Part; 2], stop: Stop) -> BoxFuture<'static, ()> {
        let feeds = self.clone();
        Box::pin(async move {
            let mut ready = Vec::from(ready);
            let hear = |heard| {
                feeds.hear(&heard);
                ready.drain(..).for_each(Part::ready);
            };
            let (client, metrics) = (feeds.client.clone(), &feeds.metrics);
            config_map::follow(client, &feeds.namespace, CONFIG_MAP, metrics, &stop, hear).await;
        })
    }

    fn hear(&self, heard: &Heard) {
        let data = match heard {
            Heard::Data(data) => Some(data),
            Heard::Unreadable | Heard::Gone => None,
        };
        let (problems, wakes) = self.world.write().learn(data);
        for problem in problems {
            warn!(%problem, "configuration");
        }
        for (job, urgency) in wakes {
            self.queue.wake(job, urgency);
        }
    }

    /// The parts are released when the caches hold the list, not when the watch has sent it.
    async fn drain<K: Resource>(
        &self,
        events: impl Stream<Item = Event<K>>,
        ready: [Part; 2],
        take: fn(&Self, Change<K>) -> Wakes,
    ) {
        let mut ready = Vec::from(ready);
        let mut events = std::pin::pin!(events);
        let mut changes = Changes::default();
        while let Some(event) = events.next().await {
            let (list, listing) = changes.of(event);
            for change in list {
                for (job, urgency) in take(self, change) {
                    self.queue.wake(job, urgency);
                }
            }
            if listing == Some(Listing::Ends) {
                ready.drain(..).for_each(Part::ready);
            }
        }
    }

    fn policy(&self, change: Change<Guarded<AccessPolicy, Strict>>) -> Wakes {
        match change {
            Change::There(name, policy) => {
                let metadata = policy.meta();
                let cached = PolicyCached::of(
                    metadata.uid.clone().unwrap_or_default(),
                    metadata.deletion_timestamp.is_some(),
                    policy.object.ok(),
                );
                self.world.write().policy(&name, Some(cached))
            }
            Change::Gone(name) => {
                let mut state = self.world.write();
                let gone = state.policy_named(&name).cloned();
                let wakes = state.policy(&name, None);
                drop(state);
                if let Some(gone) = gone.filter(|it| !it.deleting) {
                    (self.deleted)(name, gone);
                }
                wakes
            }
        }
    }

    fn connector(&self, change: Change<Guarded<connector::Selectable, Labelled>>) -> Wakes {
        let (name, labels) = labels_in(change);
        self.world.write().connector(&name, labels)
    }

    fn namespace(&self, change: Change<Guarded<Namespace, Named>>) -> Wakes {
        let (name, labels) = labels_in(change);
        self.world.write().namespace(&name.name, labels)
    }

    fn account(&self, change: Change<Guarded<ServiceAccount, Named>>) -> Wakes {
        let (name, labels) = labels_in(change);
        self.world.write().account(&name, labels)
    }

    fn object<K: Resource>(
        &self,
        kind: Kind,
        change: Change<Guarded<K>>,
        said: fn(&K) -> Fingerprint,
    ) -> Wakes {
        let mut state = self.world.write();
        match change {
            Change::There(name, object) => {
                let job = job_in(object.meta());
                let cached = ManagedCached {
                    said: object.object.as_ref().ok().map(said),
                    terminating: object.meta().deletion_timestamp.is_some(),
                };
                let uid = job.as_ref().map(|it| it.uid.as_str());
                state.object(kind, &name, uid.map(|uid| (uid, cached)))
            }
            Change::Gone(name) => state.object(kind, &name, None),
        }
    }
}

/// None of an object that is gone or being deleted, or whose labels cannot be read: no selector finds it.
fn labels_in<K: Resource, P>(change: Change<Guarded<K, P>>) -> (Name, Option<Labels>) {
    match change {
        Change::There(name, object) => {
            let readable = object.object.ok();
            let there = readable.filter(|it| it.meta().deletion_timestamp.is_none());
            let labels = there.map(|it| it.meta().labels.clone().unwrap_or_default());
            (name, labels)
        }
        Change::Gone(name) => (name, None),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_connector_whose_labels_cannot_be_read_is_as_good_as_gone() {
        let labels = |labels: serde_json::Value| {
            let connector = json!({"metadata": {"name": "c", "labels": labels}});
            let connector: Guarded<connector::Selectable, Labelled> =
                serde_json::from_str(&connector.to_string()).unwrap();
            labels_in(Change::There(Name::new("tools", "c"), connector)).1
        };
        assert_eq!(labels(json!({})), Some(Labels::new()));
        assert!(labels(json!({"a": "b"})).is_some());
        // As one without labels, a selector that leaves out some would find it.
        assert_eq!(labels(json!({"a": "x".repeat(9000)})), None);
    }
}
