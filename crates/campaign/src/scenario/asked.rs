//! Runs that asked for another approval beside the one that is there: every approval of a run has to be given.

use serde_json::{Value, json};

use super::{
    Scenario,
    forged::forged,
    runs::{OF_RUNS, append, prepared},
};
use crate::stage::{GATE, Part, RELEASE, STOPPING, Stage, params};

/// Runs of which one approval alone is given.
pub(super) const ASKED: [Scenario; 5] = [
    forged("an-embedded-approval-is-missing", |stage| {
        asks_for_another(stage, |pipeline| {
            let embedded = json!({"apiVersion": GATE, "kind": "ApprovalTask", "spec": {}});
            let task = json!({"name": "review", "taskSpec": embedded, "params": params("alice")});
            append(&mut pipeline["tasks"], task);
        });
    }),
    forged("an-approval-at-the-end-is-missing", |stage| {
        asks_for_another(stage, |pipeline| {
            let mut task = pipeline["tasks"][0].clone();
            task["name"] = "review".into();
            pipeline["finally"] = json!([task]);
        });
    }),
    forged("a-second-approval-is-missing", |stage| {
        asks_for_another(stage, |pipeline| {
            let mut task = pipeline["tasks"][0].clone();
            task["name"] = "review".into();
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
];

/// A run with a second approval in its pipeline that has skipped these tasks, each for its reason.
fn skipped(stage: &Stage, tasks: &[(&str, &str)]) {
    prepared(stage, OF_RUNS);
    stage.server.collect_garbage(None);
    for part in Part::ALL {
        stage.put_part(RELEASE, part, |it| {
            if part == Part::Run {
                let pipeline = &mut it["status"]["pipelineSpec"]["tasks"];
                let mut task = pipeline[0].clone();
                task["name"] = "review".into();
                append(pipeline, task);
                let skipped = tasks.iter();
                let skipped = skipped.map(|(name, why)| json!({"name": name, "reason": why}));
                it["status"]["skippedTasks"] = skipped.collect::<Vec<_>>().into();
            }
        });
    }
    stage.request_named("for-deploy", RELEASE.pod);
}

/// A run that asks for a second approval, which the gate has not made yet.
fn asks_for_another(stage: &Stage, edit: fn(&mut Value)) {
    prepared(stage, OF_RUNS);
    stage.server.collect_garbage(None);
    for part in Part::ALL {
        stage.put_part(RELEASE, part, |it| {
            if part == Part::Run {
                edit(&mut it["status"]["pipelineSpec"]);
                let child = RELEASE.child(Part::CustomRun, "release-review", "review");
                append(&mut it["status"]["childReferences"], child);
            }
        });
    }
    stage.request_named("for-deploy", RELEASE.pod);
}
