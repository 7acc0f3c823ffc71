//! The watches that keep the world up to date.

use std::sync::Arc;

use crate::clock;
use connectors_api::{AccessPolicy, AccessRequest, connector};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};
use service_kit::readiness::Readiness;
use service_kit::shutdown::{Stop, Tasks};
use service_kit::watches::{Guarded, Labelled, Parse, Unreadable, Watch, WatchMetrics};
use tokio::sync::Notify;
use tracing::warn;

use super::Shared;
use super::freshness::listening;
use super::live_watch::LiveWatch;
use super::read::{Rbac, Strict};
use super::sources::Source;
use crate::metrics::Metrics;

/// The inputs of the watches.
pub struct Follow<'a> {
    /// The API server.
    pub client: &'a Client,
    /// The namespace of the installation.
    pub namespace: &'a str,
    /// The world that they keep up to date.
    pub shared: &'a Arc<Shared>,
    /// The readiness that waits for their first lists.
    pub readiness: &'a Readiness,
    /// The counters of their failures.
    pub watches: &'a WatchMetrics,
    /// The counters of unreadable objects.
    pub metrics: &'a Metrics,
}

impl Follow<'_> {
    /// Starts all watches.
    pub fn start(&self, tasks: &mut Tasks) {
        self.start_configuration(tasks);
        self.start_one::<Role, Rbac>(tasks);
        self.start_one::<RoleBinding, Rbac>(tasks);
        self.start_one::<ClusterRole, Rbac>(tasks);
        self.start_one::<ClusterRoleBinding, Rbac>(tasks);
        self.start_one::<AccessRequest, Strict>(tasks);
        self.start_one::<AccessPolicy, Strict>(tasks);
        self.start_one::<connector::Selectable, Labelled>(tasks);
        self.start_one::<PartialObjectMeta<Namespace>, Labelled>(tasks);
    }

    fn start_one<K: Source, P: Parse<K> + 'static>(&self, tasks: &mut Tasks) {
        // There from the start: a counter that begins at one has not grown.
        self.metrics.dropped.with_label_values(&[K::NAME]);
        let alive = Arc::new(Notify::new());
        let mut ready = Some(self.readiness.part(K::NAME));
        let (heard, noticed) = (Arc::clone(self.shared), Arc::clone(&alive));
        let client = listening(self.client, K::METADATA_ONLY, move |moment| {
            heard.read().freshness.note(K::PLACE, moment);
            noticed.notify_one();
        });
        let api = Api::<Guarded<K, P>>::all(client);
        let watches = self.watches.clone();
        let begin = move || {
            let watch = Watch {
                name: K::NAME,
                config: Config::default().page_size(K::PAGE),
                // Released below, because the list must be in the world first.
                ready: None,
                metrics: &watches,
            };
            watch.start(api.clone()).boxed()
        };
        let mut events = LiveWatch::new(begin, alive);
        let (shared, stop) = (Arc::clone(self.shared), tasks.stop());
        let metrics = self.metrics.clone();
        tasks.spawn(K::NAME, async move {
            let mut listed = None;
            while let Some(event) = until(&stop, events.next(K::NAME)).await {
                let is_listed = matches!(event, Event::InitDone);
                take::<K, P>(&shared, &metrics, event, &mut listed);
                if is_listed && let Some(ready) = ready.take() {
                    ready.ready();
                }
            }
            Ok::<(), std::convert::Infallible>(())
        });
    }
}

async fn until<T>(stop: &Stop, event: impl Future<Output = Option<T>>) -> Option<T> {
    tokio::select! {
        event = event => event,
        () = stop.stopped() => None,
    }
}

/// A list in progress.
struct ListInProgress<K: Source> {
    /// The time of the request. The list shows the cluster as of then, or later.
    since: Timestamp,
    objects: K::Listing,
    unreadable: Vec<Unreadable>,
}

impl<K: Source> ListInProgress<K> {
    fn begin(shared: &Shared) -> Self {
        Self {
            since: clock::now(),
            objects: K::begin(&shared.read()),
            unreadable: Vec::new(),
        }
    }
}

/// Applies one event to the world. A complete list is finished, and reports how fresh the cache is.
fn take<K: Source, P>(
    shared: &Shared,
    metrics: &Metrics,
    event: Event<Guarded<K, P>>,
    listed: &mut Option<ListInProgress<K>>,
) {
    let tell = |object: &Unreadable| {
        let ObjectMeta {
            namespace, name, ..
        } = &object.metadata;
        let problem = &object.problem;
        warn!(
            kind = K::NAME,
            ?namespace,
            ?name,
            problem,
            "an object cannot be read and counts for nothing"
        );
        metrics.dropped.with_label_values(&[K::NAME]).inc();
    };
    match event {
        Event::Init => *listed = Some(ListInProgress::begin(shared)),
        Event::InitApply(object) => {
            let listed = listed.get_or_insert_with(|| ListInProgress::begin(shared));
            match object.object {
                Ok(object) => object.list(shared, &mut listed.objects),
                Err(object) => {
                    tell(&object);
                    listed.unreadable.push(object);
                }
            }
        }
        Event::InitDone => {
            let listed = listed
                .take()
                .unwrap_or_else(|| ListInProgress::begin(shared));
            shared.change(|world| {
                let ListInProgress {
                    since,
                    objects,
                    unreadable,
                } = listed;
                let mut changes = K::reset(world, objects);
                for object in unreadable {
                    changes.extend(K::unreadable(world, object));
                }
                world.freshness.note(K::PLACE, since);
                changes
            });
        }
        Event::Apply(object) => shared.change(|world| match object.object {
            Ok(object) => K::apply(world, object),
            Err(object) => {
                tell(&object);
                K::unreadable(world, object)
            }
        }),
        Event::Delete(object) => shared.change(|world| {
            let metadata = match object.object {
                Ok(object) => object.meta().clone(),
                Err(object) => object.metadata,
            };
            K::delete(world, metadata)
        }),
    }
}

#[cfg(test)]
mod churn;
#[cfg(test)]
mod going;

#[cfg(test)]
mod tests {

    use super::*;
    use crate::access_decision::target;
    use crate::fixtures::{POD_FORM, policy, question, request, role, role_binding};
    use crate::world::Tuple;
    use crate::world::{DECIDING, WorldChange};

    fn guarded<K, P: Parse<K>>(json: &str) -> Guarded<K, P> {
        serde_json::from_str(json).unwrap()
    }

    fn metrics() -> Metrics {
        Metrics::register(&prometheus::Registry::new()).unwrap()
    }

    type GuardedRequest = Guarded<AccessRequest, Strict>;

    fn json(phase: &str) -> serde_json::Value {
        serde_json::to_value(request("a", phase)).unwrap()
    }

    fn knows_the_request(shared: &Shared) -> bool {
        let tuple = Tuple::of_question(&question()).unwrap();
        shared.read().requests.deciding(tuple.about()).is_some()
    }

    #[test]
    fn a_list_counts_when_it_is_complete() {
        let (shared, metrics) = (Shared::default(), metrics());
        let changes = shared.changes().of_everything();
        let mut listed = None;
        let mut take = |event| take(&shared, &metrics, event, &mut listed);
        take(Event::Init);
        let object: GuardedRequest = guarded(&json("Pending").to_string());
        take(Event::InitApply(object));
        assert!(!knows_the_request(&shared));
        assert_eq!(changes.try_recv(), []);
        take(Event::InitDone);
        assert!(knows_the_request(&shared));
        assert_eq!(changes.try_recv(), [WorldChange::Everything]);
    }

    #[test]
    fn a_list_shows_the_cluster_as_of_when_it_was_asked_for() {
        let (shared, metrics) = (Shared::default(), metrics());
        let mut listed = None;
        let mut take = |event| take::<AccessRequest, Strict>(&shared, &metrics, event, &mut listed);
        take(Event::Init);
        let asked = clock::now();
        // Any later time is a different one.
        while clock::now() <= asked {
            std::hint::spin_loop();
        }
        take(Event::InitApply(guarded(&json("Pending").to_string())));
        take(Event::InitDone);
        let world = shared.read();
        for source in 0..DECIDING {
            if source != AccessRequest::PLACE {
                world.freshness.note(source, clock::now());
            }
        }
        assert!(world.fresh_as_of().unwrap() <= asked);
    }

    #[test]
    fn bindings_of_a_list_count_as_they_come_and_those_it_lacks_go_at_its_end() {
        let (shared, metrics) = (Shared::default(), metrics());
        let mut listed = None;
        let mut take = |event| take::<RoleBinding, Rbac>(&shared, &metrics, event, &mut listed);
        let binding = |name| guarded(&serde_json::to_string(&role_binding(name)).unwrap());
        shared.change(|world| Role::apply(world, role("a", POD_FORM)));
        let is_bound = || {
            let world = shared.read();
            let (_, subresource) = POD_FORM.split_once('/').unwrap();
            let connector = question().connector;
            let wanted = target(connector.borrowed(), subresource);
            let who = world.chain.rbac.who_can("*", wanted, 1, |_| true);
            !who.subjects.is_empty()
        };
        shared
            .read()
            .freshness
            .note(Role::PLACE, Timestamp::UNIX_EPOCH);
        let is_fresh = || shared.read().freshness.oldest(2).is_some();
        take(Event::Init);
        take(Event::InitApply(binding("a")));
        assert!(is_bound() && !is_fresh());
        take(Event::InitDone);
        assert!(is_bound() && is_fresh());
        // An incomplete list removes nothing.
        take(Event::Init);
        take(Event::Init);
        assert!(is_bound());
        take(Event::InitDone);
        assert!(!is_bound());
    }

    #[test]
    fn an_object_that_becomes_unreadable_is_forgotten() {
        let (shared, metrics) = (Shared::default(), metrics());
        let changes = shared.changes().of_everything();
        let mut listed = None;
        let mut take = |event| take(&shared, &metrics, event, &mut listed);
        let good: GuardedRequest = guarded(&json("Granted").to_string());
        take(Event::Apply(good));
        assert!(knows_the_request(&shared));
        let mut odd = json("Granted");
        odd["spec"]["aproved"] = true.into();
        let odd: GuardedRequest = guarded(&odd.to_string());
        take(Event::Apply(odd));
        assert!(!knows_the_request(&shared));
        let tuple = Tuple::of_question(&question()).unwrap();
        let key = shared.read().question_keys.of_tuple(tuple.about());
        let told = [(); 2].map(|()| WorldChange::Keys([key].into()));
        assert_eq!(changes.try_recv(), told);
        assert_eq!(
            metrics.dropped.with_label_values(&["accessrequests"]).get(),
            1
        );
    }

    #[test]
    fn labels_of_namespaces_are_listed_and_only_new_policies_and_connectors_are_told() {
        let (shared, metrics) = (Shared::default(), metrics());
        let changes = shared.changes().of_everything();
        let home = guarded(r#"{"metadata":{"name":"devops"}}"#);
        let mut listed = None;
        for event in [Event::Init, Event::InitApply(home), Event::InitDone] {
            take::<PartialObjectMeta<Namespace>, Labelled>(&shared, &metrics, event, &mut listed);
        }
        assert!(shared.read().catalog.namespace("devops").is_some());
        assert_eq!(changes.try_recv(), []);
        let policy = serde_json::to_string(&policy("p")).unwrap();
        for is_new in [true, false] {
            let event = Event::Apply(guarded(&policy));
            take::<AccessPolicy, Strict>(&shared, &metrics, event, &mut None);
            let harbor = guarded(r#"{"metadata":{"namespace":"tools","name":"harbor"}}"#);
            let event = Event::Apply(harbor);
            take::<connector::Selectable, Labelled>(&shared, &metrics, event, &mut None);
            let told = [(); 2].map(|()| WorldChange::Namespace("tools".to_owned()));
            let told = if is_new { &told[..] } else { &[] };
            assert_eq!(changes.try_recv(), told);
        }
    }

    #[test]
    fn rbac_tells_the_questions_that_rest_on_it() {
        let (shared, metrics) = (Shared::default(), metrics());
        let changes = shared.changes().of_everything();
        let binding = serde_json::to_string(&role_binding("b")).unwrap();
        let of_namespace = serde_json::to_string(&role("b", "*")).unwrap();
        let role = || guarded::<Role, Rbac>(&of_namespace);
        let binding = || guarded::<RoleBinding, Rbac>(&binding);
        // No answer rests on a role to which no binding refers, or on a binding without its role.
        take(&shared, &metrics, Event::Apply(role()), &mut None);
        take(&shared, &metrics, Event::Delete(role()), &mut None);
        take(&shared, &metrics, Event::Apply(binding()), &mut None);
        assert_eq!(changes.try_recv(), []);
        take(&shared, &metrics, Event::Apply(role()), &mut None);
        take(&shared, &metrics, Event::Delete(binding()), &mut None);
        let told = [(); 2].map(|()| WorldChange::Namespace("tools".to_owned()));
        assert_eq!(changes.try_recv(), told);
        take(&shared, &metrics, Event::Delete(role()), &mut None);
        assert_eq!(changes.try_recv(), []);
        assert!(shared.read().chain.rbac.is_empty());
    }
}
