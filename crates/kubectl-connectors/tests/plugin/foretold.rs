//! `policy simulate`: what decides about a request beside the checks of its policies.

use kubectl_connectors::run::Outcome;
use serde_json::{Value, json};

use crate::cluster::{Cluster, START, change, policy};
use crate::simulate::{granted, only_request, standing, words, written};

impl Cluster {
    async fn simulated_deletion(&self, delete: &[&str]) -> Outcome {
        let simulate = ["policy", "simulate", "-n", "payments"];
        self.run(&[&simulate, delete].concat()).await
    }
}

/// A change request of `build-1` that another label finds.
fn approved_by_name(cluster: &Cluster) {
    let mut other = change("chg-7", Some("approved"));
    other["metadata"]["labels"] = json!({"of": "build-1"});
    cluster.put(other);
}

/// The policy with a check that finds it.
fn finds_by_name() -> Value {
    written(|it| {
        let check = &mut granted(it)["spec"]["checks"][0];
        check["selector"]["labels"] = json!({"of": "{.object.metadata.name}"});
    })
}

/// The labels were read for the policies of the cluster alone.
#[tokio::test]
async fn a_policy_that_selects_accounts_or_namespaces_by_labels_is_foretold_where_none_did() {
    let cluster = Cluster::waiting();
    cluster.server.change("namespaces", "", "team-a", |it| {
        it["metadata"]["labels"] = json!({"team": "x"});
    });
    cluster.put(json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "builder", "namespace": "team-a", "labels": {"role": "ci"}},
    }));
    cluster.policy(|it| {
        granted(it)["requesters"] = json!([{"kind": "ServiceAccount", "name": "other"}]);
    });
    let team = json!({"matchLabels": {"team": "x"}});
    for subject in [
        json!({"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": team}),
        json!({
            "kind": "ServiceAccount", "nameSelector": {"matchLabels": {"role": "ci"}}, "namespaceSelector": team,
        }),
    ] {
        let wide = written(|it| granted(it)["requesters"] = json!([subject]));
        let (simulation, _) = cluster.simulation(&[wide]).await;
        let found = only_request(&simulation);
        assert_eq!(words(found), ("NoPolicy", "Waits"), "{subject}");
    }
}

/// The policy does not decide on this request again.
#[tokio::test]
async fn a_policy_that_refused_before_does_not_keep_a_request_waiting() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("rejected")));
    let mut other = policy("other", "payments");
    other["spec"]["checkGrantedPermission"]["spec"]["checks"][0]["selector"]["labels"] =
        json!({"of": "{.object.metadata.name}"});
    cluster.put(other.clone());
    cluster.server.change(
        "accessrequests",
        "payments",
        &cluster.first_request(),
        |it| {
            it["status"]["phase"] = "Pending".into();
            it["status"]["policies"] = json!([{
                "policy": {"metadata": {"name": "approved-changes", "uid": "uid-approved-changes"}},
                "grant": {"state": "Ended", "reason": "CheckRejected", "endedAt": START},
            }]);
        },
    );
    let rejecting = written(|it| it["metadata"]["name"] = "other".into());
    let (simulation, _) = cluster.simulation(&[rejecting]).await;
    assert_eq!(words(only_request(&simulation)), ("Waits", "Refused"));
}

#[tokio::test]
async fn nothing_is_granted_while_approvals_are_off_or_to_a_pod_that_is_deleted() {
    type Bar = fn(&Cluster);
    let bars: [(Bar, &str); 2] = [
        (
            |cluster| {
                let system = "connectors-system";
                cluster
                    .server
                    .change("configmaps", system, "connectors-config", |it| {
                        it["data"]["enable-connectors-approval"] = "false".into();
                    });
            },
            "approvals are switched off",
        ),
        (
            |cluster| {
                cluster.server.change("pods", "team-a", "build-1", |it| {
                    it["metadata"]["finalizers"] = json!(["example.com/keeps"]);
                });
                cluster.server.delete("pods", "team-a", "build-1");
            },
            "pod team-a/build-1 is being deleted",
        ),
    ];
    for (bar, why) in bars {
        let cluster = Cluster::waiting();
        approved_by_name(&cluster);
        bar(&cluster);
        let new = {
            let mut new = finds_by_name();
            new["metadata"]["name"] = "also".into();
            new
        };
        cluster.policy(|it| granted(it)["requesters"] = json!([]));
        let (simulation, _) = cluster.simulation(&[new]).await;
        let found = only_request(&simulation);
        assert_eq!(words(found), ("NoPolicy", "Waits"), "{why}");
        assert!(found["because"].as_str().unwrap().contains(why), "{found}");
    }
}

/// The policy-controller says the same with the condition `ChecksValid`, once the policy is there.
#[tokio::test]
async fn a_check_of_a_kind_that_the_request_controller_may_not_read_lets_nothing_through() {
    let cluster = Cluster::waiting();
    approved_by_name(&cluster);
    let (simulation, _) = cluster.simulation(&[finds_by_name()]).await;
    assert_eq!(words(only_request(&simulation)), ("Waits", "Granted"));
    cluster
        .server
        .change("clusterroles", "", "check-reader", |it| {
            it["rules"] = json!([]);
        });
    let (simulation, _) = cluster.simulation(&[finds_by_name()]).await;
    assert_eq!(words(only_request(&simulation)), ("Waits", "Waits"));
    cluster.policy(|it| granted(it)["requesters"] = json!([]));
    let (simulation, _) = cluster.simulation(&[finds_by_name()]).await;
    let because = only_request(&simulation)["because"].as_str().unwrap();
    assert!(
        because.contains("changerequests may not be read"),
        "{because}"
    );
}

#[tokio::test]
async fn a_policy_in_place_of_one_that_cannot_be_read_is_changed_and_not_new() {
    let cluster = Cluster::waiting();
    cluster.policy(|it| it["spec"]["conector"] = json!({}));
    let (simulation, _) = cluster.simulation(&[written(|_| {})]).await;
    assert_eq!(simulation["policies"][0]["state"], "Changed");
}

#[tokio::test]
async fn the_deletion_of_a_policy_ends_its_grants_and_its_standing_permission() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("approved")));
    cluster.grant("build-1", &cluster.first_request());
    cluster.put(standing("builders"));
    let delete = [
        "--delete",
        "approved-changes",
        "--delete",
        "payments/builders",
    ];
    let outcome = cluster.simulated_deletion(&delete).await;
    assert_eq!(
        outcome.output,
        "\
policy payments/approved-changes: deleted
policy payments/builders: deleted
pod team-a/build-1 (team-a/builder)  connector payments/prod-harbor (apis)  granted
  has access → loses it
  its grant by policy approved-changes ends, and the request is revoked for good
pod team-a/build-1 (team-a/builder)  connector payments/prod-harbor (apis)  granted
  a new request: has access, always → no policy applies
  a new request of the pod: no policy of namespace payments is about payments/prod-harbor
loses: Group ops  * on connectors/apis of payments/prod-harbor
loses: ServiceAccount team-a/builder  * on connectors/apis of payments/prod-harbor
1 requests looked at: 1 change; 2 standing permissions change
"
    );
    assert_eq!(outcome.exit.code(), 1);
}

#[tokio::test]
async fn a_policy_that_passes_takes_the_place_of_one_that_is_deleted() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("approved")));
    cluster.grant("build-1", &cluster.first_request());
    cluster.put(policy("also", "payments"));
    let outcome = cluster
        .simulated_deletion(&["--delete", "approved-changes"])
        .await;
    let told = "its grant by policy approved-changes ends, and it gets access by policy also";
    assert!(outcome.output.contains(told), "{}", outcome.output);
}

#[tokio::test]
async fn a_deletion_names_a_policy_of_the_namespace_that_no_file_has() {
    let cluster = Cluster::waiting();
    let none = cluster.simulated_deletion(&["--delete", "none"]).await;
    let told =
        "--delete payments/none: there is no such policy: `kubectl -n payments get accesspolicies`";
    assert!(none.errors.contains(told), "{none:?}");
    assert_eq!((none.exit.code(), none.output.as_str()), (2, ""));
    let twice = [
        "--delete",
        "approved-changes",
        "--delete",
        "payments/approved-changes",
    ];
    let twice = cluster.simulated_deletion(&twice).await;
    let lines = twice
        .output
        .matches("policy payments/approved-changes: deleted");
    assert_eq!(lines.count(), 1, "{twice:?}");
    let elsewhere = cluster
        .simulated_deletion(&["--delete", "team-a/approved-changes"])
        .await;
    assert!(
        elsewhere.errors.contains("use -n team-a, or -A"),
        "{elsewhere:?}"
    );
    let both = cluster
        .simulated(&[written(|_| {})], &["--delete", "approved-changes"])
        .await;
    assert!(both.errors.contains("is also in --delete"), "{both:?}");
    assert_eq!((elsewhere.exit.code(), both.exit.code()), (2, 2));
}

/// The request-controller decides anew on such an entry, under the policy as it is then.
#[tokio::test]
async fn a_grant_that_never_was_in_force_is_foretold_as_not_decided() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("approved")));
    let request = cluster.first_request();
    cluster.grant("build-1", &request);
    let never = |it: &mut Value| {
        it["status"]["phase"] = "Pending".into();
        it["status"]["grantedAt"] = Value::Null;
        it["status"]["policies"][0]["grant"] = json!({"state": "Granting"});
    };
    cluster
        .server
        .change("accessrequests", "payments", &request, never);
    let not_approved = written(|it| {
        let check = &mut granted(it)["spec"]["checks"][0];
        check["selector"]["labels"] = json!({"of": "{.object.metadata.name}"});
    });
    let (simulation, _) = cluster.simulation(&[not_approved]).await;
    assert_eq!(words(only_request(&simulation)), ("Granted", "Waits"));
    let deleted = cluster
        .simulated_deletion(&["--delete", "approved-changes", "-o", "json"])
        .await;
    let simulation: Value = serde_json::from_str(&deleted.output).unwrap();
    assert_eq!(words(only_request(&simulation)), ("Granted", "NoPolicy"));
    let explained = cluster.explained().await;
    let policy = &explained["accesses"][0]["policies"][0];
    assert_eq!(
        (&policy["grant"], &policy["verdict"]),
        (&Value::Null, &json!("AccessCheckPassed")),
        "{explained:#}"
    );
}

/// Its objects are gone, and are written again: the phase is Pending until then.
#[tokio::test]
async fn a_request_whose_grant_is_written_again_keeps_it() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("approved")));
    let request = cluster.first_request();
    cluster.grant("build-1", &request);
    cluster
        .server
        .change("accessrequests", "payments", &request, |it| {
            it["status"]["phase"] = "Pending".into();
            it["status"]["policies"][0]["grant"]["state"] = "Granting".into();
        });
    let outcome = cluster
        .simulated_deletion(&["--delete", "approved-changes"])
        .await;
    let told = "its grant by policy approved-changes ends, and the request is revoked for good";
    assert!(outcome.output.contains(told), "{}", outcome.output);
}

#[tokio::test]
async fn a_connector_that_goes_or_is_another_one_lets_no_request_through() {
    type Change = fn(&Cluster);
    let changes: [(Change, &str); 2] = [
        (
            |cluster| {
                let payments = "payments";
                cluster
                    .server
                    .change("connectors", payments, "prod-harbor", |it| {
                        it["metadata"]["finalizers"] = json!(["example.com/keeps"]);
                    });
                cluster.server.delete("connectors", payments, "prod-harbor");
            },
            "there is no connector payments/prod-harbor",
        ),
        (
            |cluster| {
                let request = cluster.first_request();
                cluster
                    .server
                    .change("accessrequests", "payments", &request, |it| {
                        it["status"]["connectorUid"] = "uid-earlier".into();
                    });
            },
            "connector payments/prod-harbor is another one than when the request was made",
        ),
    ];
    for (change, why) in changes {
        let cluster = Cluster::waiting();
        approved_by_name(&cluster);
        change(&cluster);
        let (simulation, _) = cluster.simulation(&[finds_by_name()]).await;
        let found = only_request(&simulation);
        assert_eq!(words(found), ("Waits", "Waits"), "{why}");
        let because = found["because"].as_str().unwrap();
        assert!(because.contains(why), "{because}");
        let explained = cluster.explained().await;
        let because = explained["accesses"][0]["because"].as_str().unwrap();
        assert!(because.contains(why), "{because}");
    }
}

/// The services keep the last value that they read, which the command does not know.
#[tokio::test]
async fn an_unknown_setting_makes_the_forecast_unknown() {
    type Change = fn(&mut Value);
    let settings: [(Change, &str); 3] = [
        (
            |it| it["data"]["enable-connectors-approval"] = "yes".into(),
            "enable-connectors-approval",
        ),
        (
            |it| it["data"] = json!({"on-enable": "Keep"}),
            "enable-connectors-approval",
        ),
        (
            |it| it["data"]["default-requesters"] = "all".into(),
            "default-requesters",
        ),
    ];
    for (change, key) in settings {
        let cluster = Cluster::waiting();
        approved_by_name(&cluster);
        cluster.server.change(
            "configmaps",
            "connectors-system",
            "connectors-config",
            change,
        );
        let open = {
            let mut open = finds_by_name();
            if key == "default-requesters" {
                granted(&mut open)
                    .as_object_mut()
                    .unwrap()
                    .remove("requesters");
            }
            open
        };
        let outcome = cluster.simulated(&[open], &["-o", "json"]).await;
        let simulation: Value = serde_json::from_str(&outcome.output).unwrap();
        assert_eq!(
            words(only_request(&simulation)),
            ("Waits", "Unknown"),
            "{key}"
        );
        assert_eq!(outcome.exit.code(), 3, "{outcome:?}");
        assert!(outcome.output.contains(key), "{outcome:?}");
        assert!(outcome.errors.contains(key), "{outcome:?}");
    }
}

/// Decided requests stay for a while, and are listed with the others.
#[tokio::test]
async fn a_request_is_looked_at_behind_pages_of_decided_ones() {
    let cluster = Cluster::waiting();
    cluster.server.page_at_most(4);
    let changed = || written(|it| granted(it)["spec"]["limits"] = json!({"maxDuration": "1h"}));
    let decide = |number: usize| {
        let pod = format!("decided-{number}");
        let request = cluster.request(&pod);
        cluster.say(&request, "Rejected", "CheckRejected", "no");
    };
    (0..27).for_each(decide);
    let (simulation, code) = cluster.simulation(&[changed()]).await;
    assert_eq!((&simulation["lookedAt"], code), (&json!(1), 1));
    assert_eq!(simulation["leftOut"], 0);
    // More pages than are read.
    (27..40).for_each(decide);
    let (simulation, code) = cluster.simulation(&[changed()]).await;
    assert_eq!((&simulation["leftOut"], code), (&json!(1), 3));
}
