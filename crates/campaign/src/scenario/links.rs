//! Requests whose approval needs a proof: what becomes of a grant when an object between its pod and its approval is
//! deleted or replaced.

use serde_json::Value;

use super::{
    Scenario,
    Step::{self, Do},
    common::{A_WHILE, GRANTED, PENDING, revoked, scenario},
    runs::{APPROVED, CANCEL, FINISH, OF_RUNS, began, begun_with, never, orphaned},
};
use crate::stage::{Part, PolicyForm, RELEASE, Stage, TOOLS};

const WHILE_HOLDS: PolicyForm<'static> = PolicyForm {
    latch: Some("WhileHolds"),
    ..OF_RUNS
};

const DELETE_CUSTOM_RUN: Step = Do("the CustomRun is deleted", |stage| {
    stage.delete_part(RELEASE, Part::CustomRun);
});

/// Each object between, before and after the grant.
pub(super) const LINKS: [Scenario; 10] = [
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
];

/// As [`orphaned`], with a grant that rests on each part of the run.
fn kept(stage: &Stage) {
    begun_with(stage, WHILE_HOLDS);
    stage.server.collect_garbage(None);
}
