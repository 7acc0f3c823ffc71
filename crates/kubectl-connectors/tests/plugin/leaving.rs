//! What is being deleted, was replaced, or leaves a selection counts no more; and what was not read may be there.

use kubectl_connectors::answer::Consent;
use serde_json::{Value, json};
use testkit::Caller;

use crate::cluster::{Cluster, change, pod};
use crate::rights::{allow, allow_everywhere, dev, read};
use crate::simulate::{granted, standing, written};

impl Cluster {
    /// The object stays with the time of its deletion.
    fn begin_deletion(&self, plural: &str, namespace: &str, name: &str) {
        self.server.change(plural, namespace, name, |it| {
            it["metadata"]["finalizers"] = json!(["example.com/stay"]);
        });
        self.server.delete(plural, namespace, name);
    }

    /// The preview of an answer to `chg-42`.
    async fn preview(&self, verb: &str) -> String {
        let args = [verb, "changerequest/chg-42", "-n", "team-a", "-o", "json"];
        let ask = Box::new(|_: &str| Consent::Declined);
        let outcome = self.run_asking(&Caller::admin(), &args, ask).await;
        let answer: Value = serde_json::from_str(&outcome.output).unwrap();
        let effects = answer["effects"].as_array().unwrap().iter();
        let words: Vec<_> = effects.map(|it| it["effect"].as_str().unwrap()).collect();
        words.join(" ")
    }
}

fn holders(simulation: &Value) -> Vec<String> {
    let changes = simulation["standing"].as_array().unwrap().iter();
    let text = |it: &Value| it.as_str().unwrap().to_owned();
    changes
        .map(|it| format!("{} {}", text(&it["change"]), text(&it["holder"])))
        .collect()
}

fn account(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace, "labels": {"role": "builder"}},
    })
}

fn by_label(subjects: &Value) -> Value {
    let mut by_label = standing("builders");
    by_label["spec"]["defaultPermission"]["bindingTemplate"]["subjects"] = subjects.clone();
    by_label
}

/// The policy-controller takes the permissions of such a policy away, and binds no Role to such a connector.
#[tokio::test]
async fn a_standing_permission_rests_on_nothing_that_is_being_deleted() {
    let both = ["Gains Group ops", "Gains ServiceAccount team-a/builder"];
    let cluster = Cluster::new();
    cluster.put(standing("builders"));
    let (simulation, _) = cluster.simulation(&[standing("builders")]).await;
    assert_eq!(holders(&simulation), [""; 0], "{simulation:#}");
    cluster.begin_deletion("accesspolicies", "payments", "builders");
    let (simulation, _) = cluster.simulation(&[standing("builders")]).await;
    assert_eq!(holders(&simulation), both, "{simulation:#}");
    assert_eq!(simulation["policies"][0]["state"], "New");

    let cluster = Cluster::new();
    let (simulation, _) = cluster.simulation(&[standing("builders")]).await;
    assert_eq!(holders(&simulation), both, "{simulation:#}");
    cluster.begin_deletion("connectors", "payments", "prod-harbor");
    let (simulation, _) = cluster.simulation(&[standing("builders")]).await;
    assert_eq!(holders(&simulation), [""; 0], "{simulation:#}");
}

#[tokio::test]
async fn selectors_find_the_accounts_of_every_subject_and_none_that_is_being_deleted() {
    let cluster = Cluster::new();
    cluster.server.change("namespaces", "", "team-a", |it| {
        it["metadata"]["labels"] = json!({"kubernetes.io/metadata.name": "team-a"});
    });
    let selector = json!({"matchLabels": {"role": "builder"}});
    let own = json!({"kind": "ServiceAccount", "nameSelector": selector});
    let elsewhere = json!({
        "kind": "ServiceAccount", "nameSelector": selector,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "team-a"}},
    });
    for (namespace, name) in [
        ("payments", "a"),
        ("payments", "b"),
        ("team-a", "c"),
        ("connectors-system", "d"),
    ] {
        cluster.put(account(namespace, name));
    }
    cluster.put(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "policy-controller", "namespace": "connectors-system"},
        "spec": {"template": {"spec": {"containers": [
            {"name": "other", "args": ["--verbose"]},
            {"name": "c", "args": ["--leader", "--max-selected-subjects=9"]},
        ]}}},
    }));
    let gains = |names: &[&str]| -> Vec<String> {
        let names = names.iter().map(|it| format!("Gains ServiceAccount {it}"));
        names.collect()
    };
    for (subjects, expected) in [
        (json!([own]), &["payments/a", "payments/b"][..]),
        (json!([elsewhere]), &["team-a/c"]),
        (
            json!([own, elsewhere]),
            &["payments/a", "payments/b", "team-a/c"],
        ),
        (
            json!([elsewhere, own]),
            &["payments/a", "payments/b", "team-a/c"],
        ),
    ] {
        let (simulation, _) = cluster.simulation(&[by_label(&subjects)]).await;
        assert_eq!(holders(&simulation), gains(expected), "{simulation:#}");
        assert_eq!(simulation["complete"], true, "{simulation:#}");
    }
    cluster.begin_deletion("serviceaccounts", "payments", "b");
    let subjects = json!([own, elsewhere]);
    let (simulation, _) = cluster.simulation(&[by_label(&subjects)]).await;
    assert_eq!(
        holders(&simulation),
        gains(&["payments/a", "team-a/c"]),
        "{simulation:#}"
    );
    cluster.begin_deletion("namespaces", "", "team-a");
    let (simulation, _) = cluster.simulation(&[by_label(&subjects)]).await;
    assert_eq!(
        holders(&simulation),
        gains(&["payments/a"]),
        "{simulation:#}"
    );
}

/// Every object has to pass, and one that is being deleted is none.
#[tokio::test]
async fn an_approval_that_is_being_deleted_holds_nothing_up_and_lets_nothing_through() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("pending")));
    cluster.put(change("chg-43", Some("pending")));
    assert_eq!(cluster.preview("approve").await, "Waits");
    cluster.begin_deletion("changerequests", "team-a", "chg-43");
    assert_eq!(cluster.preview("approve").await, "Opens");
    cluster.begin_deletion("changerequests", "team-a", "chg-42");
    assert_eq!(cluster.preview("approve").await, "");
}

/// The answer changes the field by which the object is selected.
#[tokio::test]
async fn an_object_counts_as_its_fields_are_after_the_answer() {
    for (selected, approved, rejected) in [
        ("pending", "Waits", "Waits"),
        ("approved", "Opens", ""),
        ("rejected", "", "Refuses"),
    ] {
        let cluster = Cluster::waiting();
        cluster.policy(|it| {
            let check = &mut granted(it)["spec"]["checks"][0];
            check["selector"]["fieldSelector"] = json!({"status.state": selected});
        });
        cluster.put(change("chg-42", Some("pending")));
        assert_eq!(cluster.preview("approve").await, approved, "{selected}");
        assert_eq!(cluster.preview("reject").await, rejected, "{selected}");
    }
}

/// Nothing is granted to a pod by the request of another one.
#[tokio::test]
async fn an_answer_opens_nothing_for_a_pod_that_another_one_has_replaced() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("pending")));
    assert_eq!(cluster.preview("approve").await, "Opens");
    for uid in ["uid-build", "uid-build-10", "uid-2"] {
        cluster.server.delete("pods", "team-a", "build-1");
        let mut another = pod("build-1");
        another["metadata"]["uid"] = uid.into();
        cluster.put(another);
        assert_ne!(cluster.preview("approve").await, "Opens", "{uid}");
        let file = written(|it| {
            granted(it)["requesters"] = json!([{"kind": "ServiceAccount", "name": "other"}]);
        });
        let (simulation, _) = cluster.simulation(&[file]).await;
        assert_eq!(simulation["requests"], json!([]), "{uid}: {simulation:#}");
    }
}

/// A pod without a request that is being deleted keeps what it has, and a standing permission is not seen.
#[tokio::test]
async fn a_pod_that_goes_has_no_known_access_without_the_right_to_ask() {
    for phase in ["Pending", "Running"] {
        let cluster = Cluster::waiting();
        let request = cluster.first_request();
        cluster
            .server
            .delete("accessrequests", "payments", &request);
        cluster.server.change("pods", "team-a", "build-1", |it| {
            it["status"]["phase"] = phase.into();
        });
        cluster.begin_deletion("pods", "team-a", "build-1");
        allow(&cluster, "team-a", &json!([read("", &["pods"])]));
        let resources = ["connectors", "accesspolicies", "accessrequests"];
        let connectors = read("connectors.alauda.io", &resources);
        allow(&cluster, "payments", &json!([connectors]));
        let can = ["can-i", "payments/prod-harbor", "--pod", "team-a/build-1"];
        let outcome = cluster.run_as(&dev(), &can).await;
        assert_eq!(outcome.exit.code(), 3, "{phase}: {outcome:?}");
        let outcome = cluster.run(&can).await;
        assert_eq!(outcome.exit.code(), 1, "{phase}: {outcome:?}");
    }
}

/// A tenant's objects with the label of a request do not hide its binding.
#[tokio::test]
async fn a_grant_is_not_told_as_lacking_its_binding_if_not_all_were_read() {
    let cluster = Cluster::waiting();
    let request = cluster.first_request();
    cluster.grant_status(&request);
    let can = ["can-i", "payments/prod-harbor", "--pod", "team-a/build-1"];
    for number in 0..128 {
        let name = format!("other-{number}");
        cluster.bind("other", &name, &format!("uid-{request}"), "uid-of-another");
    }
    assert_eq!(cluster.run(&can).await.exit.code(), 1);
    cluster.bind(
        "other",
        "other-128",
        &format!("uid-{request}"),
        "uid-of-another",
    );
    assert_eq!(cluster.run(&can).await.exit.code(), 3);
}

/// Some writers would look like all of them.
#[tokio::test]
async fn the_writers_of_an_approval_are_named_only_if_all_of_rbac_was_read() {
    let rbac = |resources: &[&str]| read("rbac.authorization.k8s.io", resources);
    let of_namespace = rbac(&["roles", "rolebindings"]);
    let of_cluster = rbac(&["clusterroles", "clusterrolebindings"]);
    for (rules, of_all, is_named) in [
        (json!([]), json!([]), false),
        (json!([of_namespace]), json!([]), false),
        (json!([]), json!([of_cluster]), false),
        (
            json!([of_namespace]),
            json!([rbac(&["clusterroles"])]),
            false,
        ),
        (json!([of_namespace]), json!([of_cluster]), true),
    ] {
        let cluster = Cluster::waiting();
        cluster.put(change("chg-42", Some("pending")));
        let mut own = rules.as_array().unwrap().clone();
        own.extend([
            read("", &["pods"]),
            read("itsm.example.com", &["changerequests"]),
        ]);
        allow(&cluster, "team-a", &json!(own));
        let resources = ["connectors", "accesspolicies", "accessrequests"];
        let connectors = read("connectors.alauda.io", &resources);
        allow(&cluster, "payments", &json!([connectors]));
        allow_everywhere(&cluster, &of_all);
        let args = ["explain", "pod/build-1", "-n", "team-a", "-o", "json"];
        let outcome = cluster.run_as(&dev(), &args).await;
        let explained: Value = serde_json::from_str(&outcome.output).unwrap();
        let check = &explained["accesses"][0]["policies"][0]["checks"][0];
        let candidate = &check["candidates"][0];
        assert_eq!(candidate["name"], "chg-42", "{explained:#}");
        assert_eq!(candidate["writers"].is_array(), is_named, "{candidate:#}");
    }
}
