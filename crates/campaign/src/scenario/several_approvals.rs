//! Requests whose approval needs a proof: several approvals of a run, several runs, and checks of other kinds beside.

use serde_json::{Value, json};

use super::{
    Scenario,
    Step::{self, Do, Until},
    common::{A_WHILE, GRANTED, PENDING, granted, revoked, scenario},
    runs::{
        APPROVED, CANCEL, FINISH, OF_RUNS, REVIEW, append, began, begun_with, later, never,
        of_runs, prepared, review_of,
    },
};
use crate::stage::{
    ANOTHER, APPS, Part, PolicyForm, RELEASE, RUN_LABEL, STOPPING, Stage, VERIFY, answered,
};

const OTHER_APPROVED: Step = Do("the other run is approved", |it| {
    it.answer(ANOTHER, "approve", "approved");
});

/// More than one approval, run or check.
pub(super) const SEVERAL_APPROVALS: [Scenario; 8] = [
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
    scenario(
        "two-runs-of-a-pipeline",
        |stage| {
            began(stage);
            another_asks(stage);
        },
        &[
            PENDING,
            OTHER_APPROVED,
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
            another_asks(stage);
        },
        &[
            PENDING,
            OTHER_APPROVED,
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

fn change_review(stage: &Stage, change: impl FnOnce(&mut Value)) {
    stage.server.change("approvaltasks", APPS, REVIEW, change);
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

/// Another run of the same pipeline, whose pod asks too.
fn another_asks(stage: &Stage) {
    stage.run(ANOTHER);
    stage.request_named("for-other", ANOTHER.pod);
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
