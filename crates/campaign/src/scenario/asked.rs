//! Runs that asked for another approval beside the one that is there: every approval of a run has to be given.

use serde_json::{Value, json};

use super::{
    Scenario,
    common::{GRANTED, PENDING, revoked, scenario},
    forged::{differing, forged, list_too},
    runs::{APPROVED, FINISH, OF_RUNS, REVIEW, append, review_of},
};
use crate::stage::{GATE, Part, RELEASE, STOPPING, Stage, params};

/// Runs of which one approval alone is given.
pub(super) const ASKED: [Scenario; 6] = [
    forged("an-embedded-approval-is-missing", |stage| {
        asks_for_another(stage, |pipeline| {
            let embedded = json!({"apiVersion": GATE, "kind": "ApprovalTask", "spec": {}});
            let task = json!({"name": "review", "taskSpec": embedded, "params": params("alice")});
            append(&mut pipeline["tasks"], task);
        });
    }),
    forged("an-approval-at-the-end-is-missing", |stage| {
        asks_for_another(stage, |pipeline| {
            pipeline["finally"] = json!([review_of(pipeline)]);
        });
    }),
    forged("a-second-approval-is-missing", |stage| {
        asks_for_another(stage, |pipeline| {
            let task = review_of(pipeline);
            append(&mut pipeline["tasks"], task);
        });
    }),
    forged("an-approval-behind-a-forgotten-task-is-missing", |stage| {
        skipped(
            stage,
            &[
                ("verify", STOPPING),
                ("review", "Parent Tasks were skipped"),
            ],
        );
    }),
    forged("an-approval-without-results-is-missing", |stage| {
        skipped(stage, &[("review", "Results were missing")]);
    }),
    scenario(
        "an-approval-that-its-condition-leaves-out",
        |stage| skipped(stage, &[("review", "When Expressions evaluated to false")]),
        &[PENDING, APPROVED, GRANTED, FINISH],
        revoked,
    ),
];

/// A run with a second approval in its pipeline that has skipped these tasks, each for its reason.
fn skipped(stage: &Stage, tasks: &[(&str, &str)]) {
    run_differs(stage, &|run| {
        let pipeline = &mut run["status"]["pipelineSpec"];
        let task = review_of(pipeline);
        append(&mut pipeline["tasks"], task);
        let skipped = tasks.iter();
        let skipped = skipped.map(|(name, why)| json!({"name": name, "reason": why}));
        run["status"]["skippedTasks"] = skipped.collect::<Vec<_>>().into();
    });
}

/// A run that asks for a second approval, which the gate has not made yet.
fn asks_for_another(stage: &Stage, edit: fn(&mut Value)) {
    run_differs(stage, &|run| {
        edit(&mut run["status"]["pipelineSpec"]);
        list_too(run, RELEASE.child(Part::CustomRun, REVIEW, "review"));
    });
}

/// A run that differs from an honest one, under a policy that wants all approvals.
fn run_differs(stage: &Stage, edit: &dyn Fn(&mut Value)) {
    differing(stage, OF_RUNS, RELEASE.pod, &|part, it| {
        if part == Part::Run {
            edit(it);
        }
    });
}
