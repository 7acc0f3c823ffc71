mod others;
mod promises;

use std::time::Duration;

use connectors_api::AccessRequest;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use testkit::Caller;
use tokio::time::sleep;

use super::{Allowance, Rule, judge};
use crate::{
    scenario::stand,
    stage::{APPS, CONNECTOR, PolicyForm, Stage, TOOLS},
};

/// No faults, and no additional time for anything.
const STRICT: Allowance = Allowance {
    usual: Duration::from_secs(1),
    incidents: Vec::new(),
    lag: Duration::ZERO,
    races: false,
    two_lead: false,
    shards: [request_controller::shards::ShardCount::ONE; 2],
    true_clock: true,
    kept: false,
};

/// A stage with a waiting request, and a client that writes arbitrary objects.
async fn rogue(act: impl AsyncFnOnce(&Stage, kube::Client)) -> Vec<Rule> {
    let stage = Stage::new();
    stage.connector();
    stage.policy("p", PolicyForm::default());
    stage.pod("deploy");
    stage.request("deploy");
    stage.signoff("yes", "deploy", "approved");
    let caller = Caller {
        process: "rogue".to_owned(),
        ..Caller::admin()
    };
    act(&stage, stage.server.client(&caller)).await;
    sleep(Duration::from_secs(5)).await;
    // The log ends with the last event.
    stage.signoff("late", "deploy", "approved");
    let (violations, _) = judge(&stage.server.log(), &STRICT);
    let mut rules: Vec<_> = violations.into_iter().map(|it| it.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}

fn metadata(stage: &Stage) -> Value {
    let uid = |plural: &str, name: &str| {
        stage.server.get(plural, TOOLS, name).unwrap()["metadata"]["uid"].clone()
    };
    json!({
        "name": "car-x", "namespace": TOOLS,
        "labels": {
            "app.kubernetes.io/managed-by": "connectors-approval",
            "connectors.alauda.io/accessRequest": "for-deploy",
            "connectors.alauda.io/accessRequestUid": uid("accessrequests", "for-deploy"),
            "connectors.alauda.io/accessPolicy": "p",
            "connectors.alauda.io/accessPolicyUid": uid("accesspolicies", "p"),
        },
    })
}

async fn bind(stage: &Stage, client: &kube::Client, account: &str) {
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": metadata(stage),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "car-x"},
        "subjects": [{"kind": "ServiceAccount", "namespace": APPS, "name": account}],
    }))
    .unwrap();
    let api: Api<RoleBinding> = Api::namespaced(client.clone(), TOOLS);
    api.create(&PostParams::default(), &binding).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_does_nothing_breaks_nothing() {
    assert_eq!(rogue(async |_, _| {}).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_binding_without_live_reads_is_found_and_that_it_stays_too() {
    let rules = rogue(async |stage, client| bind(stage, &client, "builder").await).await;
    assert_eq!(rules, [Rule::Fresh, Rule::Revoked]);
}

#[tokio::test(start_paused = true)]
async fn a_binding_for_somebody_else_is_found() {
    let rules = rogue(async |stage, client| bind(stage, &client, "thief").await).await;
    assert!(rules.contains(&Rule::Tenants), "{rules:?}");
}

#[tokio::test(start_paused = true)]
async fn a_role_that_gives_more_than_the_pod_is_found() {
    for resource in ["connectors/apis", "connectors/apis/v1/pod/apps/other", "*"] {
        let rules = rogue(async |stage, client| {
            let role: Role = serde_json::from_value(json!({
                "metadata": metadata(stage),
                "rules": [{
                    "apiGroups": ["connectors.alauda.io"], "verbs": ["*"],
                    "resourceNames": [CONNECTOR], "resources": [resource],
                }],
            }))
            .unwrap();
            let api: Api<Role> = Api::namespaced(client, TOOLS);
            api.create(&PostParams::default(), &role).await.unwrap();
        });
        assert_eq!(rules.await, [Rule::Shape], "{resource}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_is_taken_back_is_found() {
    let rules = rogue(async |stage, _| {
        for phase in ["Rejected", "Granted"] {
            stage
                .server
                .change("accessrequests", TOOLS, "for-deploy", |it| {
                    it["status"]["phase"] = phase.into();
                });
        }
    });
    assert_eq!(rules.await, [Rule::Final]);
}

#[tokio::test(start_paused = true)]
async fn a_binding_after_a_rejection_is_found() {
    let rules = rogue(async |stage, client| {
        stage
            .server
            .change("accessrequests", TOOLS, "for-deploy", |it| {
                it["status"]["phase"] = "Rejected".into();
            });
        sleep(Duration::from_mins(1)).await;
        bind(stage, &client, "builder").await;
    });
    assert!(rules.await.contains(&Rule::Final));
}

#[tokio::test(start_paused = true)]
async fn approvals_read_in_the_wrong_namespace_are_found() {
    let rules = rogue(async |_, client| {
        let path = format!("/apis/example.com/v1/namespaces/{TOOLS}/signoffs");
        let request = kube::core::Request::new(path).list(&kube::api::ListParams::default());
        let _: Value = client.request(request.unwrap()).await.unwrap();
    });
    assert_eq!(rules.await, [Rule::Tenants]);
}

fn requests(client: kube::Client) -> Api<AccessRequest> {
    Api::namespaced(client, TOOLS)
}

/// Writes a status as a controller would.
async fn write(client: &kube::Client, status: Value) {
    let patch = Patch::Merge(json!({"status": status}));
    let api = requests(client.clone());
    let params = PatchParams::default();
    let written = api.patch_status("for-deploy", &params, &patch).await;
    written.unwrap();
}

/// The status of a request that ended for this reason.
fn ended(reason: &str) -> Value {
    let ready = json!({
        "type": "Ready", "status": "False", "reason": reason, "message": "",
        "lastTransitionTime": "2026-03-01T10:00:00Z",
    });
    json!({"phase": "Ended", "conditions": [ready]})
}

/// Adds the result of a policy.
fn with_policy(mut status: Value, state: &str) -> Value {
    status["policies"] = json!([{
        "policy": {"metadata": {"name": "p", "uid": "u"}}, "grant": {"state": state},
    }]);
    status
}

const fn expected(is_wrong: bool) -> &'static [Rule] {
    if is_wrong { &[Rule::Final] } else { &[] }
}

#[tokio::test(start_paused = true)]
async fn an_end_that_is_called_by_a_wrong_name_is_found() {
    let revoked = || json!({"phase": "Revoked"});
    let granted = json!({"phase": "Revoked", "grantedAt": "2026-03-01T10:00:00Z"});
    for (what, status, is_wrong) in [
        ("its pod runs", ended("PodFinished"), true),
        ("nothing was given", revoked(), true),
        ("a policy said no", with_policy(revoked(), "Ended"), true),
        ("granted", granted, false),
        ("being granted", with_policy(revoked(), "Granting"), false),
    ] {
        let rules = rogue(async |_, client| write(&client, status).await);
        assert_eq!(rules.await, expected(is_wrong), "{what}");
    }
    let ends: [fn(&Stage); 2] = [
        |stage| stage.pod_phase("deploy", "Succeeded"),
        |stage| stage.delete_pod("deploy"),
    ];
    for end in ends {
        let rules = rogue(async |stage, client| {
            end(stage);
            write(&client, ended("PodFinished")).await;
        });
        assert_eq!(rules.await, []);
        let rules = rogue(async |stage, client| {
            end(stage);
            write(&client, with_policy(ended("PodFinished"), "Granting")).await;
        });
        assert_eq!(rules.await, [Rule::Final]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_by_a_standing_permission_needs_one_and_no_policy_that_came_to_anything() {
    let ended = || ended("StandingPermission");
    for (what, status, stands, is_wrong) in [
        ("right", ended(), true, false),
        ("there is none", ended(), false, true),
        ("a no", with_policy(ended(), "Ended"), true, true),
        (
            "a grant is begun",
            with_policy(ended(), "Granting"),
            true,
            true,
        ),
    ] {
        let rules = rogue(async |stage, client| {
            if stands {
                stand(stage);
            }
            write(&client, status).await;
        });
        assert_eq!(rules.await, expected(is_wrong), "{what}");
    }
    // A standing permission that ended a while ago does not count.
    let rules = rogue(async |stage, client| {
        stand(stage);
        stage.server.delete("rolebindings", TOOLS, "standing-p");
        sleep(Duration::from_secs(10)).await;
        write(&client, ended()).await;
    });
    assert_eq!(rules.await, [Rule::Final]);
    // The previous status records the rejection.
    let rules = rogue(async |stage, client| {
        stand(stage);
        write(&client, with_policy(json!({"phase": "Pending"}), "Ended")).await;
        let mut status = ended();
        status["policies"] = Value::Null;
        write(&client, status).await;
    });
    assert_eq!(rules.await, [Rule::Final]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_a_controller_deletes_before_its_time_is_found() {
    type Act = fn(&Stage);
    let nothing: Act = |_| {};
    let gone: Act = |stage| stage.delete_pod("deploy");
    let finished: Act = |stage| stage.pod_phase("deploy", "Succeeded");
    let no = || json!({"phase": "Rejected"});
    let way = || ended("StandingPermission");
    let invalid = json!({"phase": "Invalid"});
    let pod = ended("PodFinished");
    for (what, act, status, seconds, is_wrong) in [
        ("waits", nothing, json!({"phase": "Pending"}), 1, true),
        ("no status yet", nothing, json!({}), 1, true),
        ("a no", nothing, no(), 1, true),
        ("a no, its pod has ended", finished, no(), 1, true),
        ("a no, its pod is gone", gone, no(), 1, false),
        ("ended with its pod", finished, pod, 1, true),
        ("a duplicate", nothing, invalid, 1, false),
        ("makes way too soon", stand, way(), 50, true),
        ("makes way", stand, way(), 60, false),
        ("makes way too late", stand, way(), 120, true),
    ] {
        let rules = rogue(async |stage, client| {
            act(stage);
            write(&client, status).await;
            sleep(Duration::from_secs(seconds)).await;
            let params = DeleteParams::default();
            let deleted = requests(client).delete("for-deploy", &params).await;
            deleted.unwrap();
        });
        assert_eq!(rules.await, expected(is_wrong), "{what}");
    }
    // Deletion by people is the reset.
    let rules = rogue(async |stage, client| {
        write(&client, no()).await;
        stage.server.delete("accessrequests", TOOLS, "for-deploy");
    });
    assert_eq!(rules.await, []);
}

#[tokio::test(start_paused = true)]
async fn a_binding_beside_a_request_that_decided_for_the_pod_is_found() {
    for (phase, decides) in [
        ("Ended", true),
        ("Rejected", true),
        ("Revoked", true),
        ("Granted", true),
        ("Pending", false),
        ("Invalid", false),
    ] {
        let rules = rogue(async |stage, client| {
            stage.request_named("other", "deploy");
            let change = |it: &mut Value| it["status"]["phase"] = phase.into();
            stage
                .server
                .change("accessrequests", TOOLS, "other", change);
            bind(stage, &client, "builder").await;
        });
        assert_eq!(rules.await.contains(&Rule::Final), decides, "{phase}");
    }
}
