//! Approvals that say more than their approvers did, or are not those of the run.

use e2e::{
    ApiUser,
    api::kinds::{APPROVAL_TASK, PIPELINE_RUN},
};
use serde_json::{Value, json};

use super::{Forgery, approve, approve_as_mallory};
use crate::tekton::{
    forged::approval,
    pipelines::{POD_NAME, deploy_with, honest, run, wait, wait_for, with},
};

fn of_two() -> Value {
    run(&json!([
        wait_for(&json!(["alice", "bob"]), "2"),
        deploy_with(json!({}))
    ]))
}

/// The approvals of alice, and of mallory with bob.
fn of_two_tasks() -> Value {
    run(&json!([
        with(wait(&json!(["alice"])), json!({"name": "staging"})),
        wait_for(&json!(["mallory", "bob"]), "2"),
        deploy_with(json!({}))
    ]))
}

pub(super) const ALL: &[Forgery] = &[
    Forgery {
        name: "f6: a status that says approved without approvals",
        before: None,
        run: honest,
        after: |live, tenant| {
            // The gate's own first status would replace a forgery that is before it.
            live.wait_for_approval("run-wait");
            let status = json!({"state": "approved"});
            tenant
                .patch_status(APPROVAL_TASK, "run-wait", &status)
                .map(drop)
        },
        pod: POD_NAME,
        words: &["QuorumNotMet"],
    },
    Forgery {
        name: "f7: an approver who asks for fewer approvals",
        before: None,
        run: of_two,
        after: |live, _| {
            let alice = live.gate.api().acting_as(&ApiUser::named("alice"));
            let fields = json!({"spec": {"numberOfApprovalsRequired": 1, "approvers": [
                {"name": "alice", "type": "User", "input": "approve"}, {"name": "bob", "type": "User", "input": "pending"},
            ]}});
            alice.patch(APPROVAL_TASK, "run-wait", &fields).map(drop)
        },
        pod: POD_NAME,
        words: &["OtherApprovalCount"],
    },
    Forgery {
        name: "f7: an approver who adds another one",
        before: None,
        run: of_two,
        after: |live, _| {
            let alice = live.gate.api().acting_as(&ApiUser::named("alice"));
            let fields = json!({"spec": {"approvers": [
                {"name": "alice", "type": "User", "input": "approve"}, {"name": "bob", "type": "User", "input": "pending"},
                {"name": "mallory", "type": "User", "input": "approve"},
            ]}});
            alice.patch(APPROVAL_TASK, "run-wait", &fields).map(drop)
        },
        pod: POD_NAME,
        words: &["OtherApprovers"],
    },
    Forgery {
        name: "f12: an approval after the run was cancelled",
        before: None,
        run: honest,
        after: |live, tenant| {
            live.wait_for_approval("run-wait");
            tenant.patch(
                PIPELINE_RUN,
                "run",
                &json!({"spec": {"status": "StoppedRunFinally"}}),
            )?;
            approve(live, tenant)
        },
        pod: POD_NAME,
        words: &["RunCancelled", "RunDone"],
    },
    Forgery {
        name: "f21: an approval that took the name before the gate",
        before: Some(|_, tenant| tenant.create(&approval("run-wait")).map(drop)),
        run: honest,
        after: |live, _| approve_as_mallory(live, "run-wait"),
        pod: POD_NAME,
        words: &["ApprovalWithoutCustomRun"],
    },
    Forgery {
        name: "f21: the same, with the owner written afterwards, so that every link agrees",
        before: Some(|_, tenant| tenant.create(&approval("run-wait")).map(drop)),
        run: honest,
        // The gate lets its author change anything else together with the own answer.
        after: |live, tenant| {
            let approvers = json!([{"name": "mallory", "type": "User", "input": "approve"}]);
            let both = json!({
                "metadata": {"ownerReferences": live.custom_run_owner()}, "spec": {"approvers": approvers},
            });
            tenant.patch(APPROVAL_TASK, "run-wait", &both).map(drop)
        },
        pod: POD_NAME,
        words: &["OtherApprovers", "ApprovalOlderThanCustomRun"],
    },
    Forgery {
        name: "f28: an approver who takes the label of the run from an open approval",
        before: None,
        run: of_two_tasks,
        after: |live, _| {
            live.wait_for_approval("run-staging");
            live.wait_for_approval("run-wait");
            let mallory = live.gate.api().acting_as(&ApiUser::named("mallory"));
            let fields = json!({
                "metadata": {"labels": {"tekton.dev/pipelineRun": null}},
                "spec": {"approvers": [
                    {"name": "mallory", "type": "User", "input": "approve"}, {"name": "bob", "type": "User", "input": "pending"},
                ]},
            });
            mallory.patch(APPROVAL_TASK, "run-wait", &fields)?;
            live.answer("run-staging", "alice", None, "approve")
        },
        pod: POD_NAME,
        words: &["OtherApprovalMissing"],
    },
];
