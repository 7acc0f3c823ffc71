//! Checks that exclude the creator of a run, with users of the API server and the gate itself.

use connectors_api::names::CREATOR;
use e2e::{
    ApiClient,
    api::kinds::{APPROVAL_TASK, PIPELINE_RUN},
};
use serde_json::{Value, json};

use super::live::Live;
use super::pipelines::{POD_NAME, deploy_with, run, wait_for, with};
use crate::support::{Gate, pipelines::wait_for_word, wait_until_creators_are_believed};

/// A run that mallory creates and may approve, as alice may; it says that bob created it.
fn own(needed: &str) -> Value {
    let approvers = json!(["mallory", "alice"]);
    let run = run(&json!([
        wait_for(&approvers, needed),
        deploy_with(json!({}))
    ]));
    let claim = json!({"metadata": {"annotations": {CREATOR: "bob"}}});
    with(run, claim)
}

/// Mallory begins the run, once creators are believed.
fn begun(test: &str, needed: &str) -> (Live, ApiClient) {
    let live = Live::asking(Gate::patient(test), |check| {
        check["approvers"] = json!({"notRequester": true});
    });
    wait_until_creators_are_believed(&live.gate);
    let mallory = live.tenant();
    mallory.create(&own(needed)).unwrap();
    live.wait_for_both();
    live.pod("run-deploy");
    live.wait_for_approval("run-wait");
    (live, mallory)
}

#[test]
fn the_creator_of_a_run_approves_it_and_another_approver_has_to_as_well() {
    let (live, mallory) = begun("tk-creator", "2");
    let annotation =
        || live.gate.object(PIPELINE_RUN, "run")["metadata"]["annotations"][CREATOR].take();
    assert_eq!(annotation(), "mallory", "the webhook writes over the claim");
    for claim in [json!("bob"), json!(""), json!(null)] {
        let fields = json!({"metadata": {"annotations": {CREATOR: claim}}});
        for user in [&mallory, live.gate.api()] {
            let refused = user.patch(PIPELINE_RUN, "run", &fields).unwrap_err();
            assert!(refused.to_string().contains("never changes"), "{refused}");
        }
    }
    assert_eq!(annotation(), "mallory");
    live.answer("run-wait", "mallory", None, "approve").unwrap();
    let awaited = "waits for its approvers alice";
    live.gate
        .wait_for_note("Pod", POD_NAME, "AccessPending", awaited);
    live.gate.assert_held(POD_NAME);
    live.answer("run-wait", "alice", None, "approve").unwrap();
    let request = live.gate.wait_for_phase(POD_NAME, "Granted");
    let check = &request["status"]["policies"][0]["checkRefs"][0];
    assert_eq!(check["status"]["approvedBy"], json!(["alice"]));
    assert_eq!(check["status"]["runCreator"], "mallory");
}

/// The gate closes an approval as soon as enough approvers have approved, whether or not they count.
#[test]
fn an_approval_that_its_creator_closes_opens_nothing_and_nobody_else_can_answer() {
    let (live, _) = begun("tk-creator-alone", "1");
    live.answer("run-wait", "mallory", None, "approve").unwrap();
    let request = wait_for_word(&live.gate, POD_NAME, &["QuorumNotMet"]);
    let text = request.to_string();
    assert!(
        text.contains("of the creator of the run does not count"),
        "{text}"
    );
    let refused = live
        .answer("run-wait", "alice", None, "approve")
        .unwrap_err();
    assert!(refused.to_string().contains("final state"), "{refused}");
    let approval = live.gate.object(APPROVAL_TASK, "run-wait");
    assert_eq!(approval["status"]["state"], "approved");
    live.gate.assert_held(POD_NAME);
    assert!(!live.gate.may_use(POD_NAME));
}
