//! The watches, and how their events reach the caches and the queue.

use std::sync::Arc;

use connectors_api::{AccessPolicy, config::CONFIG_MAP, connector};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::{Api, Client, Resource, runtime::watcher::Config};
use service_kit::{
    config_map::{self, ConfigMapState},
    controller::{feeds::Feeds, queue::Queue},
    readiness::{Readiness, ReadinessPart},
    shutdown::Stop,
    watches::{Change, Guarded, Labelled, Named, WatchMetrics},
};

use tokio::time::{Instant, sleep_until};
use tracing::warn;

use crate::{
    cache::{Job, PolicyCached, Wakes, World},
    observe::{job_in, managed_by_us},
    parsers::Strict,
    plan::objects::{of_binding, of_role},
    seen::{Fingerprint, Labels, ManagedCached, ManagedKind, Name},
};

/// Called with a policy that was deleted at once.
pub type Deleted = Arc<dyn Fn(Name, PolicyCached) + Send + Sync>;

/// Everything that the watches need.
#[derive(Clone)]
pub struct PolicyFeeds {
    /// The client.
    pub client: Client,
    /// The namespace of the installation.
    pub namespace: Arc<str>,
    /// The caches.
    pub world: Arc<World>,
    /// The queue.
    pub queue: Arc<Queue<Job>>,
    /// Called with deleted policies.
    pub deleted: Deleted,
    /// The watches' own troubles.
    pub metrics: WatchMetrics,
}

impl PolicyFeeds {
    /// Follows every kind until the process is to end. The caches are complete when all of these are ready.
    pub fn start(&self, ready: &[&Readiness], stop: &Stop) -> impl Future<Output = ()> + use<> {
        let client = || self.client.clone();
        let all = Config::default;
        let managed = || Config::default().labels(&managed_by_us());
        let mut feeds = Feeds::new(self.clone(), Self::wake, ready, &self.metrics);
        feeds.follow("accesspolicies", Api::all(client()), all(), Self::policy);
        feeds.follow("connectors", Api::all(client()), all(), Self::connector);
        feeds.follow("namespaces", Api::all(client()), all(), Self::namespace);
        feeds.follow("serviceaccounts", Api::all(client()), all(), Self::account);
        feeds.follow("roles", Api::all(client()), managed(), |feeds, change| {
            feeds.object(ManagedKind::Role, change, of_role)
        });
        feeds.follow(
            "rolebindings",
            Api::all(client()),
            managed(),
            |feeds, change| feeds.object(ManagedKind::RoleBinding, change, of_binding),
        );
        let configured = ready.iter().map(|it| it.part("configuration")).collect();
        feeds.beside(self.clone().configuration(configured, stop.clone()));
        feeds.beside(self.clone().late_writes(stop.clone()));
        feeds.run(stop.clone())
    }

    fn wake(&self, wakes: Wakes) {
        for (job, urgency) in wakes {
            self.queue.wake(job, urgency);
        }
    }

    /// Has the policies looked at of whose writes no event comes.
    async fn late_writes(self, stop: Stop) {
        let put = self.world.read().unseen_writes();
        loop {
            let first = self.world.read().first_late();
            tokio::select! {
                () = stop.stopped() => return,
                () = put.notified(), if first.is_none() => {}
                () = sleep_until(first.unwrap_or_else(Instant::now)), if first.is_some() => {
                    let late = self.world.write().forget_late(Instant::now());
                    self.wake(late);
                }
            }
        }
    }

    /// No permission is given or taken before the content of the ConfigMap is known, or its absence.
    async fn configuration(self, mut ready: Vec<ReadinessPart>, stop: Stop) {
        let hear = |heard| {
            self.hear(&heard);
            ready.drain(..).for_each(ReadinessPart::ready);
        };
        let (client, metrics) = (self.client.clone(), &self.metrics);
        config_map::follow(client, &self.namespace, CONFIG_MAP, metrics, &stop, hear).await;
    }

    fn hear(&self, heard: &ConfigMapState) {
        let data = match heard {
            ConfigMapState::Data(data) => Some(data),
            ConfigMapState::Unreadable | ConfigMapState::Gone => None,
        };
        let (problems, wakes) = self.world.write().learn(data);
        for problem in problems {
            warn!(%problem, "configuration");
        }
        self.wake(wakes);
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
        kind: ManagedKind,
        change: Change<Guarded<K>>,
        said: fn(&K) -> Fingerprint,
    ) -> Wakes {
        let mut state = self.world.write();
        match change {
            Change::There(name, object) => {
                let job = job_in(object.meta());
                let metadata = object.meta();
                let cached = ManagedCached {
                    version: metadata.resource_version.clone().unwrap_or_default(),
                    said: object.object.as_ref().ok().map(said),
                    terminating: metadata.deletion_timestamp.is_some(),
                };
                let uid = job.as_ref().map(|it| it.uid.as_str());
                state.object(kind, &name, uid.map(|uid| (uid, cached)))
            }
            Change::Gone(name) => state.object(kind, &name, None),
        }
    }
}

/// No labels for an object that is gone or being deleted, or whose labels cannot be read: no selector finds
/// it.
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
