//! The lifecycle of one request.

use std::time::Duration;

use jiff::SignedDuration;
use request_controller::shards::ShardCount;

use super::{
    Scenario,
    Step::{Do, InTime, Until},
    common::{
        A_WHILE, APPROVE, DELETE_POD, DELETE_REQUEST, FINISH, GRANTED, PENDING, PROMPT, REJECT,
        REVOKED, USUAL, WITHDRAW, ended, granted, is, nothing, rejected, revoked, scenario, timed,
        waiting, waiting_for,
    },
};
use crate::stage::{APPS, PolicyForm};

/// The lifecycle of one request.
pub(super) const LIVES: [Scenario; 15] = [
    scenario(
        "approved-and-ended",
        waiting,
        &[PENDING, APPROVE, GRANTED, FINISH],
        revoked,
    ),
    scenario(
        "approved-before",
        |stage| {
            waiting(stage);
            stage.decide("yes", "approved");
        },
        &[GRANTED, FINISH],
        revoked,
    ),
    scenario(
        "rejected",
        waiting,
        &[
            PENDING,
            REJECT,
            Until("rejected", rejected),
            Do("approve after all", |stage| stage.decide("yes", "approved")),
        ],
        rejected,
    ),
    scenario(
        "deleted-while-waiting",
        waiting,
        &[PENDING, DELETE_POD],
        ended,
    ),
    scenario("finished-while-waiting", waiting, &[PENDING, FINISH], ended),
    scenario(
        "pod-deleted",
        waiting,
        &[PENDING, APPROVE, GRANTED, DELETE_POD],
        revoked,
    ),
    scenario(
        "pod-replaced",
        waiting,
        &[
            PENDING,
            APPROVE,
            GRANTED,
            Do("the pod is replaced", |stage| {
                stage.delete_pod("deploy");
                stage.pod("deploy");
            }),
            REVOKED,
            Do("the new pod asks", |stage| {
                stage.request_named("again", "deploy");
            }),
            Until("the new one is granted", |stage| {
                stage.phase("again") == "Granted"
            }),
        ],
        |stage| {
            stage.phase("again") == "Granted" && is(stage, "Revoked") && stage.bindings().len() == 1
        },
    ),
    scenario(
        "terminating-gets-nothing",
        waiting,
        &[
            PENDING,
            Do("the pod is being deleted", |stage| {
                stage.server.change("pods", APPS, "deploy", |pod| {
                    pod["metadata"]["finalizers"] = serde_json::json!(["example.com/keeps"]);
                });
                stage.delete_pod("deploy");
            }),
            A_WHILE,
            APPROVE,
            A_WHILE,
        ],
        nothing,
    ),
    scenario(
        "request-deleted",
        waiting,
        &[
            PENDING,
            APPROVE,
            GRANTED,
            DELETE_REQUEST,
            Until("its grant is gone", nothing),
        ],
        nothing,
    ),
    scenario(
        "request-made-anew",
        waiting,
        &[
            PENDING,
            REJECT,
            Until("rejected", rejected),
            DELETE_REQUEST,
            A_WHILE,
            APPROVE,
            Do("it is made anew", |stage| stage.request("deploy")),
        ],
        granted,
    ),
    scenario(
        "withdrawn",
        waiting,
        &[PENDING, APPROVE, GRANTED, WITHDRAW, REVOKED, APPROVE],
        revoked,
    ),
    timed(
        "expires",
        |stage| {
            waiting_for(
                stage,
                PolicyForm {
                    max_duration: Some("2m"),
                    ..USUAL
                },
            );
        },
        &[PENDING, APPROVE, GRANTED],
        revoked,
    ),
    timed(
        "waits-too-long",
        |stage| {
            waiting_for(
                stage,
                PolicyForm {
                    pending_timeout: Some("3m"),
                    ..USUAL
                },
            );
        },
        &[
            PENDING,
            InTime("it waits no more", |stage| !is(stage, "Pending")),
            APPROVE,
        ],
        nothing,
    ),
    timed(
        "approved-too-late",
        |stage| {
            let pending_timeout = Some("3m");
            let form = PolicyForm {
                pending_timeout,
                ..USUAL
            };
            waiting_for(stage, form);
            stage.decide("yes", "approved");
            // No controller was running in between.
            stage.server.jump(SignedDuration::from_mins(10));
        },
        &[A_WHILE],
        rejected,
    ),
    Scenario {
        name: "forgotten",
        before: waiting,
        steps: &[
            PENDING,
            APPROVE,
            GRANTED,
            DELETE_POD,
            REVOKED,
            InTime("the request is deleted", |stage| {
                stage.request_now("for-deploy").is_none()
            }),
        ],
        ends: nothing,
        retention: Duration::from_mins(20),
        race: false,
        remembered: false,
        learned: false,
        timed: true,
        usual: PROMPT,
        replicas: 1,
        shards: [ShardCount::ONE; 2],
    },
];
