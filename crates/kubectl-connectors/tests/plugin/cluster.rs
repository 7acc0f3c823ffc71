//! A cluster with a connector `payments/prod-harbor`, a policy that opens it for an approved change, and a pod of
//! `team-a` that mounts it.

use std::path::PathBuf;

use clap::Parser as _;
use connectors_api::request_name::RequestIdentity;
use connectors_api::{AccessRequestSpec, Permission, labels};
use jiff::{SignedDuration, Timestamp};
use kubectl_connectors::answer::Consent;
use kubectl_connectors::args::Args;
use kubectl_connectors::connect::Connection;
use kubectl_connectors::modules::Modules;
use kubectl_connectors::output::Colours;
use kubectl_connectors::run::{self, Outcome, RunPlace};
use serde_json::{Value, json};
use testkit::{ApiServer, Caller, Kind};

/// When everything was created.
pub(crate) const START: &str = "2026-03-01T10:00:00Z";
/// When the user asks.
const NOW: &str = "2026-03-01T10:12:00Z";

pub(crate) const CONNECTORS: &str = "connectors.alauda.io/v1alpha1";
pub(crate) const CHANGES: &str = "itsm.example.com/v1";

pub(crate) fn start() -> Timestamp {
    START.parse().unwrap()
}

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

pub(crate) struct Cluster {
    pub(crate) server: ApiServer,
    /// The program that runs Rego.
    pub(crate) program: PathBuf,
}

fn kind(group: &str, version: &str, kind: &str, plural: &str) -> Kind {
    Kind {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
        namespaced: true,
        status: true,
    }
}

pub(crate) fn policy(name: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": CONNECTORS, "kind": "AccessPolicy",
        "metadata": {"name": name, "namespace": namespace, "uid": format!("uid-{name}"), "creationTimestamp": START},
        "spec": {
            "connector": {"names": ["prod-harbor"]},
            "checkGrantedPermission": {
                "requesters": [{"kind": "ServiceAccount", "namespace": "team-a", "name": "builder"}],
                "spec": {
                    "checks": [{
                        "name": "change",
                        "selector": {
                            "labels": {"pod": "{.object.metadata.name}"},
                            "objectRef": {"apiVersion": CHANGES, "kind": "ChangeRequest"},
                        },
                    }],
                    "permissions": {"roleTemplate": {"rules": [{
                        "apiGroups": ["connectors.alauda.io"], "verbs": ["*"],
                        "resources": ["connectors/apis/v1/pod/{.object.metadata.namespace}/{.object.metadata.name}"],
                    }]}},
                },
            },
        },
    })
}

pub(crate) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "team-a", "uid": format!("uid-{name}"), "creationTimestamp": START,
            "labels": {"change": "42"}, "annotations": {"secret": "hunter2"},
        },
        "spec": {
            "serviceAccountName": "builder",
            "containers": [{"name": "main", "image": "tool:1", "env": [{"name": "PASSWORD", "value": "hunter2"}]}],
            "volumes": [
                {"name": "work", "emptyDir": {}},
                {"name": "tool", "csi": {"driver": "connectors-csi", "readOnly": true,
                    "volumeAttributes": {"connectors": "payments/prod-harbor"}}},
            ],
        },
        "status": {"phase": "Pending"},
    })
}

pub(crate) fn change(name: &str, state: Option<&str>) -> Value {
    let mut change = json!({
        "apiVersion": CHANGES, "kind": "ChangeRequest",
        "metadata": {"name": name, "namespace": "team-a", "labels": {"pod": "build-1"}},
        "spec": {"note": "hunter2"},
    });
    if let Some(state) = state {
        change["status"] = json!({"state": state});
    }
    change
}

impl Cluster {
    pub(crate) fn new() -> Self {
        let server = ApiServer::new(start());
        for (group, version, name, plural) in [
            ("itsm.example.com", "v1", "ChangeRequest", "changerequests"),
            ("itsm.example.com", "v1", "Freeze", "freezes"),
            ("tekton.dev", "v1", "PipelineRun", "pipelineruns"),
            ("tekton.dev", "v1", "TaskRun", "taskruns"),
            ("tekton.dev", "v1beta1", "CustomRun", "customruns"),
            (
                "openshift-pipelines.org",
                "v1alpha1",
                "ApprovalTask",
                "approvaltasks",
            ),
            (
                "admissionregistration.k8s.io",
                "v1",
                "ValidatingAdmissionPolicy",
                "validatingadmissionpolicies",
            ),
            (
                "admissionregistration.k8s.io",
                "v1",
                "ValidatingAdmissionPolicyBinding",
                "validatingadmissionpolicybindings",
            ),
            ("apps", "v1", "Deployment", "deployments"),
            ("apps", "v1", "DaemonSet", "daemonsets"),
            ("storage.k8s.io", "v1", "CSIDriver", "csidrivers"),
            (
                "networking.k8s.io",
                "v1",
                "NetworkPolicy",
                "networkpolicies",
            ),
        ] {
            let mut kind = kind(group, version, name, plural);
            let is_of_cluster = group.ends_with("k8s.io") && name != "NetworkPolicy";
            kind.namespaced = !is_of_cluster && name != "Freeze";
            server.register(kind);
        }
        let cluster = Self {
            server,
            program: PathBuf::from(env!("CARGO_BIN_EXE_kubectl-connectors")),
        };
        for name in ["connectors-system", "payments", "team-a"] {
            cluster
                .put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        }
        cluster.reads_checks();
        cluster.put(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "connectors-config", "namespace": "connectors-system"},
            "data": {"enable-connectors-approval": "true"},
        }));
        cluster.put(json!({
            "apiVersion": CONNECTORS, "kind": "Connector",
            "metadata": {"name": "prod-harbor", "namespace": "payments", "uid": "uid-prod-harbor"},
            "spec": {"connectorClassName": "oci", "address": "https://harbor.example.com"},
        }));
        cluster
    }

    /// The request-controller may read the kinds of approvals.
    fn reads_checks(&self) {
        let rbac = "rbac.authorization.k8s.io";
        self.put(json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {"name": "check-reader"},
            "rules": [
                {"apiGroups": ["itsm.example.com"], "resources": ["changerequests"], "verbs": ["get", "list", "watch"]},
                {"apiGroups": ["openshift-pipelines.org", "tekton.dev"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
            ],
        }));
        self.put(json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "check-reader"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "check-reader"},
            "subjects": [
                {"kind": "ServiceAccount", "namespace": "connectors-system", "name": "request-controller"},
            ],
        }));
    }

    /// With a policy, and a pod whose request waits.
    pub(crate) fn waiting() -> Self {
        let cluster = Self::new();
        cluster.put(policy("approved-changes", "payments"));
        cluster.put(pod("build-1"));
        cluster.request("build-1");
        cluster
    }

    /// The name of the first request.
    pub(crate) fn first_request(&self) -> String {
        let request = &self.server.list("accessrequests")[0];
        request["metadata"]["name"].as_str().unwrap().to_owned()
    }

    pub(crate) fn put(&self, object: Value) -> Value {
        self.server.create(object)
    }

    /// The request of a pod, as the node plugin creates it. Returns its name.
    pub(crate) fn request(&self, pod: &str) -> String {
        let uid = format!("uid-{pod}");
        let identity = RequestIdentity {
            subject_namespace: "team-a",
            subject_name: "builder",
            connector: "prod-harbor",
            permission: Permission::Apis,
            pod_uid: &uid,
        };
        let name = identity.name();
        let spec = json!({
            "subject": {"kind": "ServiceAccount", "name": "builder", "namespace": "team-a"},
            "connectorRef": {"name": "prod-harbor"},
            "permission": "apis",
            "context": {"objectRef": {
                "apiVersion": "v1", "kind": "Pod", "namespace": "team-a", "name": pod, "uid": uid,
            }},
        });
        let parsed: AccessRequestSpec = serde_json::from_value(spec.clone()).unwrap();
        self.put(json!({
            "apiVersion": CONNECTORS, "kind": "AccessRequest", "spec": spec,
            "metadata": {
                "name": name, "namespace": "payments", "uid": format!("uid-{name}"), "creationTimestamp": START,
                "labels": labels::of_request(&parsed),
            },
        }));
        name
    }

    /// What the request-controller says of a request.
    pub(crate) fn say(&self, request: &str, phase: &str, reason: &str, message: &str) {
        self.server
            .change("accessrequests", "payments", request, |it| {
                it["status"]["phase"] = phase.into();
                it["status"]["conditions"] = json!([{
                    "type": "Ready", "status": if phase == "Granted" { "True" } else { "False" },
                    "reason": reason, "message": message, "lastTransitionTime": START,
                }]);
            });
    }

    pub(crate) fn policy(&self, change: impl FnOnce(&mut Value)) {
        self.server
            .change("accesspolicies", "payments", "approved-changes", change);
    }

    pub(crate) async fn run(&self, args: &[&str]) -> Outcome {
        self.run_as(&Caller::admin(), args).await
    }

    pub(crate) async fn run_as(&self, caller: &Caller, args: &[&str]) -> Outcome {
        self.run_coloured(caller, args, Colours::Off).await
    }

    pub(crate) async fn run_coloured(
        &self,
        caller: &Caller,
        args: &[&str],
        colours: Colours,
    ) -> Outcome {
        let ask = Box::new(|_: &str| Consent::NoTerminal);
        self.run_with(caller, args, colours, Box::new(|_| true), ask)
            .await
    }

    /// The same with a reader of what is printed while the command goes on.
    pub(crate) async fn run_printing(
        &self,
        caller: &Caller,
        args: &[&str],
        print: Box<dyn Fn(&str) -> bool>,
    ) -> Outcome {
        let ask = Box::new(|_: &str| Consent::NoTerminal);
        self.run_with(caller, args, Colours::Off, print, ask).await
    }

    /// The same on a terminal, whose user is asked.
    pub(crate) async fn run_asking(
        &self,
        caller: &Caller,
        args: &[&str],
        ask: Box<dyn Fn(&str) -> Consent>,
    ) -> Outcome {
        self.run_with(caller, args, Colours::Off, Box::new(|_| true), ask)
            .await
    }

    async fn run_with(
        &self,
        caller: &Caller,
        args: &[&str],
        colours: Colours,
        print: Box<dyn Fn(&str) -> bool>,
        ask: Box<dyn Fn(&str) -> Consent>,
    ) -> Outcome {
        let args = ["kubectl-connectors"].iter().chain(args);
        let Args { common, command } = Args::try_parse_from(args).unwrap();
        let connection = Connection {
            client: self.server.client(caller),
            namespace: common.namespace.clone().unwrap_or("default".to_owned()),
            user: None,
        };
        let place = RunPlace {
            modules: Modules::of(self.program.clone()),
            colours,
            now,
            print,
            ask,
        };
        Box::pin(run::ask(&command, &common, connection, &place)).await
    }

    /// The answer for programs.
    pub(crate) async fn json(&self, args: &[&str]) -> Value {
        let args: Vec<_> = args.iter().copied().chain(["-o", "json"]).collect();
        let outcome = self.run(&args).await;
        serde_json::from_str(&outcome.output).unwrap_or_else(|_| panic!("{outcome:?}"))
    }

    /// The explanation of the pod.
    pub(crate) async fn explained(&self) -> Value {
        self.json(&["explain", "pod/build-1", "-n", "team-a"]).await
    }

    /// Calls to the API server so far.
    pub(crate) fn calls(&self) -> usize {
        let calls = self.server.log();
        let is_call = |it: &&testkit::Entry| matches!(it.what, testkit::What::Call(_));
        calls.iter().filter(is_call).count()
    }
}

/// A time after the start.
pub(crate) fn after(minutes: i64) -> String {
    let time = start() + SignedDuration::from_mins(minutes);
    time.to_string()
}
