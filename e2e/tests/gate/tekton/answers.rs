//! The answers of approvers, which the gate's webhook should keep apart and does not.
//!
//! It compares approvers by their place and by their input alone, and takes the names of fields in any case.
//! `tekton.admission` lets each approver write the own answer only.

use connectors_api::names::ANSWER_RULE;
use e2e::{ApiError, ApiUser, api::kinds::APPROVAL_TASK};
use serde_json::{Value, json};

use super::live::Live;
use super::pipelines::{POD_NAME, deploy_with, run, wait_for};
use crate::support::{Gate, pipelines::wait_for_word};

/// A run that waits for so many of these approvers, and the policy for one of them.
fn begun(test: &str, approvers: &Value, needed: &str, wanted: &str) -> Live {
    let live = Live::asking(Gate::new(test), |check| {
        check["approvers"] = json!({"users": [wanted]});
    });
    live.create(&run(&json!([
        wait_for(approvers, needed),
        deploy_with(json!({}))
    ])));
    live.wait_for_both();
    live.pod("run-deploy");
    live.wait_for_approval("run-wait");
    live
}

fn write(live: &Live, user: &ApiUser, spec: &Value) -> Result<(), ApiError> {
    let api = live.gate.api().acting_as(user);
    api.patch(APPROVAL_TASK, "run-wait", &json!({"spec": spec}))
        .map(drop)
}

fn approver(name: &str, input: &str) -> Value {
    json!({"name": name, "type": "User", "input": input})
}

fn group(name: &str) -> Value {
    json!({"name": name, "type": "Group", "input": "pending"})
}

/// The users whose approval counted for the pod, once it is let in.
fn counted(live: &Live) -> Value {
    let request = live.gate.wait_for_phase(POD_NAME, "Granted");
    request["status"]["policies"][0]["checkRefs"][0]["status"]["approvedBy"].clone()
}

/// True when the write was refused, by the rule.
fn is_refused(written: Result<(), ApiError>, rule: bool, message: &str) -> bool {
    match written {
        Ok(()) => {
            assert!(!rule, "the rules of tekton.admission let it through");
            false
        }
        Err(refusal) => {
            assert!(refusal.to_string().contains(message), "{refusal}");
            assert!(rule, "{refusal}");
            true
        }
    }
}

/// F24: the webhook takes the second list for the approvers, and all other readers take the first.
#[test]
fn an_approver_shows_the_webhook_another_list_and_nobody_is_let_in() {
    let live = begun("tk-two-lists", &json!(["mallory", "alice"]), "1", "alice");
    let (rule, long_s) = (live.has_rule(ANSWER_RULE), "approver\u{17f}");
    let lists = json!({
        "approvers": [approver("mallory", "pending"), approver("alice", "approve")],
        long_s: [approver("mallory", "approve"), approver("alice", "pending")],
    });
    let written = write(&live, &ApiUser::named("mallory"), &lists);
    if !is_refused(
        written,
        rule,
        "only the approval gate changes anything else",
    ) {
        wait_for_word(&live.gate, POD_NAME, &["AmbiguousFields"]);
    }
    live.gate.assert_held(POD_NAME);
}

/// F25: two approvers rename two others and name them back, so the answer of one of these counts as that of the other.
/// Without the rule it is believed, as the threat model says.
#[test]
fn approvers_who_rename_others_for_a_while_are_stopped_by_the_rule_alone() {
    let names = json!(["mallory", "bob", "carol", "alice"]);
    let live = begun("tk-renamed", &names, "3", "carol");
    let rule = live.has_rule(ANSWER_RULE);
    let renamed = json!({"approvers": [
        approver("mallory", "approve"), approver("bob", "pending"),
        approver("alice", "pending"), approver("carol", "pending"),
    ]});
    let written = write(&live, &ApiUser::named("mallory"), &renamed);
    if is_refused(written, rule, "only the approval gate changes who approves") {
        live.answer("run-wait", "mallory", None, "approve").unwrap();
        live.answer("run-wait", "alice", None, "approve").unwrap();
        live.answer("run-wait", "bob", None, "approve").unwrap();
        wait_for_word(&live.gate, POD_NAME, &["QuorumNotMet"]);
        live.gate.assert_held(POD_NAME);
        return;
    }
    live.answer("run-wait", "alice", None, "approve").unwrap();
    let back = json!({"approvers": [
        approver("mallory", "approve"), approver("bob", "approve"),
        approver("carol", "approve"), approver("alice", "pending"),
    ]});
    write(&live, &ApiUser::named("bob"), &back).unwrap();
    assert_eq!(counted(&live), json!(["carol"]));
}

/// F25: one member of a group exchanges the entries of the group and of a user, and so answers for that user.
/// Without the rule it is believed, as the threat model says.
#[test]
fn a_member_of_a_group_who_answers_for_a_user_is_stopped_by_the_rule_alone() {
    let names = json!(["group:qa", "carol"]);
    let live = begun("tk-exchanged", &names, "1", "carol");
    let mallory = ApiUser::named("mallory").in_group("qa");
    let mallory = mallory.in_group("system:authenticated");
    let mut in_place_of_the_group = approver("carol", "pending");
    // The gate's webhook wants an answer of the member, and the gate counts none of these.
    in_place_of_the_group["users"] = json!([{"name": "mallory", "input": "approve"}]);
    let exchanged = json!({"approvers": [in_place_of_the_group, group("qa")]});
    let written = write(&live, &mallory, &exchanged);
    if is_refused(
        written,
        live.has_rule(ANSWER_RULE),
        "only the approval gate changes who approves",
    ) {
        live.answer("run-wait", "mallory", Some("qa"), "approve")
            .unwrap();
        wait_for_word(&live.gate, POD_NAME, &["QuorumNotMet"]);
        live.gate.assert_held(POD_NAME);
        return;
    }
    let back = json!({"approvers": [group("qa"), approver("carol", "approve")]});
    write(&live, &mallory, &back).unwrap();
    assert_eq!(counted(&live), json!(["carol"]));
}
