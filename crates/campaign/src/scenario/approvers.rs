//! Approvals that their approvers did not give, or that the gate made for something else. Each is honest but for one
//! thing.

use serde_json::{Value, json};

use super::{
    Scenario,
    Step::Do,
    common::{GRANTED, PENDING, revoked, scenario},
    forged::{all_differ, differs, forged},
    runs::{APPROVED, began},
};
use crate::stage::{ANOTHER, Part, RELEASE, RUN_LABEL, Stage, approver};

/// A group of approvers, in the parameters of a `CustomRun`.
const TEAM: &str = "group:team";

/// Approvals that open nothing.
pub(super) const APPROVERS: [Scenario; 17] = [
    forged("a-user-counts-once", |stage| {
        let member = json!({"name": "alice", "input": "approve"});
        asks(
            stage,
            (json!(["alice", TEAM]), 2),
            &json!([approver("alice", "pending"), team("approve", &member)]),
        );
    }),
    forged("one-of-two-approvers-says-no", |stage| {
        asks(
            stage,
            (json!(["alice", "bob"]), 1),
            &json!([approver("alice", "pending"), approver("bob", "reject")]),
        );
    }),
    forged("group-without-its-own-word", |stage| {
        let member = json!({"name": "bob", "input": "approve"});
        asks(
            stage,
            (json!(["alice", TEAM]), 2),
            &json!([approver("alice", "pending"), team("pending", &member)]),
        );
    }),
    forged("group-without-a-members-word", |stage| {
        let member = json!({"name": "bob", "input": "pending"});
        asks(
            stage,
            (json!(["alice", TEAM]), 2),
            &json!([approver("alice", "pending"), team("approve", &member)]),
        );
    }),
    forged("group-with-a-nameless-member", |stage| {
        let member = json!({"name": "", "input": "approve"});
        asks(
            stage,
            (json!(["alice", TEAM]), 2),
            &json!([approver("alice", "pending"), team("approve", &member)]),
        );
    }),
    forged("user-of-the-name-of-a-group", |stage| {
        asks(
            stage,
            (json!(["alice", TEAM]), 1),
            &json!([approver("alice", "pending"), approver("team", "pending")]),
        );
    }),
    forged("approver-of-an-unknown-type", |stage| {
        let robot = json!({"name": "alice", "type": "Robot", "input": "pending"});
        asks(stage, (json!(["alice"]), 1), &json!([robot]));
    }),
    forged("approver-whose-type-is-a-number", |stage| {
        let five = json!({"name": "alice", "type": 5, "input": "pending"});
        asks(stage, (json!(["alice"]), 1), &json!([five]));
    }),
    forged("approver-without-a-name", |stage| {
        asks(
            stage,
            (json!(["alice", ""]), 1),
            &json!([approver("alice", "pending"), approver("", "pending")]),
        );
    }),
    forged("approvers-that-cannot-be-read", |stage| {
        let robot = json!({"name": "bob", "type": "Robot", "input": "pending"});
        asks(
            stage,
            (json!(["alice", ["bob"]]), 1),
            &json!([approver("alice", "pending"), robot]),
        );
    }),
    forged("no-approval-is-needed", |stage| {
        asks(
            stage,
            (json!(["alice"]), 0),
            &json!([approver("alice", "pending")]),
        );
    }),
    forged("approval-with-the-label-of-another-task", |stage| {
        labelled(stage, "tekton.dev/pipelineTask", "deploy");
    }),
    forged("approval-with-the-label-of-another-custom-run", |stage| {
        labelled(stage, "tekton.dev/customRun", "another-wait");
    }),
    forged("approval-with-the-label-of-another-uid", |stage| {
        labelled(
            stage,
            "tekton.dev/pipelineRunUID",
            "pipelineruns-release-before",
        );
    }),
    // The check selects by the label that the pod has.
    forged("approval-with-the-label-of-another-run", |stage| {
        all_differ(stage, &|part, it| {
            if matches!(part, Part::Pod | Part::Approval) {
                it["metadata"]["labels"][RUN_LABEL] = ANOTHER.name.into();
            }
        });
    }),
    scenario(
        "no-approval-is-needed-any-more",
        began,
        &[
            PENDING,
            APPROVED,
            GRANTED,
            Do("no approval is needed, and there is none", |stage| {
                stage.answer(RELEASE, "pending", "approved");
                needs(stage, &json!(0));
            }),
        ],
        revoked,
    ),
    scenario(
        "the-number-of-approvals-is-no-number",
        began,
        &[
            PENDING,
            APPROVED,
            GRANTED,
            Do("the number becomes a word", |stage| {
                needs(stage, &json!("one"));
            }),
        ],
        revoked,
    ),
];

fn team(input: &str, member: &Value) -> Value {
    json!({"name": "team", "type": "Group", "input": input, "users": [member]})
}

/// A run that asks these for so many approvals, and an approval with this list of approvers.
fn asks(stage: &Stage, (wanted, count): (Value, u64), listed: &Value) {
    let params = json!([
        {"name": "approvers", "value": wanted},
        {"name": "numberOfApprovalsRequired", "value": count.to_string()},
    ]);
    all_differ(stage, &|part, it| match part {
        Part::Run => it["status"]["pipelineSpec"]["tasks"][0]["params"] = params.clone(),
        Part::CustomRun => it["spec"]["params"] = params.clone(),
        Part::Approval => {
            it["spec"]["approvers"] = listed.clone();
            it["spec"]["numberOfApprovalsRequired"] = count.into();
        }
        Part::TaskRun | Part::Pod => {}
    });
}

fn labelled(stage: &Stage, label: &str, value: &str) {
    differs(stage, Part::Approval, &|it| {
        it["metadata"]["labels"][label] = value.into();
    });
}

fn needs(stage: &Stage, count: &Value) {
    stage.change_part(RELEASE, Part::Approval, |it| {
        it["spec"]["numberOfApprovalsRequired"] = count.clone();
    });
}
