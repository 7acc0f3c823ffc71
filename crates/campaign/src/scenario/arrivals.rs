//! Requests whose approval needs a proof: the parts of the pod's run arrive in every order.

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

const RUN: Step = Do("the run arrives", |it| it.put(RELEASE.part(Part::Run)));
const TASK_RUN: Step = Do("the TaskRun arrives", |it| {
    it.put(RELEASE.part(Part::TaskRun));
});
const CUSTOM_RUN: Step = Do("the CustomRun arrives", |it| {
    it.put(RELEASE.part(Part::CustomRun));
});
const APPROVAL: Step = Do("the approval arrives", |stage| {
    stage.put(RELEASE.part(Part::Approval));
    approve(stage);
});

/// A part of an approved run arrives last, or is complete last.
pub(super) const ARRIVALS: [Scenario; 10] = [
    arrives(
        "run-arrives-last",
        |stage| lacking(stage, Part::Run),
        &[PENDING, RUN, GRANTED, FINISH],
    ),
    arrives(
        "task-run-arrives-last",
        |stage| lacking(stage, Part::TaskRun),
        &[PENDING, TASK_RUN, GRANTED, FINISH],
    ),
    arrives(
        "custom-run-arrives-last",
        |stage| lacking(stage, Part::CustomRun),
        &[PENDING, CUSTOM_RUN, GRANTED, FINISH],
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

/// The pod waits from the beginning. With three of the other parts nothing is granted yet.
macro_rules! in_order {
    ($name:literal, $first:expr, $second:expr, $third:expr, $last:expr) => {
        arrives(
            $name,
            pod_alone,
            &[
                PENDING, $first, A_WHILE, $second, A_WHILE, $third, A_WHILE, PENDING, $last,
                GRANTED, FINISH,
            ],
        )
    };
}

/// Each order in which the parts can arrive after the pod.
#[rustfmt::skip]
pub(super) const ORDERS: [Scenario; 24] = [
    in_order!("in-order-run-task-run-custom-run-approval", RUN, TASK_RUN, CUSTOM_RUN, APPROVAL),
    in_order!("in-order-run-task-run-approval-custom-run", RUN, TASK_RUN, APPROVAL, CUSTOM_RUN),
    in_order!("in-order-run-custom-run-task-run-approval", RUN, CUSTOM_RUN, TASK_RUN, APPROVAL),
    in_order!("in-order-run-custom-run-approval-task-run", RUN, CUSTOM_RUN, APPROVAL, TASK_RUN),
    in_order!("in-order-run-approval-task-run-custom-run", RUN, APPROVAL, TASK_RUN, CUSTOM_RUN),
    in_order!("in-order-run-approval-custom-run-task-run", RUN, APPROVAL, CUSTOM_RUN, TASK_RUN),
    in_order!("in-order-task-run-run-custom-run-approval", TASK_RUN, RUN, CUSTOM_RUN, APPROVAL),
    in_order!("in-order-task-run-run-approval-custom-run", TASK_RUN, RUN, APPROVAL, CUSTOM_RUN),
    in_order!("in-order-task-run-custom-run-run-approval", TASK_RUN, CUSTOM_RUN, RUN, APPROVAL),
    in_order!("in-order-task-run-custom-run-approval-run", TASK_RUN, CUSTOM_RUN, APPROVAL, RUN),
    in_order!("in-order-task-run-approval-run-custom-run", TASK_RUN, APPROVAL, RUN, CUSTOM_RUN),
    in_order!("in-order-task-run-approval-custom-run-run", TASK_RUN, APPROVAL, CUSTOM_RUN, RUN),
    in_order!("in-order-custom-run-run-task-run-approval", CUSTOM_RUN, RUN, TASK_RUN, APPROVAL),
    in_order!("in-order-custom-run-run-approval-task-run", CUSTOM_RUN, RUN, APPROVAL, TASK_RUN),
    in_order!("in-order-custom-run-task-run-run-approval", CUSTOM_RUN, TASK_RUN, RUN, APPROVAL),
    in_order!("in-order-custom-run-task-run-approval-run", CUSTOM_RUN, TASK_RUN, APPROVAL, RUN),
    in_order!("in-order-custom-run-approval-run-task-run", CUSTOM_RUN, APPROVAL, RUN, TASK_RUN),
    in_order!("in-order-custom-run-approval-task-run-run", CUSTOM_RUN, APPROVAL, TASK_RUN, RUN),
    in_order!("in-order-approval-run-task-run-custom-run", APPROVAL, RUN, TASK_RUN, CUSTOM_RUN),
    in_order!("in-order-approval-run-custom-run-task-run", APPROVAL, RUN, CUSTOM_RUN, TASK_RUN),
    in_order!("in-order-approval-task-run-run-custom-run", APPROVAL, TASK_RUN, RUN, CUSTOM_RUN),
    in_order!("in-order-approval-task-run-custom-run-run", APPROVAL, TASK_RUN, CUSTOM_RUN, RUN),
    in_order!("in-order-approval-custom-run-run-task-run", APPROVAL, CUSTOM_RUN, RUN, TASK_RUN),
    in_order!("in-order-approval-custom-run-task-run-run", APPROVAL, CUSTOM_RUN, TASK_RUN, RUN),
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

/// A pod of a run that is not there yet, and its request.
fn pod_alone(stage: &Stage) {
    prepared(stage, OF_RUNS);
    stage.server.collect_garbage(None);
    stage.put(RELEASE.part(Part::Pod));
    stage.request_named("for-deploy", RELEASE.pod);
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
