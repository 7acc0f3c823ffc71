//! Approvals that say more than their approvers did, or are not those of the run.

use e2e::api::kinds::{APPROVAL_TASK, CUSTOM_RUN, PIPELINE_RUN, TASK_RUN};
use serde_json::{Value, json};

use super::{
    Attempt, Forgery, RUN_LABEL, approve, asking_mallory, copied_labels, deploy_with, honest,
    nothing, wait_for,
};
use crate::lineage::end;
use crate::support::pipelines::{approval, owned_by};

fn approver(name: &str, input: &str) -> Value {
    json!({"name": name, "type": "User", "input": input})
}

/// An `ApprovalTask` without an owner that its author has approved.
pub(super) fn squatted(attempt: &Attempt<'_>) -> Value {
    let asking = json!({
        "metadata": {"name": attempt.name("wait"), "labels": copied_labels(attempt.run, "wait")},
        "spec": asking_mallory(),
    });
    let mut task = approval(&asking);
    task["metadata"]["ownerReferences"] = json!([]);
    task["metadata"]["annotations"] = json!({});
    task["spec"]["approvers"] = json!([approver("mallory", "approve")]);
    task
}

/// A task that waits for one approval of one approver.
fn waits(task: &str, approver: &str) -> Value {
    let mut wait = wait_for(&json!([approver]), "1");
    wait["name"] = task.into();
    wait
}

pub(super) const ALL: &[Forgery] = &[
    Forgery {
        name: "f6: a status that says approved without approvals",
        run: "f6",
        before: nothing,
        tasks: honest,
        after: |attempt| {
            let api = attempt.gate.api();
            let forged = json!({"state": "approved"});
            api.patch_status(APPROVAL_TASK, &attempt.name("wait"), &forged)
                .unwrap();
            attempt.pipelines.work();
            let status = &attempt.object(APPROVAL_TASK, "wait")["status"];
            assert_eq!(status["state"], "approved", "the gate leaves it");
        },
        pod: "deploy-pod",
        words: &["QuorumNotMet"],
    },
    Forgery {
        name: "f7: an approver that the pipeline does not name",
        run: "f7",
        before: nothing,
        tasks: honest,
        after: |attempt| {
            let approvers = json!([approver("alice", "pending"), approver("mallory", "approve")]);
            attempt.patch(
                APPROVAL_TASK,
                "wait",
                &json!({"spec": {"approvers": approvers}}),
            );
            attempt.pipelines.work();
        },
        pod: "deploy-pod",
        words: &["OtherApprovers"],
    },
    Forgery {
        name: "f8: a pipeline whose author is its approver",
        run: "f8",
        before: nothing,
        tasks: |_| json!([waits("wait", "mallory"), deploy_with(&json!({}))]),
        after: |attempt| attempt.answer("wait", "mallory"),
        pod: "deploy-pod",
        words: &["QuorumNotMet"],
    },
    Forgery {
        name: "f12: an approval after the run was stopped",
        run: "f12",
        before: nothing,
        tasks: honest,
        after: |attempt| {
            end(attempt.gate, attempt.run, "StoppedRunFinally");
            approve(attempt);
        },
        pod: "deploy-pod",
        words: &["RunCancelled"],
    },
    Forgery {
        name: "f21: an approval that took the name before the gate",
        run: "f21",
        before: |attempt| attempt.create(&squatted(attempt)),
        tasks: honest,
        after: nothing,
        pod: "deploy-pod",
        words: &["ApprovalWithoutCustomRun"],
    },
    Forgery {
        name: "f21: the same, with the owner written afterwards, so that every link agrees",
        run: "f21-owned",
        before: |attempt| attempt.create(&squatted(attempt)),
        tasks: honest,
        after: |attempt| {
            let owners = owned_by(&attempt.object(CUSTOM_RUN, "wait"));
            let fields = json!({"metadata": {"ownerReferences": owners}});
            attempt.patch(APPROVAL_TASK, "wait", &fields);
            attempt.pipelines.work();
        },
        pod: "deploy-pod",
        words: &["OtherApprovers", "ApprovalOlderThanCustomRun"],
    },
    Forgery {
        name: "f24: a second list of approvers in a field that the gate's webhook takes for the first",
        run: "f24",
        before: nothing,
        tasks: |_| {
            json!([
                wait_for(&json!(["mallory", "alice"]), "1"),
                deploy_with(&json!({}))
            ])
        },
        after: |attempt| {
            let lists = json!({
                "approvers": [approver("mallory", "pending"), approver("alice", "approve")],
                "approver\u{17f}": [approver("mallory", "approve"), approver("alice", "pending")],
            });
            attempt.patch(APPROVAL_TASK, "wait", &json!({"spec": lists}));
            attempt.pipelines.work();
        },
        pod: "deploy-pod",
        words: &["AmbiguousFields"],
    },
    Forgery {
        name: "f28: an approval that loses its labels, so that the check sees the other one alone",
        run: "f28",
        before: nothing,
        tasks: |_| {
            json!([
                waits("wait", "alice"),
                waits("review", "bob"),
                deploy_with(&json!({}))
            ])
        },
        after: |attempt| {
            let fields = json!({"metadata": {"labels": {RUN_LABEL: null}}});
            attempt.patch(APPROVAL_TASK, "review", &fields);
            approve(attempt);
        },
        pod: "deploy-pod",
        words: &["OtherApprovalMissing"],
    },
    Forgery {
        name: "f28: the CustomRun of an approval is deleted while its run is stopping",
        run: "f28-forgotten",
        before: nothing,
        tasks: |_| {
            let mut other = deploy_with(&json!({}));
            other["name"] = "other".into();
            json!([
                waits("wait", "alice"),
                waits("review", "bob"),
                deploy_with(&json!({})),
                other,
            ])
        },
        after: |attempt| {
            let cancelled = json!({"spec": {"status": "TaskRunCancelled"}});
            attempt.patch(TASK_RUN, "other", &cancelled);
            attempt.pipelines.work();
            let api = attempt.gate.api();
            api.delete(CUSTOM_RUN, &attempt.name("review")).unwrap();
            attempt.pipelines.work();
            let run = attempt.gate.object(PIPELINE_RUN, attempt.run);
            let children = run["status"]["childReferences"].to_string();
            assert!(!children.contains("f28-forgotten-review"), "{run}");
            approve(attempt);
        },
        pod: "deploy-pod",
        words: &["OtherApprovalMissing"],
    },
];

/// Beside a policy that wants the approval of the pipeline task `wait`.
pub(super) const OF_ANOTHER_TASK: &[Forgery] = &[
    Forgery {
        name: "f14: the approval for another task of the run",
        run: "f14",
        before: nothing,
        tasks: |_| {
            json!([
                waits("staging", "mallory"),
                waits("wait", "alice"),
                deploy_with(&json!({}))
            ])
        },
        after: |attempt| attempt.answer("staging", "mallory"),
        pod: "deploy-pod",
        words: &["Pending"],
    },
    Forgery {
        name: "f27: the same, with the label of the wanted task",
        run: "f27",
        before: nothing,
        tasks: |_| {
            json!([
                waits("staging", "mallory"),
                waits("wait", "alice"),
                deploy_with(&json!({}))
            ])
        },
        after: |attempt| {
            let fields = json!({"metadata": {"labels": {"tekton.dev/pipelineTask": "wait"}}});
            attempt.patch(APPROVAL_TASK, "staging", &fields);
            attempt.answer("staging", "mallory");
        },
        pod: "deploy-pod",
        words: &["OtherLabels"],
    },
];
