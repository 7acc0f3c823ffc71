//! What people are told while a request waits, and who is.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::{UPDATE, grant_name};
use crate::testing::Cluster;

/// The sentence of condition Ready.
fn ready(cluster: &Cluster) -> String {
    let status = cluster.status();
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let ready = conditions.find(|it| it["type"] == "Ready").unwrap();
    ready["message"].as_str().unwrap().to_owned()
}

/// The pod moves to another namespace, before anybody has looked.
fn pod_in(cluster: &Cluster, namespace: &str) {
    let mut pod = cluster.server.named("pods", "run-deploy-pod").unwrap();
    cluster.server.remove("pods", "run-deploy-pod");
    pod["metadata"]["namespace"] = namespace.into();
    cluster.server.put("pods", pod);
    cluster
        .server
        .change("accessrequests", "request", |request| {
            request["spec"]["context"]["objectRef"]["namespace"] = namespace.into();
        });
}

#[tokio::test]
async fn policies_that_nearly_apply_are_named_to_a_pod_beside_them_and_to_no_other() {
    for (namespace, is_named) in [("tools", true), ("apps", false)] {
        let cluster = Cluster::new();
        pod_in(&cluster, namespace);
        cluster.server.change("accesspolicies", "p", |policy| {
            policy["spec"]["checkGrantedPermission"]["requesters"] =
                json!([{"kind": "ServiceAccount", "name": "other", "namespace": namespace}]);
        });
        cluster.look().await.unwrap();
        let told = ready(&cluster);
        assert!(told.starts_with("no AccessPolicy"), "{told}");
        let says = told.contains("policy p: requesters do not accept");
        assert_eq!(says, is_named, "{told}");
    }
}

#[tokio::test]
async fn a_label_that_the_pod_lacks_is_named() {
    let cluster = Cluster::new();
    cluster.server.change("accesspolicies", "p", |policy| {
        policy["spec"]["checkGrantedPermission"]["spec"]["checks"][0]["selector"]["labels"] =
            json!({"run": "{.object.metadata.labels.release}"});
    });
    cluster.look().await.unwrap();
    assert_eq!(
        ready(&cluster),
        "policy p: check approval: pod run-deploy-pod has no label `release`, by which the check finds its ConfigMap"
    );
}

#[tokio::test]
async fn what_changes_too_fast_is_told_later_and_forgotten_with_the_request() {
    let cluster = Cluster::new();
    pod_in(&cluster, "tools");
    cluster.server.change("accesspolicies", "p", |policy| {
        policy["spec"]["checkGrantedPermission"]["requesters"] =
            json!([{"kind": "ServiceAccount", "name": "other"}]);
    });
    let controller = cluster.controller();
    let name = Cluster::request();
    let mut again = None;
    for number in 0..8 {
        // Another near miss each time, so another sentence.
        let mut policy = cluster.server.named("accesspolicies", "p").unwrap();
        policy["metadata"]["name"] = format!("p{number}").into();
        policy["metadata"]["uid"] = format!("p{number}-uid").into();
        cluster.server.put("accesspolicies", policy);
        cluster.fill(&controller);
        again = controller.request(&name, Instant::now()).await.unwrap();
    }
    let (pause, _) = again.unwrap();
    assert!(pause <= Duration::from_mins(1), "{pause:?}");
    assert_eq!(controller.paces.lock().unwrap().len(), 1);
    controller.forget(&name);
    assert!(controller.paces.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_look_that_changes_nothing_drops_no_limit_of_what_is_told() {
    let cluster = Cluster::new();
    let controller = cluster.controller();
    for _ in 0..3 {
        controller
            .request(&Cluster::request(), Instant::now())
            .await
            .unwrap();
        cluster.fill(&controller);
        assert_eq!(controller.paces.lock().unwrap().len(), 1);
    }
    let prepared = format!("POST roles {}", grant_name());
    assert_eq!(cluster.server.writes(), [UPDATE, prepared.as_str()]);
}

/// Whatever keeps the API server from taking it: the grant writes it, and would say what is in its way.
#[tokio::test]
async fn a_role_that_cannot_be_prepared_fails_no_look() {
    let cluster = Cluster::new();
    let foreign = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": grant_name(), "namespace": "tools", "uid": "foreign"}, "rules": [],
    });
    cluster.server.put("roles", foreign);
    cluster.look().await.unwrap();
    assert_eq!(cluster.phase(), "Pending");
    cluster.approval("approved");
    let error = cluster.look().await.unwrap_err().to_string();
    assert!(error.contains("is in the way"), "{error}");
    assert!(cluster.gives_nothing());
    cluster.server.remove("roles", &grant_name());
    cluster.look().await.unwrap();
    assert_eq!(cluster.phase(), "Granted");
}

/// A prepared Role that is gone is written by the grant.
#[tokio::test]
async fn a_prepared_role_that_another_client_removes_or_changes_is_written_anew_by_the_grant() {
    type Change = fn(&Cluster);
    let gone: Change = |it| it.server.remove("roles", &grant_name());
    let emptied: Change = |it| {
        let no_rules = |role: &mut serde_json::Value| role["rules"] = json!([]);
        it.server.change("roles", &grant_name(), no_rules);
    };
    for change in [gone, emptied] {
        let cluster = Cluster::new();
        cluster.look().await.unwrap();
        change(&cluster);
        cluster.approval("approved");
        let mut looks = 0;
        while cluster.phase() != "Granted" {
            let _ = cluster.look().await;
            looks += 1;
            assert!(looks < 4, "{:?}", cluster.status());
        }
        let role = cluster.server.named("roles", &grant_name()).unwrap();
        let resource = &role["rules"][0]["resources"][0];
        assert_eq!(resource, crate::testing::cluster::RESOURCE);
    }
}
