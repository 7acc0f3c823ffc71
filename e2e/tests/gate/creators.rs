//! Checks that exclude the creator of a pipeline run from its approvers.

use connectors_api::names::CREATOR;
use e2e::api::kinds::PIPELINE_RUN;
use serde_json::json;

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
