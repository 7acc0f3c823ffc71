//! A pipeline run whose pod `build-1` waits for its approval, as Tekton and the gate write it.

use serde_json::{Value, json};

use crate::cluster::{Cluster, START, pod, policy};

pub(crate) const GATE: &str = "openshift-pipelines.org/v1alpha1";

fn object(api_version: &str, kind: &str, name: &str, owner: Option<(&str, &str, &str)>) -> Value {
    let owners = owner.map(|(api_version, kind, name)| {
        json!({
            "apiVersion": api_version, "kind": kind, "name": name, "uid": format!("uid-{kind}-{name}"),
            "controller": true,
        })
    });
    json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {
            "name": name, "namespace": "team-a", "uid": format!("uid-{kind}-{name}"),
            "creationTimestamp": START, "ownerReferences": owners.as_slice(),
            "labels": {"tekton.dev/pipelineRun": "run"},
        },
    })
}

fn params() -> Value {
    json!([
        {"name": "approvers", "value": ["alice", "group:qa"]},
        {"name": "numberOfApprovalsRequired", "value": "1"},
    ])
}

fn steps() -> Value {
    json!({"steps": [{"name": "deploy", "image": "tool:1"}]})
}

impl Cluster {
    /// A policy that wants an approval of the pod's run, and such a run. No approver has answered.
    pub(crate) fn with_run() -> Self {
        let cluster = Self::new();
        let run = ("tekton.dev/v1", "PipelineRun", "run");
        let mut gated = policy("approved-changes", "payments");
        // A policy sees the labels of pods of its own namespace alone.
        gated["metadata"]["namespace"] = "team-a".into();
        gated["spec"]["checkGrantedPermission"]["spec"]["checks"][0] = json!({
            "name": "approval",
            "selector": {
                "labels": {"tekton.dev/pipelineRun": "{.object.metadata.labels.tekton\\.dev/pipelineRun}"},
                "objectRef": {"apiVersion": GATE, "kind": "ApprovalTask"},
            },
        });
        cluster.put(gated);
        cluster.put(json!({
            "apiVersion": crate::cluster::CONNECTORS, "kind": "Connector",
            "metadata": {"name": "prod-harbor", "namespace": "team-a"},
            "spec": {"connectorClassName": "oci", "address": "https://harbor.example.com"},
        }));
        let mut waiting = pod("run-deploy-pod");
        let owned = object(
            "v1",
            "Pod",
            "run-deploy-pod",
            Some(("tekton.dev/v1", "TaskRun", "run-deploy")),
        );
        waiting["metadata"] = owned["metadata"].clone();
        waiting["spec"]["volumes"][1]["csi"]["volumeAttributes"]["connectors"] =
            "prod-harbor".into();
        cluster.put(waiting);
        let mut pipeline = object("tekton.dev/v1", "PipelineRun", "run", None);
        pipeline["spec"] = json!({"taskRunTemplate": {"serviceAccountName": "builder"}});
        pipeline["status"] = json!({
            "pipelineSpec": {"tasks": [
                {"name": "wait", "taskRef": {"apiVersion": GATE, "kind": "ApprovalTask"}, "params": params()},
                {"name": "deploy", "taskSpec": steps()},
            ]},
            "childReferences": [
                {"apiVersion": "tekton.dev/v1beta1", "kind": "CustomRun", "name": "run-wait", "pipelineTaskName": "wait"},
                {"apiVersion": "tekton.dev/v1", "kind": "TaskRun", "name": "run-deploy", "pipelineTaskName": "deploy"},
            ],
        });
        let mut task_run = object("tekton.dev/v1", "TaskRun", "run-deploy", Some(run));
        task_run["spec"] = json!({"serviceAccountName": "builder", "taskSpec": steps()});
        task_run["status"] = json!({"podName": "run-deploy-pod"});
        let mut custom_run = object("tekton.dev/v1beta1", "CustomRun", "run-wait", Some(run));
        custom_run["spec"] = json!({
            "serviceAccountName": "builder", "params": params(),
            "customRef": {"apiVersion": GATE, "kind": "ApprovalTask"},
        });
        let parent = ("tekton.dev/v1beta1", "CustomRun", "run-wait");
        let mut approval = object(GATE, "ApprovalTask", "run-wait", Some(parent));
        approval["spec"] = json!({
            "numberOfApprovalsRequired": 1,
            "approvers": [
                {"name": "alice", "type": "User", "input": "pending"},
                {"name": "qa", "type": "Group", "input": "pending"},
            ],
        });
        approval["status"] = json!({"state": "pending"});
        for object in [pipeline, task_run, custom_run, approval] {
            cluster.put(object);
        }
        cluster
    }

    pub(crate) fn approval(&self, change: impl FnOnce(&mut Value)) {
        self.server
            .change("approvaltasks", "team-a", "run-wait", change);
    }

    pub(crate) async fn explained_run(&self) -> Value {
        self.json(&["explain", "pod/run-deploy-pod", "-n", "team-a"])
            .await
    }
}
