//! Checks that exclude the creator of a pipeline run from its approvers.

use connectors_api::names::CREATOR;
use e2e::api::kinds::{APPROVAL_TASK, PIPELINE_RUN, POD};
use serde_json::{Value, json};

use crate::support::{
    Gate, check_of,
    pipelines::{Pipelines, policy_of_runs},
    wait_until_creators_are_believed,
};

const POD_NAME: &str = "run-deploy-pod";

#[test]
fn the_creator_of_a_run_does_not_approve_it_whatever_the_run_says() {
    let gate = Gate::patient("creators");
    let mut policy = policy_of_runs();
    check_of(&mut policy)["approvers"] = json!({"notRequester": true});
    gate.scene().apply(&policy).unwrap();
    wait_until_creators_are_believed(&gate);
    let pipelines = Pipelines::of(&gate);
    let creator = "admin";
    pipelines.begin("run", &json!([creator, "alice"]), "1");
    let run = gate.object(PIPELINE_RUN, "run");
    assert_eq!(run["metadata"]["annotations"][CREATOR], creator);
    for forged in [json!("bob"), json!(null), json!("")] {
        let fields = json!({"metadata": {"annotations": {CREATOR: forged}}});
        let refused = gate.api().patch(PIPELINE_RUN, "run", &fields).unwrap_err();
        assert!(refused.to_string().contains("never changes"), "{refused}");
    }
    pipelines.answer("run-wait", creator, "approve");
    let request = pipelines.wait_for_word(POD_NAME, &["QuorumNotMet"]);
    assert!(
        request
            .to_string()
            .contains("of the creator of the run does not count"),
        "{request}"
    );
    gate.assert_held(POD_NAME);
    // That approval is final. A run that wants one more is granted once another approver agrees.
    pipelines.begin("other", &json!([creator, "alice"]), "2");
    pipelines.answer("other-wait", creator, "approve");
    let other = "other-deploy-pod";
    gate.wait_for_note("Pod", other, "AccessPending", "its approvers alice");
    gate.assert_held(other);
    pipelines.answer("other-wait", "alice", "approve");
    gate.wait_for_output(other);
    let request = gate.wait_for_phase(other, "Granted");
    let proof = &request["status"]["policies"][0]["checkRefs"][0];
    assert_eq!(proof["status"]["approvedBy"], json!(["alice"]));
    assert_eq!(proof["status"]["runCreator"], creator);
    gate.assert_held(POD_NAME);
}

/// The first object of a block of YAML of the page, behind a heading.
fn documented(heading: &str) -> Value {
    let page = std::fs::read_to_string(e2e::repository().join("docs/approvals.md")).unwrap();
    let (_, section) = page.split_once(heading).unwrap();
    let (_, block) = section.split_once("```yaml\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    // The creator of every object here is the administrator of the cluster.
    serde_yaml::from_str(&block.replace("alice", "admin")).unwrap()
}

#[test]
fn the_pipeline_of_the_documentation_deploys_once_both_approvers_agree() {
    let gate = Gate::patient("documented");
    let mut policy = policy_of_runs();
    let check = documented("\n## Tekton\n")["checks"][0].clone();
    *check_of(&mut policy) = check;
    check_of(&mut policy)["approvers"] = json!({"users": ["admin", "bob"], "notRequester": true});
    gate.scene().apply(&policy).unwrap();
    wait_until_creators_are_believed(&gate);
    let pipelines = Pipelines::of(&gate);
    let run = documented("\n## Gate a pipeline in five minutes\n");
    pipelines.begin_pipeline("run", &run["spec"]["pipelineSpec"]);
    pipelines.answer("run-approve", "admin", "approve");
    // The deploying task begins after the approval.
    assert_eq!(gate.api().get(POD, POD_NAME).unwrap(), None);
    pipelines.answer("run-approve", "bob", "approve");
    gate.wait_for_output(POD_NAME);
    let request = gate.wait_for_phase(POD_NAME, "Granted");
    let proof = &request["status"]["policies"][0]["checkRefs"][0]["status"];
    assert_eq!(proof["approvedBy"], json!(["bob"]));
    assert_eq!(proof["runCreator"], "admin");
    let state = &gate.object(APPROVAL_TASK, "run-approve")["status"]["state"];
    assert_eq!(state, "approved");
}
