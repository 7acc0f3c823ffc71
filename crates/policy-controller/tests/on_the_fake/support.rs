//! A cluster with the controller in it, on a clock that stands still when nothing happens.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use evaluation_api::{client::EvaluationCallError, v1::Finding};
use futures::{future::BoxFuture, stream};
use jiff::Timestamp;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::{Api, api::PostParams};
use policy_controller::{
    checks::facts::Validator,
    controller::{self, Settings},
    seen::MostSelected,
};
use prometheus::Registry;
use serde_json::{Value, json};
use service_kit::{
    client::bounded,
    clock::{Now, whole_seconds},
    lease::LeaseTerms,
    readiness::Readiness,
    shutdown::{Signal, Tasks},
};
use testkit::{ApiServer, CallRecord, Caller, Entry, Verb, What};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

/// Where the policies and the connectors are.
pub(crate) const TOOLS: &str = "tools";
/// Where the installations are.
pub(crate) const SYSTEMS: [&str; 2] = ["connectors-system", "connectors-system-2"];
const OURS: &str = "connectors.alauda.io/v1alpha1";
const RBAC: &str = "rbac.authorization.k8s.io";

/// Long enough for everything that is not a periodic look.
pub(crate) const SOON: Duration = Duration::from_secs(20);

pub(crate) struct Cluster {
    pub(crate) server: ApiServer,
    pub(crate) validator: Arc<FakeValidator>,
}

/// Says the same of every policy's Rego; nothing, and never, without words.
#[derive(Default)]
pub(crate) struct FakeValidator(pub(crate) Mutex<Option<Vec<Finding>>>);

impl Validator for FakeValidator {
    fn findings(&self, _: Vec<u8>) -> BoxFuture<'_, Result<Vec<Finding>, EvaluationCallError>> {
        let findings = self.0.lock().unwrap().clone();
        Box::pin(async move {
            let limit = Duration::from_secs(1);
            findings.ok_or(EvaluationCallError::Deadline {
                call: "ValidatePolicy",
                limit,
            })
        })
    }
}

/// A running controller.
pub(crate) struct Process {
    pub(crate) name: String,
    task: JoinHandle<()>,
}

impl Cluster {
    /// With a connector, some namespaces and some service accounts, and no controller.
    pub(crate) fn new() -> Self {
        let start: Timestamp = "2026-03-01T10:00:00Z".parse().unwrap();
        let cluster = Self {
            server: ApiServer::new(start),
            validator: Arc::default(),
        };
        for namespace in [TOOLS, SYSTEMS[0], SYSTEMS[1]] {
            cluster.namespace(namespace, json!({}));
        }
        for system in SYSTEMS {
            // Without a word about the switch.
            let keys = r#"["kubernetes.io/metadata.name","cpaas.io/project","team"]"#;
            cluster.put(config(system, json!({"namespace-selector-keys": keys})));
        }
        cluster.namespace("devops-ns1", json!({"cpaas.io/project": "devops"}));
        cluster.rights();
        cluster.connector("harbor", json!({"class": "oci"}));
        cluster
    }

    /// The rights that a chart must give the controller.
    fn rights(&self) {
        let read = json!(["get", "list", "watch"]);
        let subjects = SYSTEMS.map(|namespace| {
            json!({"kind": "ServiceAccount", "namespace": namespace, "name": "policy-controller"})
        });
        self.put(json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
            "metadata": {"name": "connectors-policy-controller"},
            "rules": [
                {"apiGroups": ["connectors.alauda.io"], "resources": ["*"], "verbs": ["*"]},
                {"apiGroups": [RBAC], "resources": ["roles", "rolebindings"], "verbs": ["get", "list", "watch", "create", "patch", "delete"]},
                {"apiGroups": [RBAC], "resources": ["clusterroles", "clusterrolebindings"], "verbs": read},
                {"apiGroups": [""], "resources": ["namespaces", "serviceaccounts"], "verbs": read},
                {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
                {
                    "apiGroups": ["admissionregistration.k8s.io"], "verbs": ["get"],
                    "resources": ["validatingadmissionpolicies", "validatingadmissionpolicybindings"],
                    "resourceNames": ["pipelinerun-creators.connectors.alauda.io", "approval-answers.connectors.alauda.io"],
                },
                {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]},
            ],
        }));
        self.put(json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding",
            "metadata": {"name": "connectors-policy-controller"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "connectors-policy-controller"},
            "subjects": subjects,
        }));
        for namespace in SYSTEMS {
            let metadata = json!({"name": "policy-controller", "namespace": namespace});
            self.put(json!({
                "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": metadata,
                "rules": [
                    {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["connectors-config"], "verbs": ["list", "watch"]},
                    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
                    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["policy-controller"], "verbs": ["get", "update"]},
                ],
            }));
            self.put(json!({
                "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": metadata,
                "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "policy-controller"},
                "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": "policy-controller"}],
            }));
        }
    }

    pub(crate) fn put(&self, object: Value) -> Value {
        self.server.create(object)
    }

    pub(crate) fn namespace(&self, name: &str, labels: Value) {
        self.put(json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels},
        }));
    }

    pub(crate) fn account(&self, namespace: &str, name: &str, labels: Value) {
        self.put(json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
        }));
    }

    pub(crate) fn connector(&self, name: &str, labels: Value) {
        self.put(json!({
            "apiVersion": OURS, "kind": "Connector",
            "metadata": {"name": name, "namespace": TOOLS, "labels": labels},
            "spec": {"connectorClassName": "harbor"},
        }));
    }

    /// A policy that lets these subjects read.
    pub(crate) fn policy(&self, name: &str, connector: Value, subjects: Value) -> String {
        let spec = reading(connector, subjects);
        let policy = self.put(json!({
            "apiVersion": OURS, "kind": "AccessPolicy",
            "metadata": {"name": name, "namespace": TOOLS}, "spec": spec,
        }));
        policy["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    /// Changes the spec of a policy, as a person would.
    pub(crate) fn edit(&self, policy: &str, edit: impl FnOnce(&mut Value)) {
        self.server.change("accesspolicies", TOOLS, policy, |it| {
            let before = it["spec"].clone();
            edit(&mut it["spec"]);
            assert_ne!(it["spec"], before, "an edit that changes nothing");
        });
    }

    pub(crate) fn start(&self, pod: &str) -> Process {
        self.start_in(SYSTEMS[0], pod)
    }

    pub(crate) fn start_in(&self, namespace: &str, pod: &str) -> Process {
        let caller = Caller::service_account(pod, namespace, "policy-controller");
        let clock = self.server.clone();
        let settings = Settings {
            client: bounded(self.server.client(&caller)),
            validator: self.validator.clone(),
            clock: Arc::new(move || Now {
                wall: whole_seconds(clock.now()),
                mono: Instant::now(),
            }),
            namespace: namespace.to_owned(),
            identity: pod.to_owned(),
            lease: LeaseTerms::default(),
            sweep_every: Duration::from_mins(5),
            most_selected: MostSelected(20_000),
        };
        let task = tokio::spawn(async move {
            let mut tasks = Tasks::new();
            let (readiness, start) = Readiness::starting();
            controller::start(settings, &Registry::new(), &mut tasks, &readiness).unwrap();
            start.ready();
            let never = stream::pending::<Signal>();
            tasks.run(never, &readiness, Duration::ZERO).await;
        });
        Process {
            name: pod.to_owned(),
            task,
        }
    }

    /// At once, even in the middle of its work.
    pub(crate) fn kill(&self, process: &Process) {
        self.server.kill(&process.name);
        process.task.abort();
    }

    /// Whether a review says yes.
    pub(crate) async fn may(&self, user: &str, verb: &str, connector: &str) -> bool {
        let groups = match user.strip_prefix("system:serviceaccount:") {
            Some(account) => {
                let (namespace, _) = account.split_once(':').unwrap();
                vec![
                    "system:serviceaccounts".to_owned(),
                    format!("system:serviceaccounts:{namespace}"),
                    "system:authenticated".to_owned(),
                ]
            }
            None => vec!["system:authenticated".to_owned()],
        };
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(user.to_owned()),
                groups: Some(groups),
                resource_attributes: Some(ResourceAttributes {
                    namespace: Some(TOOLS.to_owned()),
                    verb: Some(verb.to_owned()),
                    group: Some("connectors.alauda.io".to_owned()),
                    resource: Some("connectors".to_owned()),
                    subresource: Some("apis".to_owned()),
                    name: Some(connector.to_owned()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let api: Api<SubjectAccessReview> = Api::all(self.server.client(&Caller::admin()));
        let review = api.create(&PostParams::default(), &review).await.unwrap();
        review.status.is_some_and(|it| it.allowed)
    }

    /// The conditions of a policy, as `type=status reason`.
    pub(crate) fn conditions(&self, policy: &str) -> Vec<String> {
        let policy = self.server.get("accesspolicies", TOOLS, policy).unwrap();
        let conditions = policy["status"]["conditions"].as_array().cloned();
        let text = |it: &Value, field: &str| it[field].as_str().unwrap_or_default().to_owned();
        let line = |it: &Value| {
            let (condition, status) = (text(it, "type"), text(it, "status"));
            format!("{condition}={status} {}", text(it, "reason"))
        };
        conditions.iter().flatten().map(line).collect()
    }

    /// Reason and note of every event, in order.
    pub(crate) fn events(&self) -> Vec<String> {
        let entries = self.server.log();
        let calls = entries.iter().filter_map(call);
        let events = calls.filter(|it| it.point.resource == "events");
        let body = events.filter_map(|it| it.body.clone());
        body.map(|it| {
            let text = |field: &str| it[field].as_str().unwrap_or_default().to_owned();
            format!("{}: {}", text("reason"), text("note"))
        })
        .collect()
    }

    /// The names of the managed Roles and RoleBindings.
    pub(crate) fn objects(&self) -> BTreeSet<String> {
        let managed = |it: &Value| {
            it["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "connectors-approval"
        };
        let named = |it: &Value| {
            let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
            format!("{} {}", text(&it["kind"]), text(&it["metadata"]["name"]))
        };
        let all = ["roles", "rolebindings"].into_iter();
        let all = all.flat_map(|plural| self.server.list(plural));
        all.filter(managed).map(|it| named(&it)).collect()
    }

    /// The writes of controllers since that many entries of the log, but for leases and events.
    pub(crate) fn writes(&self, since: usize) -> Vec<String> {
        let entries = self.server.log_since(since);
        let calls = entries.iter().filter_map(call);
        calls
            .filter(|it| it.point.verb.writes() && it.point.user.ends_with(":policy-controller"))
            .filter(|it| !["leases", "events"].contains(&it.point.resource.as_str()))
            .map(|it| format!("{} {} {}", it.point.verb, it.point.resource, it.point.name))
            .collect()
    }

    /// How many lists of a kind controllers asked for since that many entries of the log.
    pub(crate) fn lists_of(&self, resource: &str, since: usize) -> usize {
        self.calls_of(Verb::List, resource, since)
    }

    /// The same of another verb.
    pub(crate) fn calls_of(&self, verb: Verb, resource: &str, since: usize) -> usize {
        let entries = self.server.log_since(since);
        let calls = entries.iter().filter_map(call);
        let calls = calls.filter(|it| it.point.verb == verb && it.point.resource == resource);
        calls.count()
    }

    pub(crate) fn now(&self) -> usize {
        self.server.log().len()
    }
}

fn call(entry: &Entry) -> Option<&CallRecord> {
    match &entry.what {
        What::Call(call) => Some(call),
        What::Change(_) | What::Sent(_) | What::Killed(_) => None,
    }
}

pub(crate) fn reading(connector: Value, subjects: Value) -> Value {
    json!({
        "connector": connector,
        "permission": "apis",
        "defaultPermission": {
            "roleTemplate": {"rules": [{
                "apiGroups": ["connectors.alauda.io"], "resources": ["connectors/apis"], "verbs": ["read"],
            }]},
            "bindingTemplate": {"subjects": subjects},
        },
    })
}

/// The configuration of an installation.
pub(crate) fn config(system: &str, data: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "connectors-config", "namespace": system}, "data": data,
    })
}

pub(crate) async fn soon() {
    sleep(SOON).await;
}
