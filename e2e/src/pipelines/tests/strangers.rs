//! Objects that no controller made.

use super::*;

#[test]
fn a_stranger_is_adopted_and_takes_the_place_of_a_child_that_is_not_there_yet() {
    let stage = Stage::new();
    stage.begin("run", &[deploy(&json!({"runAfter": ["wait"]}))]);
    let run = stage.get(PIPELINE_RUN, "run");
    let stranger = |name: &str, task: &str| {
        json!({
            "apiVersion": "tekton.dev/v1", "kind": "TaskRun",
            "metadata": {"name": name, "labels": labels_of_child(&run, task), "ownerReferences": owned_by(&run)},
            "spec": {"serviceAccountName": "default", "taskSpec": {"steps": []}},
        })
    };
    let api = &stage.controllers.api;
    api.create(&stranger("evil", "deploy")).unwrap();
    api.create(&stranger("other", "no-such-task")).unwrap();
    stage.answer("run-wait", "approve");
    assert_eq!(stage.children("run"), ["run-wait", "evil"]);
    assert!(!stage.is_there(TASK_RUN, "run-deploy"));
}

#[test]
fn a_taken_name_is_used_for_a_child_and_blocks_a_pod_that_tekton_does_not_see() {
    let stage = Stage::new();
    let api = &stage.controllers.api;
    for (api_version, kind, name) in [
        ("tekton.dev/v1", "TaskRun", "run-deploy"),
        ("v1", "Pod", "run-deploy-pod"),
    ] {
        let object = json!({
            "apiVersion": api_version, "kind": kind, "metadata": {"name": name},
            "spec": {"containers": [{"name": "evil", "image": "evil:1"}]},
        });
        api.create(&object).unwrap();
    }
    stage.begin("run", &[deploy(&json!({}))]);
    assert_eq!(stage.children("run"), ["run-wait", "run-deploy"]);
    let task_run = stage.get(TASK_RUN, "run-deploy");
    assert_eq!(task_run["metadata"]["ownerReferences"], Value::Null);
    assert_eq!(task_run["status"]["podName"], Value::Null);
    let labels =
        json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "tekton-pipelines"}}});
    api.patch(POD, "run-deploy-pod", &labels).unwrap();
    stage.work();
    assert_eq!(
        stage.get(TASK_RUN, "run-deploy")["status"]["podName"],
        "run-deploy-pod"
    );
}

#[test]
fn a_status_of_another_account_stays_until_an_approver_answers() {
    let stage = Stage::new();
    stage.begin("run", &[deploy(&json!({"runAfter": ["wait"]}))]);
    let forged = json!({"state": "approved"});
    stage
        .controllers
        .api
        .patch_status(APPROVAL_TASK, "run-wait", &forged)
        .unwrap();
    stage.work();
    let approval = stage.get(APPROVAL_TASK, "run-wait");
    assert_eq!(approval["status"]["state"], "approved");
    assert!(!is_open(&approval), "the approvers are locked out");
    assert_eq!(stage.succeeded(CUSTOM_RUN, "run-wait"), None);
}
