//! Objects that are being deleted, lists of several pages, namesakes, and grants that are revoked without a
//! reason.

use std::time::Duration;

use k8s_openapi::api::{coordination::v1::Lease, rbac::v1::RoleBinding};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    bind, metadata,
    promises::{create_role, read_live},
    rogue, write,
};
use crate::{
    oracle::Rule,
    stage::{APPS, CONNECTOR, MORE_TOOLS, SYSTEM, Stage, TOOLS},
};

async fn grant(stage: &Stage, client: &kube::Client) {
    read_live(client).await;
    create_role(stage, client, TOOLS).await;
    bind(stage, client, "builder").await;
}

/// The objects that a grant is based on: namespace and name, and whether their deletion ends the grant.
const OBJECTS: [(&str, &str, &str, bool); 5] = [
    ("accesspolicies", TOOLS, "p", true),
    ("connectors", TOOLS, CONNECTOR, true),
    ("accessrequests", TOOLS, "for-deploy", true),
    ("signoffs", APPS, "yes", false),
    ("pods", APPS, "deploy", false),
];

#[tokio::test(start_paused = true)]
async fn what_stays_in_force_on_what_is_being_deleted_is_found() {
    for (plural, namespace, name, ends) in OBJECTS {
        let rules = rogue(async |stage, client| {
            grant(stage, &client).await;
            stage.delete_and_keep(plural, namespace, name);
        });
        let expected: &[Rule] = if ends { &[Rule::Revoked] } else { &[] };
        assert_eq!(rules.await, expected, "{plural}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_on_what_is_being_deleted_is_found() {
    for (plural, namespace, name, _) in OBJECTS {
        let rules = rogue(async |stage, client| {
            stage.delete_and_keep(plural, namespace, name);
            grant(stage, &client).await;
        });
        assert_ne!(rules.await, [], "{plural}");
    }
}

/// Reads this many pages of the approvals.
async fn read_pages(client: &kube::Client, pages: usize) {
    let path = format!("/apis/example.com/v1/namespaces/{APPS}/signoffs");
    let mut params = ListParams::default().labels("run=deploy").limit(500);
    for _ in 0..pages {
        let request = kube::core::Request::new(path.clone()).list(&params);
        let page: Value = client.request(request.unwrap()).await.unwrap();
        let token = page["metadata"]["continue"].as_str().unwrap_or_default();
        params = params.continue_token(token);
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_on_a_list_that_was_not_read_to_its_end_is_found() {
    for (last, pages, is_wrong) in [
        ("approved", 2, false),
        ("approved", 1, true),
        ("pending", 2, true),
        ("pending", 1, true),
    ] {
        let rules = rogue(async |stage, client| {
            stage.signoff("z", "deploy", last);
            read_live(&client).await;
            // Earlier reads are too old by then.
            sleep(Duration::from_secs(6)).await;
            stage.server.page_at_most(1);
            read_pages(&client, pages).await;
            stage.server.page_at_most(usize::MAX);
            read_but_approvals(&client).await;
            create_role(stage, &client, TOOLS).await;
            bind(stage, &client, "builder").await;
        });
        let is_found = rules.await.contains(&Rule::Fresh);
        assert_eq!(is_found, is_wrong, "{pages} pages, the last is {last}");
    }
}

/// Reads everything else that a grant is based on.
async fn read_but_approvals(client: &kube::Client) {
    let ours = format!("/apis/connectors.alauda.io/v1alpha1/namespaces/{TOOLS}");
    for path in [
        format!("/api/v1/namespaces/{APPS}/pods"),
        format!("/api/v1/namespaces/{APPS}/serviceaccounts"),
        format!("{ours}/connectors"),
        format!("{ours}/accesspolicies"),
    ] {
        let request = kube::core::Request::new(path).list(&ListParams::default());
        let _: Value = client.request(request.unwrap()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_binding_in_the_namespace_of_a_namesake_is_found() {
    let rules = rogue(async |stage, client| {
        stage.namesakes();
        read_live(&client).await;
        let mut metadata = metadata(stage);
        metadata["namespace"] = MORE_TOOLS.into();
        let binding: RoleBinding = serde_json::from_value(json!({
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "car-x"},
            "subjects": [{"kind": "ServiceAccount", "namespace": APPS, "name": "builder"}],
        }))
        .unwrap();
        let api: Api<RoleBinding> = Api::namespaced(client, MORE_TOOLS);
        api.create(&PostParams::default(), &binding).await.unwrap();
    });
    assert!(rules.await.contains(&Rule::Tenants));
}

/// From now on the client counts as a controller.
async fn lead(client: &kube::Client) {
    let lease: Lease = serde_json::from_value(json!({
        "metadata": {"name": "request-controller", "namespace": SYSTEM},
        "spec": {"holderIdentity": "rogue"},
    }))
    .unwrap();
    let api: Api<Lease> = Api::namespaced(client.clone(), SYSTEM);
    api.create(&PostParams::default(), &lease).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_taken_back_for_no_reason_is_found() {
    type Act = fn(&Stage);
    let reasons: [(&str, Act, bool); 4] = [
        ("nothing happened", |_| {}, true),
        (
            "its pod has ended",
            |stage| stage.pod_phase("deploy", "Succeeded"),
            false,
        ),
        (
            "it is withdrawn",
            |stage| stage.decide("yes", "pending"),
            false,
        ),
        (
            "another one is withdrawn",
            |stage| {
                stage.namesakes();
                stage.signoff_in(APPS, "yes-1", "run", "deploy-1", "approved");
                stage.server.delete("signoffs", APPS, "yes-1");
            },
            true,
        ),
    ];
    for (what, act, is_wrong) in reasons {
        let rules = rogue(async |stage, client| {
            lead(&client).await;
            grant(stage, &client).await;
            act(stage);
            let api: Api<RoleBinding> = Api::namespaced(client, TOOLS);
            let deleted = api.delete("car-x", &DeleteParams::default()).await;
            deleted.unwrap();
        });
        let expected: &[Rule] = if is_wrong { &[Rule::Lost] } else { &[] };
        assert_eq!(rules.await, expected, "{what}");
        let rules = rogue(async |stage, client| {
            grant(stage, &client).await;
            act(stage);
            write(
                &client,
                json!({"phase": "Revoked", "grantedAt": "2026-03-01T10:00:00Z"}),
            )
            .await;
        });
        assert_eq!(rules.await.contains(&Rule::Lost), is_wrong, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_longer_than_its_policy_allows_is_found() {
    for (seconds, is_wrong) in [(60, false), (61, false), (90, true)] {
        let rules = rogue(async |stage, client| {
            stage.server.change("accesspolicies", TOOLS, "p", |it| {
                let spec = &mut it["spec"]["checkGrantedPermission"]["spec"];
                spec["limits"] = json!({"pendingTimeout": "1m"});
            });
            sleep(Duration::from_secs(seconds)).await;
            let status = json!({"phase": "Rejected", "policies": [{
                "policy": {"metadata": {"name": "p", "uid": "policy-p"}},
                "grant": {"state": "Ended", "reason": "PendingTimeout"},
            }]});
            write(&client, status).await;
        });
        let expected: &[Rule] = if is_wrong { &[Rule::Final] } else { &[] };
        assert_eq!(rules.await, expected, "{seconds} s");
    }
}
