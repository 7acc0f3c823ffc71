//! A check that Rego decides, as `e2e/examples/source` has it, and objects for it of which no two are the same.

use evaluation_api::v1::{Candidates, EvaluateChecksRequest, EvaluationStage};
use serde_json::{Value, json};

const POLICY: &str = include_str!("../../examples/source/07-check-rule.yaml");
/// The states of the objects, in turn.
pub(crate) const STATES: [&str; 4] = ["approved", "rejected", "pending", "expired"];

const CONNECTOR: &str = "harbor-prod";
const RUN: &str = "tekton.dev/pipelineRun";

/// The policy in a namespace, with one check.
#[derive(Clone)]
pub(crate) struct Check {
    policy: Value,
    namespace: String,
    name: String,
}

impl Check {
    /// As written, except for its namespace and for the proof of the objects' origin: Rego does not decide
    /// about that.
    pub(crate) fn new(namespace: &str) -> Self {
        let mut policy: Value = serde_yaml::from_str(POLICY).unwrap();
        policy["metadata"]["namespace"] = namespace.into();
        policy["metadata"]["uid"] = uid(9, 0).into();
        let check = &mut policy["spec"]["checkGrantedPermission"]["spec"]["checks"][0];
        check["provenance"] = "None".into();
        let name = check["name"].as_str().unwrap().to_owned();
        Self {
            policy,
            namespace: namespace.to_owned(),
            name,
        }
    }

    /// The same with another module.
    pub(crate) fn with_module(mut self, module: &str) -> Self {
        let spec = &mut self.policy["spec"]["checkGrantedPermission"]["spec"];
        spec["checks"][0]["state"]["rego"] = module.into();
        self
    }

    /// The same module with a rule that nothing uses. It has no program, so that the engine evaluates it.
    pub(crate) fn module_for_the_engine(&self) -> String {
        format!("{}\nunused = true\n", self.module())
    }

    pub(crate) fn module(&self) -> &str {
        let spec = &self.policy["spec"]["checkGrantedPermission"]["spec"];
        spec["checks"][0]["state"]["rego"].as_str().unwrap()
    }

    /// The approval of one run, in one of the states.
    pub(crate) fn object(&self, number: usize) -> Value {
        let mut object = approval(&self.namespace, number);
        object["status"]["state"] = STATES[number % STATES.len()].into();
        object
    }

    /// The same, found for the pod of another run.
    pub(crate) fn object_for(&self, run_number: usize, number: usize) -> Value {
        let mut object = self.object(number);
        object["metadata"]["labels"][RUN] = run(run_number).into();
        object
    }

    /// A controller's question about the pod of that run, with the object that was found for it.
    pub(crate) fn question(&self, number: usize, object: &[u8]) -> EvaluateChecksRequest {
        self.question_of_all(number, vec![object.to_vec()])
    }

    /// The same with several objects.
    pub(crate) fn question_of_all(
        &self,
        number: usize,
        objects: Vec<Vec<u8>>,
    ) -> EvaluateChecksRequest {
        EvaluateChecksRequest {
            policy: self.policy.to_string().into(),
            context_object: pod(&self.namespace, number).to_string().into(),
            connector: CONNECTOR.to_owned(),
            candidates: vec![Candidates {
                check: self.name.clone(),
                objects,
                shared_fields: Vec::new(),
            }],
            stage: EvaluationStage::BeforeGrant.into(),
            lineage: vec![],
            creators_since: None,
        }
    }
}

fn uid(kind: usize, number: usize) -> String {
    format!("7d4c2a1e-0000-4000-8{kind:03x}-{number:012x}")
}

fn run(number: usize) -> String {
    format!("deploy-{number:06}")
}

fn labels(number: usize, task: &str) -> Value {
    json!({
        "app.kubernetes.io/managed-by": "tekton-pipelines", "tekton.dev/memberOf": "tasks",
        "tekton.dev/pipeline": "deploy", RUN: run(number), "tekton.dev/pipelineRunUID": uid(1, number),
        "tekton.dev/pipelineTask": task,
    })
}

fn approval(namespace: &str, number: usize) -> Value {
    let name = format!("{}-wait-for-approval", run(number));
    let at = "2026-01-02T03:04:05Z";
    json!({
        "apiVersion": "openshift-pipelines.org/v1alpha1", "kind": "ApprovalTask",
        "metadata": {
            "name": name, "namespace": namespace, "uid": uid(2, number), "resourceVersion": number.to_string(),
            "generation": 2, "creationTimestamp": at, "labels": labels(number, "wait-for-approval"),
            "ownerReferences": [{
                "apiVersion": "tekton.dev/v1beta1", "kind": "CustomRun", "name": name, "uid": uid(3, number),
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "description": "may this version go to production?", "numberOfApprovalsRequired": 1,
            "approvers": [
                {"name": "alice", "type": "User", "input": "approve", "message": "the tests are green"},
                {"name": "release-managers", "type": "Group", "input": "pending", "users": [
                    {"name": "bob", "input": "pending"}, {"name": "carol", "input": "pending"},
                ]},
            ],
        },
        "status": {
            "approvers": ["alice", "release-managers"], "approvalsRequired": 1, "approvalsReceived": 1,
            "startTime": at,
            "approversResponse": [
                {"name": "alice", "type": "User", "response": "approved", "message": "the tests are green"},
            ],
        },
    })
}

fn pod(namespace: &str, number: usize) -> Value {
    let name = format!("{}-push-pod", run(number));
    let environment = |count: usize| -> Vec<Value> {
        let variable =
            |at| json!({"name": format!("SETTING_{at}"), "value": format!("value-{at}")});
        (0..count).map(variable).collect()
    };
    let mounts = json!([
        {"name": "workspace", "mountPath": "/workspace/source"},
        {"name": "connector", "mountPath": "/connector", "readOnly": true},
        {"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true},
    ]);
    let container = |step: &str| {
        json!({
            "name": format!("step-{step}"), "image": format!("registry.example.com/tools/{step}:v1.2.3"),
            "command": ["/tekton/bin/entrypoint"], "args": ["-wait_file", "/tekton/run/0/out", "--", step],
            "env": environment(6), "volumeMounts": mounts, "terminationMessagePath": "/tekton/termination",
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        })
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": namespace, "uid": uid(4, number), "resourceVersion": "77",
            "labels": labels(number, "push"), "annotations": {"tekton.dev/ready": "READY"},
            "ownerReferences": [{
                "apiVersion": "tekton.dev/v1", "kind": "TaskRun", "name": format!("{}-push", run(number)),
                "uid": uid(5, number), "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "serviceAccountName": "pipeline", "nodeName": "node-1", "restartPolicy": "Never",
            "containers": [container("build"), container("scan"), container("push")],
            "volumes": [
                {"name": "workspace", "emptyDir": {}}, {"name": "token", "projected": {"sources": []}},
                {"name": "connector", "csi": {
                    "driver": "connectors-csi", "volumeAttributes": {"connectors": CONNECTOR},
                }},
            ],
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    })
}
