//! A round: a pipeline run whose pod asks, its approval, the grant, and the end of it all.

use std::time::{Duration, Instant};

use connectors_api::AccessRequest;
use connectors_api::access_request::{CheckRef, Phase};
use connectors_api::labels::ACCESS_REQUEST_UID;
use e2e::ApiClient;
use e2e::api::kinds::{
    ACCESS_REQUEST, APPROVAL_TASK, CLUSTER_ROLE, CONFIG_MAP, CUSTOM_RUN, PIPELINE_RUN, POD, ROLE,
    ROLE_BINDING, SERVICE_ACCOUNT, TASK_RUN,
};
use e2e::pipelines::{Pipelines, RUN_LABEL, selector_of_runs};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::support::follow::Follower;
use crate::support::place::Place;

/// How long the API server may take to fill a new namespace.
const PATIENCE: Duration = Duration::from_mins(1);
const APPROVER: &str = "alice";
/// The rights of the request-controller in the whole cluster.
pub(crate) const CONTROLLER_ROLE: &str = "connectors-request-controller";

/// The approving object, and the way it is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The `ApprovalTask` of a run, which is proven to be of the pod's own.
    Proof,
    /// The same `ApprovalTask`, believed for its labels.
    Labels,
    /// A `ConfigMap` with the label of the run.
    ConfigMap,
}

/// The times of one request.
pub(crate) struct Played {
    /// From its approval to its grant.
    pub(crate) granted: Duration,
    /// From the deletion of its pod to the end of its grant.
    pub(crate) revoked: Duration,
}

/// The objects that all rounds use.
pub(crate) struct Rounds {
    namespace: String,
    api: ApiClient,
    pipelines: Pipelines,
    follower: Follower,
}

impl Way {
    pub(crate) const ALL: [Self; 3] = [Self::Proof, Self::Labels, Self::ConfigMap];

    /// The name of its connector and its policy.
    fn name(self) -> &'static str {
        match self {
            Self::Proof => "proof",
            Self::Labels => "labels",
            Self::ConfigMap => "config-map",
        }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Proof => "approval of a pipeline run → Granted, with its proof",
            Self::Labels => "approval of a pipeline run → Granted, `provenance: None`",
            Self::ConfigMap => "approval in a ConfigMap → Granted, judged by Rego",
        }
    }

    /// The check of its policy.
    fn check(self) -> Value {
        let mut check = json!({"name": "approval", "selector": selector_of_runs(), "state": {}});
        match self {
            Self::Proof => {}
            Self::Labels => check["provenance"] = "None".into(),
            Self::ConfigMap => {
                check["selector"]["objectRef"] = json!({"apiVersion": "v1", "kind": "ConfigMap"});
                check["state"] = json!({"rego": VERDICT});
            }
        }
        check
    }
}

/// The state of a `ConfigMap` is the word in its data.
const VERDICT: &str = r#"package approval
import rego.v1
default output := {"state": "pending", "message": "nobody decided yet"}
output := {"state": input.data.verdict, "message": "decided"} if input.data.verdict
"#;

impl Rounds {
    /// A connector and a policy for each way.
    pub(crate) fn set(place: &Place) -> Self {
        let api = ApiClient::connect(&place.kubeconfig, &place.namespace).unwrap();
        let account = (SERVICE_ACCOUNT, "default");
        let what = "the namespace's service account";
        api.wait_for(what, account, PATIENCE, |_| true).unwrap();
        let class = json!({
            "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "ConnectorClass",
            "metadata": {"name": "bench"}, "spec": {"address": {"name": "address", "type": "string"}},
        });
        api.apply_over(&class).unwrap();
        for way in Way::ALL {
            for object in rules(way) {
                api.apply(&object).unwrap();
            }
        }
        Self {
            namespace: place.namespace.clone(),
            pipelines: Pipelines::new(&api, pod_spec()).unwrap(),
            api,
            follower: Follower::of(place),
        }
    }

    /// Gives the request-controller the rights that the chart gives it with `requestController.bindRoles`.
    pub(crate) fn allow_to_bind(&self) {
        let role = self.api.get(CLUSTER_ROLE, CONTROLLER_ROLE).unwrap();
        let role = role.expect("the chart is installed");
        let mut rules = role["rules"].as_array().unwrap().clone();
        rules.push(json!({
            "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["bind"],
        }));
        let fields = json!({"rules": rules});
        self.api
            .patch(CLUSTER_ROLE, CONTROLLER_ROLE, &fields)
            .unwrap();
    }

    /// One request from its beginning to its end.
    pub(crate) fn play(&self, way: Way, number: usize) -> Played {
        let run = format!("{}-{number}", way.name());
        self.begin(way, &run);
        let stored = self
            .api
            .create(&request(way, &run, &pod(&run), &self.namespace))
            .unwrap();
        let stored: AccessRequest = serde_json::from_value(stored).unwrap();
        let followed = self.follower.follow(&stored);
        followed.until("that waits for its approval", |it| {
            phase(it) == Some(Phase::Pending) && check_refs(it).next().is_some()
        });
        followed.until_calm();
        let approved = self.approve(way, &run);
        let granted = followed.until_granted();
        expect_proof(way, &granted.request);
        followed.until_calm();
        let ended = Instant::now();
        self.api.delete_now(POD, &pod(&run)).unwrap();
        let revoked = followed.until("whose grant is gone", |it| {
            it.status.as_ref().is_some_and(|it| it.revoked_at.is_some())
        });
        let label = format!("{ACCESS_REQUEST_UID}={}", stored.uid().unwrap());
        for kind in [ROLE, ROLE_BINDING] {
            let left = self.api.list(kind, &label).unwrap();
            assert!(left.is_empty(), "left of {run}: {left:?}");
        }
        self.api.delete(ACCESS_REQUEST, &run).unwrap();
        followed.until_gone();
        self.end(way, &run);
        Played {
            granted: granted.at - approved,
            revoked: revoked.at - ended,
        }
    }

    /// A run that waits for its approval, and its pod.
    fn begin(&self, way: Way, run: &str) {
        self.pipelines.begin(run, &json!([APPROVER]), "1").unwrap();
        if way == Way::ConfigMap {
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": run, "labels": {RUN_LABEL: run}}, "data": {},
            });
            self.api.create(&object).unwrap();
        }
    }

    /// Gives when the last write of the approval began.
    fn approve(&self, way: Way, run: &str) -> Instant {
        match way {
            Way::Proof | Way::Labels => {
                let task = approval(run);
                self.pipelines.answer(&task, APPROVER, "approve").unwrap();
                let counted = self.pipelines.counted(&task).unwrap();
                let status = counted.expect("the approver answered");
                let began = Instant::now();
                // In place of the gate, whose own time is not measured.
                self.api
                    .patch_status(APPROVAL_TASK, &task, &status)
                    .unwrap();
                began
            }
            Way::ConfigMap => {
                let fields = json!({"data": {"verdict": "approved"}});
                let began = Instant::now();
                self.api.patch(CONFIG_MAP, run, &fields).unwrap();
                began
            }
        }
    }

    /// Removes the objects of a run, whose pod is gone.
    fn end(&self, way: Way, run: &str) {
        if way == Way::ConfigMap {
            self.api.delete(CONFIG_MAP, run).unwrap();
        }
        let (task, deploy) = (approval(run), format!("{run}-deploy"));
        for (kind, name) in [
            (APPROVAL_TASK, task.as_str()),
            (CUSTOM_RUN, task.as_str()),
            (TASK_RUN, deploy.as_str()),
            (PIPELINE_RUN, run),
        ] {
            self.api.delete(kind, name).unwrap();
        }
    }
}

/// The `ApprovalTask` of a run, and its `CustomRun`.
fn approval(run: &str) -> String {
    format!("{run}-wait")
}

fn pod(run: &str) -> String {
    format!("{run}-deploy-pod")
}

/// A pod that no node ever gets.
fn pod_spec() -> Value {
    json!({
        "schedulingGates": [{"name": "bench.example.com/never"}],
        "restartPolicy": "Never", "automountServiceAccountToken": false,
        "containers": [{"name": "deploy", "image": "none.example.com/none"}],
    })
}

/// A request as a person would write it.
pub(crate) fn request(way: Way, name: &str, pod: &str, namespace: &str) -> Value {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": pod});
    json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessRequest", "metadata": {"name": name},
        "spec": {
            "subject": {"kind": "ServiceAccount", "name": "default"},
            "connectorRef": {"name": way.name()}, "context": {"objectRef": pod},
        },
    })
}

/// A pod that waits for the approval with the label of its name.
pub(crate) fn waiting_pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {RUN_LABEL: name}}, "spec": pod_spec(),
    })
}

/// The connector and the policy of a way.
pub(crate) fn rules(way: Way) -> [Value; 2] {
    [connector(way), policy(way)]
}

fn connector(way: Way) -> Value {
    json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "Connector", "metadata": {"name": way.name()},
        "spec": {"connectorClassName": "bench", "address": "https://tool.example.com"},
    })
}

fn policy(way: Way) -> Value {
    let pod = "connectors/apis/v1/pod/{.object.metadata.namespace}/{.object.metadata.name}";
    json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy", "metadata": {"name": way.name()},
        "spec": {
            "connector": {"names": [way.name()]},
            "checkGrantedPermission": {"spec": {
                "checks": [way.check()],
                "permissions": {"roleTemplate": {"rules": [
                    {"apiGroups": ["connectors.alauda.io"], "resources": [pod], "verbs": ["*"]},
                ]}},
            }},
        },
    })
}

fn phase(request: &AccessRequest) -> Option<Phase> {
    request.status.as_ref()?.phase
}

fn check_refs(request: &AccessRequest) -> impl Iterator<Item = &CheckRef> {
    let policies = request.status.iter().flat_map(|it| &it.policies);
    policies.flat_map(|it| &it.check_refs)
}

/// A figure has its stated meaning only if the grant has the proof, or has none.
fn expect_proof(way: Way, granted: &AccessRequest) {
    let links: Vec<_> = check_refs(granted).map(|it| it.lineage.len()).collect();
    // The PipelineRun, the pod's TaskRun and the CustomRun.
    let expected = if way == Way::Proof { 3 } else { 0 };
    assert_eq!(links, [expected], "what proved {}", granted.name_any());
}
