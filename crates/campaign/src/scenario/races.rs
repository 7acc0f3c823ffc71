//! Events at nearly the same time, or at unexpected places.

use super::{
    Scenario,
    Step::{Do, Until},
    common::{
        A_MOMENT, A_WHILE, APPROVE, BLOWN_UP, DELETE_REQUEST, FINISH, GRANTED, PENDING, USUAL,
        WITHDRAW, WITHDRAW_OTHER, delete_bindings, grant_objects, granted, nothing, race, replicas,
        revoked, scenario, waiting, waiting_for_two,
    },
};
use crate::stage::{SYSTEM, TOOLS};

/// Events at nearly the same time, or at unexpected places.
pub(super) const RACES: [Scenario; 13] = [
    race(
        "ends-when-approved",
        waiting,
        &[PENDING, APPROVE, A_MOMENT, FINISH, A_WHILE],
        nothing,
    ),
    race(
        "withdrawn-at-once",
        waiting,
        &[PENDING, APPROVE, A_MOMENT, WITHDRAW, A_WHILE],
        nothing,
    ),
    race(
        "deleted-when-approved",
        waiting,
        &[PENDING, APPROVE, A_MOMENT, DELETE_REQUEST, A_WHILE],
        nothing,
    ),
    race(
        "approves-again",
        |stage| waiting_for_two(stage, "approved"),
        &[
            APPROVE,
            Until("both grant", |stage| stage.bindings().len() == 2),
            WITHDRAW_OTHER,
            A_WHILE,
            Do("and given again", |stage| {
                stage.decide("other", "approved");
            }),
            A_WHILE,
        ],
        // A grant is correct if the end could not be recorded, and wrong if it was; the rules check that.
        |stage| matches!(stage.bindings().len(), 1 | 2),
    ),
    race(
        "blown-up-when-approved",
        waiting,
        &[PENDING, APPROVE, A_MOMENT, BLOWN_UP, A_WHILE],
        nothing,
    ),
    race(
        "made-anew-behind-another",
        waiting,
        &[
            PENDING,
            Do("approved, asked for by another, and made anew", |stage| {
                stage.decide("yes", "approved");
                stage.request_named("second", "deploy");
                stage.server.delete("accessrequests", TOOLS, "for-deploy");
                stage.request("deploy");
            }),
            A_WHILE,
        ],
        |stage| stage.bindings().len() == 1 && stage.phase("second") == "Granted",
    ),
    scenario(
        "two-of-a-tuple",
        |stage| {
            waiting(stage);
            stage.request_named("second", "deploy");
        },
        &[PENDING, APPROVE, GRANTED],
        |stage| granted(stage) && stage.phase("second") != "Granted",
    ),
    scenario(
        "grant-deleted-by-hand",
        waiting,
        &[
            PENDING,
            APPROVE,
            GRANTED,
            Do("somebody deletes the binding", delete_bindings),
            GRANTED,
            FINISH,
        ],
        revoked,
    ),
    scenario(
        "grant-edited-by-hand",
        waiting,
        &[
            PENDING,
            APPROVE,
            GRANTED,
            Do("somebody widens the role", |stage| {
                for role in stage.managed("roles") {
                    let name = role["metadata"]["name"].as_str().unwrap_or_default();
                    stage.server.change("roles", TOOLS, name, |role| {
                        role["rules"][0]["resources"] = serde_json::json!(["connectors/apis"]);
                    });
                }
            }),
            A_WHILE,
            GRANTED,
            FINISH,
        ],
        revoked,
    ),
    scenario(
        "left-behind",
        |stage| {
            waiting(stage);
            grant_objects(stage, "car-gone", Some(("gone", "gone-uid")));
            stage.decide("yes", "approved");
        },
        &[GRANTED],
        granted,
    ),
    replicas(
        "two-replicas",
        waiting,
        &[PENDING, APPROVE, GRANTED, A_WHILE, FINISH],
        revoked,
    ),
    replicas(
        "lease-deleted",
        waiting,
        &[
            PENDING,
            Do("somebody deletes the lease", |stage| {
                stage.server.delete("leases", SYSTEM, "request-controller");
            }),
            APPROVE,
            GRANTED,
            FINISH,
        ],
        revoked,
    ),
    scenario(
        "many-pods",
        |stage| {
            stage.connector();
            stage.policy("p", USUAL);
            for pod in ["deploy", "b", "c", "d"] {
                stage.pod(pod);
                stage.request(pod);
            }
            stage.signoff("yes", "deploy", "pending");
            stage.signoff("b", "b", "approved");
            stage.signoff("c", "c", "rejected");
        },
        &[
            APPROVE,
            Until("two are granted", |stage| stage.bindings().len() == 2),
            Do("b ends", |stage| stage.pod_phase("b", "Failed")),
            Do("d is approved", |stage| stage.signoff("d", "d", "approved")),
        ],
        |stage| {
            let phases = ["for-deploy", "for-b", "for-c", "for-d"].map(|it| stage.phase(it));
            phases == ["Granted", "Revoked", "Rejected", "Granted"] && stage.bindings().len() == 2
        },
    ),
];
