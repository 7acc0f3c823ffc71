//! The cluster of a scenario, and the actions of people and other controllers in it.

mod others;
mod tekton;

use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicUsize, Ordering},
};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use testkit::{ApiServer, Kind};

pub use others::{ASKERS, Asker, MORE_APPS, MORE_TOOLS, OWNERS};
pub use tekton::{
    ANOTHER, BEFORE_ALL, GATE, Part, RELEASE, RUN_LABEL, Run, STOPPING, VERIFY, answered, approver,
    params, script,
};

/// The namespace of the connector, its policies and its requests.
pub const TOOLS: &str = "tools";
/// The namespace of the pods.
pub const APPS: &str = "apps";
/// The namespace of the installation.
pub const SYSTEM: &str = "connectors-system";
/// A second installation's namespace, for a second leader.
pub const SECOND_SYSTEM: &str = "connectors-system-2";
/// The namespace of a neighbour: of its connector, policies, pods and requests.
pub const LOUD: &str = "loud";
/// The name prefix of policies that apply to no request here.
pub const DECOY: &str = "decoy";
/// The connector of all scenarios.
pub const CONNECTOR: &str = "harbor";

/// The group and version of our kinds.
pub(crate) const OURS: &str = "connectors.alauda.io/v1alpha1";
/// The group and version of the usual approvals.
pub(crate) const SIGNOFF: &str = "example.com/v1";

/// The Rego module that reads the decision in a `ConfigMap`.
const VERDICT: &str = r#"package approval
import rego.v1
default output := {"state": "pending"}
output := {"state": input.data.state} if input.data.state
"#;

/// The fields that the module above reads of `ConfigMap` objects beside pods of another namespace.
const SHARED_CHECK_FIELDS: &str =
    r#"[{"apiVersion": "v1", "kind": "ConfigMap", "fields": ["data.state"]}]"#;
/// The start time of every run.
const START: &str = "2026-03-01T10:00:00Z";

/// The cluster of a scenario.
#[derive(Clone)]
pub struct Stage {
    /// The API server.
    pub server: ApiServer,
    /// The error of the controllers' wall clocks, in seconds.
    pub skew: Arc<AtomicI64>,
    /// The number of created requests: a part of their UIDs, and so of the names of plans.
    requests: Arc<AtomicUsize>,
}

/// The differences of a policy from the usual one.
#[derive(Clone, Copy, Default)]
pub struct PolicyForm<'a> {
    /// `{kind: Signoff}` when absent.
    pub config_map: bool,
    /// `match`.
    pub any: bool,
    /// `latch`.
    pub latch: Option<&'a str>,
    /// `limits.maxDuration`.
    pub max_duration: Option<&'a str>,
    /// `limits.pendingTimeout`.
    pub pending_timeout: Option<&'a str>,
    /// The label whose value has to be the pod's name; `run` when absent.
    pub label: Option<&'a str>,
    /// The kind of the check objects, another one than the usual.
    pub kind: Option<&'a str>,
    /// The label of the objects that a second check selects; without it there is none.
    pub second: Option<&'a str>,
    /// Other changes of its spec.
    pub edit: Option<fn(&mut Value)>,
}

impl Stage {
    /// A cluster with an installation, namespaces and accounts only.
    #[must_use]
    pub fn new() -> Self {
        let server = ApiServer::new(START.parse().unwrap_or(Timestamp::UNIX_EPOCH));
        let stage = Self {
            server,
            skew: Arc::default(),
            requests: Arc::default(),
        };
        stage.server.register(signoff());
        stage.server.register(Kind {
            group: "openshift-pipelines.org".to_owned(),
            version: "v1alpha1".to_owned(),
            kind: "ApprovalTask".to_owned(),
            plural: "approvaltasks".to_owned(),
            ..signoff()
        });
        for namespace in [TOOLS, APPS, SYSTEM, SECOND_SYSTEM] {
            stage.put(
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
            );
        }
        stage.put(json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "builder", "namespace": APPS},
        }));
        stage.rights();
        stage.decoys();
        for namespace in [SYSTEM, SECOND_SYSTEM] {
            stage.put(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "connectors-config", "namespace": namespace},
                "data": {
                    "enable-connectors-approval": "true",
                    "shared-check-fields": SHARED_CHECK_FIELDS,
                },
            }));
        }
        stage
    }

    /// Decoys: policies for other subjects, and an approval in the wrong namespace.
    fn decoys(&self) {
        let decoy = |namespace: &str, name: &str, account: &str, connector: Value| {
            json!({
                "apiVersion": OURS, "kind": "AccessPolicy",
                "metadata": {"name": format!("{DECOY}-{name}"), "namespace": namespace},
                "spec": {"permission": "apis", "connector": connector, "checkGrantedPermission": {
                    "requesters": [{"kind": "ServiceAccount", "name": account, "namespace": APPS}],
                    "spec": {
                        "checks": [{"name": "approval", "selector": {
                            "labels": {"decoy": "yes"}, "objectRef": {"apiVersion": SIGNOFF, "kind": "Signoff"},
                        }}],
                        "permissions": {"roleTemplate": {"rules": [{
                            "apiGroups": ["connectors.alauda.io"], "verbs": ["*"],
                            "resources": ["connectors/apis/v1/pod/{.object.metadata.namespace}/{.object.metadata.name}"],
                        }]}},
                    },
                }},
            })
        };
        let named = |name: &str| json!({"names": [name]});
        let both = json!({"names": [CONNECTOR], "selector": {"matchLabels": {"decoy": "yes"}}});
        self.put(decoy(TOOLS, "account", "somebody-else", named(CONNECTOR)));
        self.put(decoy(TOOLS, "connector", "builder", named("another")));
        self.put(decoy(TOOLS, "labels", "builder", both));
        self.put(decoy(APPS, "namespace", "builder", named(CONNECTOR)));
        self.signoff_labelled("decoy", "decoy", "yes", "approved");
        self.put(json!({
            "apiVersion": SIGNOFF, "kind": "Signoff",
            "metadata": {"name": "yes", "namespace": TOOLS, "labels": {"run": "deploy"}},
            "status": {"state": "approved"},
        }));
    }

    /// The permissions that the chart gives to the controller.
    fn rights(&self) {
        let rbac = "rbac.authorization.k8s.io";
        let watch = json!(["get", "list", "watch"]);
        let subjects = [SYSTEM, SECOND_SYSTEM].map(|namespace| {
            json!({"kind": "ServiceAccount", "namespace": namespace, "name": "request-controller"})
        });
        self.put(json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole",
            "metadata": {"name": "connectors-request-controller"},
            "rules": [
                {"apiGroups": ["connectors.alauda.io"], "resources": ["*"], "verbs": ["*"]},
                {"apiGroups": [rbac], "resources": ["roles", "rolebindings"], "verbs": ["get", "list", "watch", "create", "delete"]},
                {"apiGroups": [""], "resources": ["pods", "namespaces", "serviceaccounts"], "verbs": watch},
                {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
                {"apiGroups": ["example.com"], "resources": ["signoffs", "latecomers"], "verbs": watch},
                {"apiGroups": ["openshift-pipelines.org"], "resources": ["approvaltasks"], "verbs": watch},
                {"apiGroups": ["tekton.dev"], "resources": ["pipelineruns", "taskruns", "customruns"], "verbs": watch},
                {"apiGroups": [""], "resources": ["configmaps"], "verbs": watch},
            ],
        }));
        self.put(json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding",
            "metadata": {"name": "connectors-request-controller"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "connectors-request-controller"},
            "subjects": subjects,
        }));
        for namespace in [SYSTEM, SECOND_SYSTEM] {
            self.put(json!({
                "apiVersion": format!("{rbac}/v1"), "kind": "Role",
                "metadata": {"name": "request-controller", "namespace": namespace},
                "rules": [
                    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
                    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["request-controller", "request-controller-1", "request-controller-next"], "verbs": ["get", "update"]},
                    {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["connectors-config"], "verbs": watch},
                ],
            }));
            self.put(json!({
                "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding",
                "metadata": {"name": "request-controller", "namespace": namespace},
                "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "request-controller"},
                "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": "request-controller"}],
            }));
        }
    }

    /// Creates an object with all permissions.
    pub fn put(&self, object: Value) {
        self.server.create(object);
    }

    /// The connector.
    pub fn connector(&self) {
        self.put(json!({
            "apiVersion": OURS, "kind": "Connector",
            "metadata": {"name": CONNECTOR, "namespace": TOOLS},
            "spec": {"connectorClassName": "harbor"},
        }));
    }

    /// A policy for pods of `builder`. Objects with the pod's name as a label approve them.
    pub fn policy(&self, name: &str, form: PolicyForm<'_>) {
        let (api_version, kind) = if form.config_map {
            ("v1", "ConfigMap")
        } else {
            (SIGNOFF, form.kind.unwrap_or("Signoff"))
        };
        let selector = json!({
            "labels": {form.label.unwrap_or("run"): "{.object.metadata.name}"},
            "objectRef": {"apiVersion": api_version, "kind": kind},
        });
        let mut check = json!({"name": "approval", "selector": selector});
        if form.any {
            check["match"] = "Any".into();
        }
        if let Some(latch) = form.latch {
            check["latch"] = latch.into();
        }
        if form.config_map {
            check["state"] = json!({"rego": VERDICT});
        }
        let second = form.second.map(|label| {
            json!({"name": "review", "selector": {
                "labels": {label: "{.object.metadata.name}"},
                "objectRef": {"apiVersion": SIGNOFF, "kind": "Signoff"},
            }})
        });
        let checks: Vec<_> = [Some(check), second].into_iter().flatten().collect();
        let mut spec = json!({
            "checks": checks,
            "permissions": {"roleTemplate": {"rules": [{
                "apiGroups": ["connectors.alauda.io"], "verbs": ["*"],
                "resources": ["connectors/apis/v1/pod/{.object.metadata.namespace}/{.object.metadata.name}"],
            }]}},
        });
        let mut limits = serde_json::Map::new();
        if let Some(text) = form.max_duration {
            limits.insert("maxDuration".to_owned(), text.into());
        }
        if let Some(text) = form.pending_timeout {
            limits.insert("pendingTimeout".to_owned(), text.into());
        }
        if !limits.is_empty() {
            spec["limits"] = limits.into();
        }
        let mut spec = json!({"permission": "apis", "checkGrantedPermission": {
            "requesters": [{"kind": "ServiceAccount", "name": "builder", "namespace": APPS}],
            "spec": spec,
        }});
        if let Some(edit) = form.edit {
            edit(&mut spec);
        }
        self.put(json!({
            "apiVersion": OURS, "kind": "AccessPolicy",
            "metadata": {"name": name, "namespace": TOOLS, "uid": format!("policy-{name}")},
            "spec": spec,
        }));
    }

    /// A pod of `builder` that has not started yet.
    pub fn pod(&self, name: &str) {
        self.put(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": APPS},
            "spec": {"serviceAccountName": "builder", "containers": [{"name": "main", "image": "main"}]},
            "status": {"phase": "Pending"},
        }));
    }

    /// Sets a pod's phase.
    pub fn pod_phase(&self, name: &str, phase: &str) {
        self.server.change("pods", APPS, name, |pod| {
            pod["status"]["phase"] = phase.into();
        });
    }

    /// Deletes a pod; it has no finalizer.
    pub fn delete_pod(&self, name: &str) {
        self.server.delete("pods", APPS, name);
    }

    /// The pod's request, as the node plugin creates it and the webhook completes it.
    pub fn request(&self, pod: &str) {
        self.request_named(&format!("for-{pod}"), pod);
    }

    /// The same with another name.
    pub fn request_named(&self, name: &str, pod: &str) {
        let uid = self
            .server
            .get("pods", APPS, pod)
            .map(|it| it["metadata"]["uid"].clone());
        self.put(json!({
            "apiVersion": OURS, "kind": "AccessRequest",
            "metadata": {
                "name": name, "namespace": TOOLS,
                "uid": format!("request-{}", self.requests.fetch_add(1, Ordering::SeqCst)),
            },
            "spec": {
                "subject": {"kind": "ServiceAccount", "namespace": APPS, "name": "builder"},
                "connectorRef": {"name": CONNECTOR},
                "context": {"objectRef": {"apiVersion": "v1", "kind": "Pod", "namespace": APPS, "name": pod, "uid": uid}},
                "permission": "apis",
            },
        }));
    }

    /// An approval object of the usual kind, for a pod.
    pub fn signoff(&self, name: &str, pod: &str, state: &str) {
        self.signoff_labelled(name, "run", pod, state);
    }

    /// The same with another label.
    pub fn signoff_labelled(&self, name: &str, label: &str, pod: &str, state: &str) {
        self.approval_of(SIGNOFF, "Signoff", name, label, pod, state);
    }

    /// An approval object of a kind that is registered later.
    pub fn latecomer(&self, name: &str, pod: &str, state: &str) {
        self.approval_of(SIGNOFF, "Latecomer", name, "run", pod, state);
    }

    fn approval_of(
        &self,
        version: &str,
        kind: &str,
        name: &str,
        label: &str,
        pod: &str,
        state: &str,
    ) {
        self.put(json!({
            "apiVersion": version, "kind": kind,
            "metadata": {"name": name, "namespace": APPS, "labels": {label: pod}},
            "status": {"state": state},
        }));
    }

    /// An approval that Rego evaluates.
    pub fn config_map(&self, name: &str, pod: &str, state: &str) {
        self.put(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": APPS, "labels": {"run": pod}},
            "data": {"state": state},
        }));
    }

    /// An approved `ApprovalTask` for a pod, with the inputs of its approvers.
    pub fn approval_task(&self, pod: &str, approvers: &Value) {
        self.put(json!({
            "apiVersion": "openshift-pipelines.org/v1alpha1", "kind": "ApprovalTask",
            "metadata": {"name": "task", "namespace": APPS, "labels": {"run": pod}},
            "spec": {"approvers": approvers},
            "status": {"state": "approved"},
        }));
    }

    /// Sets the decision of an approval.
    pub fn decide(&self, name: &str, state: &str) {
        self.server.change("signoffs", APPS, name, |it| {
            it["status"]["state"] = state.into();
        });
    }

    /// Registers a kind of approval objects.
    pub fn latecomers_arrive(&self) {
        self.server.register(Kind {
            kind: "Latecomer".to_owned(),
            plural: "latecomers".to_owned(),
            ..signoff()
        });
    }

    /// Registers the same kind, with an unavailable backend.
    pub fn latecomers_are_away(&self) {
        self.latecomers_arrive();
        self.server.take_away("latecomers", "example.com");
    }

    /// Sets the feature switch.
    pub fn switch(&self, on: bool) {
        self.configure("enable-connectors-approval", Some(&on.to_string()));
    }

    /// Whether the feature switch is on, for each controller.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        let maps = self.server.list("configmaps");
        let mut all = maps
            .iter()
            .filter(|it| it["metadata"]["name"] == "connectors-config");
        all.all(|it| it["data"]["enable-connectors-approval"] == "true")
    }

    /// Sets one value of the installation's configuration, or removes it.
    pub fn configure(&self, key: &str, word: Option<&str>) {
        for namespace in [SYSTEM, SECOND_SYSTEM] {
            self.server
                .change("configmaps", namespace, "connectors-config", |map| {
                    let data = map["data"].as_object_mut();
                    data.map(|data| match word {
                        Some(word) => data.insert(key.to_owned(), word.into()),
                        None => data.remove(key),
                    });
                });
        }
    }

    /// Moves the wall clocks of the controllers.
    pub fn jump(&self, by: SignedDuration) {
        self.skew.fetch_add(by.as_secs(), Ordering::SeqCst);
    }

    /// The current request of that name.
    #[must_use]
    pub fn request_now(&self, name: &str) -> Option<Value> {
        self.server.get("accessrequests", TOOLS, name)
    }

    /// The phase of a request; empty when there is none.
    #[must_use]
    pub fn phase(&self, name: &str) -> String {
        let request = self.request_now(name).unwrap_or_default();
        request["status"]["phase"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// The existing objects of a kind, without those of a neighbour.
    #[must_use]
    pub fn list(&self, plural: &str) -> Vec<Value> {
        let mut all = self.server.list(plural);
        all.retain(|it| it["metadata"]["namespace"] != LOUD);
        all
    }

    /// The existing managed bindings.
    #[must_use]
    pub fn bindings(&self) -> Vec<Value> {
        self.managed("rolebindings")
    }

    /// The existing managed objects of a kind, without Roles that wait for their approval. These give nothing, and a grant
    /// writes a missing one, so they may be there or not.
    #[must_use]
    pub fn given(&self, plural: &str) -> Vec<Value> {
        let all = self.managed(plural).into_iter();
        all.filter(|it| plural != "roles" || !self.is_prepared(it))
            .collect()
    }

    fn is_prepared(&self, role: &Value) -> bool {
        let label = |key: &str| &role["metadata"]["labels"][format!("connectors.alauda.io/{key}")];
        let (uid, policy) = (label("accessRequestUid"), label("accessPolicyUid"));
        let texts = |rules: &Value| -> Vec<[Value; 2]> {
            let rules = rules.as_array().into_iter().flatten();
            rules
                .map(|it| [it["resources"].clone(), it["verbs"].clone()])
                .collect()
        };
        let has_rules = |rules: &Value| rules.is_array() && texts(rules) == texts(&role["rules"]);
        let awaits = |request: &Value| {
            let status = &request["status"];
            let is_open = ["Pending", "Granted"]
                .iter()
                .any(|it| status["phase"] == *it);
            let mut entries = status["policies"].as_array().into_iter().flatten();
            is_open
                && request["metadata"]["uid"] == *uid
                && entries.any(|it| {
                    it["policy"]["metadata"]["uid"] == *policy
                        && it["grant"].is_null()
                        && has_rules(&it["preparedRules"])
                })
        };
        let is_bound = |it: &Value| it["metadata"]["name"] == role["metadata"]["name"];
        self.list("accessrequests").iter().any(awaits) && !self.bindings().iter().any(is_bound)
    }

    /// The existing managed objects of a kind.
    #[must_use]
    pub fn managed(&self, plural: &str) -> Vec<Value> {
        let all = self.list(plural).into_iter();
        all.filter(|it| {
            it["metadata"]["labels"]["connectors.alauda.io/accessRequestUid"].is_string()
        })
        .collect()
    }
}

impl Default for Stage {
    fn default() -> Self {
        Self::new()
    }
}

fn signoff() -> Kind {
    Kind {
        group: "example.com".to_owned(),
        version: "v1".to_owned(),
        kind: "Signoff".to_owned(),
        plural: "signoffs".to_owned(),
        namespaced: true,
        status: false,
    }
}
