//! What plants a part of a situation.

use serde_json::{Value, json};

use crate::cluster::{Cluster, after, change, policy};
use crate::doctor::labels;

const SYSTEM: &str = "connectors-system";

/// What the next commands look at in an installation.
pub(super) fn installation(cluster: &Cluster) {
    let name = "request-controller";
    cluster.put(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": SYSTEM, "labels": labels(name)},
    }));
    let name = "evaluation-service";
    cluster.put(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": SYSTEM, "labels": labels(name)},
        "spec": {"containers": [{"name": "main", "image": "evaluation-service:1"}]},
    }));
}

/// What the request-controller says of the request.
pub(super) fn say(cluster: &Cluster, phase: &str, reason: &str, message: &str) {
    cluster.say(&cluster.first_request(), phase, reason, message);
}

pub(super) fn grant(cluster: &Cluster) {
    cluster.grant("build-1", &cluster.first_request());
}

pub(super) fn request(cluster: &Cluster, change: impl FnOnce(&mut Value)) {
    let name = cluster.first_request();
    cluster
        .server
        .change("accessrequests", "payments", &name, change);
}

pub(super) fn delete_request(cluster: &Cluster) {
    let name = cluster.first_request();
    cluster.server.delete("accessrequests", "payments", &name);
}

/// The part of the policy that grants under checks.
pub(super) fn granted(cluster: &Cluster, change: impl FnOnce(&mut Value)) {
    cluster.policy(|it| change(&mut it["spec"]["checkGrantedPermission"]));
}

pub(super) fn check(cluster: &Cluster, change: impl FnOnce(&mut Value)) {
    granted(cluster, |it| change(&mut it["spec"]["checks"][0]));
}

pub(super) fn rego(cluster: &Cluster, module: &str) {
    cluster.put(change("chg-42", None));
    check(cluster, |it| it["state"] = json!({"rego": module}));
}

/// The check passes, and the policy grants this.
pub(super) fn rule(cluster: &Cluster, change_rule: impl FnOnce(&mut Value)) {
    cluster.put(change("chg-42", Some("approved")));
    granted(cluster, |it| {
        change_rule(&mut it["spec"]["permissions"]["roleTemplate"]["rules"])
    });
}

/// What the policy-controller says of the checks.
pub(super) fn invalid(cluster: &Cluster, reason: &str, message: &str) {
    cluster.policy(|it| {
        it["status"]["conditions"] = json!([{
            "type": "ChecksValid", "status": "False", "reason": reason, "message": message,
            "lastTransitionTime": after(0),
        }]);
    });
}

pub(super) fn pod(cluster: &Cluster, change: impl FnOnce(&mut Value)) {
    cluster.server.change("pods", "team-a", "build-1", change);
}

/// An object stays while it is being deleted.
pub(super) fn going(cluster: &Cluster, plural: &str, namespace: &str, name: &str) {
    cluster.server.change(plural, namespace, name, |it| {
        it["metadata"]["finalizers"] = json!(["example.com/stay"]);
    });
    cluster.server.delete(plural, namespace, name);
}

/// What a policy of the request came to.
pub(super) fn ended(cluster: &Cluster, reason: &str) {
    request(cluster, |it| {
        it["status"]["policies"] = json!([{
            "policy": policy("approved-changes", "payments"),
            "checkRefs": [{"name": "change", "ref": {"apiVersion": "itsm.example.com/v1",
                "kind": "ChangeRequest", "namespace": "team-a", "name": "chg-42"},
                "status": {"state": "rejected", "reason": "Rejected"}}],
            "grant": {"state": "Ended", "reason": reason, "endedAt": after(5)},
        }]);
    });
}

/// An approver of the run said yes.
pub(super) fn approve(cluster: &Cluster) {
    cluster.approval(|it| {
        it["spec"]["approvers"][0]["input"] = "approve".into();
        it["status"]["state"] = "approved".into();
    });
}

/// An approver of the run said no.
pub(super) fn reject(cluster: &Cluster) {
    cluster.approval(|it| {
        it["spec"]["approvers"][0]["input"] = "reject".into();
        it["status"]["state"] = "rejected".into();
    });
}

pub(super) fn run_check(cluster: &Cluster, change: impl FnOnce(&mut Value)) {
    cluster
        .server
        .change("accesspolicies", "team-a", "approved-changes", |it| {
            change(&mut it["spec"]["checkGrantedPermission"]["spec"]["checks"][0]);
        });
}

pub(super) fn run(cluster: &Cluster, change: impl FnOnce(&mut Value)) {
    cluster
        .server
        .change("pipelineruns", "team-a", "run", change);
}

/// The task that waits for the approval is the first of the pipeline, that of the pod the second.
pub(super) fn task(cluster: &Cluster, number: usize, change: impl FnOnce(&mut Value)) {
    run(cluster, |it| {
        change(&mut it["status"]["pipelineSpec"]["tasks"][number])
    });
}

pub(super) fn children(cluster: &Cluster, change: impl FnOnce(&mut Vec<Value>)) {
    run(cluster, |it| {
        change(it["status"]["childReferences"].as_array_mut().unwrap())
    });
}

pub(super) fn task_run(cluster: &Cluster, change: impl FnOnce(&mut Value)) {
    cluster
        .server
        .change("taskruns", "team-a", "run-deploy", change);
}

pub(super) fn custom_run(cluster: &Cluster, change: impl FnOnce(&mut Value)) {
    cluster
        .server
        .change("customruns", "team-a", "run-wait", change);
}

pub(super) fn run_pod(cluster: &Cluster, change: impl FnOnce(&mut Value)) {
    cluster
        .server
        .change("pods", "team-a", "run-deploy-pod", change);
}

/// The object was created a minute after everything else.
pub(super) fn younger(cluster: &Cluster, plural: &str, name: &str) {
    let mut object = cluster.server.get(plural, "team-a", name).unwrap();
    cluster.server.delete(plural, "team-a", name);
    object["metadata"]["creationTimestamp"] = after(1).into();
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.remove("resourceVersion");
    cluster.put(object);
}

/// A condition of a run that is over.
pub(super) fn succeeded(object: &mut Value) {
    object["status"]["conditions"] = json!([{"type": "Succeeded", "status": "True"}]);
}
