//! What a user without some right sees.

use serde_json::{Value, json};
use testkit::Caller;

use crate::cluster::{Cluster, change};

pub(crate) fn dev() -> Caller {
    Caller {
        process: "dev".to_owned(),
        user: "dev".to_owned(),
        groups: vec!["system:authenticated".to_owned()],
    }
}

pub(crate) fn allow(cluster: &Cluster, namespace: &str, rules: &Value) {
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

pub(crate) fn allow_everywhere(cluster: &Cluster, rules: &Value) {
    cluster.put(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": rules,
        "metadata": {"name": "dev"},
    }));
    cluster.put(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "dev"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "dev"},
        "subjects": [{"kind": "User", "name": "dev"}],
    }));
}

pub(crate) fn read(group: &str, resources: &[&str]) -> Value {
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
    let request = &cluster.first_request();
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

/// A 403 is no "no": what could not be read could be access.
#[tokio::test]
async fn an_unread_request_or_standing_permission_makes_no_answer_of_a_pod_that_runs_or_waits() {
    let connectors = |resources: &[&str]| read("connectors.alauda.io", resources);
    let reviews = json!({"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]});
    for (phase, may_ask, may_read_requests) in [
        ("Running", true, false),
        ("Running", false, true),
        ("Pending", true, false),
        ("Pending", false, true),
        ("Pending", false, false),
    ] {
        let cluster = Cluster::waiting();
        cluster.server.change("pods", "team-a", "build-1", |it| {
            it["status"]["phase"] = phase.into();
        });
        allow(&cluster, "team-a", &json!([read("", &["pods"])]));
        let mut resources = vec!["connectors", "accesspolicies"];
        resources.extend(may_read_requests.then_some("accessrequests"));
        allow(&cluster, "payments", &json!([connectors(&resources)]));
        if may_ask {
            allow_everywhere(&cluster, &json!([reviews]));
        }
        for args in [
            &EXPLAIN[..],
            &["can-i", "payments/prod-harbor", "--pod", "team-a/build-1"],
        ] {
            let outcome = cluster.run_as(&dev(), args).await;
            let told = (phase, may_ask, may_read_requests, &outcome);
            assert_eq!(outcome.exit.code(), 3, "{told:?}");
            assert!(outcome.output.contains("not known"), "{told:?}");
            assert!(!outcome.output.contains("has no access now"), "{told:?}");
        }
    }
}

#[tokio::test]
async fn a_decided_request_answers_without_a_look_at_standing_permissions() {
    let cluster = Cluster::waiting();
    let request = cluster.first_request();
    cluster.say(&request, "Rejected", "CheckRejected", "no");
    allow(&cluster, "team-a", &json!([read("", &["pods"])]));
    let resources = ["connectors", "accesspolicies", "accessrequests"];
    allow(
        &cluster,
        "payments",
        &json!([read("connectors.alauda.io", &resources)]),
    );
    let outcome = cluster.run_as(&dev(), &EXPLAIN).await;
    assert_eq!(outcome.exit.code(), 1, "{outcome:?}");
}

#[tokio::test]
async fn a_grant_whose_role_bindings_may_not_be_read_is_not_known_to_be_in_force() {
    let cluster = Cluster::waiting();
    let request = cluster.first_request();
    cluster.grant("build-1", &request);
    allow(&cluster, "team-a", &json!([read("", &["pods"])]));
    let resources = ["connectors", "accesspolicies", "accessrequests"];
    let of_connectors = read("connectors.alauda.io", &resources);
    let reviews = json!({"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]});
    allow(&cluster, "payments", &json!([of_connectors]));
    allow_everywhere(&cluster, &json!([reviews]));
    let can = ["can-i", "payments/prod-harbor", "--pod", "team-a/build-1"];
    for args in [&EXPLAIN[..], &can] {
        assert_eq!(
            cluster.run_as(&dev(), args).await.exit.code(),
            3,
            "{args:?}"
        );
    }
    let bindings = read("rbac.authorization.k8s.io", &["rolebindings"]);
    cluster.server.change("roles", "payments", "dev", |it| {
        it["rules"] = json!([of_connectors, bindings]);
    });
    for args in [&EXPLAIN[..], &can] {
        assert_eq!(
            cluster.run_as(&dev(), args).await.exit.code(),
            0,
            "{args:?}"
        );
    }
}
