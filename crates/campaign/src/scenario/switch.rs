//! The feature switch, the clock, and Rego.

use std::time::Duration;

use jiff::SignedDuration;

use super::{
    Scenario,
    Step::{self, Do, Rest, Until},
    common::{
        A_WHILE, APPROVE, FINISH, GRANTED, PENDING, USUAL, WITHDRAW, granted, nothing, revoked,
        scenario, waiting, waiting_for,
    },
};
use crate::stage::PolicyForm;

const MISTYPED: Step = Do("somebody mistypes", |stage| {
    stage.configure("enable-connectors-approval", Some("flase"));
});

const OFF: Step = Do("off", |stage| stage.switch(false));

/// The feature switch, and Rego.
pub(super) const SWITCH: [Scenario; 6] = [
    scenario(
        "off-and-on",
        waiting,
        &[
            PENDING,
            OFF,
            // Longer than the timeout of a silent watch.
            Rest(Duration::from_mins(6)),
            APPROVE,
            A_WHILE,
            Until("nothing is granted while it is off", nothing),
            Do("on", |stage| stage.switch(true)),
        ],
        granted,
    ),
    Scenario {
        remembered: true,
        ..scenario(
            "a-word-that-nobody-knows",
            waiting,
            &[
                PENDING,
                MISTYPED,
                A_WHILE,
                APPROVE,
                A_WHILE,
                // A process that started meanwhile has never read a valid value.
                Do("the word is corrected", |stage| stage.switch(true)),
                GRANTED,
                MISTYPED,
                A_WHILE,
                FINISH,
            ],
            revoked,
        )
    },
    scenario(
        "withdrawn-while-off",
        waiting,
        &[PENDING, APPROVE, GRANTED, OFF, A_WHILE, WITHDRAW],
        revoked,
    ),
    scenario(
        "ends-while-off",
        waiting,
        &[PENDING, APPROVE, GRANTED, OFF, A_WHILE, FINISH],
        revoked,
    ),
    scenario(
        "clock-is-corrected",
        |stage| {
            waiting_for(
                stage,
                PolicyForm {
                    max_duration: Some("3h"),
                    ..USUAL
                },
            );
        },
        &[
            PENDING,
            APPROVE,
            GRANTED,
            Do("the clock jumps forward", |stage| {
                stage.jump(SignedDuration::from_hours(1));
            }),
            A_WHILE,
            Do("and back", |stage| {
                stage.jump(SignedDuration::from_hours(-2));
            }),
            A_WHILE,
            GRANTED,
            FINISH,
        ],
        revoked,
    ),
    scenario(
        "read-by-rego",
        |stage| {
            stage.connector();
            stage.policy(
                "p",
                PolicyForm {
                    config_map: true,
                    ..USUAL
                },
            );
            stage.pod("deploy");
            stage.request("deploy");
        },
        &[
            PENDING,
            Do("somebody approves", |stage| {
                stage.config_map("verdict", "deploy", "approved");
            }),
            GRANTED,
            FINISH,
        ],
        revoked,
    ),
];
