//! Authors of pipelines choose the approvers of their runs. The policy decides whose approval counts, and for
//! which task.

use serde_json::json;

use super::live::Live;
use super::pipelines::{POD_NAME, deploy_with, run, wait, with};
use crate::support::{Gate, name};

/// F8: the author of a run chooses its approvers. The policy decides whose approval counts.
#[test]
fn f8_an_author_who_approves_an_own_run_needs_an_approver_of_the_policy() {
    let live = Live::asking(Gate::new("tk-forged-author"), |check| {
        check["approvers"] = json!({"users": ["alice"], "minimum": 1});
    });
    let own = run(&json!([wait(&json!(["mallory"])), deploy_with(json!({}))]));
    live.tenant().create(&own).unwrap();
    live.wait_for_both();
    live.pod("run-deploy");
    live.wait_for_approval("run-wait");
    live.answer("run-wait", "mallory", None, "approve").unwrap();
    let request = name(&live.gate.request_of(POD_NAME));
    live.gate
        .wait_for_request(&request, "to count approvals", |it| {
            it.to_string().contains("has 0 of the 1 approvals")
        });
    live.gate.assert_held(POD_NAME);
}

/// F14: the policy names the pipeline task whose approval it wants.
#[test]
fn f14_the_approval_for_one_task_opens_no_other() {
    let live = Live::asking(Gate::new("tk-forged-task"), |check| {
        check["selector"]["labels"]["tekton.dev/pipelineTask"] = "wait".into();
    });
    let staging = with(wait(&json!(["alice"])), json!({"name": "staging"}));
    live.create(&run(&json!([
        staging,
        wait(&json!(["bob"])),
        deploy_with(json!({}))
    ])));
    live.wait_for_approval("run-staging");
    live.answer("run-staging", "alice", None, "approve")
        .unwrap();
    live.wait_for_both();
    live.gate.wait_for_note(
        "Pod",
        POD_NAME,
        "AccessPending",
        "waits for its approvers bob",
    );
    live.gate.assert_held(POD_NAME);
    live.answer("run-wait", "bob", None, "approve").unwrap();
    live.gate.wait_for_phase(POD_NAME, "Granted");
}
