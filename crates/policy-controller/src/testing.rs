//! Small worlds for tests, a cluster that writes are made in one by one, and the parts of a controller on an API server
//! in memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use connectors_api::{AccessPolicySpec, NamespaceKeys, parse};
use evaluation_api::{client::EvaluationCallError, v1::Finding};
use futures::future::BoxFuture;
use prometheus::Registry;
use serde_json::{Value, json};
use service_kit::{
    clock::{Now, whole_seconds},
    controller::Leads,
};
use testkit::{
    ApiServer, CallFault, CallPoint, CallRecord, Caller, EventFault, EventPoint, Faults, What,
};
use tokio::time::Instant;

use crate::{
    apply::Applier,
    cache::{Job, World},
    checks::{
        facts::{CheckFacts, Validator},
        rights::RightsChanges,
    },
    controller,
    events::Events,
    metrics::Metrics,
    observe::Observer,
    plan::{
        objects,
        order::{Write, WriteStep, WrittenObject},
        wanted::RbacSubject,
    },
    reconcile::Reconciler,
    seen::{
        FoundObject, Labels, Managed, ManagedKind, MostSelected, Name, OwnerPolicy, Pin,
        Surroundings,
    },
};

pub(crate) const OWN: &str = "tools";

pub(crate) fn owner() -> OwnerPolicy {
    OwnerPolicy {
        name: Name::new(OWN, "p"),
        uid: "uid-p".to_owned(),
    }
}

/// The job of that policy.
pub(crate) fn job() -> Job {
    job_of("uid-p")
}

/// The job of the policy of that UID.
pub(crate) fn job_of(uid: &str) -> Job {
    Job {
        namespace: OWN.to_owned(),
        uid: uid.to_owned(),
    }
}

pub(crate) fn labels(labels: &[(&str, &str)]) -> Labels {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    labels.iter().map(owned).collect()
}

/// The objects from which a policy selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Around {
    pub(crate) namespace_keys: NamespaceKeys,
    pub(crate) connectors: BTreeMap<String, Labels>,
    pub(crate) namespaces: BTreeMap<String, Labels>,
    pub(crate) accounts: BTreeMap<String, BTreeMap<String, Labels>>,
}

/// No object exists, and namespaces may be selected by every key that tests use.
impl Default for Around {
    fn default() -> Self {
        let keys = json!([
            "kubernetes.io/metadata.name",
            "cpaas.io/project",
            "project",
            "team",
            "x",
            "y",
            "no",
            "tekton.dev/pipeline"
        ]);
        Self {
            namespace_keys: NamespaceKeys::parse(&keys.to_string()).unwrap(),
            connectors: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            accounts: BTreeMap::new(),
        }
    }
}

impl Around {
    pub(crate) fn connector(mut self, name: &str, of: &[(&str, &str)]) -> Self {
        self.connectors.insert(name.to_owned(), labels(of));
        self
    }

    pub(crate) fn namespace(mut self, name: &str, of: &[(&str, &str)]) -> Self {
        self.namespaces.insert(name.to_owned(), labels(of));
        self
    }

    pub(crate) fn account(mut self, namespace: &str, name: &str, of: &[(&str, &str)]) -> Self {
        let accounts = self.accounts.entry(namespace.to_owned()).or_default();
        accounts.insert(name.to_owned(), labels(of));
        self
    }

    pub(crate) fn seen(&self) -> Surroundings<'_> {
        Surroundings {
            most_selected: MostSelected(usize::MAX),
            namespace_keys: &self.namespace_keys,
            connectors: &self.connectors,
            namespaces: &self.namespaces,
            accounts: &self.accounts,
        }
    }
}

pub(crate) fn spec(spec: &Value) -> AccessPolicySpec {
    parse::spec(spec).unwrap()
}

/// A policy that lets these subjects read the connectors that `connector` selects.
pub(crate) fn reading(connector: &Value, subjects: &Value) -> Value {
    json!({
        "connector": connector,
        "defaultPermission": {
            "roleTemplate": {"rules": [{
                "apiGroups": ["connectors.alauda.io"], "resources": ["connectors/apis"], "verbs": ["read"],
            }]},
            "bindingTemplate": {"subjects": subjects},
        },
    })
}

/// A subject, a verb, a resource and a connector.
pub(crate) type Access = BTreeSet<(RbacSubject, String, String, String)>;

/// The permissions that RBAC derives from the existing objects.
pub(crate) fn access(there: &Managed) -> Access {
    let mut access = Access::new();
    for binding in there.bindings.values().filter_map(|it| it.object.as_ref()) {
        let role = there.roles.get(&binding.role_ref.name);
        let Some(role) = role.and_then(|it| it.object.as_ref()) else {
            continue;
        };
        for holder in binding.subjects.iter().flatten().map(RbacSubject::of) {
            for rule in role.rules.iter().flatten() {
                let names = rule.resource_names.clone().unwrap_or_default();
                // A rule without names is about every connector.
                let every = vec!["(every)".to_owned()];
                for connector in if names.is_empty() { every } else { names } {
                    for resource in rule.resources.iter().flatten() {
                        access.extend(rule.verbs.iter().map(|verb| {
                            let resource = resource.clone();
                            (holder.clone(), verb.clone(), resource, connector.clone())
                        }));
                    }
                }
            }
        }
    }
    access
}

fn there<K>(object: K) -> FoundObject<K> {
    let pin = Pin {
        uid: "uid".to_owned(),
        version: "1".to_owned(),
    };
    FoundObject {
        pin,
        terminating: false,
        changed_by: None,
        object: Some(object),
    }
}

/// Makes a write as the API server would, or says why it would refuse.
pub(crate) fn write(cluster: &mut Managed, step: &WriteStep) -> Result<(), String> {
    match &step.write {
        Write::Create(object) => {
            let name = object.metadata().name.clone().unwrap();
            let is_taken = match object.kind() {
                ManagedKind::Role => cluster.roles.contains_key(&name),
                ManagedKind::RoleBinding => cluster.bindings.contains_key(&name),
            };
            if is_taken {
                return Err(format!("{} {name} exists", object.kind()));
            }
            match object.clone() {
                WrittenObject::Role(role) => drop(cluster.roles.insert(name, there(role))),
                WrittenObject::Binding(binding) => {
                    drop(cluster.bindings.insert(name, there(binding)));
                }
            }
        }
        Write::Change(object, _) => {
            let name = object.metadata().name.clone().unwrap();
            let gone = format!("{} {name} is not there", object.kind());
            match object.clone() {
                WrittenObject::Role(role) => {
                    cluster.roles.get_mut(&name).ok_or(gone)?.object = Some(role);
                }
                WrittenObject::Binding(binding) => {
                    let found = cluster.bindings.get_mut(&name).ok_or(gone)?;
                    let before = found.object.replace(binding.clone());
                    if before.is_some_and(|it| it.role_ref != binding.role_ref) {
                        return Err(format!("the roleRef of {name} cannot be changed"));
                    }
                }
            }
        }
        Write::Delete(kind, name, _) => {
            let was_there = match kind {
                ManagedKind::Role => cluster.roles.remove(name).is_some(),
                ManagedKind::RoleBinding => cluster.bindings.remove(name).is_some(),
            };
            if !was_there {
                return Err(format!("{kind} {name} is not there"));
            }
        }
    }
    Ok(())
}

/// The pairs of these, as they stand in a cluster.
pub(crate) fn cluster(pairs: &BTreeMap<String, objects::RolePair>) -> Managed {
    let pairs = || pairs.iter();
    let role = |(name, it): (&String, &objects::RolePair)| (name.clone(), there(it.role.clone()));
    let binding =
        |(name, it): (&String, &objects::RolePair)| (name.clone(), there(it.binding.clone()));
    Managed {
        roles: pairs().map(role).collect(),
        bindings: pairs().map(binding).collect(),
    }
}

/// An API server with nothing in it but the namespace of the policies.
pub(crate) fn api_server() -> ApiServer {
    let server = ApiServer::new("2026-03-01T10:00:00Z".parse().unwrap());
    server.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN}}));
    server
}

/// An object of RBAC in the namespace of the policies, with these fields beside its metadata.
pub(crate) fn rbac(kind: &str, name: &str, labels: &Labels, rest: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": {"name": name, "namespace": OWN, "labels": labels},
    });
    let fields = object.as_object_mut().unwrap();
    fields.extend(rest.as_object().unwrap().clone());
    object
}

/// The labels of an object that is managed for the policy of that UID.
pub(crate) fn managed_for(uid: &str) -> Labels {
    labels(&[
        ("app.kubernetes.io/managed-by", "connectors-approval"),
        ("connectors.alauda.io/accessPolicyUid", uid),
    ])
}

/// Makes a policy with which alice may read, and returns its UID.
pub(crate) fn put_policy(server: &ApiServer, name: &str) -> String {
    let alice = json!([{"kind": "User", "name": "alice"}]);
    let policy = server.create(json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
        "metadata": {"name": name, "namespace": OWN}, "spec": reading(&json!({}), &alice),
    }));
    policy["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// The calls to a server so far.
pub(crate) fn calls(server: &ApiServer) -> Vec<CallRecord> {
    let entries = server.log().into_iter();
    let calls = entries.filter_map(|it| match it.what {
        What::Call(call) => Some(call),
        What::Change(_) | What::Sent(_) | What::Killed(_) => None,
    });
    calls.collect()
}

/// Answers every write with this status, and carries none out.
pub(crate) struct Refuses(pub(crate) u16);

impl Faults for Refuses {
    fn on_call(&self, point: &CallPoint) -> CallFault {
        if point.verb.writes() {
            CallFault::Refuse {
                code: self.0,
                retry_after: None,
            }
        } else {
            CallFault::None
        }
    }

    fn on_event(&self, _: &EventPoint) -> EventFault {
        EventFault::None
    }
}

/// Finds nothing in any Rego.
struct Silent;

impl Validator for Silent {
    fn findings(&self, _: Vec<u8>) -> BoxFuture<'_, Result<Vec<Finding>, EvaluationCallError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// Asks as a client that may do everything.
pub(crate) fn facts(server: &ApiServer) -> CheckFacts {
    CheckFacts::new(
        server.client(&Caller::admin()),
        controller::CALLS,
        Arc::new(Silent),
        OWN.to_owned(),
        RightsChanges::since(Instant::now()),
    )
}

/// A reconciler that leads and may do everything. Neither watches nor workers run beside it.
pub(crate) fn reconciler(server: &ApiServer) -> Reconciler {
    reconciler_that(server, true)
}

/// The same; or one that does not lead.
pub(crate) fn reconciler_that(server: &ApiServer, leads: bool) -> Reconciler {
    let leads: Leads = Arc::new(move || leads);
    let (client, clock) = (server.client(&Caller::admin()), server.clone());
    let most_selected = MostSelected(usize::MAX);
    let observer = Observer::new(client.clone(), controller::CALLS, most_selected);
    let metrics = Metrics::register(&Registry::new()).unwrap();
    Reconciler {
        world: Arc::new(World::of(most_selected)),
        queue: Arc::new(controller::queue()),
        applier: Applier::new(
            client.clone(),
            controller::CALLS,
            observer.clone(),
            Arc::clone(&leads),
            metrics.clone(),
        ),
        observer,
        unseen: Mutex::default(),
        inspections: Arc::default(),
        events: Events::new(client, "test").0,
        metrics,
        clock: Arc::new(move || Now {
            wall: whole_seconds(clock.now()),
            mono: Instant::now(),
        }),
        leads,
    }
}
