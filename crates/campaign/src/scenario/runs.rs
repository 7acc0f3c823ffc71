//! Requests whose approval needs a proof: the events of the pod's run before, during and after its approval.

use serde_json::{Value, json};

use super::{
    Scenario,
    Step::{self, Do, Until},
    common::{A_WHILE, GRANTED, PENDING, USUAL, granted, nothing, rejected, revoked, scenario},
};
use crate::stage::{
    ANOTHER, APPS, GATE, Part, PolicyForm, RELEASE, RUN_LABEL, STOPPING, Stage, TOOLS, VERIFY,
    answered,
};

/// A policy that asks for the approval of the pod's own run.
pub(super) const OF_RUNS: PolicyForm<'static> = PolicyForm {
    edit: Some(of_runs),
    ..USUAL
};

const WHILE_HOLDS: PolicyForm<'static> = PolicyForm {
    latch: Some("WhileHolds"),
    ..OF_RUNS
};

pub(super) const APPROVED: Step = Do("the approver says yes", approve);
const CANCEL: Step = Do("the run is cancelled", |stage| stage.cancel(RELEASE));
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
const DELETE_CUSTOM_RUN: Step = Do("the CustomRun is deleted", |stage| {
    stage.delete_part(RELEASE, Part::CustomRun);
});

/// The events of a run before, during and after its approval.
pub(super) const RUNS: [Scenario; 32] = [
    scenario(
        "run-approved",
        began,
        &[PENDING, APPROVED, GRANTED, FINISH],
        revoked,
    ),
    // F28: the gate lets every approver change labels.
    scenario(
        "one-of-two-approvals-loses-its-label",
        asked_twice,
        &[
            PENDING,
            Do("the other approval loses its label", |it| {
                change_review(it, |it| it["metadata"]["labels"] = json!({}));
            }),
            APPROVED,
            A_WHILE,
            Do("it is approved, and has its label again", |it| {
                change_review(it, |it| {
                    answered(it, "approve", "approved");
                    it["metadata"]["labels"] = json!({RUN_LABEL: RELEASE.name});
                });
            }),
            GRANTED,
            FINISH,
        ],
        revoked,
    ),
    // F28: a run that stops makes no child again.
    never(
        "one-of-two-approvals-is-forgotten",
        asked_twice,
        &[
            PENDING,
            Do("the other CustomRun is deleted while the run stops", |it| {
                forget_review(it);
            }),
            APPROVED,
            A_WHILE,
        ],
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
        |stage| {
            began(stage);
            stage.server.collect_garbage(None);
        },
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
    scenario(
        "run-of-a-kind-that-is-selected-too",
        |stage| {
            begun_with(
                stage,
                PolicyForm {
                    edit: Some(of_runs_and_pipelines),
                    ..OF_RUNS
                },
            );
            selected_run(stage, "approved");
        },
        &[PENDING, APPROVED, GRANTED, CANCEL],
        revoked,
    ),
    scenario(
        "a-kind-between-is-selected-later",
        began,
        &[
            PENDING,
            Do("a policy selects runs", |stage| {
                stage.policy(
                    "q",
                    PolicyForm {
                        edit: Some(of_pipelines),
                        ..OF_RUNS
                    },
                );
                selected_run(stage, "pending");
            }),
            A_WHILE,
            PENDING,
            Do("the selected run is approved", |stage| {
                stage.server.change("pipelineruns", APPS, SELECTED, |it| {
                    it["status"]["state"] = "approved".into();
                });
            }),
            GRANTED,
        ],
        granted,
    ),
    scenario(
        "the-record-of-a-proof-is-lost",
        began,
        &[
            PENDING,
            APPROVED,
            GRANTED,
            Do("the record is lost, and the run is cancelled", |stage| {
                stage
                    .server
                    .change("accessrequests", TOOLS, "for-deploy", |it| {
                        let proven = it.pointer_mut("/status/policies/0/checkRefs/0");
                        if let Some(fields) = proven.and_then(Value::as_object_mut) {
                            fields.remove("lineage");
                        }
                    });
                stage.cancel(RELEASE);
            }),
        ],
        revoked,
    ),
    never(
        "a-stranger-in-the-place-of-an-answer",
        |stage| {
            prepared(
                stage,
                PolicyForm {
                    any: true,
                    edit: Some(of_runs_with_a_word),
                    ..OF_RUNS
                },
            );
            stage.run(RELEASE);
            stage.configure("shared-check-fields", Some(DESCRIPTIONS));
            stage.put_part(RELEASE, Part::Approval, |it| {
                it["metadata"] = json!({
                    "name": "a-stranger", "namespace": APPS, "labels": {RUN_LABEL: RELEASE.name},
                });
                it["spec"]["description"] = "good".into();
                answered(it, "approve", "approved");
            });
            stage.request_named("for-deploy", RELEASE.pod);
        },
        &[A_WHILE, APPROVED, A_WHILE],
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
        "run-cancelled-without-its-approval",
        began,
        &[
            PENDING,
            APPROVED,
            GRANTED,
            DELETE_CUSTOM_RUN,
            Do("the approval is deleted", |it| {
                it.delete_part(RELEASE, Part::Approval);
            }),
            A_WHILE,
            GRANTED,
            CANCEL,
        ],
        revoked,
    ),
    scenario(
        "run-deleted-with-everything",
        began,
        &[
            PENDING,
            APPROVED,
            GRANTED,
            Do("it is deleted", |stage| {
                for part in Part::ALL {
                    stage.delete_part(RELEASE, part);
                }
            }),
        ],
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
        "while-its-run-is-there",
        kept,
        &[
            PENDING,
            APPROVED,
            GRANTED,
            Do("the run is deleted", |it| {
                it.delete_part(RELEASE, Part::Run);
            }),
        ],
        revoked,
    ),
    scenario(
        "while-its-task-run-is-there",
        kept,
        &[
            PENDING,
            APPROVED,
            GRANTED,
            Do("the TaskRun is deleted", |it| {
                it.delete_part(RELEASE, Part::TaskRun);
            }),
        ],
        revoked,
    ),
    scenario(
        "while-its-custom-run-is-there",
        kept,
        &[PENDING, APPROVED, GRANTED, DELETE_CUSTOM_RUN],
        revoked,
    ),
    scenario(
        "while-its-custom-run-is-the-same",
        kept,
        &[
            PENDING,
            APPROVED,
            GRANTED,
            Do("it is replaced", |it| {
                it.replace_part(RELEASE, Part::CustomRun);
            }),
        ],
        revoked,
    ),
    scenario(
        "links-of-a-grant-are-replaced",
        orphaned,
        &[
            PENDING,
            APPROVED,
            GRANTED,
            Do("all three are replaced", |stage| {
                for part in [Part::Run, Part::TaskRun, Part::CustomRun] {
                    stage.replace_part(RELEASE, part);
                }
            }),
            A_WHILE,
            GRANTED,
            FINISH,
        ],
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
    never(
        "link-deleted-before-the-grant",
        orphaned,
        &[PENDING, DELETE_CUSTOM_RUN, APPROVED, A_WHILE],
    ),
    never(
        "link-replaced-before-the-grant",
        orphaned,
        &[
            PENDING,
            Do("it is replaced", |it| {
                it.replace_part(RELEASE, Part::TaskRun);
            }),
            APPROVED,
            A_WHILE,
        ],
    ),
    scenario(
        "two-runs-of-a-pipeline",
        |stage| {
            began(stage);
            stage.run(ANOTHER);
            stage.request_named("for-other", ANOTHER.pod);
        },
        &[
            PENDING,
            Do("the other run is approved", |it| {
                it.answer(ANOTHER, "approve", "approved");
            }),
            Until("it is granted", other_alone),
            A_WHILE,
            Until("it alone", other_alone),
            APPROVED,
            Until("both are granted", both),
            Do("the other run is cancelled", |it| it.cancel(ANOTHER)),
            Until("its grant is revoked", |it| {
                it.phase("for-other") == "Revoked"
            }),
            A_WHILE,
        ],
        granted,
    ),
    scenario(
        "run-borrows-an-approval",
        |stage| {
            later(stage, Part::Pod, |pod| {
                pod["metadata"]["labels"][RUN_LABEL] = ANOTHER.name.into();
            });
            stage.run(ANOTHER);
            stage.request_named("for-other", ANOTHER.pod);
        },
        &[
            PENDING,
            Do("the other run is approved", |it| {
                it.answer(ANOTHER, "approve", "approved");
            }),
            Until("it is granted", other_alone),
            A_WHILE,
        ],
        other_alone,
    ),
    scenario(
        "one-approval-for-two-pods-of-a-run",
        |stage| {
            began(stage);
            stage.put(VERIFY.part(Part::TaskRun));
            stage.put(VERIFY.part(Part::Pod));
            stage.change_part(RELEASE, Part::Run, |it| {
                if let Some(children) = it["status"]["childReferences"].as_array_mut() {
                    children.push(VERIFY.children()[1].clone());
                }
            });
            stage.request_named("for-verify", VERIFY.pod);
        },
        &[
            PENDING,
            APPROVED,
            Until("both are granted", both),
            CANCEL,
            Until("the second is revoked", |it| {
                it.phase("for-verify") == "Revoked"
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

fn of_runs(spec: &mut Value) {
    let check = &mut spec["checkGrantedPermission"]["spec"]["checks"][0];
    check["selector"] = json!({
        "labels": {RUN_LABEL: "{.object.metadata.labels.tekton\\.dev/pipelineRun}"},
        "objectRef": {"apiVersion": GATE, "kind": "ApprovalTask"},
    });
}

/// A run that a check selects by a label of its own.
const SELECTED: &str = "selected";

fn selected_run(stage: &Stage, word: &str) {
    stage.put_part(RELEASE, Part::Run, |it| {
        it["metadata"] = json!({
            "name": SELECTED, "namespace": APPS, "labels": {"run": RELEASE.pod},
        });
        it["status"]["state"] = word.into();
    });
}

/// Selects pipeline runs, which need no proof.
fn selects_pipelines() -> Value {
    json!({
        "name": "runs", "provenance": "None",
        "selector": {
            "labels": {"run": "{.object.metadata.name}"},
            "objectRef": {"apiVersion": "tekton.dev/v1", "kind": "PipelineRun"},
        },
    })
}

fn of_pipelines(spec: &mut Value) {
    spec["checkGrantedPermission"]["spec"]["checks"] = json!([selects_pipelines()]);
}

fn of_runs_and_pipelines(spec: &mut Value) {
    of_runs(spec);
    append(
        &mut spec["checkGrantedPermission"]["spec"]["checks"],
        selects_pipelines(),
    );
}

/// The field that the module below reads.
const DESCRIPTIONS: &str = r#"[{"apiVersion": "openshift-pipelines.org/v1alpha1", "kind": "ApprovalTask", "fields": ["spec.description"]}]"#;

/// A module that reads a word of the approval.
fn of_runs_with_a_word(spec: &mut Value) {
    const WORD: &str = r#"package approval
import rego.v1
default output := {"state": "pending"}
output := {"state": "approved"} if input.spec.description == "good"
"#;
    of_runs(spec);
    spec["checkGrantedPermission"]["spec"]["checks"][0]["state"] = json!({"rego": WORD});
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

fn begun_with(stage: &Stage, form: PolicyForm<'_>) {
    prepared(stage, form);
    stage.run(RELEASE);
    stage.request_named("for-deploy", RELEASE.pod);
}

/// A run whose pod waits for its approval.
pub(super) fn began(stage: &Stage) {
    begun_with(stage, OF_RUNS);
}

/// The name of a second approval of the run, and of its `CustomRun`.
pub(super) const REVIEW: &str = "release-review";

/// A pipeline task that asks for the second approval.
pub(super) fn review_of(pipeline: &Value) -> Value {
    let mut task = pipeline["tasks"][0].clone();
    task["name"] = "review".into();
    task
}

fn change_review(stage: &Stage, change: impl FnOnce(&mut Value)) {
    stage.server.change("approvaltasks", APPS, REVIEW, change);
}

pub(super) fn append(list: &mut Value, item: Value) {
    if let Some(list) = list.as_array_mut() {
        list.push(item);
    }
}

/// A run that asks for two approvals, whose pod waits for both.
fn asked_twice(stage: &Stage) {
    prepared(stage, OF_RUNS);
    stage.run_without(RELEASE, Part::Run);
    stage.put_part(RELEASE, Part::Run, |it| {
        let status = &mut it["status"];
        let pipeline = &mut status["pipelineSpec"];
        let task = review_of(pipeline);
        append(&mut pipeline["tasks"], task);
        let child = RELEASE.child(Part::CustomRun, REVIEW, "review");
        append(&mut status["childReferences"], child);
    });
    for part in [Part::CustomRun, Part::Approval] {
        stage.put_part(RELEASE, part, |it| {
            it["metadata"]["name"] = REVIEW.into();
            it["metadata"]["uid"] = format!("{part:?}-review").into();
            if part == Part::Approval {
                let owner = &mut it["metadata"]["ownerReferences"][0];
                owner["name"] = REVIEW.into();
                owner["uid"] = format!("{:?}-review", Part::CustomRun).into();
            }
        });
    }
    stage.request_named("for-deploy", RELEASE.pod);
}

/// The second `CustomRun` is deleted with its approval, and the run skips its task.
fn forget_review(stage: &Stage) {
    stage.change_part(RELEASE, Part::Run, |it| {
        it["status"]["childReferences"] = RELEASE.children();
        it["status"]["skippedTasks"] = json!([{"name": "review", "reason": STOPPING}]);
    });
    for plural in ["approvaltasks", "customruns"] {
        stage.server.delete(plural, APPS, REVIEW);
    }
}

/// The same, and nothing that loses its owner is deleted.
fn orphaned(stage: &Stage) {
    began(stage);
    stage.server.collect_garbage(None);
}

/// The same with a grant that rests on each part of the run.
fn kept(stage: &Stage) {
    begun_with(stage, WHILE_HOLDS);
    stage.server.collect_garbage(None);
}

/// An approved run with one part that is not as it will be.
pub(super) fn later(stage: &Stage, part: Part, edit: fn(&mut Value)) {
    prepared(stage, OF_RUNS);
    stage.run_without(RELEASE, part);
    stage.put_part(RELEASE, part, edit);
    approve(stage);
    stage.request_named("for-deploy", RELEASE.pod);
}

/// Both requests have a grant that is recorded.
fn both(stage: &Stage) -> bool {
    let requests = stage.list("accessrequests");
    requests.iter().all(|it| it["status"]["phase"] == "Granted") && stage.bindings().len() == 2
}

/// The pod of the other run has a grant, and that of the first one waits.
fn other_alone(stage: &Stage) -> bool {
    let phases = ["for-deploy", "for-other"].map(|it| stage.phase(it));
    phases == ["Pending", "Granted"] && stage.bindings().len() == 1
}
