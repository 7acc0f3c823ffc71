//! Namesakes: their names begin like those of the scenario, or are the same in another namespace. They have
//! connectors, policies, pods and requests of their own, and an event of one affects no other.

use std::time::Duration;

use serde_json::json;

use super::{
    Scenario,
    Step::{self, Do, Rest, Until},
    common::{A_WHILE, LONGER_THAN_A_SWEEP, PENDING, asked_about, granted, scenario, waiting},
};
use crate::stage::{APPS, Asker, CONNECTOR, MORE_APPS, MORE_TOOLS, Stage, TOOLS};

/// The same namespaces; connector, account and pod with longer names.
const LONGER: Asker = Asker {
    connector: "harbor-1",
    account: "builder-1",
    pod: "deploy-1",
    request: "for-deploy-1",
    ..Asker::USUAL
};
/// A connector, account and pod of the same names in another namespace.
const NEXT_DOOR: Asker = Asker {
    home: MORE_APPS,
    request: "for-deploy-2",
    ..Asker::USUAL
};
/// A pod, connector and request of the same names, with the connector in another namespace.
const ELSEWHERE: Asker = Asker {
    owner: MORE_TOOLS,
    ..Asker::USUAL
};
const ALL: [Asker; 4] = [Asker::USUAL, LONGER, NEXT_DOOR, ELSEWHERE];

fn ask(stage: &Stage) {
    stage.namesakes();
    for asker in [Asker::USUAL, LONGER, ELSEWHERE] {
        stage.connector_of(asker);
    }
    stage.policy_of("p", "run", Asker::USUAL);
    stage.policy_of("p-1", "run", LONGER);
    stage.policy_of("q", "run", NEXT_DOOR);
    stage.policy_of("p", "more", ELSEWHERE);
    for asker in ALL {
        stage.asks(asker);
    }
    for (namespace, name, label, pod) in APPROVALS {
        stage.signoff_in(namespace, name, label, pod, "pending");
    }
}

/// In the order of the askers that wait for them.
const APPROVALS: [(&str, &str, &str, &str); 4] = [
    (APPS, "yes", "run", "deploy"),
    (APPS, "yes-1", "run", "deploy-1"),
    (MORE_APPS, "yes", "run", "deploy"),
    (APPS, "yes-more", "more", "deploy"),
];

fn decide(stage: &Stage, of: usize, word: &str) {
    let Some((namespace, name, ..)) = APPROVALS.get(of) else {
        return;
    };
    stage.server.change("signoffs", namespace, name, |it| {
        it["status"]["state"] = word.into();
    });
}

/// True when every asker is in its expected phase, and has the objects of that phase.
fn are(stage: &Stage, phases: [&str; 4]) -> bool {
    ALL.into_iter().zip(phases).all(|(asker, phase)| {
        let held = if phase == "Granted" { 2 } else { 0 };
        stage.phase_of(asker) == phase && stage.held_by(asker) == held
    })
}

const EVERYBODY_WAITS: Step = Until("all four wait", |stage| are(stage, ["Pending"; 4]));
const EVERYBODY_IS_APPROVED: Step = Do("everybody is approved", |stage| {
    for of in 0..APPROVALS.len() {
        decide(stage, of, "approved");
    }
});
const EVERYBODY_IS_GRANTED: Step =
    Until("all four are granted", |stage| are(stage, ["Granted"; 4]));

/// Namesakes with separate outcomes.
pub(super) const NAMESAKES: [Scenario; 7] = [
    scenario(
        "one-of-four-namesakes-is-approved",
        ask,
        &[
            EVERYBODY_WAITS,
            Do("one is approved", |stage| decide(stage, 0, "approved")),
            LONGER_THAN_A_SWEEP,
        ],
        |stage| are(stage, ["Granted", "Pending", "Pending", "Pending"]),
    ),
    scenario(
        "all-but-one-namesake-are-approved",
        ask,
        &[
            EVERYBODY_WAITS,
            Do("the others are approved", |stage| {
                for of in 1..APPROVALS.len() {
                    decide(stage, of, "approved");
                }
            }),
            A_WHILE,
        ],
        |stage| are(stage, ["Pending", "Granted", "Granted", "Granted"]),
    ),
    scenario(
        "one-of-four-namesakes-is-withdrawn",
        ask,
        &[
            EVERYBODY_IS_APPROVED,
            EVERYBODY_IS_GRANTED,
            Do("one is withdrawn", |stage| decide(stage, 0, "pending")),
            LONGER_THAN_A_SWEEP,
        ],
        |stage| are(stage, ["Revoked", "Granted", "Granted", "Granted"]),
    ),
    scenario(
        "a-policy-of-one-namesake-goes",
        ask,
        &[
            EVERYBODY_IS_APPROVED,
            EVERYBODY_IS_GRANTED,
            Do("a policy is deleted", |stage| {
                stage.server.delete("accesspolicies", TOOLS, "p");
            }),
            A_WHILE,
        ],
        |stage| are(stage, ["Revoked", "Granted", "Granted", "Granted"]),
    ),
    scenario(
        "the-connector-with-the-longer-name-goes",
        ask,
        &[
            EVERYBODY_IS_APPROVED,
            EVERYBODY_IS_GRANTED,
            Do("a connector is deleted", |stage| {
                stage.server.delete("connectors", TOOLS, LONGER.connector);
            }),
            A_WHILE,
        ],
        |stage| are(stage, ["Granted", "Revoked", "Granted", "Granted"]),
    ),
    scenario(
        "the-pod-next-door-ends",
        ask,
        &[
            EVERYBODY_IS_APPROVED,
            EVERYBODY_IS_GRANTED,
            Do("a pod ends", |stage| {
                stage.server.change("pods", MORE_APPS, "deploy", |pod| {
                    pod["status"]["phase"] = "Succeeded".into();
                });
            }),
            A_WHILE,
        ],
        |stage| are(stage, ["Granted", "Granted", "Revoked", "Granted"]),
    ),
    asked_about(
        "namesakes-stand",
        |stage| {
            waiting(stage);
            stage.namesakes();
            stage.connector_of(LONGER);
        },
        &[
            PENDING,
            Do("namesakes get standing permissions", |stage| {
                stand(stage, "standing-1", (APPS, "builder-1"), CONNECTOR);
                stand(stage, "standing-2", (MORE_APPS, "builder"), CONNECTOR);
                stand(stage, "standing-3", (APPS, "build"), CONNECTOR);
                stand(stage, "standing-4", (APPS, "builder"), LONGER.connector);
            }),
            // Waiting requests are asked about once a minute.
            Rest(Duration::from_mins(3)),
            PENDING,
            Do("it is approved", |stage| stage.decide("yes", "approved")),
        ],
        granted,
    ),
];

/// A Role and a binding as the policy-controller writes them.
fn stand(stage: &Stage, name: &str, (namespace, account): (&str, &str), connector: &str) {
    let rbac = "rbac.authorization.k8s.io";
    let metadata = json!({"name": name, "namespace": TOOLS, "labels": {
        "app.kubernetes.io/managed-by": "connectors-approval",
        "connectors.alauda.io/accessPolicy": "p",
        "connectors.alauda.io/accessPolicyUid": "policy-p",
    }});
    stage.put(json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": metadata,
        "rules": [{
            "apiGroups": ["connectors.alauda.io"], "verbs": ["*"], "resourceNames": [connector],
            "resources": ["connectors/apis"],
        }],
    }));
    stage.put(json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": rbac, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": account}],
    }));
}
