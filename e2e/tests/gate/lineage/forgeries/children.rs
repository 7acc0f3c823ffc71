//! Children of the author, `TaskRun`s and `CustomRun`s, which say that they belong to the approved run.

use e2e::api::kinds::{CUSTOM_RUN, TASK_RUN};
use serde_json::{Value, json};

use super::{Attempt, Forgery, approve, asking_mallory, copied_labels, evil_task, honest, nothing};

/// A child that no run owns, with copied labels.
fn orphan(attempt: &Attempt<'_>, rest: &str, kind: &str, task: &str, spec: &Value) -> Value {
    let version = if kind == "TaskRun" { "v1" } else { "v1beta1" };
    json!({
        "apiVersion": format!("tekton.dev/{version}"), "kind": kind,
        "metadata": {"name": attempt.name(rest), "labels": copied_labels(attempt.run, task)}, "spec": spec,
    })
}

/// An orphan with its own approval.
fn waiting(attempt: &Attempt<'_>, rest: &str) -> Value {
    orphan(attempt, rest, "CustomRun", "wait", &asking_mallory())
}

pub(super) const ALL: &[Forgery] = &[
    Forgery {
        name: "f3: a CustomRun with copied labels, and its own approval",
        run: "f3",
        before: nothing,
        tasks: honest,
        after: |attempt| {
            attempt.create(&waiting(attempt, "evil"));
            attempt.pipelines.work();
            attempt.answer("evil", "mallory");
        },
        pod: "deploy-pod",
        words: &["OtherRun"],
    },
    Forgery {
        name: "f4: a CustomRun with copied labels and owner, which Tekton adopts, and its own approval",
        run: "f4",
        before: nothing,
        tasks: honest,
        after: |attempt| {
            let name = attempt.name("wait-1");
            let mut child = attempt
                .pipelines
                .forged_child(CUSTOM_RUN, attempt.run, &name, "wait");
            child["spec"] = asking_mallory();
            attempt.create(&child);
            attempt.pipelines.work();
            let children = attempt.pipelines.children(attempt.run, "wait");
            assert_eq!(children.len(), 2, "Tekton adopts it: {children:?}");
            attempt.answer("wait-1", "mallory");
        },
        pod: "deploy-pod",
        words: &["NotDerivedName"],
    },
    Forgery {
        name: "f5: a CustomRun that took the derived name before the run",
        run: "f5",
        before: |attempt| attempt.create(&waiting(attempt, "wait")),
        tasks: honest,
        after: |attempt| attempt.answer("wait", "mallory"),
        pod: "deploy-pod",
        words: &["CustomRunWithoutRun"],
    },
    Forgery {
        name: "f17: a TaskRun with copied labels and owner, which Tekton adopts, and its own task",
        run: "f17",
        before: nothing,
        tasks: honest,
        after: |attempt| {
            let name = attempt.name("evil");
            let mut child = attempt
                .pipelines
                .forged_child(TASK_RUN, attempt.run, &name, "deploy");
            child["spec"] = evil_task();
            attempt.create(&child);
            attempt.pipelines.work();
            let children = attempt.pipelines.children(attempt.run, "deploy");
            assert_eq!(children.len(), 2, "Tekton adopts it: {children:?}");
            approve(attempt);
        },
        pod: "evil-pod",
        words: &["NotDerivedName"],
    },
    Forgery {
        name: "f18: a TaskRun that took the derived name before the run",
        run: "f18",
        before: |attempt| {
            attempt.create(&orphan(
                attempt,
                "deploy",
                "TaskRun",
                "deploy",
                &evil_task(),
            ));
        },
        tasks: honest,
        after: approve,
        pod: "deploy-pod",
        words: &["TaskRunWithoutRun"],
    },
];
