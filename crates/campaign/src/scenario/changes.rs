//! Changes of other objects while a request exists.

use serde_json::{Value, json};

use super::{
    Scenario,
    Step::{Do, Until},
    common::{
        A_WHILE, APPROVE, DELETE_APPROVAL, EDIT_POLICY, FINISH, GRANTED, PENDING, USUAL,
        WITHDRAW_OTHER, asking, blow_up, both_grant, delete_bindings, granted, race, revoked,
        scenario, waiting, waiting_for, waiting_for_two,
    },
};
use crate::stage::{APPS, CONNECTOR, PolicyForm, Stage, TOOLS};

/// Changes of other objects while it exists.
pub(super) const CHANGES: [Scenario; 21] = [
    scenario(
        "policy-edited-before",
        |stage| {
            waiting(stage);
            stage.signoff_labelled("other", "other", "deploy", "approved");
        },
        &[PENDING, EDIT_POLICY],
        granted,
    ),
    scenario(
        "policy-edited-after",
        waiting,
        &[PENDING, APPROVE, GRANTED, EDIT_POLICY, A_WHILE, FINISH],
        revoked,
    ),
    race(
        "policy-edited-and-grant-deleted",
        waiting,
        &[
            PENDING,
            APPROVE,
            GRANTED,
            EDIT_POLICY,
            A_WHILE,
            Do("somebody deletes the binding", delete_bindings),
        ],
        revoked,
    ),
    race(
        "policy-for-another-connector-and-grant-deleted",
        waiting,
        &[
            PENDING,
            APPROVE,
            GRANTED,
            Do("the policy names another connector", |stage| {
                stage.server.change("accesspolicies", TOOLS, "p", |policy| {
                    policy["spec"]["connector"]["names"] = serde_json::json!(["another"]);
                });
            }),
            A_WHILE,
            Do("somebody deletes the binding", delete_bindings),
        ],
        revoked,
    ),
    scenario(
        "policy-deleted",
        waiting,
        &[
            PENDING,
            APPROVE,
            GRANTED,
            Do("the policy is deleted", |stage| {
                stage.server.delete("accesspolicies", TOOLS, "p");
            }),
        ],
        revoked,
    ),
    scenario(
        "policy-later",
        |stage| {
            stage.connector();
            asking(stage);
            stage.decide("yes", "approved");
        },
        &[
            A_WHILE,
            Do("a policy is made", |stage| stage.policy("p", USUAL)),
        ],
        granted,
    ),
    scenario(
        "connector-later",
        |stage| {
            stage.policy("p", USUAL);
            asking(stage);
            stage.decide("yes", "approved");
        },
        &[A_WHILE, Do("the connector is made", Stage::connector)],
        granted,
    ),
    scenario(
        "connector-deleted",
        waiting,
        &[
            PENDING,
            APPROVE,
            GRANTED,
            Do("it is deleted", delete_connector),
        ],
        revoked,
    ),
    scenario(
        "connector-replaced",
        waiting,
        &[
            PENDING,
            APPROVE,
            GRANTED,
            Do("it is replaced", |stage| {
                delete_connector(stage);
                stage.connector();
            }),
        ],
        revoked,
    ),
    scenario(
        "kind-later",
        |stage| {
            waiting_for(
                stage,
                PolicyForm {
                    kind: Some("Latecomer"),
                    ..USUAL
                },
            );
        },
        &[
            A_WHILE,
            Do("the kind arrives", Stage::latecomers_arrive),
            Do("somebody approves", |stage| {
                stage.latecomer("late", "deploy", "approved");
            }),
            GRANTED,
            FINISH,
        ],
        revoked,
    ),
    scenario(
        "two-policies",
        |stage| waiting_for_two(stage, "approved"),
        &[
            APPROVE,
            Until("both grant", both_grant),
            WITHDRAW_OTHER,
            Until("one is left", granted),
            A_WHILE,
            Do("the other one too", |stage| stage.decide("yes", "pending")),
        ],
        revoked,
    ),
    scenario(
        "two-policies-one-after-the-other",
        |stage| waiting_for_two(stage, "pending"),
        &[
            APPROVE,
            GRANTED,
            A_WHILE,
            Do("the other one too", |stage| {
                stage.decide("other", "approved");
            }),
            Until("both grant", both_grant),
            FINISH,
        ],
        revoked,
    ),
    scenario(
        "two-checks",
        |stage| {
            let second = Some("other");
            waiting_for(stage, PolicyForm { second, ..USUAL });
            stage.signoff_labelled("other", "other", "deploy", "pending");
        },
        &[
            PENDING,
            APPROVE,
            A_WHILE,
            PENDING,
            Do("the other check is approved too", |stage| {
                stage.decide("other", "approved");
            }),
            GRANTED,
            WITHDRAW_OTHER,
        ],
        revoked,
    ),
    scenario(
        "one-says-no",
        |stage| waiting_for_two(stage, "rejected"),
        &[PENDING, APPROVE, GRANTED, FINISH],
        revoked,
    ),
    scenario(
        "approval-deleted",
        waiting,
        &[PENDING, APPROVE, GRANTED, DELETE_APPROVAL, A_WHILE],
        granted,
    ),
    scenario(
        "while-holds",
        |stage| {
            waiting_for(
                stage,
                PolicyForm {
                    latch: Some("WhileHolds"),
                    ..USUAL
                },
            );
        },
        &[PENDING, APPROVE, GRANTED, DELETE_APPROVAL],
        revoked,
    ),
    scenario(
        "all-of-two",
        waiting_for_both,
        &[
            PENDING,
            APPROVE,
            A_WHILE,
            PENDING,
            Do("the other one approves", |stage| {
                stage.decide("no", "approved");
            }),
            GRANTED,
            FINISH,
        ],
        revoked,
    ),
    scenario(
        "one-of-two-loses-its-label",
        waiting_for_both,
        &[
            PENDING,
            APPROVE,
            A_WHILE,
            PENDING,
            Do("the other one loses its label", |stage| {
                stage.server.change("signoffs", APPS, "no", |it| {
                    it["metadata"]["labels"] = json!({});
                });
            }),
            GRANTED,
            FINISH,
        ],
        revoked,
    ),
    scenario(
        "any-of-two-beside-a-blown-up-one",
        |stage| {
            waiting_for(stage, PolicyForm { any: true, ..USUAL });
            stage.signoff("good", "deploy", "pending");
            blow_up(stage);
        },
        &[
            A_WHILE,
            Do("the small one approves", |stage| {
                stage.decide("good", "approved");
            }),
            GRANTED,
            FINISH,
        ],
        revoked,
    ),
    scenario(
        "all-accounts-of-a-namespace",
        |stage| {
            let edit: fn(&mut Value) = |spec| {
                spec["checkGrantedPermission"]["requesters"] = json!([{
                    "kind": "Group", "name": "system:serviceaccounts",
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": APPS}},
                }]);
            };
            let edit = Some(edit);
            waiting_for(stage, PolicyForm { edit, ..USUAL });
        },
        &[PENDING, APPROVE, GRANTED, FINISH],
        revoked,
    ),
    scenario(
        "any-of-two",
        |stage| {
            waiting_for(stage, PolicyForm { any: true, ..USUAL });
            stage.signoff("no", "deploy", "pending");
        },
        &[PENDING, APPROVE, GRANTED, FINISH],
        revoked,
    ),
];

fn delete_connector(stage: &Stage) {
    stage.server.delete("connectors", TOOLS, CONNECTOR);
}

/// Two approvals have to be given.
fn waiting_for_both(stage: &Stage) {
    waiting(stage);
    stage.signoff("no", "deploy", "pending");
}
