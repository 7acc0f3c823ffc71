//! The how-to about approvers, with both controllers of pipelines played.

use std::fs;

use e2e::repository;
use serde_json::{Value, json};

use crate::support::{
    Gate, check_of,
    pipelines::{Pipelines, deploy_with, policy_of_runs},
};

const POD_NAME: &str = "run-deploy-pod";

/// The blocks of YAML of the page.
fn documented() -> Vec<Value> {
    let page = fs::read_to_string(repository().join("docs/how-to/approvers.md")).unwrap();
    let blocks = page.split("```yaml\n").skip(1);
    let blocks = blocks.map(|it| it.split("```").next().unwrap_or_default());
    blocks.map(|it| serde_yaml::from_str(it).unwrap()).collect()
}

#[test]
fn two_of_the_three_documented_approvers_open_the_pod_and_another_does_not_count() {
    let gate = Gate::new("approvers");
    let blocks = documented();
    let [check, approve] = &blocks[..] else {
        panic!("{blocks:?}");
    };
    let mut policy = policy_of_runs();
    *check_of(&mut policy) = check.clone();
    gate.scene().apply(&policy).unwrap();
    let pipelines = Pipelines::of(&gate);
    // Beside the approval, so that its pod shows what it waits for.
    pipelines.begin_pipeline("run", &json!({"tasks": [approve, deploy_with(&json!({}))]}));
    for approver in ["alice", "mallory"] {
        pipelines.answer("run-approve", approver, "approve");
    }
    gate.wait_for_note("Pod", POD_NAME, "AccessPending", "bob");
    gate.assert_held(POD_NAME);
    pipelines.answer("run-approve", "bob", "approve");
    gate.wait_for_output(POD_NAME);
    let request = gate.wait_for_phase(POD_NAME, "Granted");
    let proof = &request["status"]["policies"][0]["checkRefs"][0]["status"];
    assert_eq!(proof["approvedBy"], json!(["alice", "bob"]));
}
