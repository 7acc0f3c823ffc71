//! The watches that keep the world up to date.

use std::fmt::Debug;
use std::sync::Arc;

use authz::{IndexError, RbacObject};
use connectors_api::{AccessRequest, parse};
use futures::StreamExt;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use service_kit::clock;
use service_kit::readiness::Readiness;
use service_kit::shutdown::{Stop, Tasks};
use service_kit::watches::{Guarded, Parse, Plain, Unreadable, Watch, WatchMetrics};
use tracing::warn;

use super::{Change, Shared, World};
use crate::metrics::Metrics;

/// Reads requests as strictly as everybody else does: what a service does not understand as a whole
/// gives nobody access.
#[derive(Clone, Copy, Debug)]
pub enum ParsedRequest {}

impl Parse<AccessRequest> for ParsedRequest {
    fn parse(json: &str) -> Result<AccessRequest, String> {
        let value = serde_json::from_str(json).map_err(|error| error.to_string())?;
        parse::object(&value).map_err(|error| error.to_string())
    }
}

/// What the watches need.
pub struct Follow<'a> {
    /// The API server.
    pub client: &'a Client,
    /// What they keep up to date.
    pub shared: &'a Arc<Shared>,
    /// What waits for their first lists.
    pub readiness: &'a Readiness,
    /// Where their troubles are counted.
    pub watches: &'a WatchMetrics,
    /// Where unreadable objects are counted.
    pub metrics: &'a Metrics,
}

/// A kind that is followed.
trait Source: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static {
    const NAME: &'static str;
    const PLACE: usize;

    fn apply(world: &mut World, object: Self) -> Vec<Change>;
    fn delete(world: &mut World, metadata: ObjectMeta) -> Vec<Change>;
    fn reset(world: &mut World, objects: Vec<Self>);
}

fn of_namespace(metadata: &ObjectMeta) -> Vec<Change> {
    let namespace = metadata.namespace.clone();
    vec![namespace.map_or(Change::Everything, Change::Namespace)]
}

fn complain(errors: impl IntoIterator<Item = IndexError>) {
    for error in errors {
        warn!(%error, "an object without a place is left out");
    }
}

macro_rules! rbac_sources {
    ($($kind:ident $name:literal $place:literal)+) => {$(
        impl Source for $kind {
            const NAME: &'static str = $name;
            const PLACE: usize = $place;

            fn apply(world: &mut World, object: Self) -> Vec<Change> {
                apply_rbac(world, object)
            }

            fn delete(world: &mut World, metadata: ObjectMeta) -> Vec<Change> {
                let changes = of_namespace(&metadata);
                world.rbac.delete(&Self { metadata, ..Self::default() });
                changes
            }

            fn reset(world: &mut World, objects: Vec<Self>) {
                complain(world.rbac.reset(objects));
            }
        }
    )+};
}

rbac_sources! {
    Role "roles" 0
    RoleBinding "rolebindings" 1
    ClusterRole "clusterroles" 2
    ClusterRoleBinding "clusterrolebindings" 3
}

fn apply_rbac<K: RbacObject>(world: &mut World, object: K) -> Vec<Change> {
    let changes = of_namespace(object.metadata());
    complain(world.rbac.apply(object).err());
    changes
}

impl Source for AccessRequest {
    const NAME: &'static str = "accessrequests";
    const PLACE: usize = 4;

    fn apply(world: &mut World, object: Self) -> Vec<Change> {
        let tuples = world.requests.apply(object);
        tuples.into_iter().map(Change::Tuple).collect()
    }

    fn delete(world: &mut World, metadata: ObjectMeta) -> Vec<Change> {
        let ObjectMeta {
            namespace, name, ..
        } = metadata;
        let tuple = namespace
            .zip(name)
            .and_then(|(namespace, name)| world.requests.delete(&namespace, &name));
        tuple.map(Change::Tuple).into_iter().collect()
    }

    fn reset(world: &mut World, objects: Vec<Self>) {
        world.requests.reset(objects);
    }
}

impl Follow<'_> {
    /// Starts all watches.
    pub fn start(&self, tasks: &mut Tasks) {
        self.start_one::<Role, Plain>(tasks);
        self.start_one::<RoleBinding, Plain>(tasks);
        self.start_one::<ClusterRole, Plain>(tasks);
        self.start_one::<ClusterRoleBinding, Plain>(tasks);
        self.start_one::<AccessRequest, ParsedRequest>(tasks);
    }

    fn start_one<K: Source, P: Parse<K> + 'static>(&self, tasks: &mut Tasks) {
        let watch = Watch {
            name: K::NAME,
            config: Config::default(),
            // Released below: first the list must be in the world.
            ready: None,
            metrics: self.watches,
        };
        let mut ready = Some(self.readiness.part(K::NAME));
        let api = Api::<Guarded<K, P>>::all(self.client.clone());
        let mut events = Box::pin(watch.start(api));
        let (shared, stop) = (Arc::clone(self.shared), tasks.stop());
        let metrics = self.metrics.clone();
        tasks.spawn(K::NAME, async move {
            let mut listed = Vec::new();
            while let Some(event) = next(&mut events, &stop).await {
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

async fn next<S: futures::Stream + Unpin>(events: &mut S, stop: &Stop) -> Option<S::Item> {
    tokio::select! {
        event = events.next() => event,
        () = stop.stopped() => None,
    }
}

/// One event into the world. A list counts once it is complete.
fn take<K: Source, P>(
    shared: &Shared,
    metrics: &Metrics,
    event: Event<Guarded<K, P>>,
    listed: &mut Vec<K>,
) {
    let unreadable = |object: Unreadable| {
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
        object.metadata
    };
    let heard = Some(clock::now());
    match event {
        Event::Init => listed.clear(),
        Event::InitApply(object) => match object.object {
            Ok(object) => listed.push(object),
            Err(object) => {
                unreadable(object);
            }
        },
        Event::InitDone => shared.change(|world| {
            world.heard[K::PLACE] = heard;
            K::reset(world, std::mem::take(listed));
            vec![Change::Everything]
        }),
        Event::Apply(object) => shared.change(|world| {
            world.heard[K::PLACE] = heard;
            match object.object {
                Ok(object) => K::apply(world, object),
                Err(object) => K::delete(world, unreadable(object)),
            }
        }),
        Event::Delete(object) => shared.change(|world| {
            world.heard[K::PLACE] = heard;
            let metadata = match object.object {
                Ok(object) => object.meta().clone(),
                Err(object) => object.metadata,
            };
            K::delete(world, metadata)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{question, request, role_binding};
    use crate::world::Tuple;

    fn guarded<K, P: Parse<K>>(json: &str) -> Guarded<K, P> {
        serde_json::from_str(json).unwrap()
    }

    fn metrics() -> Metrics {
        Metrics::register(&prometheus::Registry::new()).unwrap()
    }

    type GuardedRequest = Guarded<AccessRequest, ParsedRequest>;

    fn json(phase: &str) -> serde_json::Value {
        serde_json::to_value(request("a", phase)).unwrap()
    }

    fn knows_the_request(shared: &Shared) -> bool {
        let tuple = Tuple::of_question(&question()).unwrap();
        shared.read().requests.deciding(&tuple).is_some()
    }

    #[test]
    fn a_list_counts_when_it_is_complete() {
        let (shared, metrics) = (Shared::default(), metrics());
        let mut changes = shared.changes();
        let mut listed = Vec::new();
        let mut take = |event| take(&shared, &metrics, event, &mut listed);
        take(Event::Init);
        let object: GuardedRequest = guarded(&json("Pending").to_string());
        take(Event::InitApply(object));
        assert!(!knows_the_request(&shared));
        assert!(changes.try_recv().is_err());
        take(Event::InitDone);
        assert!(knows_the_request(&shared));
        assert_eq!(changes.try_recv(), Ok(Change::Everything));
    }

    #[test]
    fn an_object_that_becomes_unreadable_is_forgotten() {
        let (shared, metrics) = (Shared::default(), metrics());
        let mut changes = shared.changes();
        let mut listed = Vec::new();
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
        for _ in 0..2 {
            assert_eq!(changes.try_recv(), Ok(Change::Tuple(tuple.clone())));
        }
        assert_eq!(
            metrics.dropped.with_label_values(&["accessrequests"]).get(),
            1
        );
    }

    #[test]
    fn rbac_changes_its_namespace_or_everything() {
        let (shared, metrics) = (Shared::default(), metrics());
        let mut changes = shared.changes();
        let mut listed = Vec::new();
        let binding = serde_json::to_string(&role_binding("b")).unwrap();
        take::<RoleBinding, Plain>(
            &shared,
            &metrics,
            Event::Apply(guarded(&binding)),
            &mut listed,
        );
        take::<RoleBinding, Plain>(
            &shared,
            &metrics,
            Event::Delete(guarded(&binding)),
            &mut listed,
        );
        for _ in 0..2 {
            assert_eq!(
                changes.try_recv(),
                Ok(Change::Namespace("tools".to_owned()))
            );
        }
        assert!(shared.read().rbac.is_empty());
        let role: Guarded<ClusterRole, Plain> = guarded(r#"{"metadata":{"name":"r"},"rules":[]}"#);
        take(&shared, &metrics, Event::Apply(role), &mut Vec::new());
        assert_eq!(changes.try_recv(), Ok(Change::Everything));
    }
}
