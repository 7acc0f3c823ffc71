//! Approvals of pipeline runs: each opens exactly the run that it belongs to.

mod endings;
mod forgeries;
mod shapes;

use e2e::api::kinds::{APPROVAL_REQUEST, CUSTOM_RUN, PIPELINE_RUN, TASK_RUN};
use serde_json::{Value, json};

use crate::support::{
    Gate, check_of,
    pipelines::{GATE, LateWrite, Pipelines, deploy_with, policy_of_runs, wait_for},
    rights::{RightHolder, RightRule, give},
    uid,
};

const POD_NAME: &str = "run-deploy-pod";

/// A gate whose policy asks for the approval of the pod's own run.
fn gate(test: &str) -> Gate {
    gate_asking(test, |_| ())
}

/// The same with another check.
fn gate_asking(test: &str, change: impl FnOnce(&mut Value)) -> Gate {
    let gate = Gate::new(test);
    let mut policy = policy_of_runs();
    change(check_of(&mut policy));
    gate.scene().apply(&policy).unwrap();
    gate
}

fn end(gate: &Gate, run: &str, word: &str) {
    let fields = json!({"spec": {"status": word}});
    gate.api().patch(PIPELINE_RUN, run, &fields).unwrap();
}

/// The example of the source document, with the default policy.
#[test]
fn the_deploy_pod_of_a_run_waits_for_its_approver_and_starts() {
    let gate = gate("lineage-approved");
    let pipelines = Pipelines::of(&gate);
    pipelines.begin("run", &json!(["alice"]), "1");
    let says = "waits for its approvers alice";
    gate.wait_for_note("Pod", POD_NAME, "AccessPending", says);
    gate.assert_held(POD_NAME);
    let rights = RightRule {
        group: "openshift-pipelines.org",
        resource: "approvaltasks",
        name: Some("run-wait"),
        verbs: &["get", "patch"],
    };
    give(&gate, "approver", &[rights], RightHolder::User("alice"));
    pipelines.answer_as("alice", "run-wait", "approve");
    gate.wait_for_output(POD_NAME);
    let request = gate.wait_for_phase(POD_NAME, "Granted");
    let proof = &request["status"]["policies"][0]["checkRefs"][0];
    assert_eq!(proof["status"]["approvedBy"], json!(["alice"]));
    let lineage = proof["lineage"].as_array().unwrap().iter();
    let lineage: Vec<_> = lineage
        .map(|it| it["uid"].as_str().unwrap().to_owned())
        .collect();
    let of = |kind, name| uid(&gate.object(kind, name));
    let expected = [
        of(PIPELINE_RUN, "run"),
        of(TASK_RUN, "run-deploy"),
        of(CUSTOM_RUN, "run-wait"),
    ];
    assert_eq!(lineage, expected);
    // The pod runs on; the end of its run ends its access.
    end(&gate, "run", "Cancelled");
    gate.approval_ended(POD_NAME, "release");
    gate.wait_for_phase(POD_NAME, "Revoked");
    gate.wait_for_no_access(POD_NAME, &uid(&request));
}

#[test]
fn two_approvers_and_a_group_are_counted_and_a_rejection_is_final() {
    let gate = gate("lineage-quorum");
    let pipelines = Pipelines::of(&gate);
    let approvers = json!(["alice", "group:qa"]);
    pipelines.begin("run", &approvers, "2");
    pipelines.begin("other", &approvers, "2");
    pipelines.answer("run-wait", "alice", "approve");
    let note = gate.wait_for_note("Pod", POD_NAME, "AccessPending", "approvers group qa");
    assert!(!note.contains("alice"), "{note}");
    gate.assert_held(POD_NAME);
    pipelines.answer_for("run-wait", "qa", "bob");
    gate.wait_for_output(POD_NAME);
    pipelines.answer("other-wait", "alice", "reject");
    gate.wait_for_phase("other-deploy-pod", "Rejected");
}

/// The last example of the source document: an approval of the run, and a time window beside it.
#[test]
fn an_approval_and_a_time_window_pass_together_and_the_end_of_the_window_revokes() {
    let gate = Gate::new("lineage-window");
    let mut policy = policy_of_runs();
    let checks = &mut policy["spec"]["checkGrantedPermission"]["spec"]["checks"];
    let template = r#"{.object.metadata.labels["tekton\.dev/pipelineRun"]}"#;
    let selector = |kind: &str| {
        json!({
            "labels": {"tekton.dev/pipelineRun": template},
            "objectRef": {"apiVersion": GATE, "kind": kind},
        })
    };
    let mut window = selector("ApprovalRequest");
    window["fieldSelector"] = json!({"spec.type": "TimeWindow"});
    *checks = json!([
        {"name": "manual-approval-check", "selector": selector("ApprovalTask"), "state": {}},
        {"name": "business-hour-check", "selector": window, "state": {}},
    ]);
    gate.scene().apply(&policy).unwrap();
    let pipelines = Pipelines::of(&gate);
    pipelines.begin("run", &json!(["alice"]), "1");
    let window = |name: &str, kind: &str| {
        json!({
            "apiVersion": GATE, "kind": "ApprovalRequest",
            "metadata": {"name": name, "labels": {"tekton.dev/pipelineRun": "run"}}, "spec": {"type": kind},
        })
    };
    gate.apply_with_state(&window("window", "TimeWindow"), "pending");
    gate.apply_with_state(&window("other", "Change"), "rejected");
    pipelines.answer("run-wait", "alice", "approve");
    gate.wait_for_note("Pod", POD_NAME, "AccessPending", "window is pending");
    gate.assert_held(POD_NAME);
    gate.set_state_of(APPROVAL_REQUEST, "window", "passed");
    gate.wait_for_output(POD_NAME);
    let request = gate.wait_for_phase(POD_NAME, "Granted");
    gate.set_state_of(APPROVAL_REQUEST, "window", "expired");
    gate.approval_ended(POD_NAME, "release");
    gate.wait_for_phase(POD_NAME, "Revoked");
    gate.wait_for_no_access(POD_NAME, &uid(&request));
}

/// Both runs have the labels of the other one's candidates, so only the proof tells them apart.
#[test]
fn two_runs_of_one_pipeline_cannot_use_each_others_approval() {
    let gate = gate_asking("lineage-two-runs", |check| {
        check["selector"]["labels"] = json!({"tekton.dev/pipelineTask": "wait"});
        check["match"] = "Any".into();
    });
    let pipelines = Pipelines::of(&gate);
    pipelines.begin("run", &json!(["alice"]), "1");
    pipelines.begin("other", &json!(["alice"]), "1");
    pipelines.answer("other-wait", "alice", "approve");
    gate.wait_for_output("other-deploy-pod");
    pipelines.wait_for_word(POD_NAME, &["OtherRun"]);
    gate.assert_held(POD_NAME);
    assert!(!gate.may_use(POD_NAME));
    pipelines.answer("run-wait", "alice", "approve");
    gate.wait_for_output(POD_NAME);
}

/// Each controller writes its part of the proof in its own time.
#[test]
fn a_link_that_comes_last_lets_the_pod_start() {
    let gate = gate("lineage-late");
    let pipelines = Pipelines::of(&gate);
    let tasks = json!([wait_for(&json!(["alice"]), "1"), deploy_with(&json!({}))]);
    for (run, late) in [
        ("pod", LateWrite::PodName),
        ("children", LateWrite::ChildReferences),
    ] {
        let pod = format!("{run}-deploy-pod");
        pipelines.create_run(run, &json!({"pipelineSpec": {"tasks": tasks}}));
        pipelines.work_without(late);
        pipelines.answer_before_tekton_looks(&format!("{run}-wait"), "alice", "approve");
        pipelines.wait_for_word(&pod, &["LineageIncomplete"]);
        gate.assert_held(&pod);
        pipelines.work();
        gate.wait_for_output(&pod);
    }
}
