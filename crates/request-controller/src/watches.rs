//! The watches of fixed kinds, and how their events reach the caches and the queue.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::{Arc, Mutex, PoisonError},
};

use connectors_api::{AccessPolicy, AccessRequest, config::CONFIG_MAP, connector, labels, names};
use futures::{Stream, StreamExt};
use k8s_openapi::api::{
    core::v1::{ConfigMap, Namespace, Pod, ServiceAccount},
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    runtime::watcher::{Config, Event},
};
use service_kit::{
    readiness::{Part, Readiness},
    shutdown::Stop,
    watches::{Change, Changes, Guarded, Labelled, Listing, Named, Parse, Watch, WatchMetrics},
};
use tracing::{info, warn};

use crate::{
    api::{Name, PodFields, Strict, binding, role},
    caches::{ConnectorCached, PodCached, PolicyCached, Wakes, World},
    dynamic::Sink,
    metrics::Metrics,
    observe::is_finished,
    seen::{ConnectorSeen, GrantKind, Managed, PodFacts},
};

/// For kinds of which nothing follows from what is not there yet.
fn any_order(_: &Feeds, _: bool) {}

/// Called with a request that was deleted after it had decided.
pub type Deleted = Arc<dyn Fn(Arc<AccessRequest>) + Send + Sync>;

/// Everything that the watches need.
#[derive(Clone)]
pub struct Feeds {
    /// The client.
    pub client: Client,
    /// The caches.
    pub world: Arc<World>,
    /// The queue.
    pub sink: Sink,
    /// Who hears of deleted requests.
    pub deleted: Deleted,
    /// The watches' own troubles.
    pub metrics: WatchMetrics,
    /// The namespace of the installation.
    pub namespace: String,
    /// Where it is told what is known of the configuration.
    pub told: Metrics,
    /// Released once the switch is known.
    pub configured: Arc<Mutex<Vec<Part>>>,
}

impl Feeds {
    /// Follows every fixed kind until it is time to end.
    pub fn start(&self, ready: [&Readiness; 2], stop: &Stop) -> impl Future<Output = ()> + use<> {
        let managed = format!(
            "{}={},{}",
            labels::MANAGED_BY,
            names::MANAGED_BY,
            labels::ACCESS_REQUEST_UID
        );
        let managed = Config::default().labels(&managed);
        let config = Config::default().fields(&format!("metadata.name={CONFIG_MAP}"));
        let client = || self.client.clone();
        let part = |name: &str| ready.map(|it| it.part(name)).into();
        let all = [
            self.feed(
                "accessrequests",
                Api::<Guarded<AccessRequest, Strict>>::all(client()),
                Config::default(),
                part("accessrequests"),
                Self::request,
                Self::requests_are_listed,
            ),
            self.feed(
                "accesspolicies",
                Api::<Guarded<AccessPolicy, Strict>>::all(client()),
                Config::default(),
                part("accesspolicies"),
                Self::policy,
                any_order,
            ),
            self.feed(
                "connectors",
                Api::<Guarded<connector::Selectable, Labelled>>::all(client()),
                Config::default(),
                part("connectors"),
                Self::connector,
                any_order,
            ),
            self.feed(
                "pods",
                Api::<Guarded<Pod, PodFields>>::all(client()),
                Config::default(),
                part("pods"),
                Self::pod,
                any_order,
            ),
            self.feed(
                "serviceaccounts",
                Api::<Guarded<ServiceAccount, Named>>::all(client()),
                Config::default(),
                part("serviceaccounts"),
                Self::account,
                any_order,
            ),
            self.feed(
                "namespaces",
                Api::<Guarded<Namespace, Named>>::all(client()),
                Config::default(),
                part("namespaces"),
                Self::namespace,
                any_order,
            ),
            self.feed(
                "roles",
                Api::<Guarded<Role>>::all(client()),
                managed.clone(),
                part("roles"),
                Self::role,
                any_order,
            ),
            self.feed(
                "rolebindings",
                Api::<Guarded<RoleBinding>>::all(client()),
                managed,
                part("rolebindings"),
                Self::binding,
                any_order,
            ),
            self.feed(
                "configmaps",
                Api::<Guarded<ConfigMap>>::namespaced(client(), &self.namespace),
                config,
                // What holds something can end without it; that it is there is another question.
                vec![ready[1].part("configmaps")],
                Self::config,
                any_order,
            ),
        ];
        let all = futures::future::join_all(all);
        let stop = stop.clone();
        async move {
            tokio::select! {
                biased;
                () = stop.stopped() => {}
                _ = all => {}
            }
        }
    }

    fn feed<K, P>(
        &self,
        name: &'static str,
        api: Api<Guarded<K, P>>,
        config: Config,
        ready: Vec<Part>,
        take: fn(&Self, Change<Guarded<K, P>>) -> Wakes,
        is_listed: fn(&Self, bool),
    ) -> futures::future::BoxFuture<'static, ()>
    where
        K: Resource + Clone + Debug + Send + 'static,
        P: Parse<K> + 'static,
        Guarded<K, P>: ResourceExt,
    {
        let watch = Watch {
            name,
            config,
            ready: None,
            metrics: &self.metrics,
        };
        let events = watch.start(api);
        let feeds = self.clone();
        Box::pin(async move { feeds.drain(events, ready, take, is_listed).await })
    }

    /// The part is released when the caches hold the list, not when the watch has sent it.
    async fn drain<K, P>(
        &self,
        events: impl Stream<Item = Event<Guarded<K, P>>>,
        mut ready: Vec<Part>,
        take: fn(&Self, Change<Guarded<K, P>>) -> Wakes,
        is_listed: fn(&Self, bool),
    ) where
        Guarded<K, P>: ResourceExt,
    {
        let mut events = std::pin::pin!(events);
        let mut changes = Changes::default();
        while let Some(event) = events.next().await {
            let (list, listing) = changes.of(event);
            if listing == Some(Listing::Begins) {
                is_listed(self, true);
            }
            for change in list {
                let wakes = take(self, change);
                (self.sink)(wakes);
            }
            if listing == Some(Listing::Ends) {
                is_listed(self, false);
                ready.drain(..).for_each(Part::ready);
            }
        }
    }

    /// Older requests of a pod may be missing while newer ones are there already.
    fn requests_are_listed(&self, listed: bool) {
        self.world.write().requests.set_listed(listed);
    }

    fn request(&self, change: Change<Guarded<AccessRequest, Strict>>) -> Wakes {
        match change {
            Change::There(name, request) => {
                let request = request.object.map(Arc::new);
                self.world.write().request(&name, request)
            }
            Change::Gone(name) => {
                let (gone, wakes) = self.world.write().request_gone(&name);
                if let Some(gone) = gone {
                    (self.deleted)(gone);
                }
                wakes
            }
        }
    }

    fn policy(&self, change: Change<Guarded<AccessPolicy, Strict>>) -> Wakes {
        match change {
            Change::There(name, policy) => {
                let metadata = policy.meta();
                let (uid, deleting) = (metadata.uid.clone(), metadata.deletion_timestamp.is_some());
                let cached = PolicyCached {
                    uid: uid.unwrap_or_default(),
                    deleting,
                    policy: policy.object.map(|it| self.world.parsed(it)),
                };
                self.world.write().policy(&name, Some(cached))
            }
            Change::Gone(name) => self.world.write().policy(&name, None),
        }
    }

    fn connector(&self, change: Change<Guarded<connector::Selectable, Labelled>>) -> Wakes {
        let (name, connector) = match change {
            Change::There(name, connector) => {
                // Without its labels nobody knows which selectors leave it out.
                let readable = connector.object.ok();
                let there = readable.filter(|it| it.metadata.deletion_timestamp.is_none());
                let cached = there.map(|it| ConnectorCached {
                    seen: ConnectorSeen {
                        uid: it.uid().unwrap_or_default(),
                    },
                    labels: it.labels().clone(),
                });
                (name, cached)
            }
            Change::Gone(name) => (name, None),
        };
        self.world.write().connector(&name, connector)
    }

    fn pod(&self, change: Change<Guarded<Pod, PodFields>>) -> Wakes {
        let (name, pod) = match change {
            Change::There(name, pod) => {
                let cached = PodCached {
                    uid: pod.uid().unwrap_or_default(),
                    version: pod.resource_version().unwrap_or_default(),
                    facts: pod.object.ok().map(|pod| facts(&pod)),
                };
                (name, Some(cached))
            }
            Change::Gone(name) => (name, None),
        };
        self.world.write().pod(&name, pod)
    }

    fn account(&self, change: Change<Guarded<ServiceAccount, Named>>) -> Wakes {
        let (name, labels) = labels_in(change);
        self.world.write().account(&name, labels)
    }

    fn namespace(&self, change: Change<Guarded<Namespace, Named>>) -> Wakes {
        let (name, labels) = labels_in(change);
        self.world.write().namespace(&name.name, labels)
    }

    fn role(&self, change: Change<Guarded<Role>>) -> Wakes {
        self.grant(GrantKind::Role, change, role)
    }

    fn binding(&self, change: Change<Guarded<RoleBinding>>) -> Wakes {
        self.grant(GrantKind::RoleBinding, change, binding)
    }

    fn grant<K>(
        &self,
        kind: GrantKind,
        change: Change<Guarded<K>>,
        managed: fn(Guarded<K>) -> Managed,
    ) -> Wakes {
        let (name, grant) = match change {
            Change::There(name, object) => (name, Some(managed(object))),
            Change::Gone(name) => (name, None),
        };
        self.world.write().grant(kind, &name, grant.as_ref())
    }

    fn config(&self, change: Change<Guarded<ConfigMap>>) -> Wakes {
        let Change::There(_, map) = change else {
            self.told.config_present.set(0);
            warn!("the configuration is gone; the last known values hold");
            return Wakes::new();
        };
        let data: BTreeMap<String, String> = match map.object {
            Ok(map) => map.data.unwrap_or_default(),
            Err(unreadable) => {
                warn!(
                    problem = unreadable.problem,
                    "the configuration cannot be read"
                );
                return Wakes::new();
            }
        };
        let (problems, wakes) = self.world.write().learn(&data);
        for problem in problems {
            warn!(%problem, "configuration");
        }
        let known = self.world.config();
        self.told.config_present.set(1);
        let enabled = known.is_some_and(|config| config.enabled);
        self.told.enabled.set(enabled.into());
        info!(config = ?known, "configuration");
        if known.is_some() {
            let parts = self.configured.lock();
            let mut parts = parts.unwrap_or_else(PoisonError::into_inner);
            parts.drain(..).for_each(Part::ready);
        }
        wakes
    }
}

/// None of an object that is gone, or whose labels cannot be read: no selector finds it.
fn labels_in<K>(change: Change<Guarded<K, Named>>) -> (Name, Option<BTreeMap<String, String>>)
where
    K: Resource,
    Named: Parse<K>,
{
    match change {
        Change::There(name, object) => {
            let readable = object.object.ok();
            let labels = readable.map(|it| it.meta().labels.clone().unwrap_or_default());
            (name, labels)
        }
        Change::Gone(name) => (name, None),
    }
}

fn facts(pod: &Pod) -> PodFacts {
    let account = pod
        .spec
        .as_ref()
        .and_then(|it| it.service_account_name.clone());
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    PodFacts {
        finished: is_finished(phase),
        terminating: pod.metadata.deletion_timestamp.is_some(),
        account: account
            .filter(|it| !it.is_empty())
            .unwrap_or_else(|| "default".to_owned()),
    }
}
