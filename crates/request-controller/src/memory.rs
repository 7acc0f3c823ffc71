//! The bytes that one request costs, counted by the allocator: while it waits, when it is granted, and that nothing is
//! left of it.
//!
//! The objects come as their watches bring them, as long as the API server sends them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use allocation_counter::measure;
use connectors_api::{
    AccessPolicy, AccessRequest,
    access_policy::ObjectKind,
    check_selector::CompiledPolicy,
    template::{Budget, LabelTemplates, TemplateData},
};
use k8s_openapi::api::{
    core::v1::Pod,
    rbac::v1::{Role, RoleBinding},
};
use kube::{core::ApiResource, runtime::watcher::Event};
use serde_json::{Value, json};
use service_kit::{
    clock::Now,
    controller::queue::Urgency,
    watches::{Change, Changes, Guarded, Parse, Plain},
};
use tokio::time::Instant;

use crate::{
    api::{Name, PodFields, Strict, binding, role},
    cache::{Job, KindState, PodCached, PolicyCached},
    check_object::{AsText, NamedCheck},
    observe::{gated_since, pod_facts},
    plan::{
        pace::Pace,
        tell::{EventObject, Told, ToldKind},
    },
    reconcile::Reconciler,
    seen::GrantKind,
    sweep::reads::ListedGrant,
    testing::Cluster,
};

mod objects;

use objects::Objects;

/// The most bytes that one request may cost, all in. An allocation takes some more than it asks for.
const WAITING: i64 = 4_000;
const GRANTED: i64 = 4_000;
/// The bytes of what is remembered of the requests of one namespace, however many there are: a share of each cache, and
/// what an entry takes beyond its weight.
const REMEMBERED: i64 = 3 * 1024 * 1024;
/// The bytes that may be left of any number of requests: small maps keep their room.
const LEFT: i64 = 64 * 1024;
/// The part that has a bound of its own.
const BOUNDED: &str = "remembered";

/// A controller, its watches, and the bytes that it keeps, by what they are for.
struct Counted {
    controller: Reconciler,
    requests: Changes,
    pods: Changes,
    checks: Changes,
    roles: Changes,
    bindings: Changes,
    bytes: BTreeMap<&'static str, i64>,
}

fn kind() -> ObjectKind {
    ObjectKind {
        api_version: "openshift-pipelines.org/v1alpha1".to_owned(),
        kind: "ApprovalTask".to_owned(),
    }
}

fn resource() -> ApiResource {
    ApiResource {
        group: "openshift-pipelines.org".to_owned(),
        version: "v1alpha1".to_owned(),
        api_version: kind().api_version,
        kind: kind().kind,
        plural: "approvaltasks".to_owned(),
    }
}

/// An object as its watch tells of it.
fn there<K, P>(changes: &mut Changes, text: &str) -> (Name, Guarded<K, P>)
where
    K: kube::Resource,
    P: Parse<K>,
{
    let event = Event::Apply(serde_json::from_str(text).unwrap());
    match changes.of(event).0.pop() {
        Some(Change::There(name, object)) => (name, object),
        Some(Change::Gone(_)) | None => panic!("{text}"),
    }
}

/// The name in the event of a deleted object.
fn gone(changes: &mut Changes, text: &str) -> Name {
    let event: Event<Guarded<Pod, PodFields>> = Event::Delete(serde_json::from_str(text).unwrap());
    match changes.of(event).0.pop() {
        Some(Change::Gone(name)) => name,
        Some(Change::There(..)) | None => panic!("{text}"),
    }
}

impl Counted {
    fn new() -> Self {
        let cluster = Cluster::new();
        cluster.server.remove("accessrequests", "request");
        let controller = cluster.controller();
        let policy = <Strict as Parse<AccessPolicy>>::parse(&objects::policy()).unwrap();
        {
            let mut state = controller.world.write();
            let _ = state.kind(&kind(), KindState::Watching(resource()));
            let cached = PolicyCached {
                uid: policy.metadata.uid.clone().unwrap(),
                deleting: false,
                policy: Ok(Arc::new(CompiledPolicy::of(policy, None))),
            };
            let _ = state.policy(&Name::new(objects::TOOLS, objects::POLICY), Some(cached));
        }
        Self {
            controller,
            requests: Changes::default(),
            pods: Changes::default(),
            checks: Changes::default(),
            roles: Changes::default(),
            bindings: Changes::default(),
            bytes: BTreeMap::new(),
        }
    }

    /// Counts the bytes that an action keeps or gives back.
    fn count(&mut self, what: &'static str, act: impl FnOnce(&mut Self)) {
        let kept = measure(|| act(self)).bytes_current;
        *self.bytes.entry(what).or_default() += kept;
    }

    fn total(&self) -> i64 {
        self.bytes.values().sum()
    }

    fn request(&mut self, text: &str) {
        self.count("request", |it| {
            let (name, request) = there::<AccessRequest, Strict>(&mut it.requests, text);
            let request = request.object.map(Arc::new);
            let _ = it.controller.world.write().request(&name, request);
        });
    }

    fn pod(&mut self, text: &str) {
        self.count("pod", |it| {
            let (name, pod) = there::<Pod, PodFields>(&mut it.pods, text);
            let pod = pod.object.unwrap();
            let cached = PodCached {
                uid: pod.metadata.uid.as_deref().unwrap().into(),
                version: pod.metadata.resource_version.as_deref().unwrap().into(),
                facts: Some(pod_facts(&pod)),
                gated_since: gated_since(&pod),
            };
            let _ = it.controller.world.write().pod(&name, Some(cached));
        });
    }

    fn check(&mut self, text: &str) {
        self.count("check object", |it| {
            let (name, _) = there::<Pod, PodFields>(&mut it.checks, text);
            let object = <AsText as Parse<NamedCheck>>::parse(text).unwrap();
            let object = Some(Ok(object.object.of_kind(&resource())));
            let _ = it.controller.world.write().object(&kind(), &name, object);
        });
    }

    fn grant(&mut self, grant: GrantKind, text: &str) {
        self.count("grant", |it| {
            let (name, managed) = match grant {
                GrantKind::Role => {
                    let (name, object) = there::<Role, Plain>(&mut it.roles, text);
                    (name, role(object))
                }
                GrantKind::RoleBinding => {
                    let (name, object) = there::<RoleBinding, Plain>(&mut it.bindings, text);
                    (name, binding(object))
                }
            };
            let _ = it.controller.world.grant(grant, &name, Some(&managed));
        });
    }

    /// What a reconciliation that found the request waiting keeps. Its job has the name from the cache.
    fn look(&mut self, objects: &Objects) {
        let cached = self.controller.world.read();
        let name = cached.requests.by_uid(&objects.uid()).unwrap().clone();
        drop(cached);
        self.count("selections", |it| {
            let labels = BTreeMap::from([("tekton.dev/pipelineRun".to_owned(), objects.run())]);
            let labels = LabelTemplates::parse(&labels).unwrap();
            let data = TemplateData::of(json!({}));
            let labels = labels.render(&data, &mut Budget::default()).unwrap();
            let mut state = it.controller.world.write();
            state.sought.learn(&name, vec![(kind(), labels)]);
        });
        let pod: Value = serde_json::from_str(&objects.pod()).unwrap();
        let said = objects.said();
        self.count(BOUNDED, |it| {
            let question = (objects::POLICY_UID, objects.pod_uid());
            it.controller
                .observer
                .remember(&name, question, &pod, &said);
        });
        self.count("events", |it| {
            let now = Now {
                wall: jiff::Timestamp::UNIX_EPOCH,
                mono: Instant::now(),
            };
            let told = EventObject::Pod;
            let told = Told {
                about: told,
                kind: ToldKind::AccessPending,
                why: None,
                note: objects.note(),
            };
            let mut paces = it.controller.paces.lock().unwrap();
            let pace = paces
                .entry(name.clone())
                .or_insert_with(|| Box::new((objects.uid().into(), Pace::default())));
            let _ = pace.1.next(vec![told], None, now);
        });
        self.count("timers", |it| {
            let job = Job::Request(name.clone());
            let day = Duration::from_hours(24);
            it.controller.queues.wake_after(job, Urgency::Normal, day);
        });
    }

    fn waits(&mut self, objects: &Objects) {
        self.pod(&objects.pod());
        self.check(&objects.check("pending"));
        self.request(&objects.request("Pending"));
        self.look(objects);
        self.grant(GrantKind::Role, &objects.role());
    }

    fn is_granted(&mut self, objects: &Objects) {
        self.check(&objects.check("approved"));
        self.request(&objects.request("Granted"));
        self.grant(GrantKind::RoleBinding, &objects.binding());
        self.look_ended_the_wait(objects);
    }

    fn look_ended_the_wait(&mut self, objects: &Objects) {
        self.count("events", |it| {
            it.controller.paces.lock().unwrap().remove(&objects.name());
        });
    }

    /// Everything of the request is deleted.
    fn goes(&mut self, objects: &Objects) {
        self.count("request", |it| {
            let name = gone(&mut it.requests, &objects.request("Granted"));
            let (request, _) = it.controller.world.write().request_gone(&name);
            it.controller.gone(&request.unwrap().read().unwrap());
        });
        self.count("pod", |it| {
            let name = gone(&mut it.pods, &objects.pod());
            let _ = it.controller.world.write().pod(&name, None);
        });
        self.count("check object", |it| {
            let name = gone(&mut it.checks, &objects.check("pending"));
            let _ = it.controller.world.write().object(&kind(), &name, None);
        });
        self.count("grant", |it| {
            for (grant, watch, text) in [
                (GrantKind::Role, &mut it.roles, objects.role()),
                (GrantKind::RoleBinding, &mut it.bindings, objects.binding()),
            ] {
                let name = gone(watch, &text);
                let mut state = it.controller.world.write();
                let _ = state.grant(grant, &name, None, None);
            }
        });
    }

    /// The bytes of each request, by part, in a table.
    fn told(&self, what: &str, requests: i64) -> i64 {
        let each = (self.total() - self.bytes.get(BOUNDED).unwrap_or(&0)) / requests;
        println!("{what}: {each} bytes for each of {requests}");
        for (part, bytes) in &self.bytes {
            println!("  {part}: {}", bytes / requests);
        }
        each
    }
}

#[test]
fn a_request_costs_so_many_bytes_and_nothing_when_it_went() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let _entered = runtime.enter();
    let sample = Objects::of(0);
    println!(
        "JSON: request {}, pod {}, check {}, role {}",
        sample.request("Pending").len(),
        sample.pod().len(),
        sample.check("pending").len(),
        sample.role().len()
    );
    for count in [100, 500] {
        let mut counted = Counted::new();
        let all: Vec<_> = (0..count).map(Objects::of).collect();
        let count = i64::try_from(count).unwrap();
        for round in 0..2 {
            for it in &all {
                counted.waits(it);
            }
            let waiting = counted.told("waiting", count);
            for it in &all {
                counted.is_granted(it);
            }
            let granted = counted.told("granted", count);
            let remembered = counted.bytes[BOUNDED];
            for it in &all {
                counted.goes(it);
            }
            counted.told("gone", count);
            let left = counted.total();
            assert!(waiting <= WAITING, "{waiting} bytes for each of {count}");
            assert!(granted <= GRANTED, "{granted} bytes for each of {count}");
            assert!(remembered <= REMEMBERED, "{remembered} bytes");
            assert!(
                left < LEFT,
                "{left} bytes are left of {count}, round {round}"
            );
            counted.bytes.clear();
        }
    }
}

/// The objects as trees would take 10 KB and more each, and a sweep has all of them in memory at a time.
#[test]
fn a_sweep_keeps_little_of_each_managed_object() {
    let mut counted = Vec::with_capacity(2 * 500);
    let kept = measure(|| {
        for objects in (0..500).map(Objects::of) {
            let role_of = serde_json::from_str::<Guarded<Role>>(&objects.role());
            let binding_of = serde_json::from_str::<Guarded<RoleBinding>>(&objects.binding());
            counted.push(ListedGrant::of(&role(role_of.unwrap())));
            counted.push(ListedGrant::of(&binding(binding_of.unwrap())));
        }
    });
    let each = kept.bytes_current / 1_000;
    println!("{each} bytes for each object");
    assert!(each <= 300, "{each} bytes for each object");
}
