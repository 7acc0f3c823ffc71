//! The ApprovalTask and its approvers.

use serde_json::{Value, json};

use super::super::world::{World, clear};
use super::{LineageReason as R, Row, ended, plain, with_task};

/// The parameter of a place, in the pipeline task and in its CustomRun.
fn parameter(world: &mut World, place: usize, value: &Value) {
    with_task(world, "wait", |task| {
        task["params"][place]["value"] = value.clone();
    });
    world.custom_run()["spec"]["params"][place]["value"] = value.clone();
}

fn approvers(world: &mut World, names: &Value) {
    parameter(world, 0, names);
}

fn number(world: &mut World, number: &str) {
    parameter(world, 1, &number.into());
}

/// The group has a thousand members without an answer, and one with it.
fn members(world: &mut World, answer: &str) {
    let member = |number: usize| json!({"name": format!("m{number}"), "input": "pending"});
    let mut all: Vec<_> = (0..1_000).map(member).collect();
    all.push(json!({"name": "last", "input": answer}));
    world.approval["spec"]["approvers"][1]["users"] = all.into();
}

/// So many users approve, of whom one must.
pub(super) fn many(world: &mut World, count: usize) {
    let names: Vec<_> = (0..count).map(|it| format!("u{it}")).collect();
    approvers(world, &json!(names));
    let entry = |name| json!({"name": name, "type": "User", "input": "approve"});
    world.approval["spec"]["approvers"] = names.iter().map(entry).collect();
}

pub(super) const ROWS: &[Row] = &[
    (
        R::NoApprovalAsked,
        "another custom task of the run",
        plain,
        |it| {
            let other = json!({"apiVersion": "example.com/v1", "kind": "Ask"});
            it.custom_run()["spec"]["customRef"] = other.clone();
            with_task(it, "wait", |task| task["taskRef"] = other);
        },
    ),
    (R::ApprovalName, "another", plain, |it| {
        it.approval["metadata"]["name"] = "other".into();
    }),
    (R::ApprovalOlderThanCustomRun, "by a second", plain, |it| {
        it.approval["metadata"]["creationTimestamp"] = "2026-11-21T10:00:09Z".into();
    }),
    (R::CustomRunEnded, "cancelled", plain, |it| {
        it.custom_run()["spec"]["status"] = "RunCancelled".into();
    }),
    (R::CustomRunEnded, "failed", plain, |it| {
        ended(it.custom_run(), "False");
    }),
    (R::OtherApprovers, "another name", plain, |it| {
        it.approval["spec"]["approvers"][0]["name"] = "mallory".into();
    }),
    (R::OtherApprovers, "a user for a group", plain, |it| {
        it.approval["spec"]["approvers"][1]["type"] = "User".into();
    }),
    (R::OtherApprovers, "one more", plain, |it| {
        let all = it.approval["spec"]["approvers"].as_array_mut().unwrap();
        all.push(json!({"name": "mallory", "type": "User", "input": "approve"}));
    }),
    (R::OtherApprovers, "one twice", plain, |it| {
        let all = it.approval["spec"]["approvers"].as_array_mut().unwrap();
        all.push(all[0].clone());
    }),
    (R::OtherApprovers, "a type that is none", plain, |it| {
        it.approval["spec"]["approvers"][0]["type"] = "Robot".into();
    }),
    (R::OtherApprovers, "a type that is no text", plain, |it| {
        it.approval["spec"]["approvers"][0]["type"] = 1.into();
    }),
    (
        R::OtherApprovers,
        "none that can be read on either side",
        plain,
        |it| {
            approvers(it, &json!([]));
            let all = it.approval["spec"]["approvers"].as_array_mut().unwrap();
            all.push(json!({"name": "x", "type": "Robot"}));
        },
    ),
    (R::OtherApprovers, "one without a name", plain, |it| {
        approvers(it, &json!(["alice", "group:team", ""]));
        let all = it.approval["spec"]["approvers"].as_array_mut().unwrap();
        all.push(json!({"name": "", "type": "User", "input": "pending"}));
    }),
    (R::OtherApprovers, "too many", plain, |it| many(it, 1_001)),
    (R::OtherApprovers, "another order", plain, |it| {
        let approvers = it.approval["spec"]["approvers"].as_array_mut();
        approvers.unwrap().reverse();
    }),
    (R::AmbiguousFields, "a list in another case", plain, |it| {
        it.approval["spec"]["Approvers"] = Value::Null;
    }),
    (R::OtherLabels, "another pipeline task", plain, |it| {
        it.approval["metadata"]["labels"]["tekton.dev/pipelineTask"] = "deploy".into();
    }),
    (R::OtherLabels, "another custom run", plain, |it| {
        it.approval["metadata"]["labels"]["tekton.dev/customRun"] = "run-other".into();
    }),
    (R::OtherLabels, "another run", plain, |it| {
        it.approval["metadata"]["labels"]["tekton.dev/pipelineRun"] = "other".into();
    }),
    (R::OtherLabels, "the UID of another run", plain, |it| {
        it.approval["metadata"]["labels"]["tekton.dev/pipelineRunUID"] = "other".into();
    }),
    (
        R::OtherApprovalCount,
        "less",
        |it| it.needed = 2,
        |it| {
            it.approval["spec"]["numberOfApprovalsRequired"] = 1.into();
        },
    ),
    (R::OtherApprovalCount, "none", plain, |it| {
        clear(&mut it.approval, "/spec", "numberOfApprovalsRequired");
    }),
    (R::OtherApprovalCount, "no approval needed", plain, |it| {
        number(it, "0");
        it.approval["spec"]["numberOfApprovalsRequired"] = 0.into();
    }),
    (
        R::OtherApprovalCount,
        "no number on either side",
        plain,
        |it| {
            number(it, "one");
            clear(&mut it.approval, "/spec", "numberOfApprovalsRequired");
        },
    ),
    (R::QuorumNotMet, "no approver said yes", plain, |it| {
        it.approval["spec"]["approvers"][0]["input"] = "pending".into();
    }),
    (
        R::QuorumNotMet,
        "one of two",
        |it| it.needed = 2,
        |it| {
            it.approval["spec"]["approvers"][1]["users"][0]["input"] = "pending".into();
        },
    ),
    (
        R::QuorumNotMet,
        "one user for two entries",
        |it| it.needed = 2,
        |it| {
            it.approval["spec"]["approvers"][1]["users"][0]["name"] = "alice".into();
        },
    ),
    (
        R::QuorumNotMet,
        "a member without the group's entry",
        |it| it.needed = 2,
        |it| {
            it.approval["spec"]["approvers"][1]["input"] = "pending".into();
        },
    ),
    (
        R::QuorumNotMet,
        "a member without a name",
        |it| it.needed = 2,
        |it| {
            it.approval["spec"]["approvers"][1]["users"][0]["name"] = "".into();
        },
    ),
    (
        R::QuorumNotMet,
        "a member beyond the most that count",
        |it| it.needed = 2,
        |it| members(it, "approve"),
    ),
    (
        R::QuorumNotMet,
        "the last of very many members said no",
        plain,
        |it| members(it, "reject"),
    ),
    (R::QuorumNotMet, "one said no", plain, |it| {
        it.approval["spec"]["approvers"][1]["users"] = json!([{"name": "bob", "input": "reject"}]);
    }),
    (R::Rejected, "by an approver", plain, |it| {
        it.approval["spec"]["approvers"][0]["input"] = "reject".into();
        it.approval["status"] = json!({"state": "rejected"});
    }),
    (
        R::Rejected,
        "by an approver, for which the CustomRun failed",
        plain,
        |it| {
            ended(it.custom_run(), "False");
            it.approval["spec"]["approvers"][0]["input"] = "reject".into();
            it.approval["status"] = json!({"state": "rejected"});
        },
    ),
    (R::Rejected, "with a response", plain, |it| {
        it.approval["status"] = json!({"state": "rejected", "approversResponse": [{"name": "alice", "response": "rejected"}]});
    }),
    (R::Rejected, "in the response of a member", plain, |it| {
        let members = json!([{"name": "bob", "response": "rejected"}]);
        it.approval["status"] = json!({
            "state": "rejected", "approversResponse": [{"name": "qa", "response": "", "groupMembers": members}],
        });
    }),
    (R::TimedOut, "after a yes", plain, |it| {
        it.approval["status"] = json!({
            "state": "rejected", "approversResponse": [{"name": "alice", "response": "approved"}],
        });
    }),
    (R::TimedOut, "without a response", plain, |it| {
        it.approval["status"] = json!({"state": "rejected", "approversResponse": []});
    }),
    (R::StateUnknown, "a word of others", plain, |it| {
        it.approval["status"]["state"] = "passed".into();
    }),
    (R::StateUnknown, "no word", plain, |it| {
        it.approval["status"]["state"] = 1.into();
    }),
];
