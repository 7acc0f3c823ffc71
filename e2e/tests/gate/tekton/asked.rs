//! The approvals that a run asks for: with retries, and after the deletion of their `CustomRun`.

use e2e::{
    ApiClient,
    api::kinds::{APPROVAL_TASK, CUSTOM_RUN, PIPELINE_RUN, TASK_RUN},
};
use serde_json::{Value, json};

use super::live::Live;
use super::pipelines::{POD_NAME, deploy_with, run, step, wait, wait_for, with};
use crate::support::{uid, wait_until};

/// The run begins, and waits for its approvers.
fn begun(test: &str, run: &Value) -> (Live, ApiClient) {
    let live = Live::new(test);
    let tenant = live.tenant();
    live.create(run);
    live.wait_for_both();
    live.pod("run-deploy");
    live.wait_for_approval("run-wait");
    (live, tenant)
}

/// The approval under the name of one that was deleted.
fn wait_for_another(live: &Live, before: &str) {
    let found = || match live.gate.api().get(APPROVAL_TASK, "run-wait") {
        Ok(Some(task)) => uid(&task),
        _ => before.to_owned(),
    };
    wait_until("another approval", || found() != before);
}

/// Tekton leaves the retries of a custom task to its controller, and the gate makes none.
#[test]
fn an_approval_with_retries_is_asked_for_once() {
    let asking = with(wait(&json!(["alice"])), json!({"retries": 2}));
    let (live, _) = begun(
        "tk-asked-once",
        &run(&json!([asking, deploy_with(json!({}))])),
    );
    let asked = uid(&live.gate.object(APPROVAL_TASK, "run-wait"));
    live.answer("run-wait", "alice", None, "reject").unwrap();
    let request = live.gate.wait_for_phase(POD_NAME, "Rejected");
    live.gate.wait_until_nothing_is_left(&uid(&request));
    wait_until("the task to have failed for good", || {
        let run = live.gate.object(PIPELINE_RUN, "run");
        let counts = run["status"]["conditions"][0]["message"].as_str();
        counts.is_some_and(|it| it.contains("(Failed: 1,"))
    });
    let custom_run = live.gate.object(CUSTOM_RUN, "run-wait");
    assert_eq!(custom_run["spec"]["retries"], 2);
    assert_eq!(custom_run["status"]["retriesStatus"], Value::Null);
    assert_eq!(live.children("wait", 1), ["run-wait"]);
    assert_eq!(uid(&live.gate.object(APPROVAL_TASK, "run-wait")), asked);
}

/// Tekton makes the child again under its name, and the gate asks anew.
#[test]
fn answers_to_an_approval_whose_custom_run_was_deleted_do_not_count_for_the_next_one() {
    let all = run(&json!([
        wait_for(&json!(["alice", "bob"]), "2"),
        deploy_with(json!({}))
    ]));
    let (live, tenant) = begun("tk-asked-again", &all);
    let before = uid(&live.gate.object(APPROVAL_TASK, "run-wait"));
    live.answer("run-wait", "alice", None, "approve").unwrap();
    tenant.delete(CUSTOM_RUN, "run-wait").unwrap();
    wait_for_another(&live, &before);
    live.wait_for_approval("run-wait");
    live.answer("run-wait", "bob", None, "approve").unwrap();
    let awaited = "waits for its approvers alice:";
    live.gate
        .wait_for_note("Pod", POD_NAME, "AccessPending", awaited);
    live.gate.assert_held(POD_NAME);
    live.answer("run-wait", "alice", None, "approve").unwrap();
    live.gate.wait_for_phase(POD_NAME, "Granted");
}

/// F28: while a run is stopping, Tekton makes no child again, and lists a deleted one no more. It lists its pipeline task
/// among those that it skipped.
#[test]
fn f28_an_approval_that_is_deleted_while_its_run_is_stopping_is_waited_for() {
    let bad = json!({"name": "bad", "taskSpec": {"steps": [step("bad", &json!(["exit", "1"]))]}});
    let staging = with(wait(&json!(["alice"])), json!({"name": "staging"}));
    let all = run(&json!([
        bad,
        staging,
        wait(&json!(["bob"])),
        deploy_with(json!({}))
    ]));
    let (live, tenant) = begun("tk-forgotten", &all);
    live.wait_for_approval("run-staging");
    wait_until("the run to be stopping", || {
        let failed = live.gate.object(TASK_RUN, "run-bad");
        failed["status"]["conditions"][0]["status"] == "False"
    });
    tenant.delete(CUSTOM_RUN, "run-wait").unwrap();
    live.children("wait", 0);
    live.answer("run-staging", "alice", None, "approve")
        .unwrap();
    let awaited = "its run asked for ApprovalTask run-wait too";
    live.gate
        .wait_for_note("Pod", POD_NAME, "AccessPending", awaited);
    live.gate.assert_held(POD_NAME);
    assert_eq!(live.gate.api().get(CUSTOM_RUN, "run-wait").unwrap(), None);
}
