use std::time::Duration;

use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::{Api, api::PostParams};
use serde_json::{Value, json};
use testkit::Caller;
use tokio::time::sleep;

use super::{Allowance, Rule, judge};
use crate::stage::{APPS, CONNECTOR, PolicyForm, Stage, TOOLS};

/// Nothing goes wrong, and nobody gets more time for anything.
const STRICT: Allowance = Allowance {
    usual: Duration::from_secs(1),
    last_fault: None,
    recovery: Duration::ZERO,
    lag: Duration::ZERO,
    races: false,
    true_clock: true,
    kept: false,
};

/// A stage where somebody waits, and somebody who writes what he likes.
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
    // The log ends with what happens last.
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
