//! Requests whose approval needs a proof: the events of the pod's run before, during and after its approval.

use serde_json::{Value, json};

use super::{
    Scenario,
    Step::{self, Do},
    common::{A_WHILE, GRANTED, PENDING, USUAL, nothing, rejected, revoked, scenario},
};
use crate::stage::{APPS, GATE, Part, PolicyForm, RELEASE, RUN_LABEL, Stage};

/// A policy that asks for the approval of the pod's own run.
pub(super) const OF_RUNS: PolicyForm<'static> = PolicyForm {
    edit: Some(of_runs),
    ..USUAL
};

pub(super) const APPROVED: Step = Do("the approver says yes", approve);
pub(super) const CANCEL: Step = Do("the run is cancelled", |stage| stage.cancel(RELEASE));
// A run is over in three ways, each of which alone counts. One of its tasks still has its pod.
const COMPLETE: Step = Do("the run has a time of completion", |stage| {
    stage.change_part(RELEASE, Part::Run, |it| {
        it["status"]["completionTime"] = "2026-03-01T10:05:00Z".into();
    });
});
const SUCCEED: Step = Do("the run has succeeded", |stage| {
    stage.change_part(RELEASE, Part::Run, |it| {
        it["status"]["conditions"][0]["status"] = "True".into();
    });
});
const LINGER: Step = Do("the run is deleted, and a finalizer keeps it", |stage| {
    stage.delete_and_keep("pipelineruns", APPS, RELEASE.name);
});
pub(super) const FINISH: Step = Do("the pod of the run ends", |stage| {
    stage.pod_phase(RELEASE.pod, "Succeeded");
});

/// The events of a run before, during and after its approval.
pub(super) const RUNS: [Scenario; 14] = [
    scenario(
        "run-approved",
        began,
        &[PENDING, APPROVED, GRANTED, FINISH],
        revoked,
    ),
    scenario(
        "run-rejected",
        began,
        &[
            PENDING,
            Do("the approver says no", |it| {
                it.answer(RELEASE, "reject", "rejected");
            }),
        ],
        rejected,
    ),
    scenario(
        "run-rejected-and-failed",
        orphaned,
        &[
            PENDING,
            Do(
                "the approver says no, and the gate fails the CustomRun",
                |it| {
                    it.change_part(RELEASE, Part::CustomRun, |it| {
                        it["status"]["conditions"][0]["status"] = "False".into();
                    });
                    it.answer(RELEASE, "reject", "rejected");
                },
            ),
        ],
        rejected,
    ),
    never(
        "run-cancelled-before-its-approval",
        began,
        &[PENDING, CANCEL, A_WHILE, APPROVED, A_WHILE],
    ),
    never(
        "run-cancelled-when-approved",
        began,
        &[
            PENDING,
            Do("the approver says yes, and the run is cancelled", |stage| {
                approve(stage);
                stage.cancel(RELEASE);
            }),
            A_WHILE,
        ],
    ),
    never(
        "run-complete-before-its-approval",
        began,
        &[PENDING, COMPLETE, APPROVED, A_WHILE],
    ),
    never(
        "run-done-before-its-approval",
        began,
        &[PENDING, SUCCEED, APPROVED, A_WHILE],
    ),
    never(
        "run-lingers-before-its-approval",
        began,
        &[PENDING, LINGER, APPROVED, A_WHILE],
    ),
    scenario(
        "run-cancelled-after-the-grant",
        began,
        &[PENDING, APPROVED, GRANTED, CANCEL],
        revoked,
    ),
    scenario(
        "run-complete-after-the-grant",
        began,
        &[PENDING, APPROVED, GRANTED, COMPLETE],
        revoked,
    ),
    scenario(
        "run-done-after-the-grant",
        began,
        &[PENDING, APPROVED, GRANTED, SUCCEED],
        revoked,
    ),
    scenario(
        "run-lingers-after-its-deletion",
        began,
        &[PENDING, APPROVED, GRANTED, LINGER],
        revoked,
    ),
    scenario(
        "run-approved-once",
        |stage| {
            begun_with(
                stage,
                PolicyForm {
                    latch: Some("Once"),
                    ..OF_RUNS
                },
            );
        },
        &[PENDING, APPROVED, GRANTED, CANCEL, A_WHILE, GRANTED, FINISH],
        revoked,
    ),
    scenario(
        "approver-takes-it-back",
        began,
        &[
            PENDING,
            APPROVED,
            GRANTED,
            Do("the approver takes it back, uncounted", |stage| {
                stage.answer(RELEASE, "pending", "approved");
            }),
        ],
        revoked,
    ),
];

/// A request that is never granted.
pub(super) const fn never(
    name: &'static str,
    before: fn(&Stage),
    steps: &'static [Step],
) -> Scenario {
    scenario(name, before, steps, nothing)
}

pub(super) fn of_runs(spec: &mut Value) {
    let check = &mut spec["checkGrantedPermission"]["spec"]["checks"][0];
    check["selector"] = json!({
        "labels": {RUN_LABEL: "{.object.metadata.labels.tekton\\.dev/pipelineRun}"},
        "objectRef": {"apiVersion": GATE, "kind": "ApprovalTask"},
    });
}

pub(super) fn approve(stage: &Stage) {
    stage.answer(RELEASE, "approve", "approved");
}

/// Everything but a run.
pub(super) fn prepared(stage: &Stage, form: PolicyForm<'_>) {
    stage.tekton();
    stage.connector();
    stage.policy("p", form);
}

pub(super) fn begun_with(stage: &Stage, form: PolicyForm<'_>) {
    prepared(stage, form);
    stage.run(RELEASE);
    stage.request_named("for-deploy", RELEASE.pod);
}

/// A run whose pod waits for its approval.
pub(super) fn began(stage: &Stage) {
    begun_with(stage, OF_RUNS);
}

/// The same, and no object that loses its owner is deleted.
pub(super) fn orphaned(stage: &Stage) {
    began(stage);
    stage.server.collect_garbage(None);
}

/// The name of a second approval of the run, and of its `CustomRun`.
pub(super) const REVIEW: &str = "release-review";

/// A pipeline task that asks for the second approval.
pub(super) fn review_of(pipeline: &Value) -> Value {
    let mut task = pipeline["tasks"][0].clone();
    task["name"] = "review".into();
    task
}

pub(super) fn append(list: &mut Value, item: Value) {
    if let Some(list) = list.as_array_mut() {
        list.push(item);
    }
}

/// An approved run with one part that is not as it will be.
pub(super) fn later(stage: &Stage, part: Part, edit: fn(&mut Value)) {
    prepared(stage, OF_RUNS);
    stage.run_without(RELEASE, part);
    stage.put_part(RELEASE, part, edit);
    approve(stage);
    stage.request_named("for-deploy", RELEASE.pod);
}
