//! Requests whose approval needs a proof: the parts of the pod's run arrive in any order.

use serde_json::{Value, json};

use super::{
    Scenario,
    Step::{self, Do},
    common::{A_WHILE, GRANTED, PENDING, revoked, scenario},
    runs::{FINISH, OF_RUNS, approve, later, prepared},
};
use crate::stage::{Part, RELEASE, Stage, answered};

/// The parts of an approved run arrive in other orders than usual, this one last.
const fn arrives(name: &'static str, before: fn(&Stage), steps: &'static [Step]) -> Scenario {
    scenario(name, before, steps, revoked)
}

/// The same, and processes learn of kinds one after the other.
const fn learned(name: &'static str, before: fn(&Stage), steps: &'static [Step]) -> Scenario {
    Scenario {
        learned: true,
        ..arrives(name, before, steps)
    }
}

/// An approved run arrives in any order.
pub(super) const ARRIVALS: [Scenario; 11] = [
    arrives(
        "run-arrives-last",
        |stage| lacking(stage, Part::Run),
        &[
            PENDING,
            Do("it arrives", |it| it.put(RELEASE.part(Part::Run))),
            GRANTED,
            FINISH,
        ],
    ),
    arrives(
        "task-run-arrives-last",
        |stage| lacking(stage, Part::TaskRun),
        &[
            PENDING,
            Do("it arrives", |it| it.put(RELEASE.part(Part::TaskRun))),
            GRANTED,
            FINISH,
        ],
    ),
    arrives(
        "custom-run-arrives-last",
        |stage| lacking(stage, Part::CustomRun),
        &[
            PENDING,
            Do("it arrives", |it| it.put(RELEASE.part(Part::CustomRun))),
            GRANTED,
            FINISH,
        ],
    ),
    arrives(
        "approval-of-a-run-arrives-last",
        |stage| lacking(stage, Part::Approval),
        &[
            PENDING,
            Do("it arrives", |stage| {
                stage.put_part(RELEASE, Part::Approval, |it| {
                    answered(it, "approve", "approved");
                });
            }),
            GRANTED,
            FINISH,
        ],
    ),
    arrives(
        "children-are-listed-last",
        |stage| {
            later(stage, Part::Run, |it| {
                it["status"]["childReferences"] = json!([]);
            });
        },
        &[
            PENDING,
            Do("the run lists one child", |stage| {
                stage.change_part(RELEASE, Part::Run, |it| {
                    it["status"]["childReferences"] = json!([RELEASE.children()[0]]);
                });
            }),
            A_WHILE,
            PENDING,
            Do("and the other one", |stage| {
                stage.change_part(RELEASE, Part::Run, |it| {
                    it["status"]["childReferences"] = RELEASE.children();
                });
            }),
            GRANTED,
            FINISH,
        ],
    ),
    arrives(
        "pipeline-is-resolved-last",
        |stage| later(stage, Part::Run, |it| it["status"] = json!({})),
        &[
            PENDING,
            Do("it is resolved", |it| restore(it, Part::Run, "status")),
            GRANTED,
            FINISH,
        ],
    ),
    arrives(
        "pod-is-named-last",
        |stage| later(stage, Part::TaskRun, |it| it["status"] = json!({})),
        &[
            PENDING,
            Do("it is named", |it| restore(it, Part::TaskRun, "status")),
            GRANTED,
            FINISH,
        ],
    ),
    arrives(
        "pod-is-owned-last",
        |stage| later(stage, Part::Pod, disown),
        &[
            PENDING,
            Do("it is owned", |it| restore(it, Part::Pod, "metadata")),
            GRANTED,
            FINISH,
        ],
    ),
    arrives(
        "approval-is-owned-last",
        |stage| later(stage, Part::Approval, disown),
        &[
            PENDING,
            Do("it is owned", |it| restore(it, Part::Approval, "metadata")),
            GRANTED,
            FINISH,
        ],
    ),
    arrives(
        "parts-arrive-from-the-end",
        |stage| {
            prepared(stage, OF_RUNS);
            stage.server.collect_garbage(None);
            stage.put(RELEASE.part(Part::Pod));
            stage.request_named("for-deploy", RELEASE.pod);
        },
        &[
            PENDING,
            Do("the approval", |stage| {
                stage.put(RELEASE.part(Part::Approval));
                approve(stage);
            }),
            A_WHILE,
            Do("the CustomRun", |it| it.put(RELEASE.part(Part::CustomRun))),
            A_WHILE,
            Do("the TaskRun", |it| it.put(RELEASE.part(Part::TaskRun))),
            A_WHILE,
            PENDING,
            Do("the run", |it| it.put(RELEASE.part(Part::Run))),
            GRANTED,
            FINISH,
        ],
    ),
    learned(
        "pipelines-are-installed-later",
        |stage| {
            stage.connector();
            stage.policy("p", OF_RUNS);
            stage.server.collect_garbage(None);
            stage.put(RELEASE.part(Part::Pod));
            stage.put(RELEASE.part(Part::Approval));
            approve(stage);
            stage.request_named("for-deploy", RELEASE.pod);
        },
        &[
            A_WHILE,
            Do("they are installed", |stage| {
                stage.tekton();
                for part in [Part::Run, Part::TaskRun, Part::CustomRun] {
                    stage.put(RELEASE.part(part));
                }
            }),
            GRANTED,
            FINISH,
        ],
    ),
];

fn disown(object: &mut Value) {
    object["metadata"]["ownerReferences"] = json!([]);
}

/// Makes one field of a part as it is in an honest run.
fn restore(stage: &Stage, part: Part, field: &str) {
    let honest = RELEASE.part(part)[field].clone();
    stage.change_part(RELEASE, part, |it| match (&honest, field) {
        // The server's own fields stay.
        (honest, "metadata") => {
            it["metadata"]["ownerReferences"] = honest["ownerReferences"].clone();
        }
        (honest, field) => it[field] = honest.clone(),
    });
}

/// An approved run without one part. Garbage collection would delete the objects that the part owns.
fn lacking(stage: &Stage, part: Part) {
    prepared(stage, OF_RUNS);
    stage.server.collect_garbage(None);
    stage.run_without(RELEASE, part);
    if part != Part::Approval {
        approve(stage);
    }
    stage.request_named("for-deploy", RELEASE.pod);
}
