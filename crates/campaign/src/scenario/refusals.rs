//! Requests that are never granted, for every waiting time and every approval.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Scenario,
    Step::{self, Do, Rest},
    common::{APPROVE, USUAL, asking, blow_up, deepen, nothing, scenario, waiting_for},
};
use crate::stage::{APPS, CONNECTOR, PolicyForm, Stage, TOOLS};

/// Long enough for every watch, timer and sweep.
const LONG: Step = Rest(Duration::from_mins(6));

const fn refused(name: &'static str, before: fn(&Stage), steps: &'static [Step]) -> Scenario {
    scenario(name, before, steps, nothing)
}

/// Requests that are never granted.
pub(super) const REFUSALS: [Scenario; 17] = [
    refused(
        "nobody-decides",
        |stage| {
            stage.connector();
            stage.policy("p", USUAL);
            stage.pod("deploy");
            stage.request("deploy");
        },
        &[LONG],
    ),
    refused(
        "nobody-decides-the-second",
        |stage| {
            let second = Some("review");
            waiting_for(stage, PolicyForm { second, ..USUAL });
        },
        &[APPROVE, LONG],
    ),
    refused(
        "approved-by-somebody-else",
        |stage| {
            tasks(stage, |check| {
                check["provenance"] = "None".into();
                check["approvers"] = json!({"users": ["alice"]});
            });
        },
        &[LONG],
    ),
    refused(
        "approved-under-a-name-of-another-case",
        |stage| {
            tasks(stage, |check| {
                check["provenance"] = "None".into();
                check["approvers"] = json!({"users": ["Bob"]});
            });
        },
        &[LONG],
    ),
    refused("without-its-proof", |stage| tasks(stage, |_| {}), &[LONG]),
    refused(
        "asks-for-pods",
        |stage| {
            edited(stage, |spec| {
                check(spec)["selector"]["objectRef"] = json!({"apiVersion": "v1", "kind": "Pod"});
            });
            stage.server.change("pods", APPS, "deploy", |pod| {
                pod["metadata"]["labels"] = json!({"run": "deploy"});
                pod["status"]["state"] = "approved".into();
            });
        },
        &[APPROVE, LONG],
    ),
    refused(
        "asks-for-annotations",
        |stage| {
            edited(stage, |spec| {
                let label = "{.object.metadata.annotations.run}";
                check(spec)["selector"]["labels"] = json!({"run": label});
            });
            stage.server.change("pods", APPS, "deploy", |pod| {
                pod["metadata"]["annotations"] = json!({"run": "deploy"});
            });
        },
        &[APPROVE, LONG],
    ),
    refused(
        "asks-for-a-label-that-is-not-there",
        |stage| {
            edited(stage, |spec| {
                check(spec)["selector"]["labels"] = json!({"run": "{.object.metadata.labels.run}"});
            });
            stage.signoff("empty", "", "approved");
        },
        &[LONG],
    ),
    refused(
        "asks-for-everything",
        |stage| {
            edited(stage, |spec| check(spec)["selector"]["labels"] = json!({}));
        },
        &[APPROVE, LONG],
    ),
    refused(
        "lets-in-who-has-no-labels",
        |stage| {
            edited(stage, |spec| {
                let anybody = json!([{"kind": "ServiceAccount", "nameSelector": {}, "namespaceSelector": {}}]);
                spec["checkGrantedPermission"]["requesters"] = anybody;
            });
        },
        &[APPROVE, LONG],
    ),
    refused(
        "selects-every-connector",
        |stage| {
            edited(stage, |spec| spec["connector"] = json!({"selector": {}}));
        },
        &[APPROVE, LONG],
    ),
    refused(
        "no-longer-for-any",
        |stage| {
            stage.configure("default-requesters", Some("Any"));
            edited(stage, |spec| {
                let granted = spec["checkGrantedPermission"].as_object_mut();
                granted.map(|it| it.remove("requesters"));
            });
        },
        &[
            LONG,
            Do("the word is taken out", |stage| {
                stage.configure("default-requesters", None);
            }),
            LONG,
            APPROVE,
            LONG,
        ],
    ),
    refused(
        "a-blown-up-approval",
        |stage| {
            waiting_for(stage, USUAL);
            blow_up(stage);
        },
        &[APPROVE, LONG],
    ),
    refused(
        "a-blown-up-approval-beside-a-good-one",
        |stage| {
            waiting_for(stage, USUAL);
            stage.signoff("good", "deploy", "approved");
            blow_up(stage);
        },
        &[APPROVE, LONG],
    ),
    refused(
        "an-approval-that-nobody-can-read",
        |stage| {
            waiting_for(stage, USUAL);
            stage.signoff("deep", "deploy", "approved");
            stage.server.change("signoffs", APPS, "deep", deepen);
        },
        &[APPROVE, LONG],
    ),
    refused(
        "for-another-account",
        |stage| {
            waiting_for(stage, USUAL);
            stage.server.change("pods", APPS, "deploy", |pod| {
                pod["spec"]["serviceAccountName"] = "somebody-else".into();
            });
        },
        &[APPROVE, LONG],
    ),
    refused(
        "described-by-somebody-else",
        |stage| {
            waiting_for(stage, USUAL);
            forged(stage);
        },
        &[LONG],
    ),
];

fn check(spec: &mut Value) -> &mut Value {
    &mut spec["checkGrantedPermission"]["spec"]["checks"][0]
}

/// A request waits for a policy with this change in its spec.
fn edited(stage: &Stage, edit: fn(&mut Value)) {
    stage.connector();
    let edit = Some(edit);
    stage.policy("p", PolicyForm { edit, ..USUAL });
    asking(stage);
}

/// A request waits for an approved `ApprovalTask`.
fn tasks(stage: &Stage, edit: fn(&mut Value)) {
    stage.connector();
    stage.policy("p", USUAL);
    stage.server.change("accesspolicies", TOOLS, "p", |policy| {
        let check = check(&mut policy["spec"]);
        check["selector"]["objectRef"] =
            json!({"apiVersion": "openshift-pipelines.org/v1alpha1", "kind": "ApprovalTask"});
        edit(check);
    });
    stage.pod("deploy");
    stage.request("deploy");
    stage.approval_task(
        "deploy",
        &json!([{"name": "bob", "type": "User", "input": "approve"}]),
    );
}

/// A status like that of a controller that granted, although none did.
fn forged(stage: &Stage) {
    stage
        .server
        .change("accessrequests", TOOLS, "for-deploy", |request| {
            request["status"] = json!({
                "phase": "Granted", "connectorUid": CONNECTOR,
                "policies": [{
                    "policy": {"metadata": {"name": "p", "namespace": TOOLS, "uid": "policy-p"}},
                    "grant": {"state": "Granted", "grantedAt": "2026-03-01T09:00:00Z", "rules": [{
                        "verbs": ["*"], "resources": ["connectors/apis/v1/pod/apps/deploy"],
                    }]},
                }],
            });
        });
}
