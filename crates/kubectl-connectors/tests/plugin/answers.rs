//! `approve` and `reject`.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use kubectl_connectors::answer::Consent;
use kubectl_connectors::run::Outcome;
use serde_json::{Value, json};
use testkit::{ApiServer, Caller, What};
use tokio::time::sleep;

use crate::cluster::{Cluster, START, change, pod, policy};

const APPROVE_POD: [&str; 4] = ["approve", "pod/build-1", "-n", "team-a"];

fn person(name: &str, groups: &[&str]) -> Caller {
    let groups = groups.iter().copied().chain(["system:authenticated"]);
    Caller {
        process: name.to_owned(),
        user: name.to_owned(),
        groups: groups.map(str::to_owned).collect(),
    }
}

/// Everything that was written, as `verb resource/subresource namespace/name by user`.
fn writes(server: &ApiServer) -> Vec<String> {
    let log = server.log();
    let calls = log.iter().filter_map(|it| match &it.what {
        What::Call(call) => Some(&call.point),
        What::Change(_) | What::Sent(_) | What::Killed(_) => None,
    });
    let is_review = |resource: &str| resource.ends_with("reviews");
    let writes = calls.filter(|it| it.verb.writes() && !is_review(&it.resource));
    writes
        .map(|it| {
            let part = it.subresource.as_ref();
            let part = part.map_or_else(String::new, |it| format!("/{it}"));
            let verb = it.verb;
            format!(
                "{verb} {}{part} {}/{} by {}",
                it.resource, it.namespace, it.name, it.user
            )
        })
        .collect()
}

impl Cluster {
    /// Everybody may read everything, and these users may do this with objects of `team-a`.
    fn with_rights(&self, subjects: &Value, rules: &Value) {
        let rbac = |kind: &str, name: &str, namespace: Option<&str>, rest: Value| {
            let mut object = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name},
            });
            if let Some(namespace) = namespace {
                object["metadata"]["namespace"] = namespace.into();
            }
            for (field, value) in rest.as_object().unwrap() {
                object[field] = value.clone();
            }
            self.put(object);
        };
        let all = json!([{"kind": "Group", "name": "system:authenticated"}]);
        let role = |kind: &str, name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
        let read = json!({"rules": [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]},
            {"apiGroups": ["authorization.k8s.io", "authentication.k8s.io"], "resources": ["*"], "verbs": ["create"]},
        ]});
        rbac("ClusterRole", "reader", None, read);
        let binding = json!({"roleRef": role("ClusterRole", "reader"), "subjects": all});
        rbac("ClusterRoleBinding", "reader", None, binding);
        rbac("Role", "answers", Some("team-a"), json!({"rules": rules}));
        let binding = json!({"roleRef": role("Role", "answers"), "subjects": subjects});
        rbac("RoleBinding", "answers", Some("team-a"), binding);
    }

    fn with_board(&self) -> Caller {
        let rules = json!([
            {"apiGroups": ["itsm.example.com"], "resources": ["changerequests/status"], "verbs": ["patch"]},
        ]);
        self.with_rights(&json!([{"kind": "Group", "name": "board"}]), &rules);
        person("carol", &["board"])
    }

    /// The user's answer to the question, and the question.
    async fn asked(&self, args: &[&str], consent: Consent) -> (Outcome, String) {
        let question = Rc::new(RefCell::new(String::new()));
        let seen = Rc::clone(&question);
        let ask = Box::new(move |text: &str| {
            text.clone_into(&mut seen.borrow_mut());
            consent
        });
        let outcome = self.run_asking(&Caller::admin(), args, ask).await;
        let question = question.borrow().clone();
        (outcome, question)
    }

    fn state_of(&self, name: &str) -> Value {
        let change = self.server.get("changerequests", "team-a", name).unwrap();
        change["status"]["state"].clone()
    }

    fn approval_now(&self) -> Value {
        self.server
            .get("approvaltasks", "team-a", "run-wait")
            .unwrap()
    }
}

#[tokio::test]
async fn an_answer_shows_what_it_opens_before_it_is_written() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("pending")));
    cluster.policy(|it| {
        it["spec"]["checkGrantedPermission"]["spec"]["limits"] = json!({"maxDuration": "4h"});
    });
    let (outcome, question) = cluster.asked(&APPROVE_POD, Consent::Declined).await;
    assert_eq!(
        question,
        "\
approve ChangeRequest team-a/chg-42
  it is pending; the answer writes status.state: approved
  opens
    pod team-a/build-1 (team-a/builder)  connector payments/prod-harbor (apis)  policy approved-changes
      every check of policy approved-changes passes
      rule: * on connectors/apis/v1/pod/team-a/build-1
      until the maxDuration of policy approved-changes in 4h (2026-03-01T14:12:00Z)
      until the ChangeRequest of check change leaves its passing state
      until the pod ends or is deleted
  policies that count ChangeRequest: payments/approved-changes (check change)
approve it? [y/N] "
    );
    assert_eq!(outcome.exit.code(), 1, "{outcome:?}");
    assert!(outcome.output.starts_with("not written"), "{outcome:?}");
    assert_eq!(writes(&cluster.server), Vec::<String>::new());
}

#[tokio::test]
async fn a_yes_writes_the_state_alone_and_once() {
    for consents in [true, false] {
        let cluster = Cluster::waiting();
        let before = cluster.put(change("chg-42", Some("pending")));
        let outcome = if consents {
            cluster.asked(&APPROVE_POD, Consent::Given).await.0
        } else {
            let args: Vec<_> = APPROVE_POD.into_iter().chain(["--yes"]).collect();
            cluster.run(&args).await
        };
        assert_eq!(outcome.exit.code(), 0, "{outcome:?}");
        let written = "written: ChangeRequest team-a/chg-42; it is approved";
        assert!(outcome.output.contains(written), "{}", outcome.output);
        assert_eq!(
            writes(&cluster.server),
            ["patch changerequests/status team-a/chg-42 by admin"]
        );
        let after = cluster
            .server
            .get("changerequests", "team-a", "chg-42")
            .unwrap();
        assert_eq!(after["status"], json!({"state": "approved"}));
        assert_eq!(after["spec"], before["spec"]);
        assert_eq!(after["metadata"]["labels"], before["metadata"]["labels"]);
    }
}

#[tokio::test]
async fn without_a_terminal_nothing_is_written_and_the_line_to_type_is_told() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("pending")));
    let outcome = cluster.run(&APPROVE_POD).await;
    assert_eq!(outcome.exit.code(), 2, "{outcome:?}");
    assert!(outcome.output.contains("opens\n"), "{}", outcome.output);
    assert_eq!(writes(&cluster.server), Vec::<String>::new());
    let (_, line) = outcome
        .errors
        .split_once("type: kubectl connectors ")
        .unwrap();
    assert_eq!(
        line.trim_end(),
        "approve changerequest/chg-42 -n team-a --yes"
    );
    let typed: Vec<_> = line.split_whitespace().collect();
    let outcome = cluster.run(&typed).await;
    assert_eq!(outcome.exit.code(), 0, "{outcome:?}");
    assert_eq!(cluster.state_of("chg-42"), "approved");
    let again = cluster.run(&typed).await;
    assert_eq!(again.exit.code(), 0, "{again:?}");
    assert!(again.output.contains("approved already"), "{again:?}");
    assert_eq!(writes(&cluster.server).len(), 1);
}

#[tokio::test]
async fn a_request_and_the_object_itself_are_targets_too() {
    for target in [
        "changerequest/chg-42",
        "ChangeRequests/chg-42",
        "changerequests.itsm.example.com/chg-42",
    ] {
        let cluster = Cluster::waiting();
        cluster.put(change("chg-42", None));
        let args = ["approve", target, "-n", "team-a", "--yes"];
        let outcome = cluster.run(&args).await;
        assert_eq!(outcome.exit.code(), 0, "{target}: {outcome:?}");
        assert_eq!(cluster.state_of("chg-42"), "approved");
    }
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", None));
    let request = format!("areq/{}", cluster.first_request());
    let outcome = cluster
        .run(&["reject", &request, "-n", "payments", "--yes"])
        .await;
    assert_eq!(outcome.exit.code(), 0, "{outcome:?}");
    assert!(outcome.output.contains("refuses for good"), "{outcome:?}");
    assert_eq!(cluster.state_of("chg-42"), "rejected");
}

#[tokio::test]
async fn of_several_approvals_the_user_names_one() {
    let cluster = Cluster::waiting();
    for name in ["chg-42", "chg-43"] {
        cluster.put(change(name, Some("pending")));
    }
    let args: Vec<_> = APPROVE_POD.into_iter().chain(["--yes"]).collect();
    let outcome = cluster.run(&args).await;
    assert_eq!(outcome.exit.code(), 2, "{outcome:?}");
    let told = "one of changerequest/chg-42, changerequest/chg-43 with --only";
    assert!(outcome.errors.contains(told), "{}", outcome.errors);
    assert_eq!(writes(&cluster.server), Vec::<String>::new());
    let one: Vec<_> = args
        .iter()
        .copied()
        .chain(["--only", "changerequest/chg-43"])
        .collect();
    let outcome = cluster.run(&one).await;
    assert_eq!(outcome.exit.code(), 0, "{outcome:?}");
    assert!(
        outcome.output.contains("without opening it"),
        "{}",
        outcome.output
    );
    assert_eq!(cluster.state_of("chg-43"), "approved");
    assert_eq!(cluster.state_of("chg-42"), "pending");
    let other: Vec<_> = args
        .iter()
        .copied()
        .chain(["--only", "changerequest/chg-44"])
        .collect();
    assert_eq!(cluster.run(&other).await.exit.code(), 2);
}

#[tokio::test]
async fn other_pods_that_wait_for_the_same_approval_are_named() {
    let cluster = Cluster::waiting();
    cluster.policy(|it| {
        let check = &mut it["spec"]["checkGrantedPermission"]["spec"]["checks"][0];
        check["selector"]["labels"] = json!({"release": "{.object.metadata.namespace}"});
    });
    cluster.put(pod("build-2"));
    cluster.request("build-2");
    let mut shared = change("chg-42", Some("pending"));
    shared["metadata"]["labels"] = json!({"release": "team-a"});
    cluster.put(shared);
    let answered = cluster
        .json(&["approve", "pod/build-1", "-n", "team-a", "--yes"])
        .await;
    let effects = answered["effects"].as_array().unwrap();
    let pods: Vec<_> = effects
        .iter()
        .map(|it| {
            (
                it["effect"].as_str().unwrap(),
                it["pod"]["name"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(pods, [("Opens", "build-1"), ("Opens", "build-2")]);
    assert_eq!(answered["kind"], "Answer");
    assert_eq!(answered["outcome"], "Written");
}

#[tokio::test]
async fn an_answer_that_opens_nothing_yet_says_what_is_missing() {
    let cluster = Cluster::waiting();
    cluster.policy(|it| {
        let checks = &mut it["spec"]["checkGrantedPermission"]["spec"]["checks"];
        let mut second = checks[0].clone();
        second["name"] = "freeze".into();
        second["selector"]["labels"] = json!({"freeze": "{.object.metadata.name}"});
        checks.as_array_mut().unwrap().push(second);
    });
    cluster.put(change("chg-42", Some("pending")));
    let (_, question) = cluster.asked(&APPROVE_POD, Consent::Declined).await;
    for told in [
        "counts for, without opening it",
        "check freeze: no ChangeRequest",
    ] {
        assert!(question.contains(told), "{told}: {question}");
    }
    assert!(!question.contains("rule:"), "{question}");
}

#[tokio::test]
async fn what_the_user_may_not_write_is_said_in_the_words_of_the_api_server() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("pending")));
    let board = cluster.with_board();
    let args: Vec<_> = APPROVE_POD.into_iter().chain(["--yes"]).collect();
    let refused = cluster.run_as(&person("mallory", &[]), &args).await;
    assert_eq!(refused.exit.code(), 1, "{refused:?}");
    let told = r#""chg-42" is forbidden: User "mallory" cannot patch"#;
    assert!(refused.errors.contains(told), "{}", refused.errors);
    assert_eq!(cluster.state_of("chg-42"), "pending");
    let written = cluster.run_as(&board, &args).await;
    assert_eq!(written.exit.code(), 0, "{written:?}");
    assert_eq!(cluster.state_of("chg-42"), "approved");
}

#[tokio::test]
async fn an_object_that_changed_after_it_was_shown_is_not_written() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("pending")));
    let server = cluster.server.clone();
    let ask = Box::new(move |_: &str| {
        server.change("changerequests", "team-a", "chg-42", |it| {
            it["spec"]["note"] = "another change".into();
        });
        Consent::Given
    });
    let outcome = cluster
        .run_asking(&Caller::admin(), &APPROVE_POD, ask)
        .await;
    assert_eq!(outcome.exit.code(), 3, "{outcome:?}");
    assert!(
        outcome.errors.contains("it changed after it was read"),
        "{outcome:?}"
    );
    assert_eq!(cluster.state_of("chg-42"), "pending");
}

#[tokio::test]
async fn objects_that_no_check_counts_by_their_state_are_never_written() {
    let cluster = Cluster::waiting();
    cluster.put(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "team-a"}, "status": {"state": "x"},
    }));
    let outcome = cluster
        .run(&["approve", "deployment/web", "-n", "team-a", "--yes"])
        .await;
    assert_eq!(outcome.exit.code(), 1, "{outcome:?}");
    assert!(
        outcome.errors.contains("no check of a policy"),
        "{outcome:?}"
    );
    cluster.put(change("chg-42", Some("pending")));
    cluster.policy(|it| {
        let check = &mut it["spec"]["checkGrantedPermission"]["spec"]["checks"][0];
        check["state"] = json!({"rego": "package approval\noutput := {\"state\": \"pending\"}"});
    });
    for target in ["changerequest/chg-42", "pod/build-1"] {
        let outcome = cluster
            .run(&["approve", target, "-n", "team-a", "--yes"])
            .await;
        assert_eq!(outcome.exit.code(), 1, "{target}: {outcome:?}");
    }
    assert_eq!(writes(&cluster.server), Vec::<String>::new());
}

/// A rejection of an approval withdraws it.
#[tokio::test]
async fn a_rejection_names_the_access_that_it_takes_back() {
    let cluster = Cluster::waiting();
    let request = cluster.first_request();
    let approved = cluster.put(change("chg-42", Some("approved")));
    cluster.grant("build-1", &request);
    cluster
        .server
        .change("accessrequests", "payments", &request, |it| {
            let reference = &mut it["status"]["policies"][0]["checkRefs"][0]["ref"];
            reference["uid"] = approved["metadata"]["uid"].clone();
        });
    let args = ["reject", "changerequest/chg-42", "-n", "team-a"];
    let (outcome, question) = cluster.asked(&args, Consent::Given).await;
    for told in [
        "takes back\n",
        "pod team-a/build-1",
        "the grant of policy approved-changes rests on it",
    ] {
        assert!(question.contains(told), "{told}: {question}");
    }
    assert_eq!(outcome.exit.code(), 0, "{outcome:?}");
    assert_eq!(cluster.state_of("chg-42"), "rejected");
    let told = format!("request payments/{request}: Granted");
    assert!(outcome.output.contains(&told), "{}", outcome.output);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_the_phase_of_the_request_or_its_time() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("pending")));
    let request = cluster.first_request();
    let args: Vec<_> = APPROVE_POD
        .into_iter()
        .chain(["--yes", "--wait=5"])
        .collect();
    let controller = async {
        sleep(Duration::from_secs(2)).await;
        cluster.say(
            &request,
            "Granted",
            "Granted",
            "granted by policy approved-changes",
        );
    };
    let (outcome, ()) = tokio::join!(cluster.run(&args), controller);
    assert_eq!(outcome.exit.code(), 0, "{outcome:?}");
    let told = format!("request payments/{request}: not looked at yet → Granted");
    assert!(outcome.output.contains(&told), "{}", outcome.output);

    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("pending")));
    let outcome = cluster.run(&args).await;
    assert_eq!(outcome.exit.code(), 1, "{outcome:?}");
    assert!(
        outcome.errors.contains("did not change in time"),
        "{outcome:?}"
    );
    assert_eq!(cluster.state_of("chg-42"), "approved");
}

#[tokio::test]
async fn an_approver_of_a_run_answers_in_its_own_entry() {
    let cluster = Cluster::with_run();
    let rules = json!([
        {"apiGroups": ["openshift-pipelines.org"], "resources": ["approvaltasks"], "verbs": ["patch"]},
    ]);
    cluster.with_rights(&json!([{"kind": "User", "name": "alice"}]), &rules);
    let args = [
        "approve",
        "pod/run-deploy-pod",
        "-n",
        "team-a",
        "-m",
        "looks good",
        "--yes",
    ];
    let stranger = cluster.run_as(&person("mallory", &["dev"]), &args).await;
    assert_eq!(stranger.exit.code(), 1, "{stranger:?}");
    assert!(
        stranger
            .errors
            .contains("its approvers are alice, group qa"),
        "{stranger:?}"
    );
    assert_eq!(writes(&cluster.server), Vec::<String>::new());
    let alice = cluster.run_as(&person("alice", &[]), &args).await;
    assert_eq!(alice.exit.code(), 0, "{alice:?}");
    assert!(alice.output.contains("opens\n"), "{}", alice.output);
    assert_eq!(
        writes(&cluster.server),
        ["patch approvaltasks team-a/run-wait by alice"]
    );
    assert_eq!(
        cluster.approval_now()["spec"]["approvers"],
        json!([
            {"name": "alice", "type": "User", "input": "approve", "message": "looks good"},
            {"name": "qa", "type": "Group", "input": "pending"},
        ])
    );
    // The gate alone writes the state.
    assert_eq!(cluster.approval_now()["status"]["state"], "pending");
}

#[tokio::test]
async fn a_member_of_a_group_answers_for_it() {
    let cluster = Cluster::with_run();
    let bob = Caller {
        groups: vec!["qa".to_owned(), "system:masters".to_owned()],
        ..person("bob", &[])
    };
    let args = ["reject", "approvaltask/run-wait", "-n", "team-a", "--yes"];
    let outcome = cluster.run_as(&bob, &args).await;
    assert_eq!(outcome.exit.code(), 0, "{outcome:?}");
    assert!(
        outcome.output.contains("reject by bob for group qa"),
        "{}",
        outcome.output
    );
    assert_eq!(
        cluster.approval_now()["spec"]["approvers"][1],
        json!({"name": "qa", "type": "Group", "input": "reject", "users": [{"name": "bob", "input": "reject"}]})
    );
}

#[tokio::test]
async fn what_could_not_be_read_is_named_beside_the_answer() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("pending")));
    let rbac = "rbac.authorization.k8s.io/v1";
    for (namespace, rules) in [
        (
            "team-a",
            json!([
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
                {"apiGroups": ["itsm.example.com"], "resources": ["changerequests", "changerequests/status"],
                    "verbs": ["get", "list", "patch"]},
            ]),
        ),
        (
            "payments",
            json!([
                {"apiGroups": ["connectors.alauda.io"], "resources": ["*"], "verbs": ["get", "list"]},
            ]),
        ),
    ] {
        cluster.put(json!({
            "apiVersion": rbac, "kind": "Role", "metadata": {"name": "dave", "namespace": namespace}, "rules": rules,
        }));
        cluster.put(json!({
            "apiVersion": rbac, "kind": "RoleBinding", "metadata": {"name": "dave", "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "dave"},
            "subjects": [{"kind": "User", "name": "dave"}],
        }));
    }
    let args: Vec<_> = APPROVE_POD.into_iter().chain(["--yes"]).collect();
    let outcome = cluster.run_as(&person("dave", &[]), &args).await;
    assert_eq!(outcome.exit.code(), 0, "{outcome:?}");
    for told in [
        "you may not list accessrequests.connectors.alauda.io; ask",
        "you may not list accesspolicies.connectors.alauda.io; ask",
    ] {
        assert!(outcome.errors.contains(told), "{told}: {}", outcome.errors);
    }
    assert!(
        outcome.output.contains("pod team-a/build-1"),
        "{}",
        outcome.output
    );
    assert_eq!(cluster.state_of("chg-42"), "approved");
}

#[tokio::test]
async fn no_secret_and_no_control_character_is_shown() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("wait\u{1b}[2J")));
    for form in ["table", "json", "yaml"] {
        let args: Vec<_> = APPROVE_POD.into_iter().chain(["-o", form]).collect();
        let (outcome, question) = cluster.asked(&args, Consent::Declined).await;
        for text in [&outcome.output, &outcome.errors, &question] {
            assert!(
                !text.contains('\u{1b}') && !text.contains("hunter2"),
                "{text:?}"
            );
        }
    }
}

#[tokio::test]
async fn an_answer_makes_a_bounded_number_of_calls() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("pending")));
    for number in 0..64 {
        let name = format!("other-{number}");
        cluster.put(pod(&name));
        cluster.request(&name);
    }
    let before = cluster.calls();
    let args: Vec<_> = APPROVE_POD.into_iter().chain(["--yes"]).collect();
    let outcome = cluster.run(&args).await;
    assert_eq!(outcome.exit.code(), 0, "{outcome:?}");
    assert!(
        outcome.output.contains("49 or more requests"),
        "{}",
        outcome.output
    );
    assert!(
        cluster.calls() - before <= 300,
        "{}",
        cluster.calls() - before
    );
}

/// The pod of the target is looked at though more requests wait than are looked at.
#[tokio::test]
async fn the_pod_that_is_named_is_looked_at_first() {
    let cluster = Cluster::new();
    cluster.put(policy("approved-changes", "payments"));
    for number in 0..20 {
        let name = format!("other-{number}");
        cluster.put(pod(&name));
        cluster.request(&name);
    }
    let mut last = pod("zz-last");
    last["metadata"]["creationTimestamp"] = START.into();
    cluster.put(last);
    cluster.request("zz-last");
    let mut wanted = change("chg-42", Some("pending"));
    wanted["metadata"]["labels"] = json!({"pod": "zz-last"});
    cluster.put(wanted);
    let (_, question) = cluster
        .asked(
            &["approve", "pod/zz-last", "-n", "team-a"],
            Consent::Declined,
        )
        .await;
    assert!(question.contains("opens\n"), "{question}");
}
