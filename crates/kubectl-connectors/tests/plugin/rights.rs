//! What a user without some right sees.

use serde_json::{Value, json};
use testkit::Caller;

use crate::cluster::{Cluster, change};

fn dev() -> Caller {
    Caller {
        process: "dev".to_owned(),
        user: "dev".to_owned(),
        groups: vec!["system:authenticated".to_owned()],
    }
}

fn allow(cluster: &Cluster, namespace: &str, rules: &Value) {
    let name = "dev";
    cluster.put(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": rules,
        "metadata": {"name": name, "namespace": namespace},
    }));
    cluster.put(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "User", "name": "dev"}],
    }));
}

fn read(group: &str, resources: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": ["get", "list"]})
}

const EXPLAIN: [&str; 4] = ["explain", "pod/build-1", "-n", "team-a"];

#[tokio::test]
async fn what_may_not_be_read_is_named_and_the_rest_is_answered() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("pending")));
    allow(&cluster, "team-a", &json!([read("", &["pods"])]));
    allow(
        &cluster,
        "payments",
        &json!([read(
            "connectors.alauda.io",
            &["connectors", "accesspolicies", "accessrequests"]
        )]),
    );
    let outcome = cluster.run_as(&dev(), &EXPLAIN).await;
    for told in [
        "you may not list changerequests.itsm.example.com in namespace team-a; ask an administrator of namespace team-a",
        "policy approved-changes",
        "check change",
    ] {
        assert!(outcome.output.contains(told), "{told}: {}", outcome.output);
    }
    for told in [
        "you may not create subjectaccessreviews.authorization.k8s.io; ask an administrator of the cluster",
        "you may not get configmaps connectors-config in namespace connectors-system",
    ] {
        assert!(outcome.errors.contains(told), "{told}: {}", outcome.errors);
    }
}

#[tokio::test]
async fn without_the_policies_the_request_tells_what_it_recorded() {
    let cluster = Cluster::waiting();
    let request = cluster.server.list("accessrequests")[0]["metadata"]["name"].clone();
    let request = request.as_str().unwrap();
    cluster.say(
        request,
        "Pending",
        "ChecksPending",
        "policy approved-changes: waits",
    );
    cluster.server.change("accessrequests", "payments", request, |it| {
        it["status"]["policies"] = json!([{
            "policy": {"metadata": {"name": "approved-changes", "uid": "uid-approved-changes"}},
            "checkRefs": [{"name": "change", "ref": {"apiVersion": "itsm.example.com/v1", "kind": "ChangeRequest",
                "namespace": "team-a", "name": "chg-42"}, "status": {"state": "pending", "reason": "Pending",
                "message": "ChangeRequest team-a/chg-42 is pending"}}],
        }]);
    });
    allow(&cluster, "team-a", &json!([read("", &["pods"])]));
    allow(
        &cluster,
        "payments",
        &json!([read("connectors.alauda.io", &["accessrequests"])]),
    );
    let outcome = cluster.run_as(&dev(), &EXPLAIN).await;
    assert!(
        outcome.output.contains("ChangeRequest team-a/chg-42"),
        "{}",
        outcome.output
    );
    assert!(
        outcome.output.contains("as the request records"),
        "{}",
        outcome.output
    );
    let policies = "you may not list accesspolicies.connectors.alauda.io in namespace payments";
    assert!(outcome.errors.contains(policies), "{}", outcome.errors);
}

#[tokio::test]
async fn a_pod_that_may_not_be_read_is_an_error_that_names_the_right() {
    let cluster = Cluster::waiting();
    let outcome = cluster.run_as(&dev(), &EXPLAIN).await;
    assert_eq!(outcome.exit.code(), 3);
    assert_eq!(
        outcome.errors,
        "error: you may not get pods build-1 in namespace team-a; ask an administrator of namespace team-a for the right\n"
    );
    assert_eq!(outcome.output, "");
}

#[tokio::test]
async fn nothing_that_may_not_be_read_counts_as_absent() {
    let cluster = Cluster::waiting();
    allow(&cluster, "team-a", &json!([read("", &["pods"])]));
    allow(
        &cluster,
        "payments",
        &json!([read("connectors.alauda.io", &["accesspolicies"])]),
    );
    let outcome = cluster.run_as(&dev(), &EXPLAIN).await;
    assert!(
        !outcome.output.contains("there is no connector"),
        "{}",
        outcome.output
    );
    for told in [
        "you may not get connectors.connectors.alauda.io prod-harbor in namespace payments",
        "you may not list accessrequests.connectors.alauda.io in namespace payments",
    ] {
        assert!(outcome.errors.contains(told), "{told}: {}", outcome.errors);
    }
    let listed = cluster
        .run_as(&dev(), &["who-can", "payments/prod-harbor"])
        .await;
    assert!(
        listed
            .output
            .contains("the requests could not be read: pods with access are not listed"),
        "{}",
        listed.output
    );
    assert!(
        listed.output.contains("there may be more"),
        "{}",
        listed.output
    );
}
