use super::*;

fn asking(approvers: &Value) -> Value {
    json!({
        "metadata": {"name": "run-wait", "labels": {"app": "a"}},
        "spec": {"params": [
            {"name": "approvers", "value": approvers}, {"name": "numberOfApprovalsRequired", "value": "2"},
            {"name": "description", "value": "Deploy"},
        ]},
    })
}

fn answered(inputs: &[&str]) -> Value {
    let mut task = approval(&asking(&json!(["alice", "bob", "carol"])));
    task["status"]["state"] = "pending".into();
    for (place, input) in inputs.iter().enumerate() {
        task["spec"]["approvers"][place]["input"] = (*input).into();
    }
    task
}

#[test]
fn an_approval_has_the_approvers_of_its_custom_run_each_once() {
    let task = approval(&asking(&json!(["alice", "group:qa", "alice", "qa"])));
    let expected = json!({
        "approvers": [
            {"name": "alice", "type": "User", "input": "pending"},
            {"name": "qa", "type": "Group", "input": "pending"},
        ],
        "numberOfApprovalsRequired": 2, "description": "Deploy",
    });
    assert_eq!(task["spec"], expected);
    assert_eq!(
        task["metadata"]["labels"],
        json!({"app": "a", "tekton.dev/customRun": "run-wait"})
    );
}

/// `printf '[{"name":"alice","input":"pending","type":"User"}]' | sha256sum`, and the same with a member.
#[test]
fn the_digest_is_that_of_the_gate() {
    let alice = json!([{"type": "User", "name": "alice", "input": "pending"}]);
    assert_eq!(
        digest(&alice),
        "31499b9e22bc634824f20874c6d3b8ea7091fd91d8001ec6f2f4b9fc638e6b00"
    );
    let group = json!([{
        "name": "qa", "input": "approve", "message": "ok", "type": "Group", "users": [{"name": "bob", "input": "approve"}],
    }]);
    assert_eq!(
        digest(&group),
        "2fbfb4a0f75958c1cb7753bd0b4188e50529e363d9545c4e6f569290f7da7162"
    );
}

#[test]
fn enough_different_users_approve_and_one_no_rejects() {
    let state = |inputs: &[&str]| answers(&answered(inputs)).map(|it| it["state"].clone());
    assert_eq!(state(&[]), None);
    assert_eq!(state(&["approve"]), Some(json!("pending")));
    assert_eq!(state(&["approve", "approve"]), Some(json!("approved")));
    assert_eq!(
        state(&["approve", "approve", "reject"]),
        Some(json!("rejected"))
    );
    let counts = answers(&answered(&["approve"])).unwrap();
    assert_eq!(
        (&counts["approvalsRequired"], &counts["approvalsReceived"]),
        (&json!(2), &json!(1))
    );
}

/// An answer that does not decide leaves a state that another account wrote.
#[test]
fn a_state_stays_until_the_answers_decide() {
    let mut task = answered(&["approve"]);
    task["status"]["state"] = "approved".into();
    assert_eq!(answers(&task).unwrap()["state"], "approved");
    assert!(!is_open(&task));
}

#[test]
fn members_of_a_group_count_each_once_and_with_the_entry_of_the_group() {
    let mut task = approval(&asking(&json!(["bob", "group:qa"])));
    task["spec"]["approvers"][1]["users"] =
        json!([{"name": "bob", "input": "approve"}, {"name": "carol", "input": "approve"}]);
    assert!(is_open(&task), "the entry of the group says nothing");
    task["spec"]["approvers"][1]["input"] = "approve".into();
    assert!(!is_open(&task));
    task["spec"]["approvers"][0]["input"] = "approve".into();
    assert_eq!(approving(&task["spec"]), ["bob", "carol"].into());
    let expected = json!([
        {"name": "bob", "type": "User", "response": "approved"},
        {
            "name": "qa", "type": "Group", "response": "approved",
            "groupMembers": [{"name": "carol", "response": "approved"}],
        },
    ]);
    assert_eq!(answers(&task).unwrap()["approversResponse"], expected);
}

#[test]
fn parameters_that_the_gate_does_not_take_are_named() {
    for approvers in [
        json!([]),
        json!(null),
        json!([""]),
        json!(["group:"]),
        json!(["group:a:b"]),
        json!([1]),
    ] {
        validated(&asking(&approvers)).unwrap_err();
    }
    validated(&json!({})).unwrap_err();
    let mut run = asking(&json!(["alice", "group:qa"]));
    validated(&run).unwrap();
    for needed in [json!("0"), json!("many"), json!(null), json!(2)] {
        run["spec"]["params"][1]["value"] = needed;
        validated(&run).unwrap_err();
    }
}
