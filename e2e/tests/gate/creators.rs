//! Checks that exclude the creator of a pipeline run from its approvers.

use std::time::Duration;

use connectors_api::names::{CREATOR, CREATOR_RULE};
use e2e::{
    Deadline,
    api::kinds::{ADMISSION_POLICY, PIPELINE_RUN},
    checker::now,
    poll,
};
use jiff::SignedDuration;
use serde_json::json;

use crate::support::{
    Gate, check_of,
    pipelines::{Pipelines, policy_of_runs},
    timestamp,
};

const POD_NAME: &str = "run-deploy-pod";

/// A creator is believed of runs that are younger than the rule by a minute.
fn wait_until_the_rule_counts(gate: &Gate) {
    let rule = gate.object(ADMISSION_POLICY, CREATOR_RULE);
    let counts = timestamp(&rule, "/metadata/creationTimestamp") + SignedDuration::from_secs(62);
    let is_old = || {
        (now() > counts)
            .then_some(())
            .ok_or_else(|| format!("{} now", now()))
    };
    let deadline = Deadline::after(Duration::from_mins(2));
    poll("the rule about creators to be old enough", deadline, is_old).unwrap();
}

#[test]
fn the_creator_of_a_run_does_not_approve_it_whatever_the_run_says() {
    let gate = Gate::patient("creators");
    let mut policy = policy_of_runs();
    check_of(&mut policy)["approvers"] = json!({"notRequester": true});
    gate.scene().apply(&policy).unwrap();
    wait_until_the_rule_counts(&gate);
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
    pipelines.answer("run-wait", "alice", "approve");
    gate.wait_for_output(POD_NAME);
    let request = gate.wait_for_phase(POD_NAME, "Granted");
    let proof = &request["status"]["policies"][0]["checkRefs"][0];
    assert_eq!(proof["status"]["approvedBy"], json!([creator, "alice"]));
}
