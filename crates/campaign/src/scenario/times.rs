//! Ends by time only, and objects that are rewritten with the same content meanwhile: no time starts again.

use std::time::Duration;

use super::{
    Scenario,
    Step::{self, Do, InTime, Rest, Until},
    common::{
        APPROVE, GRANTED, PENDING, USUAL, both_grant, granted, rejected, revoked, timed,
        waiting_for,
    },
};
use crate::stage::{APPS, CONNECTOR, PolicyForm, TOOLS};

/// Rewrites everything, because no other actor does.
const WRITE_AGAIN: Step = Do("everything is written again", |stage| {
    stage.write_again("accessrequests", TOOLS, "for-deploy");
    stage.write_again("signoffs", APPS, "yes");
    stage.write_again("accesspolicies", TOOLS, "p");
    stage.write_again("connectors", TOOLS, CONNECTOR);
    stage.write_again("pods", APPS, "deploy");
});
/// Less than half of the shortest time here.
const SOME: Step = Rest(Duration::from_secs(50));

/// Ends by time only.
pub(super) const TIMES: [Scenario; 4] = [
    timed(
        "of-two-ends-each-comes-in-its-time",
        |stage| {
            waiting_for(stage, lasting("2m"));
            let label = Some("other");
            stage.policy(
                "q",
                PolicyForm {
                    label,
                    ..lasting("9m")
                },
            );
            stage.signoff_labelled("other", "other", "deploy", "approved");
        },
        &[
            APPROVE,
            Until("both grant", both_grant),
            InTime("one is left", granted),
        ],
        revoked,
    ),
    timed(
        "one-end-comes-while-another-policy-has-none",
        |stage| {
            waiting_for(stage, USUAL);
            let label = Some("other");
            stage.policy(
                "q",
                PolicyForm {
                    label,
                    ..lasting("2m")
                },
            );
            stage.signoff_labelled("other", "other", "deploy", "approved");
        },
        &[APPROVE, Until("both grant", both_grant)],
        granted,
    ),
    timed(
        "what-is-written-again-lasts-no-longer",
        |stage| waiting_for(stage, lasting("2m")),
        &[
            PENDING,
            APPROVE,
            GRANTED,
            SOME,
            WRITE_AGAIN,
            SOME,
            WRITE_AGAIN,
        ],
        revoked,
    ),
    timed(
        "what-is-written-again-waits-no-longer",
        |stage| {
            let pending_timeout = Some("2m");
            waiting_for(
                stage,
                PolicyForm {
                    pending_timeout,
                    ..USUAL
                },
            );
        },
        &[PENDING, SOME, WRITE_AGAIN, SOME, WRITE_AGAIN],
        rejected,
    ),
];

const fn lasting(time: &'static str) -> PolicyForm<'static> {
    PolicyForm {
        max_duration: Some(time),
        ..USUAL
    }
}

#[cfg(test)]
mod tests {
    use super::super::common::waiting;
    use super::*;
    use crate::stage::Stage;

    #[test]
    fn what_is_written_again_is_another_version_that_says_the_same() {
        let stage = Stage::new();
        waiting(&stage);
        let read = || stage.server.get("signoffs", APPS, "yes").unwrap();
        let before = read();
        for _ in 0..2 {
            stage.write_again("signoffs", APPS, "yes");
        }
        let after = read();
        assert_eq!(before["status"], after["status"]);
        assert_ne!(
            before["metadata"]["resourceVersion"],
            after["metadata"]["resourceVersion"]
        );
    }
}
