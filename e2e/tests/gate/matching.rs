//! Which objects count for a check: any or all of those found, those with certain fields, those with enough of the
//! right approvers, and those without proof.

use e2e::api::kinds::APPROVAL_TASK;
use serde_json::{Value, json};

use crate::support::{Approval, Gate, check_of, condition, pipelines::GATE, policy, uid};

fn sign_off(name: &str, app: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "e2e.example.com/v1", "kind": "SignOff",
        "metadata": {"name": name, "labels": {"app": app}}, "spec": spec,
    })
}

#[test]
fn where_a_check_says_any_one_of_several_objects_is_enough_and_where_it_says_all_not() {
    let gate = Gate::empty("match-any");
    for (connector, match_) in [("any", "Any"), ("all", "All")] {
        gate.create_connector(connector);
        let mut policy = policy(connector, Approval::SignOff);
        policy["spec"]["connector"]["names"] = json!([connector]);
        check_of(&mut policy)["match"] = json!(match_);
        gate.scene().apply(&policy).unwrap();
        gate.set_approval(
            &format!("{connector}-first"),
            connector,
            Approval::SignOff,
            "pending",
        );
        gate.set_approval(
            &format!("{connector}-second"),
            connector,
            Approval::SignOff,
            "pending",
        );
        gate.start_pod_of(connector, connector);
        gate.wait_for_reason(connector, "AccessCheckReady", "AccessCheckPending");
        gate.assert_held(connector);
    }
    // A no beside a yes counts where all have to say yes.
    for connector in ["any", "all"] {
        gate.set_approval(
            &format!("{connector}-first"),
            connector,
            Approval::SignOff,
            "approved",
        );
    }
    gate.wait_for_output("any");
    gate.assert_held("all");
    gate.set_approval("all-second", "all", Approval::SignOff, "approved");
    gate.wait_for_output("all");

    // A grant on one of them ends with that one.
    let request = gate.wait_for_phase("any", "Granted");
    gate.set_approval("any-first", "any", Approval::SignOff, "expired");
    gate.approval_ended("any", "any");
    let request = gate.wait_for_phase_of(&request, "Revoked");
    assert_eq!(condition(&request, "Ready"), Some(("False", "CheckLapsed")));
}

#[test]
fn only_objects_with_the_fields_of_the_field_selector_count() {
    let gate = Gate::new("match-fields");
    let mut windows = policy("windows", Approval::SignOff);
    check_of(&mut windows)["selector"]["fieldSelector"] = json!({"spec.type": "TimeWindow"});
    gate.scene().apply(&windows).unwrap();
    let manual = sign_off("manual", "job", &json!({"type": "Manual"}));
    let without = sign_off("without", "job", &json!({}));
    for other in [&manual, &without] {
        gate.apply_with_state(other, "approved");
    }
    gate.start_pod("job");
    gate.wait_for_reason("job", "AccessCheckReady", "AccessCheckPending");
    gate.assert_held("job");

    let window = sign_off("window", "job", &json!({"type": "TimeWindow"}));
    gate.apply_with_state(&window, "approved");
    gate.wait_for_output("job");
    let request = gate.wait_for_phase("job", "Granted");
    let refs = &request["status"]["policies"][0]["checkRefs"];
    let names: Vec<&Value> = refs
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["ref"]["name"])
        .collect();
    assert_eq!(names, ["window"]);

    // The end of the window is the end of the access, regardless of the others.
    gate.apply_with_state(&window, "expired");
    gate.approval_ended("job", "windows");
    gate.wait_for_no_access("job", &uid(&request));
    let request = gate.wait_for_phase_of(&request, "Revoked");
    assert_eq!(condition(&request, "Ready"), Some(("False", "CheckLapsed")));
}

/// An `ApprovalTask` as Tekton's approval gate keeps it, for a pod.
fn task(approvers: &Value) -> Value {
    json!({
        "apiVersion": GATE, "kind": "ApprovalTask",
        "metadata": {"name": "task", "labels": {"app": "job"}}, "spec": {"approvers": approvers},
    })
}

#[test]
fn an_approval_task_without_proof_counts_with_enough_of_the_policys_approvers() {
    let gate = Gate::empty("match-approvers");
    gate.api().define(&APPROVAL_TASK.definition()).unwrap();
    let approvers =
        json!({"users": ["alice", "bob"], "groups": ["release-managers"], "minimum": 2});
    for (connector, approvers) in [("approved", Some(approvers)), ("believed", None)] {
        gate.create_connector(connector);
        let mut policy = policy(connector, Approval::SignOff);
        policy["spec"]["connector"]["names"] = json!([connector]);
        let check = check_of(&mut policy);
        check["selector"]["objectRef"] = json!({"apiVersion": GATE, "kind": "ApprovalTask"});
        check["selector"]["labels"] = json!({"app": "job"});
        check["provenance"] = json!("None");
        if let Some(approvers) = approvers {
            check["approvers"] = approvers;
        }
        gate.scene().apply(&policy).unwrap();
    }
    let user = |name: &str, input: &str| json!({"name": name, "type": "User", "input": input});
    // The state is approved; of the counted approvers, one has approved.
    let mallory = user("mallory", "approve");
    gate.apply_with_state(
        &task(&json!([
            user("alice", "approve"),
            user("bob", "pending"),
            mallory
        ])),
        "approved",
    );
    gate.start_pod_of("believed", "believed");
    gate.start_pod_of("approved", "approved");
    gate.wait_for_output("believed");
    let request = gate.request_of("approved");
    gate.wait_for_request(
        &crate::support::name(&request),
        "to count approvals",
        |request| request.to_string().contains("has 1 of the 2 approvals"),
    );
    gate.assert_held("approved");

    let managers = json!({
        "name": "release-managers", "type": "Group", "input": "approve",
        "users": [{"name": "carol", "input": "approve"}],
    });
    let enough = task(&json!([
        user("alice", "approve"),
        user("bob", "pending"),
        mallory,
        managers
    ]));
    gate.apply_with_state(&enough, "approved");
    gate.wait_for_output("approved");
    let request = gate.wait_for_phase("approved", "Granted");
    let by = &request["status"]["policies"][0]["checkRefs"][0]["status"]["approvedBy"];
    assert_eq!(*by, json!(["alice", "carol"]));
}
