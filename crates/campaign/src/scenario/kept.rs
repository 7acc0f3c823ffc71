//! Objects that are being deleted and kept by a finalizer count as deleted: approvals, policies, connectors,
//! requests. A pod exists until it is gone.

use super::{
    Scenario,
    Step::{self, Do, Until},
    common::{
        A_WHILE, APPROVE, FINISH, GRANTED, PENDING, REVOKED, USUAL, WITHDRAW, asked_about, deepen,
        granted, is, nothing, race, revoked, scenario, waiting, waiting_for,
    },
};
use crate::stage::{APPS, CONNECTOR, PolicyForm, Stage, TOOLS};

const KEEP_APPROVAL: Step = Do("the approval is deleted and kept", |stage| {
    stage.delete_and_keep("signoffs", APPS, "yes");
});
const KEEP_POLICY: Step = Do("the policy is deleted and kept", |stage| {
    stage.delete_and_keep("accesspolicies", TOOLS, "p");
});
const KEEP_CONNECTOR: Step = Do("the connector is deleted and kept", |stage| {
    stage.delete_and_keep("connectors", TOOLS, CONNECTOR);
});
const KEEP_REQUEST: Step = Do("the request is deleted and kept", |stage| {
    stage.delete_and_keep("accessrequests", TOOLS, "for-deploy");
});
const KEEP_POD: Step = Do("the pod is deleted and kept", |stage| {
    stage.delete_and_keep("pods", APPS, "deploy");
});

fn waits(stage: &Stage) -> bool {
    is(stage, "Pending") && nothing(stage)
}

fn while_holds(stage: &Stage) {
    let latch = Some("WhileHolds");
    waiting_for(stage, PolicyForm { latch, ..USUAL });
}

/// Objects that are being deleted, and kept.
pub(super) const KEPT: [Scenario; 14] = [
    scenario(
        "a-kept-approval-approves-nothing",
        waiting,
        &[
            PENDING,
            KEEP_APPROVAL,
            APPROVE,
            A_WHILE,
            Until("it waits", waits),
            Do("another one approves", |stage| {
                stage.signoff("other", "deploy", "approved");
            }),
            GRANTED,
            FINISH,
        ],
        revoked,
    ),
    scenario(
        "a-kept-approval-refuses-nothing",
        |stage| {
            waiting(stage);
            stage.signoff("a", "deploy", "pending");
            stage.delete_and_keep("signoffs", APPS, "a");
        },
        &[PENDING, APPROVE, GRANTED, FINISH],
        revoked,
    ),
    scenario(
        "an-approval-is-kept-after-the-grant",
        waiting,
        &[
            PENDING,
            APPROVE,
            GRANTED,
            KEEP_APPROVAL,
            A_WHILE,
            WITHDRAW,
            A_WHILE,
        ],
        granted,
    ),
    scenario(
        "an-approval-that-has-to-hold-is-kept",
        while_holds,
        &[PENDING, APPROVE, GRANTED, KEEP_APPROVAL],
        revoked,
    ),
    scenario(
        "an-approval-that-has-to-hold-is-kept-and-goes",
        while_holds,
        &[
            PENDING,
            APPROVE,
            GRANTED,
            KEEP_APPROVAL,
            REVOKED,
            Do("the approval goes", |stage| {
                stage.let_go("signoffs", APPS, "yes");
            }),
        ],
        revoked,
    ),
    scenario(
        "a-kept-policy-grants-nothing",
        waiting,
        &[PENDING, KEEP_POLICY, APPROVE, A_WHILE],
        waits,
    ),
    scenario(
        "a-kept-policy-ends-its-grant",
        waiting,
        &[PENDING, APPROVE, GRANTED, KEEP_POLICY],
        revoked,
    ),
    scenario(
        "a-kept-policy-that-cannot-be-read-ends-its-grant",
        waiting,
        &[
            PENDING,
            APPROVE,
            GRANTED,
            Do("the policy cannot be read any more", |stage| {
                stage.server.change("accesspolicies", TOOLS, "p", deepen);
            }),
            A_WHILE,
            GRANTED,
            KEEP_POLICY,
        ],
        revoked,
    ),
    scenario(
        "a-kept-connector-is-granted-to-nobody",
        waiting,
        &[PENDING, KEEP_CONNECTOR, APPROVE, A_WHILE],
        waits,
    ),
    scenario(
        "a-kept-connector-ends-its-grant",
        waiting,
        &[PENDING, APPROVE, GRANTED, KEEP_CONNECTOR],
        revoked,
    ),
    scenario(
        "a-kept-request-is-granted-nothing",
        waiting,
        &[PENDING, KEEP_REQUEST, APPROVE, A_WHILE],
        nothing,
    ),
    race(
        "a-second-asks-while-the-first-is-kept",
        waiting,
        &[
            PENDING,
            Do(
                "approved, asked for by another, deleted and kept",
                |stage| {
                    stage.decide("yes", "approved");
                    stage.request_named("second", "deploy");
                    stage.delete_and_keep("accessrequests", TOOLS, "for-deploy");
                },
            ),
            A_WHILE,
        ],
        |stage| stage.bindings().len() == 1 && stage.phase("second") == "Granted",
    ),
    scenario(
        "a-kept-pod-keeps-its-grant-until-it-is-gone",
        waiting,
        &[
            PENDING,
            APPROVE,
            GRANTED,
            KEEP_POD,
            A_WHILE,
            GRANTED,
            Do("the pod goes", |stage| stage.let_go("pods", APPS, "deploy")),
        ],
        revoked,
    ),
    // Failed writes are repeated with backoff.
    asked_about(
        "a-kept-role-keeps-no-binding",
        waiting,
        &[
            PENDING,
            APPROVE,
            GRANTED,
            Do("the role is deleted and kept", |stage| {
                each_role(stage, |name| stage.delete_and_keep("roles", TOOLS, name));
            }),
            A_WHILE,
            FINISH,
            Until("no binding is left", |stage| stage.bindings().is_empty()),
            Do("the role goes", |stage| {
                each_role(stage, |name| stage.let_go("roles", TOOLS, name));
            }),
        ],
        revoked,
    ),
];

fn each_role(stage: &Stage, act: impl Fn(&str)) {
    for role in stage.managed("roles") {
        act(role["metadata"]["name"].as_str().unwrap_or_default());
    }
}
