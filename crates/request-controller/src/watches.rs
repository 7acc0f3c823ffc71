//! The watches of fixed kinds, and how their events reach the caches and the queue.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use connectors_api::{AccessPolicy, AccessRequest, config::CONFIG_MAP, connector};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, ServiceAccount};
use kube::{Api, Client, Resource, ResourceExt, runtime::watcher::Config};
use service_kit::{
    controller::feeds::{Fed, Feeds},
    readiness::{Readiness, ReadinessPart},
    shutdown::Stop,
    watches::{Change, Guarded, Labelled, ListState, Named, Parse, WatchMetrics},
};
use tracing::{info, warn};

use crate::{
    api::{Name, PodFields, Strict, binding, role},
    cache::{ConnectorCached, PodCached, PolicyCached, Wakes, World},
    dynamic::Sink,
    metrics::Metrics,
    observe::{gated_since, pod_facts},
    seen::{ConnectorSeen, GrantKind, Managed},
    sweep,
};

/// The objects of one page of a list. A page is in memory as a whole, and its objects are several times as large as what
/// the caches keep of them.
const PAGE: u32 = 100;

/// Called with each deleted request that was readable.
pub type Deleted = Arc<dyn Fn(Arc<AccessRequest>) + Send + Sync>;

/// Whether the first lists of the watched kinds have been received.
#[derive(Clone)]
pub struct Caches {
    /// Those from which it is seen what may have to be revoked.
    pub of_grants: Readiness,
    /// All of them.
    pub complete: Readiness,
}

impl Caches {
    /// Incomplete ones. The parts are released when the watches have added theirs.
    pub fn starting() -> (Self, [ReadinessPart; 2]) {
        let (of_grants, first) = Readiness::starting();
        let (complete, second) = Readiness::starting();
        let caches = Self {
            of_grants,
            complete,
        };
        (caches, [first, second])
    }
}

/// The dependencies of the watches.
#[derive(Clone)]
pub struct RequestFeeds {
    /// The client.
    pub client: Client,
    /// The caches.
    pub world: Arc<World>,
    /// Puts jobs into the queue.
    pub sink: Sink,
    /// Called with deleted requests.
    pub deleted: Deleted,
    /// The metrics of the watches.
    pub metrics: WatchMetrics,
    /// The namespace of the installation.
    pub namespace: String,
    /// The metrics that show the state of the configuration.
    pub told: Metrics,
}

impl RequestFeeds {
    /// Follows every fixed kind until the process stops. The process is ready when its configuration is known.
    pub fn start(
        &self,
        process: &Readiness,
        caches: &Caches,
        stop: Stop,
    ) -> impl Future<Output = ()> + use<> {
        let client = || self.client.clone();
        let all = || Config::default().page_size(PAGE);
        let managed = || all().labels(&sweep::reads::ours());
        let Caches {
            of_grants,
            complete,
        } = caches;
        let parts: &[_] = &[process, of_grants, complete];
        let wake = |feeds: &Self, wakes| (feeds.sink)(wakes);
        let mut feeds = Feeds::new(self.clone(), wake, parts, &self.metrics);
        let taken = {
            let feeds = self.clone();
            move |fed| match fed {
                Fed::Listing(listing) => feeds.requests_are_listed(listing == ListState::Begins),
                Fed::Change(change) => (feeds.sink)(feeds.request(change)),
            }
        };
        feeds.follow_steps(("accessrequests", parts), Api::all(client()), all(), taken);
        feeds.follow("accesspolicies", Api::all(client()), all(), Self::policy);
        feeds.follow("connectors", Api::all(client()), all(), Self::connector);
        feeds.follow("pods", Api::all(client()), all(), Self::pod);
        // What ends a grant is read live, so a kind that only has labels keeps no revocation waiting.
        let labels: &[_] = &[process, complete];
        feeds.follow_for(
            ("serviceaccounts", labels),
            Api::all(client()),
            all(),
            Self::account,
        );
        feeds.follow_for(
            ("namespaces", labels),
            Api::all(client()),
            all(),
            Self::namespace,
        );
        feeds.follow("roles", Api::all(client()), managed(), |feeds, change| {
            feeds.grant(GrantKind::Role, change, role)
        });
        feeds.follow(
            "rolebindings",
            Api::all(client()),
            managed(),
            |feeds, change| feeds.grant(GrantKind::RoleBinding, change, binding),
        );
        let taken = {
            let feeds = self.clone();
            let mut configured = vec![process.part("connectors-config")];
            move |fed| {
                if let Fed::Change(change) = fed {
                    (feeds.sink)(feeds.config(change, &mut configured));
                }
            }
        };
        let api = Api::namespaced(client(), &self.namespace);
        let config = all().fields(&format!("metadata.name={CONFIG_MAP}"));
        // Grants can end without the ConfigMap, so the caches are complete even if it does not exist. The readiness
        // of the process requires it separately.
        feeds.follow_steps(("configmaps", &[of_grants, complete]), api, config, taken);
        feeds.run(stop)
    }

    /// During a list, older requests of a pod may be missing while newer ones are cached.
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
                if let Some(gone) = gone.and_then(|it| it.read()) {
                    (self.deleted)(Arc::new(gone));
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
                // Without readable labels it is unknown which selectors exclude the connector.
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
                let readable = pod.object.as_ref().ok();
                let cached = PodCached {
                    uid: pod.uid().unwrap_or_default().into(),
                    version: pod.resource_version().unwrap_or_default().into(),
                    facts: readable.map(pod_facts),
                    gated_since: readable.and_then(gated_since),
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
        self.world.grant(kind, &name, grant.as_ref())
    }

    fn config(
        &self,
        change: Change<Guarded<ConfigMap>>,
        configured: &mut Vec<ReadinessPart>,
    ) -> Wakes {
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
        if let Some(known) = &known {
            self.told.enabled.set(known.enabled.into());
            self.told.gate_enabled.set(known.gates_pods().into());
        }
        info!(config = ?known, "configuration");
        if known.is_some() {
            configured.drain(..).for_each(ReadinessPart::ready);
        }
        wakes
    }
}

/// None if the object is gone, or its labels are unreadable: then no selector matches it.
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
