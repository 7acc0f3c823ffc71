//! Lists of several pages, with the deciding object on the last one.

use std::time::Duration;

use super::{
    Scenario,
    Step::{Do, Rest},
    common::{
        APPROVE, FINISH, GRANTED, LONGER_THAN_A_SWEEP, PENDING, REVOKED, USUAL, WITHDRAW, asking,
        grant_objects, granted, revoked, scenario, waiting,
    },
};
use crate::stage::{CONNECTOR, DECOY, PolicyForm, Stage, TOOLS};

/// One more than the controller's page size for approvals.
const APPROVALS: usize = 9;
/// The same for policies, together with the other decoys of a stage.
const POLICIES: usize = 33;

/// The deciding object is on the last page.
pub(super) const PAGES: [Scenario; 6] = [
    scenario(
        "the-last-of-many-approvals-is-awaited",
        |stage| {
            waiting(stage);
            // Their names precede that of the deciding one.
            for number in 1..APPROVALS {
                stage.signoff(&format!("a-{number}"), "deploy", "approved");
            }
        },
        &[PENDING, APPROVE, GRANTED, WITHDRAW],
        revoked,
    ),
    scenario(
        "the-last-of-many-policies-applies",
        |stage| {
            stage.connector();
            for number in 1..POLICIES {
                stage.policy(&format!("{DECOY}-{number}"), others());
            }
            stage.policy("p", USUAL);
            asking(stage);
        },
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
        "what-is-left-behind-stands-on-the-last-page",
        |stage| {
            stage.server.page_at_most(1);
            waiting(stage);
            for name in ["car-a", "car-y", "car-z"] {
                grant_objects(stage, name, Some(("gone", "gone-uid")));
            }
            stage.decide("yes", "approved");
        },
        &[GRANTED],
        granted,
    ),
    scenario(
        "a-request-on-the-last-page-keeps-its-grant",
        |stage| {
            stage.server.page_at_most(1);
            early(stage);
            waiting(stage);
        },
        // A sweep happens meanwhile.
        &[PENDING, APPROVE, GRANTED, LONGER_THAN_A_SWEEP, FINISH],
        revoked,
    ),
    scenario(
        "a-second-of-a-tuple-in-small-pages",
        |stage| {
            stage.server.page_at_most(1);
            waiting(stage);
        },
        &[
            PENDING,
            Do("one that comes first in lists asks too", |stage| {
                stage.request_named("earlier-by-name", "deploy");
            }),
            // Less than a late page takes.
            Rest(Duration::from_secs(1)),
            APPROVE,
            GRANTED,
            FINISH,
        ],
        |stage| revoked(stage) && stage.phase("earlier-by-name") != "Granted",
    ),
    scenario(
        "a-tuple-in-small-pages",
        |stage| {
            stage.server.page_at_most(1);
            waiting(stage);
            stage.request_named("earlier-by-name", "deploy");
            stage.signoff("zz", "deploy", "pending");
        },
        &[
            PENDING,
            APPROVE,
            PENDING,
            Do("the one on the last page approves", |stage| {
                stage.decide("zz", "approved");
            }),
            GRANTED,
            FINISH,
            REVOKED,
        ],
        |stage| revoked(stage) && stage.phase("earlier-by-name") != "Granted",
    ),
];

/// A policy for another connector.
fn others() -> PolicyForm<'static> {
    PolicyForm {
        edit: Some(|spec| {
            spec["connector"] = serde_json::json!({"names": [format!("{CONNECTOR}-1")]});
        }),
        ..USUAL
    }
}

/// A request that comes first in every list, and waits.
fn early(stage: &Stage) {
    stage.pod("a");
    stage.request("a");
}
