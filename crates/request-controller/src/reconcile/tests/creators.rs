//! Checks that exclude the creator of the pod's run from its approvers.

use std::time::Duration;

use connectors_api::names::{CREATOR, CREATOR_RULE};
use serde_json::{Value, json};

use super::look;
use crate::testing::Cluster;

/// The run of this cluster was created at ten o'clock.
const BEFORE: &str = "2026-03-01T09:00:00Z";

/// A run of this creator, which alice has approved.
fn approved(creator: &str) -> Cluster {
    let cluster = Cluster::with_run();
    cluster.server.change("accesspolicies", "p", |policy| {
        let checks = &mut policy["spec"]["checkGrantedPermission"]["spec"]["checks"];
        checks[0]["approvers"] = json!({"notRequester": true});
    });
    cluster.server.change("pipelineruns", "run", |run| {
        run["metadata"]["annotations"] = json!({CREATOR: creator});
    });
    cluster.approve();
    cluster
}

/// The admission rule, since this time.
fn install(cluster: &Cluster, since: &str) {
    let object = |kind: &str, spec: Value| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"name": CREATOR_RULE, "creationTimestamp": since, "generation": 1}, "spec": spec,
        })
    };
    let rule = object("ValidatingAdmissionPolicy", json!({}));
    cluster.server.put("validatingadmissionpolicies", rule);
    let binding = json!({"policyName": CREATOR_RULE, "validationActions": ["Deny"]});
    let binding = object("ValidatingAdmissionPolicyBinding", binding);
    cluster
        .server
        .put("validatingadmissionpolicybindings", binding);
}

/// The phase, and whether a RoleBinding exists.
async fn looked(cluster: &Cluster) -> (String, bool) {
    cluster.look().await.unwrap();
    (cluster.phase(), !cluster.gives_nothing())
}

fn granted() -> (String, bool) {
    ("Granted".to_owned(), true)
}

fn not_granted() -> (String, bool) {
    ("Pending".to_owned(), false)
}

#[tokio::test]
async fn an_approval_of_another_user_than_the_creator_grants() {
    for (creator, expected) in [("carol", granted()), ("alice", not_granted())] {
        let cluster = approved(creator);
        install(&cluster, BEFORE);
        assert_eq!(looked(&cluster).await, expected, "{creator}");
        let status = cluster.status();
        let told = status.pointer("/policies/0/checkRefs/0/status/runCreator");
        let expected = (expected == granted()).then_some(creator);
        assert_eq!(told.and_then(Value::as_str), expected, "{status}");
    }
}

#[tokio::test]
async fn without_a_rule_that_keeps_creators_true_nothing_is_granted() {
    type Change = fn(&Cluster);
    let changes: [(&str, Change); 6] = [
        ("no rule", |_| {}),
        ("a rule that is younger than the run", |it| {
            install(it, "2026-03-01T10:00:00Z");
        }),
        ("no binding", |it| {
            install(it, BEFORE);
            it.server
                .remove("validatingadmissionpolicybindings", CREATOR_RULE);
        }),
        ("no policy", |it| {
            install(it, BEFORE);
            it.server
                .remove("validatingadmissionpolicies", CREATOR_RULE);
        }),
        ("a binding that only warns", |it| {
            install(it, BEFORE);
            let plural = "validatingadmissionpolicybindings";
            it.server.change(plural, CREATOR_RULE, |binding| {
                binding["spec"]["validationActions"] = json!(["Warn", "Audit"]);
            });
        }),
        ("a policy that is being deleted", |it| {
            install(it, BEFORE);
            let plural = "validatingadmissionpolicies";
            it.server.change(plural, CREATOR_RULE, |policy| {
                policy["metadata"]["deletionTimestamp"] = BEFORE.into();
            });
        }),
    ];
    for (what, change) in changes {
        let cluster = approved("carol");
        change(&cluster);
        assert_eq!(looked(&cluster).await, not_granted(), "{what}");
    }
}

/// What is remembered while requests wait decides nothing.
#[tokio::test]
async fn a_rule_that_was_removed_a_moment_ago_counts_no_more() {
    let cluster = approved("carol");
    install(&cluster, BEFORE);
    let controller = cluster.controller();
    cluster.server.change("approvaltasks", "run-wait", |it| {
        it["spec"]["approvers"][0]["input"] = "pending".into();
        it["status"]["state"] = "pending".into();
    });
    look(&controller).await.unwrap();
    cluster.approve();
    let _ = cluster.news(&controller, "approvaltasks", "run-wait");
    cluster
        .server
        .remove("validatingadmissionpolicies", CREATOR_RULE);
    look(&controller).await.unwrap();
    assert_eq!(cluster.phase(), "Pending");
    assert!(cluster.gives_nothing());
}

/// However often the remembered one is used meanwhile.
#[tokio::test]
async fn a_rule_is_read_again_after_a_minute() {
    let cluster = approved("carol");
    let controller = cluster.controller();
    look(&controller).await.unwrap();
    install(&cluster, BEFORE);
    for seconds in (5..=60).step_by(5) {
        cluster.now.lock().unwrap().mono += Duration::from_secs(5);
        cluster.fill(&controller);
        look(&controller).await.unwrap();
        let expected = if seconds < 60 { "Pending" } else { "Granted" };
        assert_eq!(cluster.phase(), expected, "after {seconds} s");
    }
}

/// The calls of the first two looks at a request that waits for bob.
async fn calls_of_two_looks(approvers: Value) -> [usize; 2] {
    let cluster = approved("carol");
    install(&cluster, BEFORE);
    cluster.server.change("accesspolicies", "p", |policy| {
        let checks = &mut policy["spec"]["checkGrantedPermission"]["spec"]["checks"];
        checks[0]["approvers"] = approvers;
    });
    let controller = cluster.controller();
    let calls = async || {
        let before = cluster.server.calls();
        look(&controller).await.unwrap();
        cluster.fill(&controller);
        cluster.server.calls() - before
    };
    [calls().await, calls().await]
}

#[tokio::test]
async fn while_a_request_waits_the_rule_is_read_once_and_only_where_a_check_needs_it() {
    let others = calls_of_two_looks(json!({"users": ["bob"], "notRequester": false})).await;
    let excluding = calls_of_two_looks(json!({"users": ["bob"], "notRequester": true})).await;
    // The policy and its binding.
    assert_eq!(excluding, [others[0] + 2, others[1]]);
}
