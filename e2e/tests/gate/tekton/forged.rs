//! The objects that a forger creates: honest ones but for their author.

use serde_json::{Value, json};

use super::pipelines::{GATE, deploying, spec, step, volumes, with};

/// The labels of a child. Every author of the namespace can read and write them.
pub(super) fn labels(task: &str) -> Value {
    json!({
        "tekton.dev/pipelineRun": "run", "tekton.dev/pipelineTask": task, "tekton.dev/pipeline": "run",
        "tekton.dev/memberOf": "tasks",
    })
}

/// The same for a child that Tekton is to adopt: it also looks for the UID of the run.
fn labels_of(task: &str, owners: &Value) -> Value {
    match owners[0]["uid"].as_str() {
        Some(uid) => with(labels(task), json!({"tekton.dev/pipelineRunUID": uid})),
        None => labels(task),
    }
}

/// A `CustomRun` whose approver is its author.
pub(super) fn custom_run(name: &str, owners: &Value) -> Value {
    json!({
        "apiVersion": "tekton.dev/v1beta1", "kind": "CustomRun",
        "metadata": {"name": name, "labels": labels_of("wait", owners), "ownerReferences": owners},
        "spec": {
            "customRef": {"apiVersion": GATE, "kind": "ApprovalTask"}, "serviceAccountName": "default",
            "params": [
                {"name": "approvers", "value": ["mallory"]}, {"name": "numberOfApprovalsRequired", "value": "1"},
            ],
        },
    })
}

/// A `TaskRun` with the connector's volume and a step of its author.
pub(super) fn task_run(name: &str, owners: &Value) -> Value {
    let step = with(deploying(), json!({"name": "evil"}));
    json!({
        "apiVersion": "tekton.dev/v1", "kind": "TaskRun",
        "metadata": {"name": name, "labels": labels_of("deploy", owners), "ownerReferences": owners},
        "spec": {"serviceAccountName": "default", "taskSpec": with(spec(), json!({"steps": [step]}))},
    })
}

/// A pod with the connector's volume.
pub(super) fn pod(name: &str, task_run: &str, owners: &Value) -> Value {
    let container = with(
        step("evil", &json!(["cat", "--then-wait", "/connector"])),
        json!({"volumeMounts": [{"name": "connector", "mountPath": "/connector"}]}),
    );
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "ownerReferences": owners,
            "labels": with(labels("deploy"), json!({"tekton.dev/taskRun": task_run})),
        },
        "spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "volumes": volumes(),
            "containers": [container],
        },
    })
}

/// An `ApprovalTask` whose approver is its author. The gate's webhook wants the answers to be open.
pub(super) fn approval(name: &str) -> Value {
    json!({
        "apiVersion": GATE, "kind": "ApprovalTask", "metadata": {"name": name, "labels": labels("wait")},
        "spec": {
            "approvers": [{"name": "mallory", "type": "User", "input": "pending"}],
            "numberOfApprovalsRequired": 1,
        },
    })
}
