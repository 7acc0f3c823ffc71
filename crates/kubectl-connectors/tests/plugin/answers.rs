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

/// A script names the approval.
fn by_script() -> Vec<&'static str> {
    let named = ["--only", "changerequest/chg-42", "--yes"];
    APPROVE_POD.into_iter().chain(named).collect()
}

pub(crate) fn person(name: &str, groups: &[&str]) -> Caller {
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
    /// A policy whose check finds one object for every pod of the namespace, and two pods that wait.
    pub(crate) fn with_shared_approval() -> Self {
        let cluster = Self::waiting();
        cluster.policy(|it| {
            let check = &mut it["spec"]["checkGrantedPermission"]["spec"]["checks"][0];
            check["selector"]["labels"] = json!({"release": "{.object.metadata.namespace}"});
        });
        cluster.put(pod("build-2"));
        cluster.request("build-2");
        let mut shared = change("chg-42", Some("pending"));
        shared["metadata"]["labels"] = json!({"release": "team-a"});
        cluster.put(shared);
        cluster
    }

    /// A pod whose grant rests on an approved object, changed like this. Returns its request too.
    pub(crate) fn granted_on_approval(change_policy: impl FnOnce(&mut Value)) -> (Self, String) {
        let cluster = Self::waiting();
        let request = cluster.first_request();
        let approved = cluster.put(change("chg-42", Some("approved")));
        cluster.grant("build-1", &request);
        let requests = "accessrequests";
        cluster.server.change(requests, "payments", &request, |it| {
            let policy = &mut it["status"]["policies"][0];
            policy["checkRefs"][0]["ref"]["uid"] = approved["metadata"]["uid"].clone();
            change_policy(policy);
        });
        (cluster, request)
    }

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

    /// This user may do this in a namespace; in all if it is empty.
    fn with_reader_of(&self, namespace: &str, user: &str, rules: &Value) {
        let (role, binding) = if namespace.is_empty() {
            ("ClusterRole", "ClusterRoleBinding")
        } else {
            ("Role", "RoleBinding")
        };
        let metadata = |it: &str| json!({"name": format!("{user}-{it}"), "namespace": namespace});
        let api = "rbac.authorization.k8s.io/v1";
        let mut objects = [
            json!({"apiVersion": api, "kind": role, "metadata": metadata("reads"), "rules": rules}),
            json!({
                "apiVersion": api, "kind": binding, "metadata": metadata("reads"),
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": format!("{user}-reads")},
                "subjects": [{"kind": "User", "name": user}],
            }),
        ];
        for object in &mut objects {
            if namespace.is_empty() {
                object["metadata"]
                    .as_object_mut()
                    .unwrap()
                    .remove("namespace");
            }
            self.put(object.clone());
        }
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
        self.asked_as(&Caller::admin(), args, consent).await
    }

    async fn asked_as(
        &self,
        caller: &Caller,
        args: &[&str],
        consent: Consent,
    ) -> (Outcome, String) {
        let question = Rc::new(RefCell::new(String::new()));
        let seen = Rc::clone(&question);
        let ask = Box::new(move |text: &str| {
            text.clone_into(&mut seen.borrow_mut());
            consent
        });
        let outcome = self.run_asking(caller, args, ask).await;
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
approve ChangeRequest.itsm.example.com team-a/chg-42
  it is pending; the answer writes status.state: approved
  opens
    pod team-a/build-1 (team-a/builder)  connector payments/prod-harbor (apis)  policy approved-changes
      every check of policy approved-changes passes
      rule: * on connectors/apis/v1/pod/team-a/build-1
      until the maxDuration of policy approved-changes in 4h (2026-03-01T14:12:00Z)
      until the ChangeRequest of check change leaves its passing state
      until the pod ends or is deleted
  policies that count ChangeRequest: payments/approved-changes (check change)
  while it is approved, it counts for every later pod for which these checks find it
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
            let args: Vec<_> = by_script();
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
        "approve changerequest.itsm.example.com/chg-42 -n team-a --system-namespace connectors-system --yes"
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
        .run(&[
            "reject",
            &request,
            "-n",
            "payments",
            "--only",
            "changerequest/chg-42",
            "--yes",
        ])
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
    let args: Vec<_> = APPROVE_POD.into_iter().chain(["-o", "table"]).collect();
    let outcome = cluster.run(&args).await;
    assert_eq!(outcome.exit.code(), 2, "{outcome:?}");
    let told = "one of changerequest.itsm.example.com/chg-42, changerequest.itsm.example.com/chg-43 with --only";
    assert!(outcome.errors.contains(told), "{}", outcome.errors);
    assert_eq!(writes(&cluster.server), Vec::<String>::new());
    let one: Vec<_> = args
        .iter()
        .copied()
        .chain(["--only", "changerequest/chg-43", "--yes"])
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
    let cluster = Cluster::with_shared_approval();
    let answered = cluster
        .json(&["approve", "changerequest/chg-42", "-n", "team-a", "--yes"])
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
    let args: Vec<_> = by_script();
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
    let mut of_no_pod = change("chg-77", Some("pending"));
    of_no_pod["metadata"]["labels"] = json!({});
    cluster.put(of_no_pod);
    cluster.policy(|it| {
        let check = &mut it["spec"]["checkGrantedPermission"]["spec"]["checks"][0];
        check["state"] = json!({"rego": "package approval\noutput := {\"state\": \"pending\"}"});
    });
    for change in ["chg-42", "chg-77"] {
        let target = format!("changerequest/{change}");
        let args = ["approve", &target, "-n", "team-a", "--yes"];
        let outcome = cluster.run(&args).await;
        assert_eq!(outcome.exit.code(), 1, "{outcome:?}");
        let told = format!("a Rego module decides by the fields of ChangeRequest team-a/{change}");
        assert!(outcome.errors.contains(&told), "{outcome:?}");
    }
    let (outcome, _) = cluster
        .asked(&["approve", "pod/build-1", "-n", "team-a"], Consent::Given)
        .await;
    assert_eq!(outcome.exit.code(), 1, "{outcome:?}");
    assert_eq!(writes(&cluster.server), Vec::<String>::new());
}

/// A rejection of an approval withdraws it.
#[tokio::test]
async fn a_rejection_names_the_access_that_it_takes_back() {
    let (cluster, request) = Cluster::granted_on_approval(|_| ());
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

/// It would be written although only a module looks at it, because another policy counts the kind by its state.
#[tokio::test]
async fn an_object_on_which_a_grant_by_a_module_rests_is_not_rejected() {
    let (cluster, _) = Cluster::granted_on_approval(|policy| {
        let check = "/policy/spec/checkGrantedPermission/spec/checks/0";
        policy.pointer_mut(check).unwrap()["state"] = json!({"rego": "package approval"});
    });
    let mut another = policy("another", "payments");
    another["spec"]["checkGrantedPermission"]["spec"]["checks"][0]["selector"]["labels"] =
        json!({"pod": "another"});
    cluster.put(another);
    let args = ["reject", "changerequest/chg-42", "-n", "team-a"];
    let (outcome, _) = cluster.asked(&args, Consent::Given).await;
    assert_eq!(outcome.exit.code(), 1, "{outcome:?}");
    assert!(outcome.errors.contains("chg-42"), "{outcome:?}");
    assert_eq!(cluster.state_of("chg-42"), "approved");
}

/// The line of a script that waits.
fn waiting_script() -> Vec<&'static str> {
    let mut args = by_script();
    args.push("--wait=5");
    args
}

/// Approves in a script that waits, while the request comes to this phase after a moment; gives the request too.
async fn approved_with(phase: &str, reason: &str, message: &str) -> (Outcome, String) {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("pending")));
    let request = cluster.first_request();
    let args = waiting_script();
    let controller = async {
        sleep(Duration::from_secs(2)).await;
        cluster.say(&request, phase, reason, message);
    };
    let (outcome, ()) = tokio::join!(cluster.run(&args), controller);
    (outcome, request)
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_the_phase_of_the_request_or_its_time() {
    let (outcome, request) =
        approved_with("Granted", "Granted", "granted by policy approved-changes").await;
    assert_eq!(outcome.exit.code(), 0, "{outcome:?}");
    let told = format!("request payments/{request}: not looked at yet → Granted");
    assert!(outcome.output.contains(&told), "{}", outcome.output);

    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("pending")));
    let outcome = cluster.run(&waiting_script()).await;
    assert_eq!(outcome.exit.code(), 1, "{outcome:?}");
    assert!(
        outcome.errors.contains("was not decided in time"),
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
        "--only",
        "approvaltask/run-wait",
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
    let written =
        "written: ApprovalTask team-a/run-wait; it is pending until enough approvers have answered";
    for told in ["opens\n", written] {
        assert!(alice.output.contains(told), "{}", alice.output);
    }
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
    let args: Vec<_> = by_script();
    let outcome = cluster.run_as(&person("dave", &[]), &args).await;
    assert_eq!(outcome.exit.code(), 3, "{outcome:?}");
    for told in [
        "you may not list accessrequests.connectors.alauda.io; ask",
        "you may not list accesspolicies.connectors.alauda.io; ask",
    ] {
        assert!(outcome.errors.contains(told), "{told}: {}", outcome.errors);
        assert!(outcome.output.contains(told), "{told}: {}", outcome.output);
    }
    assert!(
        outcome.errors.contains("--yes writes only if"),
        "{outcome:?}"
    );
    assert_eq!(writes(&cluster.server), Vec::<String>::new());
    let dave = person("dave", &[]);
    let (outcome, question) = cluster.asked_as(&dave, &APPROVE_POD, Consent::Given).await;
    for told in [
        "pod team-a/build-1",
        "not everything could be read",
        "you may not list",
        // The connector's namespace is known by the pod.
        "policies that count ChangeRequest: payments/approved-changes (check change)",
    ] {
        assert!(question.contains(told), "{told}: {question}");
    }
    assert_eq!(outcome.exit.code(), 0, "{outcome:?}");
    assert_eq!(cluster.state_of("chg-42"), "approved");
}

/// Without a read of policies, "it opens nothing" would be a guess.
#[tokio::test]
async fn an_unread_namespace_is_never_told_as_nothing_opened() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("pending")));
    cluster.put(policy("of-team-a", "team-a"));
    cluster.with_reader_of(
        "team-a",
        "dave",
        &json!([
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "patch"]},
        ]),
    );
    let args = ["approve", "changerequest/chg-42", "-n", "team-a"];
    let dave = person("dave", &[]);
    let (_, question) = cluster.asked_as(&dave, &args, Consent::Declined).await;
    assert!(!question.contains("opens and ends nothing"), "{question}");
    assert!(question.contains("it may open or end more"), "{question}");
}

/// `resourceNames` allow `get` and `patch` of one object, and no list.
#[tokio::test]
async fn an_approver_without_the_right_to_list_sees_what_the_object_opens() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("pending")));
    cluster.with_reader_of("", "dave", &json!([
        {"apiGroups": ["connectors.alauda.io", ""], "resources": ["*"], "verbs": ["get", "list"]},
    ]));
    cluster.with_reader_of("team-a", "dave", &json!([
        {"apiGroups": ["itsm.example.com"], "resources": ["changerequests", "changerequests/status"],
            "resourceNames": ["chg-42"], "verbs": ["get", "patch"]},
    ]));
    let args = ["approve", "changerequest/chg-42", "-n", "team-a"];
    let dave = person("dave", &[]);
    // Objects that cannot be listed may be pending, and every object has to pass.
    let (_, question) = cluster.asked_as(&dave, &args, Consent::Declined).await;
    assert!(
        question.contains("may open or refuse, which is not known\n"),
        "{question}"
    );
    cluster.policy(|it| {
        it["spec"]["checkGrantedPermission"]["spec"]["checks"][0]["match"] = "Any".into();
    });
    let (_, question) = cluster.asked_as(&dave, &args, Consent::Declined).await;
    assert!(
        question.contains("  opens\n    pod team-a/build-1"),
        "{question}"
    );
    assert!(!question.contains("not known"), "{question}");
    // Another check of the policy may pass or not.
    cluster.policy(|it| {
        let checks = &mut it["spec"]["checkGrantedPermission"]["spec"]["checks"];
        let mut second = checks[0].clone();
        second["name"] = "freeze".into();
        second["selector"]["labels"] = json!({"freeze": "{.object.metadata.name}"});
        checks.as_array_mut().unwrap().push(second);
    });
    let (_, question) = cluster.asked_as(&dave, &args, Consent::Declined).await;
    assert!(
        question.contains("may open or refuse, which is not known\n"),
        "{question}"
    );
    let args: Vec<_> = args.into_iter().chain(["--yes"]).collect();
    let outcome = cluster.run_as(&dave, &args).await;
    assert_eq!(outcome.exit.code(), 3, "{outcome:?}");
    assert_eq!(writes(&cluster.server), Vec::<String>::new());
}

/// What the approver may read says nothing of the controller, which judges.
#[tokio::test]
async fn an_approval_of_a_kind_that_the_request_controller_may_not_read_opens_nothing() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("pending")));
    let args = ["approve", "changerequest/chg-42", "-n", "team-a"];
    let admin = Caller::admin();
    let asked = || cluster.asked_as(&admin, &args, Consent::Declined);
    let (_, question) = asked().await;
    assert!(question.contains("  opens\n"), "{question}");
    cluster
        .server
        .change("clusterroles", "", "check-reader", |it| {
            it["rules"] = json!([]);
        });
    let (_, question) = asked().await;
    let told = "changerequests may not be read; add the kind to the chart's checks.kinds";
    assert!(!question.contains("  opens\n"), "{question}");
    assert!(
        question.contains("counts for, without opening it\n    pod team-a/build-1"),
        "{question}"
    );
    assert!(question.contains(told), "{question}");
    // A pod waits for nothing that an answer changes.
    let outcome = cluster.run(&APPROVE_POD).await;
    assert_eq!(outcome.exit.code(), 1, "{outcome:?}");
    assert!(outcome.errors.contains(told), "{outcome:?}");
}

/// Between the preview and the yes, tenants and authors of policies go on.
#[tokio::test]
async fn an_answer_whose_effects_changed_after_they_were_shown_is_not_written() {
    type Plant = fn(&ApiServer);
    let plants: [(&str, Plant); 4] = [
        ("rules", |server| {
            server.change("accesspolicies", "payments", "approved-changes", |it| {
                let spec = &mut it["spec"]["checkGrantedPermission"]["spec"];
                spec["permissions"]["roleTemplate"]["rules"][0]["resources"] = json!([
                    "connectors/apis/v1/pod/{.object.metadata.namespace}/{.object.metadata.name}",
                    "connectors/proxy"
                ]);
            });
        }),
        ("time", |server| {
            server.change("accesspolicies", "payments", "approved-changes", |it| {
                it["spec"]["checkGrantedPermission"]["spec"]["limits"] =
                    json!({"maxDuration": "400h"});
            });
        }),
        ("policy", |server| {
            let mut more = policy("one-more", "payments");
            let check = &mut more["spec"]["checkGrantedPermission"]["spec"]["checks"][0];
            check["selector"]["labels"] = json!({"release": "{.object.metadata.namespace}"});
            server.create(more);
        }),
        ("pod", |server| {
            server.change("pods", "team-a", "build-1", |it| {
                it["metadata"]["labels"]["change"] = "43".into();
            });
            server.create(pod("build-2"));
        }),
    ];
    for (what, plant) in plants {
        let cluster = Cluster::waiting();
        cluster.policy(|it| {
            let check = &mut it["spec"]["checkGrantedPermission"]["spec"]["checks"][0];
            check["selector"]["labels"] = json!({"release": "{.object.metadata.namespace}"});
        });
        let mut shared = change("chg-42", Some("pending"));
        shared["metadata"]["labels"] = json!({"release": "team-a"});
        cluster.put(shared);
        if what == "pod" {
            // The request comes before its pod can be read.
            cluster.request("build-2");
        }
        let server = cluster.server.clone();
        let ask = Box::new(move |_: &str| {
            plant(&server);
            Consent::Given
        });
        let outcome = cluster
            .run_asking(&Caller::admin(), &APPROVE_POD, ask)
            .await;
        assert_eq!(outcome.exit.code(), 3, "{what}: {outcome:?}");
        let told = "changed after it was shown";
        assert!(outcome.errors.contains(told), "{what}: {outcome:?}");
        assert_eq!(cluster.state_of("chg-42"), "pending", "{what}");
    }
}

/// An editor of the connector's namespace can remove the labels of a request.
#[tokio::test]
async fn a_request_without_its_labels_is_shown_too() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("pending")));
    let request = cluster.first_request();
    cluster
        .server
        .change("accessrequests", "payments", &request, |it| {
            it["metadata"]["labels"] = json!({});
        });
    let args = ["approve", "changerequest/chg-42", "-n", "team-a"];
    let (_, question) = cluster.asked(&args, Consent::Declined).await;
    assert!(
        question.contains("  opens\n    pod team-a/build-1"),
        "{question}"
    );
}

/// A tenant can make any number of older requests.
#[tokio::test]
async fn a_request_that_records_the_approval_is_looked_at_before_others() {
    let cluster = Cluster::new();
    cluster.put(policy("approved-changes", "payments"));
    for number in 0..80 {
        let name = format!("other-{number}");
        cluster.put(pod(&name));
        cluster.request(&name);
    }
    let requests = cluster.server.list("accessrequests");
    let last = requests
        .iter()
        .max_by_key(|it| it["metadata"]["name"].to_string());
    let last = last.unwrap();
    let mut wanted = change("chg-42", Some("pending"));
    wanted["metadata"]["labels"] = json!({"pod": last["spec"]["context"]["objectRef"]["name"]});
    let wanted = cluster.put(wanted);
    let name = last["metadata"]["name"].as_str().unwrap();
    let args = ["approve", "changerequest/chg-42", "-n", "team-a"];
    let (_, question) = cluster.asked(&args, Consent::Declined).await;
    assert!(!question.contains("opens\n"), "{question}");
    cluster.server.change("accessrequests", "payments", name, |it| {
        it["status"]["policies"] = json!([{
            "policy": policy("approved-changes", "payments"),
            "checkRefs": [{"name": "change", "ref": {"apiVersion": "itsm.example.com/v1", "kind": "ChangeRequest",
                "namespace": "team-a", "name": "chg-42", "uid": wanted["metadata"]["uid"]}}],
        }]);
    });
    let (_, question) = cluster.asked(&args, Consent::Declined).await;
    assert!(question.contains("opens\n"), "{question}");
    assert!(
        question.contains("it may open or end more: 16 or more"),
        "{question}"
    );
}

#[tokio::test]
async fn every_policy_that_an_answer_opens_is_shown_with_its_rules() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("pending")));
    let mut wide = policy("wide", "payments");
    let spec = &mut wide["spec"]["checkGrantedPermission"]["spec"];
    spec["limits"] = json!({"maxDuration": "400h"});
    spec["permissions"]["roleTemplate"]["rules"] = json!([{
        "apiGroups": ["connectors.alauda.io"], "verbs": ["get"], "resources": ["connectors/apis/v1/pod/{.object.metadata.namespace}/{.object.metadata.name}"],
    }]);
    cluster.put(wide);
    let (_, question) = cluster.asked(&APPROVE_POD, Consent::Declined).await;
    for told in [
        "policy approved-changes, wide\n",
        "every check of policy approved-changes passes\n      rule: * on connectors/apis/v1/pod/team-a/build-1\n",
        "every check of policy wide passes\n      its rules allow no mount",
        "rule: get on connectors/apis/v1/pod/team-a/build-1\n      until the maxDuration of policy wide",
    ] {
        assert!(question.contains(told), "{told}: {question}");
    }
}

/// The request-controller goes on to grant a granted request by other policies.
#[tokio::test]
async fn a_pod_that_has_access_gets_more_by_another_policy() {
    let cluster = Cluster::waiting();
    let request = cluster.first_request();
    cluster.put(change("chg-42", Some("approved")));
    cluster.grant("build-1", &request);
    let mut wide = policy("wide", "payments");
    let check = &mut wide["spec"]["checkGrantedPermission"]["spec"]["checks"][0];
    check["selector"]["labels"] = json!({"of": "{.object.metadata.name}"});
    cluster.put(wide);
    let mut second = change("chg-43", Some("pending"));
    second["metadata"]["labels"] = json!({"of": "build-1"});
    cluster.put(second);
    let args = ["approve", "changerequest/chg-43", "-n", "team-a"];
    let (_, question) = cluster.asked(&args, Consent::Declined).await;
    let told = "adds to the access of\n    pod team-a/build-1";
    assert!(question.contains(told), "{question}");
    assert!(
        question.contains("every check of policy wide passes"),
        "{question}"
    );
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
    for number in 0..80 {
        let name = format!("other-{number}");
        cluster.put(pod(&name));
        cluster.request(&name);
    }
    let before = cluster.calls();
    let args: Vec<_> = by_script();
    let outcome = cluster.run(&args).await;
    // A script is not told to pass over requests that were not looked at.
    assert_eq!(outcome.exit.code(), 3, "{outcome:?}");
    assert_eq!(cluster.state_of("chg-42"), "pending");
    assert!(
        outcome.output.contains("17 or more requests"),
        "{}",
        outcome.output
    );
    assert!(
        cluster.calls() - before <= 5 * 64 + 20,
        "{}",
        cluster.calls() - before
    );
}

/// The pod of the target is looked at though more requests wait than are looked at.
#[tokio::test]
async fn the_pod_that_is_named_is_looked_at_first() {
    let cluster = Cluster::new();
    cluster.put(policy("approved-changes", "payments"));
    for number in 0..70 {
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

/// The labels of a pod select its approval, and its tenant can change them.
#[tokio::test]
async fn a_script_names_the_approval_and_not_the_pod_that_waits() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("pending")));
    let request = format!("areq/{}", cluster.first_request());
    for (target, namespace) in [("pod/build-1", "team-a"), (request.as_str(), "payments")] {
        let outcome = cluster
            .run(&["approve", target, "-n", namespace, "--yes"])
            .await;
        assert_eq!(outcome.exit.code(), 2, "{outcome:?}");
        assert!(
            outcome.errors.contains("add --only KIND/NAME"),
            "{outcome:?}"
        );
    }
    assert_eq!(writes(&cluster.server), Vec::<String>::new());
}

/// The line would otherwise be about another cluster or another user.
#[tokio::test]
async fn the_line_to_type_repeats_the_cluster_and_the_user() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("pending")));
    let flags = [
        "--kubeconfig",
        "/a b",
        "--context",
        "prod",
        "--cluster",
        "c",
        "--user",
        "u",
        "--as",
        "bob",
        "--as-group",
        "qa",
        "--wait=7",
    ];
    let args: Vec<_> = APPROVE_POD.into_iter().chain(flags).collect();
    let outcome = cluster.run(&args).await;
    let told =
        "-n team-a --kubeconfig '/a b' --context prod --cluster c --user u --as bob --as-group qa";
    assert!(outcome.errors.contains(told), "{outcome:?}");
    assert!(outcome.errors.contains(" --wait=7 --yes"), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_in_another_phase_is_no_success() {
    let (outcome, _) = approved_with("Rejected", "CheckRejected", "another check says no").await;
    assert_eq!(outcome.exit.code(), 1, "{outcome:?}");
    assert!(
        outcome.errors.contains("is Rejected, and not Granted"),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn a_wait_for_nothing_is_no_success() {
    let cluster = Cluster::new();
    cluster.put(policy("approved-changes", "payments"));
    cluster.put(change("chg-42", Some("pending")));
    let args = [
        "approve",
        "changerequest/chg-42",
        "-n",
        "team-a",
        "--yes",
        "--wait=5",
    ];
    for told in ["there is no request to wait for", "no request to wait for"] {
        let outcome = cluster.run(&args).await;
        assert_eq!(outcome.exit.code(), 1, "{outcome:?}");
        assert!(outcome.errors.contains(told), "{outcome:?}");
    }
    assert_eq!(cluster.state_of("chg-42"), "approved");
    // A program gets a document of an answer that is there.
    let document = cluster.json(&args[..5]).await;
    assert_eq!(document["outcome"], "Already");
}

/// Authors of policies could otherwise make a word useless for all.
#[tokio::test]
async fn kinds_and_versions_that_there_are_not_break_no_lookup() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("pending")));
    let bogus = |name: &str, api_version: &str, kind: &str| {
        let mut bogus = policy(name, "payments");
        let check = &mut bogus["spec"]["checkGrantedPermission"]["spec"]["checks"][0];
        check["selector"]["objectRef"] = json!({"apiVersion": api_version, "kind": kind});
        bogus
    };
    cluster.put(bogus("version", "itsm.example.com/v9", "ChangeRequest"));
    cluster.put(bogus("group", "other.example.com/v1", "ChangeRequest"));
    for number in 0..80 {
        let kind = format!("Aaa{number}");
        cluster.put(bogus(
            &format!("bogus-{number}"),
            "other.example.com/v1",
            &kind,
        ));
    }
    for word in [
        "changerequest",
        "changerequests",
        "changerequest.itsm.example.com",
    ] {
        let target = format!("{word}/chg-42");
        let args = ["approve", target.as_str(), "-n", "team-a"];
        let (_, question) = cluster.asked(&args, Consent::Declined).await;
        assert!(question.contains("opens\n"), "{word}: {question}");
    }
}

/// A policy elsewhere that reads states of the kind says nothing about an object that only a module looks at.
#[tokio::test]
async fn an_object_that_only_modules_look_at_is_not_written_for_another_policy() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("pending")));
    let mut of_no_pod = change("chg-77", Some("pending"));
    of_no_pod["metadata"]["labels"] = json!({});
    cluster.put(of_no_pod);
    cluster.policy(|it| {
        let check = &mut it["spec"]["checkGrantedPermission"]["spec"]["checks"][0];
        check["state"] = json!({"rego": "package approval\noutput := {\"state\": \"pending\"}"});
    });
    cluster.put(policy("of-team-a", "team-a"));
    let args = ["approve", "changerequest/chg-42", "-n", "team-a", "--yes"];
    let outcome = cluster.run(&args).await;
    assert_eq!(outcome.exit.code(), 1, "{outcome:?}");
    assert!(
        outcome.errors.contains("a Rego module decides"),
        "{outcome:?}"
    );
    assert_eq!(writes(&cluster.server), Vec::<String>::new());
}

#[tokio::test]
async fn a_state_of_a_tenant_is_quoted_and_bounded() {
    for (state, told) in [
        (
            "approved; it opens nothing".to_owned(),
            "it is \"approved; it opens nothing\"",
        ),
        ("x".repeat(5_000), "longer than 63 bytes"),
    ] {
        let cluster = Cluster::waiting();
        cluster.put(change("chg-42", Some(&state)));
        let (_, question) = cluster.asked(&APPROVE_POD, Consent::Declined).await;
        assert!(question.contains(told), "{question}");
        assert!(question.len() < 3_000, "{}", question.len());
    }
}

#[tokio::test]
async fn an_answer_to_an_approval_task_says_what_becomes_of_its_run() {
    let cluster = Cluster::with_run();
    for (verb, told) in [
        ("approve", "its pipeline run goes on"),
        ("reject", "its pipeline run fails"),
    ] {
        let args = [verb, "approvaltask/run-wait", "-n", "team-a"];
        let alice = Caller {
            groups: vec!["system:masters".to_owned()],
            ..person("alice", &[])
        };
        let (_, question) = cluster.asked_as(&alice, &args, Consent::Declined).await;
        assert!(question.contains(told), "{question}");
    }
}

const APPROVE_CHANGE: [&str; 4] = ["approve", "changerequest/chg-42", "-n", "team-a"];

/// The request-controller grants none of these, whatever their checks say.
#[tokio::test]
async fn an_approval_opens_nothing_for_another_connector_or_after_the_time_to_wait() {
    type Plant = fn(&Cluster);
    let plants: [(Plant, &str); 2] = [
        (
            |cluster| {
                let request = cluster.first_request();
                cluster
                    .server
                    .change("accessrequests", "payments", &request, |it| {
                        it["status"]["connectorUid"] = "uid-of-before".into();
                    });
            },
            "connector payments/prod-harbor is another one than when the request was made",
        ),
        (
            |cluster| {
                cluster.policy(|it| {
                    it["spec"]["checkGrantedPermission"]["spec"]["limits"] =
                        json!({"pendingTimeout": "10m"});
                });
            },
            "policy approved-changes waits no longer than its pendingTimeout, which is over",
        ),
    ];
    for (plant, told) in plants {
        let cluster = Cluster::waiting();
        cluster.put(change("chg-42", Some("pending")));
        plant(&cluster);
        for args in [APPROVE_CHANGE, APPROVE_POD] {
            let (_, question) = cluster.asked(&args, Consent::Declined).await;
            assert!(!question.contains("  opens\n"), "{question}");
            let waits = "counts for, without opening it\n    pod team-a/build-1";
            assert!(question.contains(waits), "{question}");
            assert!(question.contains(told), "{question}");
        }
        // A script that waits is not told that the pod was let in.
        let wait = APPROVE_CHANGE.into_iter().chain(["--yes", "--wait=5"]);
        let outcome = cluster.run(&wait.collect::<Vec<_>>()).await;
        assert_eq!(outcome.exit.code(), 1, "{outcome:?}");
    }
}

/// The request-controller leaves the first alone, and ends the second as a duplicate.
#[tokio::test]
async fn an_approval_opens_nothing_for_a_request_that_goes_or_that_another_one_decides_for() {
    let none = "no request waits for it: it opens and ends nothing now";
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("pending")));
    let request = cluster.first_request();
    cluster
        .server
        .change("accessrequests", "payments", &request, |it| {
            it["metadata"]["finalizers"] = json!(["example.com/stay"]);
        });
    cluster
        .server
        .delete("accessrequests", "payments", &request);
    let (_, question) = cluster.asked(&APPROVE_CHANGE, Consent::Declined).await;
    assert!(question.contains(none), "{question}");
    let target = format!("areq/{request}");
    for args in [APPROVE_POD, ["approve", &target, "-n", "payments"]] {
        let outcome = cluster.run(&args).await;
        assert_eq!(outcome.exit.code(), 1, "{outcome:?}");
        let told = "is being deleted, and nothing is granted by it any more";
        assert!(outcome.errors.contains(told), "{outcome:?}");
    }

    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("pending")));
    let mut first = cluster.server.list("accessrequests")[0].clone();
    first["metadata"] = json!({"name": "first", "namespace": "payments"});
    first["status"] = json!({"phase": "Rejected"});
    cluster.put(first);
    let (_, question) = cluster.asked(&APPROVE_CHANGE, Consent::Declined).await;
    assert!(question.contains(none), "{question}");
}

/// The request-controller records a no also while it grants nothing.
#[tokio::test]
async fn a_rejection_while_approvals_are_switched_off_refuses_for_good() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("pending")));
    let system = "connectors-system";
    cluster
        .server
        .change("configmaps", system, "connectors-config", |it| {
            it["data"]["enable-connectors-approval"] = "false".into();
        });
    let reject = ["reject", "changerequest/chg-42", "-n", "team-a"];
    for (args, section) in [
        (APPROVE_CHANGE, "counts for, without opening it\n"),
        (reject, "refuses for good\n"),
    ] {
        let (_, question) = cluster.asked(&args, Consent::Declined).await;
        assert!(question.contains(section), "{question}");
    }
}
