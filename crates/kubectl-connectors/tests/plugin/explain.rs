//! `explain`.

use serde_json::{Value, json};

use crate::cluster::{Cluster, after, change, pod, policy};

fn access(explained: &Value) -> &Value {
    &explained["accesses"][0]
}

fn commands(explained: &Value) -> Vec<&str> {
    let next = access(explained)["next"].as_array().unwrap();
    next.iter()
        .filter_map(|it| it["command"].as_str())
        .collect()
}

#[tokio::test]
async fn the_tree_goes_from_the_pod_to_the_command() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("pending")));
    let mut other = policy("others", "payments");
    other["spec"]["connector"]["names"] = json!(["git"]);
    cluster.put(other);
    let mut near = policy("ops-only", "payments");
    near["spec"]["checkGrantedPermission"]["requesters"] =
        json!([{"kind": "ServiceAccount", "name": "ops"}]);
    cluster.put(near);
    cluster.policy(|it| {
        it["spec"]["checkGrantedPermission"]["spec"]["limits"] = json!({"pendingTimeout": "24h"});
    });
    cluster.put(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "change-board", "namespace": "team-a"},
        "rules": [{"apiGroups": ["itsm.example.com"], "resources": ["changerequests/status"], "verbs": ["patch"]}],
    }));
    cluster.put(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "change-board", "namespace": "team-a"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "change-board"},
        "subjects": [{"kind": "Group", "name": "change-board"}],
    }));
    let outcome = cluster
        .run(&["explain", "pod/build-1", "-n", "team-a"])
        .await;
    assert_eq!(
        outcome.output,
        "\
pod team-a/build-1 (team-a/builder)  has not started
└─ connector payments/prod-harbor (apis)  waits  for 12m
   policy approved-changes: check change: ChangeRequest team-a/chg-42 is pending
   request prod-harbor-404f590ec2ad59567c653a254e2cd117  not looked at yet
   ├─ policy approved-changes  waits
   │  └─ check change  waits  itsm.example.com/v1 ChangeRequest with labels pod=build-1
   │     └─ ChangeRequest team-a/chg-42  pending
   │        Pending: ChangeRequest team-a/chg-42 is pending
   │        may write its state:  group change-board
   ├─ policy ops-only  does not apply
   │  none of requesters is ServiceAccount team-a/builder
   ├─ other policies, not about it: others
   ├─ the wait ends when
   │  - every check of policy approved-changes passes: access is granted
   │  - a check object says no: the request is rejected, for this pod for good
   │  - policy approved-changes waits no longer than its pendingTimeout, and then refuses for good  in 23h48m \
(2026-03-02T10:00:00Z)
   │  - the pod is deleted
   └─ next
      $ kubectl connectors approve changerequests.itsm.example.com/chg-42 -n team-a
        group change-board: approves ChangeRequest team-a/chg-42
"
    );
    assert_eq!((outcome.errors.as_str(), outcome.exit.code()), ("", 1));
}

/// Without a pod no check is judged.
#[tokio::test]
async fn a_question_without_a_pod_names_the_checks_and_promises_nothing() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("approved")));
    let target = [
        "explain",
        "connector/prod-harbor",
        "-n",
        "payments",
        "--as-account",
    ];
    let args = |account| target.iter().copied().chain([account]).collect::<Vec<_>>();
    let outcome = cluster.run(&args("team-a/builder")).await;
    for told in [
        "could ask, and would wait",
        "the checks of approved-changes decide, and were not looked at",
        "a pod would need: policy approved-changes: check change (ChangeRequest)",
    ] {
        assert!(outcome.output.contains(told), "{told}: {}", outcome.output);
    }
    assert!(
        !outcome.output.contains("every check passes"),
        "{}",
        outcome.output
    );
    assert_eq!(outcome.exit.code(), 1);
    let other = cluster.run(&args("team-a/other")).await;
    assert!(other.output.contains("could not ask"), "{}", other.output);
}

#[tokio::test]
async fn a_pod_that_waits_with_the_scheduling_gate_says_so() {
    let cluster = Cluster::waiting();
    let gated = |explained: &Value| explained["pod"]["gated"].clone();
    assert_eq!(gated(&cluster.explained().await), false);
    for (gate, is_ours) in [
        ("connectors.alauda.io/approval", true),
        ("other/gate", false),
    ] {
        cluster.server.change("pods", "team-a", "build-1", |it| {
            it["spec"]["schedulingGates"] = json!([{"name": gate}]);
        });
        assert_eq!(gated(&cluster.explained().await), is_ours, "{gate}");
    }
}

#[tokio::test]
async fn a_pod_without_connectors_waits_for_nothing() {
    let cluster = Cluster::new();
    let mut plain = pod("build-1");
    plain["spec"]["volumes"] = json!([]);
    cluster.put(plain);
    let outcome = cluster.run(&["explain", "build-1", "-n", "team-a"]).await;
    assert!(
        outcome.output.contains("it mounts no connector"),
        "{outcome:?}"
    );
    assert_eq!(outcome.exit.code(), 0);
}

#[tokio::test]
async fn an_approval_that_is_pending_names_who_may_approve_and_how() {
    let cluster = Cluster::with_run();
    let explained = cluster.explained_run().await;
    let policy = &access(&explained)["policies"][0];
    assert_eq!(policy["verdict"], "AccessCheckPending", "{explained:#}");
    let candidate = &policy["checks"][0]["candidates"][0];
    assert_eq!(
        candidate["approvers"],
        json!([
            {"name": "alice", "group": false, "answer": "Awaited", "counts": true},
            {"name": "qa", "group": true, "answer": "Awaited", "counts": true},
        ])
    );
    let links = candidate["links"].as_array().unwrap();
    let links: Vec<_> = links.iter().map(|it| (&it["kind"], &it["state"])).collect();
    assert_eq!(links.len(), 3, "{links:?}");
    assert_eq!(
        access(&explained)["next"][0],
        json!({
            "command": "kubectl connectors approve approvaltask/run-wait -n team-a",
            "who": "alice, a member of group qa",
            "effect": "approves ApprovalTask team-a/run-wait",
        })
    );
}

#[tokio::test]
async fn an_approval_of_another_run_is_named_with_the_link_that_does_not_hold() {
    let cluster = Cluster::with_run();
    cluster.approval(|it| it["metadata"]["ownerReferences"][0]["name"] = "other".into());
    let explained = cluster.explained_run().await;
    let check = &access(&explained)["policies"][0]["checks"][0];
    assert_eq!(check["verdict"], "AccessCheckFailed", "{explained:#}");
    assert_eq!(check["candidates"][0]["reason"], "ApprovalName");
    assert_eq!(commands(&explained), Vec::<&str>::new());
}

#[tokio::test]
async fn a_proven_approval_lists_the_links_of_its_proof() {
    let cluster = Cluster::with_run();
    cluster.approval(|it| {
        it["spec"]["approvers"][0]["input"] = "approve".into();
        it["status"]["state"] = "approved".into();
    });
    let explained = cluster.explained_run().await;
    let policy = &access(&explained)["policies"][0];
    assert_eq!(policy["verdict"], "AccessCheckPassed", "{explained:#}");
    let candidate = &policy["checks"][0]["candidates"][0];
    assert_eq!(candidate["approvedBy"], json!(["alice"]));
    for link in candidate["links"].as_array().unwrap() {
        assert_eq!(link["state"], "Proven", "{link}");
    }
    let because = access(&explained)["because"].as_str().unwrap();
    assert!(because.contains("has not granted access yet"), "{because}");
}

/// The command of a duck type's approval, typed.
#[tokio::test]
async fn the_next_command_lets_the_check_pass_when_it_is_typed() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", None));
    let explained = cluster.explained().await;
    let commands = commands(&explained);
    assert_eq!(
        commands,
        ["kubectl connectors approve changerequests.itsm.example.com/chg-42 -n team-a"]
    );
    let words = commands[0].strip_prefix("kubectl connectors ").unwrap();
    let words: Vec<_> = words.split(' ').chain(["--yes"]).collect();
    let outcome = cluster.run(&words).await;
    assert_eq!(
        outcome.exit.code(),
        0,
        "{}{}",
        outcome.output,
        outcome.errors
    );
    let policy = access(&cluster.explained().await)["policies"][0].clone();
    assert_eq!(policy["verdict"], "AccessCheckPassed", "{policy:#}");
}

#[tokio::test]
async fn a_module_is_run_as_the_services_run_it() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", None));
    let module = |cluster: &Cluster, rego: &str| {
        let rego = rego.to_owned();
        cluster.policy(|it| {
            let check = &mut it["spec"]["checkGrantedPermission"]["spec"]["checks"][0];
            check["state"] = json!({"rego": rego});
        });
    };
    module(
        &cluster,
        "package approval\noutput := {\"state\": \"passed\"} { input.metadata.name == \"chg-42\" }",
    );
    let verdict = |explained: &Value| access(explained)["policies"][0]["verdict"].clone();
    assert_eq!(verdict(&cluster.explained().await), "AccessCheckPassed");
    module(&cluster, "package approval\noutput := {\"state\": ");
    let explained = cluster.explained().await;
    assert_eq!(verdict(&explained), "AccessCheckFailed", "{explained:#}");
    assert_eq!(
        commands(&explained),
        ["kubectl -n payments edit accesspolicy approved-changes"]
    );
}

/// A machine that starts no worker says nothing about the policy.
#[tokio::test]
async fn a_module_that_this_machine_cannot_run_makes_no_answer_and_no_edit() {
    let mut cluster = Cluster::waiting();
    cluster.program = "/no/such/program".into();
    cluster.put(change("chg-42", None));
    cluster.policy(|it| {
        let check = &mut it["spec"]["checkGrantedPermission"]["spec"]["checks"][0];
        check["state"] = json!({"rego": "package approval\noutput := {\"state\": \"approved\"}"});
    });
    let outcome = cluster.run(&["explain", "build-1", "-n", "team-a"]).await;
    let told = "this machine could not run Rego";
    assert!(outcome.output.contains(told), "{}", outcome.output);
    assert_eq!(outcome.exit.code(), 3, "{outcome:?}");
    let explained = cluster.explained().await;
    assert_eq!(access(&explained)["policies"][0].get("verdict"), None);
    assert_eq!(commands(&explained), Vec::<&str>::new());
}

#[tokio::test]
async fn a_grant_says_who_approved_since_when_and_what_ends_it() {
    let cluster = Cluster::waiting();
    let request = cluster.first_request();
    cluster.grant("build-1", &request);
    let explained = cluster.explained().await;
    let access = access(&explained);
    assert_eq!(access["state"], "Granted", "{explained:#}");
    assert_eq!(
        (&access["since"], &access["seconds"]),
        (&json!(after(2)), &json!(600))
    );
    let ends: Vec<_> = access["ends"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["cause"].as_str().unwrap())
        .collect();
    assert_eq!(
        ends,
        ["MaxDuration", "ApprovalWithdrawn", "Deleted", "PodEnds"]
    );
    assert_eq!(access["ends"][0]["at"], after(242));
}

/// The services let the pod in by the request that decides for it alone.
#[tokio::test]
async fn a_granted_request_beside_the_one_that_decides_is_not_in_force() {
    let cluster = Cluster::waiting();
    let request = cluster.first_request();
    cluster.grant("build-1", &request);
    let target = format!("areq/{request}");
    let state = async || {
        let explained = cluster.json(&["explain", &target, "-n", "payments"]).await;
        explained["accesses"][0].clone()
    };
    assert_eq!(state().await["state"], "Granted");
    let mut first = cluster.server.list("accessrequests")[0].clone();
    let labels = first["metadata"]["labels"].clone();
    first["metadata"] = json!({
        "name": "first", "namespace": "payments", "creationTimestamp": after(-60), "labels": labels,
    });
    first["status"] = json!({"phase": "Rejected"});
    cluster.put(first);
    let told = state().await;
    assert_eq!(told["state"], "NotInForce", "{told:#}");
    let because = told["because"].as_str().unwrap();
    assert!(
        because.contains("another request decides for the pod"),
        "{told:#}"
    );
    assert_eq!(told["next"][0]["command"], "kubectl -n payments get areq");
}
