//! The objects behind each access: bindings beside each other, requests about something else.

use serde_json::{Value, json};

use crate::cluster::{Cluster, pod};

const WHO: [&str; 2] = ["who-can", "payments/prod-harbor"];
const RBAC: &str = "rbac.authorization.k8s.io";

/// A binding of the Role of the standing permission.
fn bind(cluster: &Cluster, name: &str, namespace: &str, policy: Option<&str>, account: &str) {
    let mut labels = json!({});
    if let Some(policy) = policy {
        labels["app.kubernetes.io/managed-by"] = "connectors-approval".into();
        labels["connectors.alauda.io/accessPolicy"] = policy.into();
    }
    cluster.put(json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "policy-1"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "team-a", "name": account}],
    }));
}

/// The holders that are listed, each with its binding and policy.
async fn listed(cluster: &Cluster) -> Vec<(String, String, Value)> {
    let who = cluster.json(&WHO).await;
    let all = who["standing"].as_array().unwrap().iter();
    let text = |it: &Value| it.as_str().unwrap().to_owned();
    all.map(|it| {
        (
            text(&it["name"]),
            text(&it["binding"]),
            it["policy"].clone(),
        )
    })
    .collect()
}

/// An administrator who takes one binding away must know the others.
#[tokio::test]
async fn each_binding_behind_a_standing_permission_is_listed_once() {
    let cluster = Cluster::new();
    cluster.standing("deployer");
    bind(&cluster, "policy-2", "payments", Some("second"), "deployer");
    bind(&cluster, "by-hand", "payments", None, "deployer");
    bind(&cluster, "policy-3", "payments", Some("always"), "builder");
    // The Role of another namespace is another one.
    bind(&cluster, "elsewhere", "team-a", None, "other");
    let row = |name: &str, binding: &str, policy: Value| {
        (name.to_owned(), format!("RoleBinding {binding}"), policy)
    };
    let by_hand = row("deployer", "by-hand", Value::Null);
    let mut expected = vec![
        row("builder", "policy-3", "always".into()),
        by_hand.clone(),
        row("deployer", "policy-1", "always".into()),
        row("deployer", "policy-2", "second".into()),
    ];
    assert_eq!(listed(&cluster).await, expected);
    // One that is being deleted gives nothing any more.
    let bindings = "rolebindings";
    cluster
        .server
        .change(bindings, "payments", "policy-2", |it| {
            it["metadata"]["finalizers"] = json!(["example.com/stay"]);
        });
    cluster.server.delete(bindings, "payments", "policy-2");
    expected.pop();
    assert_eq!(listed(&cluster).await, expected);
    // A Role for another connector whose name begins alike.
    cluster
        .server
        .change("roles", "payments", "policy-1", |it| {
            it["rules"][0]["resourceNames"] = json!(["prod-harbor-2"]);
        });
    assert_eq!(listed(&cluster).await, []);
}

/// Each row is a granted request of the pod, with its label, about something else.
#[tokio::test]
async fn a_request_about_another_access_of_the_pod_decides_nothing() {
    for (field, value) in [
        ("/spec/connectorRef/name", "prod-harbor2"),
        ("/spec/connectorRef/name", "prod"),
        ("/spec/permission", "proxy"),
        ("/spec/subject/name", "builder2"),
        ("/spec/subject/namespace", "team-b"),
    ] {
        let cluster = Cluster::new();
        cluster.put(pod("build-1"));
        let request = cluster.granted("build-1");
        let can = ["can-i", "payments/prod-harbor", "--pod", "team-a/build-1"];
        assert_eq!(cluster.run(&can).await.exit.code(), 0, "{field}");
        let requests = "accessrequests";
        cluster.server.change(requests, "payments", &request, |it| {
            *it.pointer_mut(field).unwrap() = value.into();
        });
        assert_eq!(cluster.run(&can).await.exit.code(), 1, "{field} {value}");
        let explained = cluster.explained().await;
        let access = &explained["accesses"][0];
        assert_eq!(access.get("request"), None, "{field} {value}: {access:#}");
    }
}

/// The grant is in the namespace of the connector alone.
#[tokio::test]
async fn a_request_in_another_namespace_gives_no_access_to_a_connector_of_the_same_name() {
    let cluster = Cluster::new();
    cluster.put(json!({
        "apiVersion": crate::cluster::CONNECTORS, "kind": "Connector",
        "metadata": {"name": "prod-harbor", "namespace": "team-a", "uid": "uid-of-team-a"},
        "spec": {"connectorClassName": "oci", "address": "https://harbor.example.com"},
    }));
    let mut both = pod("build-1");
    let volume = both["spec"]["volumes"][1].clone();
    let mut own = volume;
    own["name"] = "own".into();
    own["csi"]["volumeAttributes"]["connectors"] = "team-a/prod-harbor".into();
    both["spec"]["volumes"].as_array_mut().unwrap().push(own);
    cluster.put(both);
    cluster.granted("build-1");
    for (connector, code) in [("payments/prod-harbor", 0), ("team-a/prod-harbor", 1)] {
        let can = ["can-i", connector, "--pod", "team-a/build-1"];
        assert_eq!(cluster.run(&can).await.exit.code(), code, "{connector}");
    }
    let who = cluster.json(&["who-can", "team-a/prod-harbor"]).await;
    assert_eq!(who["pods"], json!([]), "{who:#}");
}
