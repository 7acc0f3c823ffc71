//! The pipelines: a task that waits for its approvers, and one that deploys.

use e2e::images::Image;
use serde_json::{Value, json};

pub(super) use crate::support::pipelines::{GATE, wait_for};
use crate::support::{CONNECTOR, MOUNT, volume};

/// The pod of the task that deploys.
pub(super) const POD_NAME: &str = "run-deploy-pod";

/// The image of the tests' pods; the run may name another one.
fn image() -> String {
    std::env::var("E2E_WORKLOAD_IMAGE").unwrap_or_else(|_| Image::Workload.reference())
}

/// An object with more fields, or other ones.
#[allow(
    clippy::needless_pass_by_value,
    reason = "both are written where it is called"
)]
pub(super) fn with(mut object: Value, more: Value) -> Value {
    e2e::install::merge(&mut object, &more);
    object
}

/// A pipeline task that waits for one approval of these approvers.
pub(super) fn wait(approvers: &Value) -> Value {
    wait_for(approvers, "1")
}

/// A step of the test workload.
pub(super) fn step(name: &str, args: &Value) -> Value {
    json!({
        "name": name, "image": image(), "imagePullPolicy": "IfNotPresent", "command": ["/workload"], "args": args,
    })
}

/// A step that prints the content of its volume, and then waits.
pub(super) fn deploying() -> Value {
    let mounts = volume(&json!({"connectors": CONNECTOR}))["volumeMounts"].take();
    with(
        step("deploy", &json!(["cat", "--then-wait", MOUNT])),
        json!({"volumeMounts": mounts}),
    )
}

/// The volume of a task that deploys.
pub(super) fn volumes() -> Value {
    volume(&json!({"connectors": CONNECTOR}))["volumes"].take()
}

/// The content of a task that deploys.
pub(super) fn spec() -> Value {
    json!({"steps": [deploying()], "volumes": volumes()})
}

/// A pipeline task that deploys, with more fields of its task.
pub(super) fn deploy_with(more: Value) -> Value {
    json!({"name": "deploy", "taskSpec": with(spec(), more)})
}

/// A pipeline task that deploys, once it is approved.
pub(super) fn deploy() -> Value {
    after_wait(deploy_with(json!({})))
}

/// A task that begins after the approval.
pub(super) fn after_wait(task: Value) -> Value {
    with(task, json!({"runAfter": ["wait"]}))
}

/// A pipeline task with results: a text, a list and an object.
pub(super) fn who() -> Value {
    let write = |result: &str, text: &str| {
        step(
            result,
            &json!(["write", format!("$(results.{result}.path)"), text]),
        )
    };
    json!({"name": "who", "taskSpec": {
        "results": [
            {"name": "boss"}, {"name": "list", "type": "array"},
            {"name": "map", "type": "object", "properties": {"key": {"type": "string"}}},
        ],
        "steps": [
            write("boss", "alice"), write("list", r#"["alice","bob"]"#), write("map", r#"{"key":"value"}"#),
        ],
    }})
}

/// A run of these tasks.
pub(super) fn run(tasks: &Value) -> Value {
    json!({
        "apiVersion": "tekton.dev/v1", "kind": "PipelineRun", "metadata": {"name": "run"},
        "spec": {"pipelineSpec": {"tasks": tasks}},
    })
}

/// The honest run. The pod that deploys is there before the approval.
pub(super) fn honest() -> Value {
    run(&json!([wait(&json!(["alice"])), deploy_with(json!({}))]))
}
