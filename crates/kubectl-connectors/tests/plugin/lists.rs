//! `requests`, `grants`, `who-can`, `can-i` and `top`.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{CallFault, CallPoint, Caller, EventFault, EventKind, EventPoint, Faults, Verb};

use crate::cluster::{Cluster, after, pod, policy};

impl Cluster {
    /// The request of `build-1` waits, and a further pod has access.
    pub(crate) fn looked_at(&self) {
        self.say(
            &self.first_request(),
            "Pending",
            "ChecksPending",
            "it waits",
        );
        self.put(pod("build-2"));
        self.granted("build-2");
    }

    /// The pod has a grant of the policy, with Role and `RoleBinding`. Returns the request.
    pub(crate) fn granted(&self, pod: &str) -> String {
        let request = self.request(pod);
        self.grant(pod, &request);
        request
    }

    /// The same for a request that is there.
    pub(crate) fn grant(&self, pod: &str, request: &str) {
        self.grant_status(request);
        self.bind(pod, pod, &format!("uid-{request}"), "uid-approved-changes");
    }

    /// The request says that it is granted, and nothing else was written.
    pub(crate) fn grant_status(&self, request: &str) {
        self.say(
            request,
            "Granted",
            "Granted",
            "granted by policy approved-changes, approved by alice",
        );
        let kept = policy("approved-changes", "payments");
        self.server
            .change("accessrequests", "payments", request, |it| {
                it["status"]["grantedAt"] = after(2).into();
                it["status"]["evidence"] = "sha256:0".into();
                it["status"]["connectorUid"] = "uid-prod-harbor".into();
                it["status"]["policies"] = json!([{
                    "policy": kept,
                    "checkRefs": [{"name": "change", "ref": {"apiVersion": "itsm.example.com/v1",
                        "kind": "ChangeRequest", "namespace": "team-a", "name": "chg-42"},
                        "status": {"state": "approved", "approvedBy": ["alice"]}}],
                    "grant": {"state": "Granted", "grantedAt": after(2), "expiresAt": after(242)},
                }]);
            });
    }

    /// Role and `RoleBinding` of a pod, whose names end with `name`.
    pub(crate) fn bind(&self, pod: &str, name: &str, request_uid: &str, policy_uid: &str) {
        let labels = json!({
            "app.kubernetes.io/managed-by": "connectors-approval",
            "connectors.alauda.io/accessRequestUid": request_uid,
            "connectors.alauda.io/accessPolicyUid": policy_uid,
        });
        let name = format!("car-{name}");
        self.put(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": name, "namespace": "payments", "labels": labels},
            "rules": [{"apiGroups": ["connectors.alauda.io"], "verbs": ["*"], "resourceNames": ["prod-harbor"],
                "resources": [format!("connectors/apis/v1/pod/team-a/{pod}")]}],
        }));
        self.put(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": name, "namespace": "payments", "labels": labels},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "namespace": "team-a", "name": "builder"}],
        }));
    }

    /// A standing permission by a policy.
    pub(crate) fn standing(&self, account: &str) {
        let labels = json!({
            "app.kubernetes.io/managed-by": "connectors-approval",
            "connectors.alauda.io/accessPolicy": "always",
        });
        self.put(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": "policy-1", "namespace": "payments", "labels": labels},
            "rules": [{"apiGroups": ["connectors.alauda.io"], "verbs": ["*"], "resourceNames": ["prod-harbor"],
                "resources": ["connectors/apis"]}],
        }));
        self.put(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "policy-1", "namespace": "payments", "labels": labels},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "policy-1"},
            "subjects": [{"kind": "ServiceAccount", "namespace": "team-a", "name": account}],
        }));
    }
}

#[tokio::test]
async fn requests_are_listed_oldest_first_and_filtered() {
    let cluster = Cluster::waiting();
    cluster.looked_at();
    let outcome = cluster.run(&["requests", "-n", "payments"]).await;
    let lines: Vec<_> = outcome.output.lines().collect();
    assert_eq!(lines.len(), 3, "{}", outcome.output);
    assert!(lines[0].starts_with("CONNECTOR              POD              ACCOUNT   PHASE"));
    assert!(
        lines[1].starts_with(
            "payments/prod-harbor   team-a/build-1   builder   Pending   ChecksPending   12m"
        ),
        "{}",
        outcome.output
    );
    let only = |args: &'static [&'static str]| {
        let cluster = &cluster;
        async move {
            let listed = cluster.json(args).await;
            let rows = listed["requests"].as_array().unwrap().clone();
            rows.iter()
                .map(|it| it["pod"]["name"].clone())
                .collect::<Vec<_>>()
        }
    };
    assert_eq!(only(&["requests", "-A"]).await, ["build-1", "build-2"]);
    assert_eq!(
        only(&["requests", "-A", "--phase", "granted"]).await,
        ["build-2"]
    );
    assert_eq!(
        only(&["requests", "-A", "--pod-namespace", "b"]).await,
        [""; 0]
    );
    assert_eq!(only(&["requests", "-n", "team-a"]).await, [""; 0]);
}

#[tokio::test]
async fn a_request_that_cannot_be_understood_is_named_beside_the_others() {
    let cluster = Cluster::waiting();
    let mut odd = cluster.server.list("accessrequests")[0].clone();
    odd["metadata"] = json!({"name": "odd", "namespace": "payments"});
    odd["spec"]["permision"] = "apis".into();
    cluster.put(odd);
    let listed = cluster.json(&["requests", "-n", "payments"]).await;
    assert_eq!(listed["requests"].as_array().unwrap().len(), 1);
    assert_eq!(
        listed["unreadable"],
        json!([{"namespace": "payments", "name": "odd"}])
    );
}

/// Everything that is printed until the watch has printed so many times.
async fn watched(cluster: &Cluster, prints: usize, change: impl FnOnce(&Cluster)) -> Vec<String> {
    let printed = Rc::new(RefCell::new(Vec::new()));
    let sink = Rc::clone(&printed);
    let print = Box::new(move |text: &str| {
        sink.borrow_mut().push(text.to_owned());
        sink.borrow().len() < prints
    });
    let admin = Caller::admin();
    let watch = cluster.run_printing(&admin, &["requests", "-n", "payments", "--watch"], print);
    let changed = async {
        while printed.borrow().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        change(cluster);
    };
    let (outcome, ()) = tokio::time::timeout(Duration::from_secs(20), async {
        tokio::join!(watch, changed)
    })
    .await
    .unwrap();
    assert_eq!(outcome.exit.code(), 0, "{outcome:?}");
    printed.take()
}

#[tokio::test]
async fn a_watch_prints_the_list_and_then_each_change_once() {
    let cluster = Cluster::waiting();
    let request = cluster.first_request();
    let printed = Box::pin(watched(&cluster, 3, |cluster| {
        cluster.say(&request, "Pending", "ChecksPending", "it waits");
        cluster.say(&request, "Granted", "Granted", "granted");
    }))
    .await;
    assert!(printed[0].starts_with("CONNECTOR"), "{printed:?}");
    assert!(printed[1].contains("ChecksPending") && !printed[1].contains("CONNECTOR "));
    assert!(printed[2].contains("Granted"), "{printed:?}");
}

/// The API server refuses one watch of requests: when it begins, or at its first change.
#[derive(Clone, Copy)]
enum TooOld {
    AtTheBegin,
    AtAChange,
}

impl Faults for TooOld {
    fn on_call(&self, point: &CallPoint) -> CallFault {
        let is_it = point.verb == Verb::Watch && point.resource == "accessrequests";
        match self {
            Self::AtTheBegin if is_it && point.nth == 0 => CallFault::Refuse {
                code: 410,
                retry_after: None,
            },
            Self::AtTheBegin | Self::AtAChange => CallFault::None,
        }
    }

    fn on_event(&self, point: &EventPoint) -> EventFault {
        let is_it = point.kind == EventKind::Modified && point.nth == 0;
        match self {
            Self::AtAChange if is_it => EventFault::Gone,
            Self::AtTheBegin | Self::AtAChange => EventFault::None,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_version_that_is_too_old_lists_anew_and_goes_on() {
    for too_old in [TooOld::AtTheBegin, TooOld::AtAChange] {
        let cluster = Cluster::waiting();
        cluster.server.set_faults(Arc::new(too_old));
        let request = cluster.first_request();
        let printed = Box::pin(watched(&cluster, 2, |cluster| {
            cluster.say(&request, "Granted", "Granted", "granted");
        }))
        .await;
        assert!(printed[1].contains("Granted"), "{printed:?}");
    }
}

#[tokio::test]
async fn grants_say_who_approved_until_when_and_whether_they_are_in_force() {
    let cluster = Cluster::new();
    for name in ["build-1", "build-2"] {
        cluster.put(pod(name));
        cluster.granted(name);
    }
    cluster
        .server
        .delete("rolebindings", "payments", "car-build-2");
    cluster.bind(
        "build-9",
        "build-9",
        "uid-of-nothing",
        "uid-approved-changes",
    );
    let listed = cluster.json(&["grants", "-A"]).await;
    let row = |at: usize, field: &str| listed["grants"][at][field].clone();
    assert_eq!(row(0, "approvers"), json!(["alice"]));
    assert_eq!(row(0, "expires"), after(242));
    assert_eq!(row(0, "evidence"), json!(["ChangeRequest team-a/chg-42"]));
    let mut in_force = vec![];
    for at in 0..2 {
        in_force.push((row(at, "pod")["name"].clone(), row(at, "inForce")));
    }
    in_force.sort_by_key(|it| it.0.to_string());
    assert_eq!(
        in_force,
        [
            (json!("build-1"), json!("Yes")),
            (json!("build-2"), json!("No"))
        ]
    );
    assert_eq!(
        listed["orphans"],
        json!([{"namespace": "payments", "name": "car-build-9"}])
    );
    let text = cluster.run(&["grants", "-n", "payments"]).await.output;
    assert!(text.contains("3h50m"), "{text}");
    assert!(
        text.contains("team-a/build-1 ends when the maxDuration of policy approved-changes"),
        "{text}"
    );
}

#[tokio::test]
async fn who_can_lists_accounts_with_their_policy_and_pods_with_their_request() {
    let cluster = Cluster::new();
    cluster.put(pod("build-1"));
    let request = cluster.granted("build-1");
    cluster.standing("deployer");
    let who = cluster.json(&["who-can", "payments/prod-harbor"]).await;
    assert_eq!(
        who["standing"],
        json!([{"kind": "ServiceAccount", "namespace": "team-a", "name": "deployer",
            "binding": "RoleBinding policy-1", "policy": "always"}])
    );
    let pods = who["pods"].as_array().unwrap();
    let pods: Vec<_> = pods
        .iter()
        .map(|it| (it["pod"]["name"].clone(), it["request"].clone()))
        .collect();
    assert_eq!(pods, [(json!("build-1"), json!(request))]);
    assert_eq!(who["complete"], true);
    let proxy = [
        "who-can",
        "prod-harbor",
        "-n",
        "payments",
        "--permission",
        "proxy",
    ];
    let text = cluster.run(&proxy).await.output;
    assert_eq!(
        text,
        "none is known to have proxy of payments/prod-harbor\n"
    );
}

/// A label is no proof: the writer of a request can remove it.
#[tokio::test]
async fn who_can_lists_a_pod_whose_request_has_no_labels() {
    let cluster = Cluster::new();
    cluster.put(pod("build-1"));
    let request = cluster.granted("build-1");
    cluster
        .server
        .change("accessrequests", "payments", &request, |it| {
            it["metadata"]["labels"] = json!({});
        });
    let who = cluster.json(&["who-can", "payments/prod-harbor"]).await;
    assert_eq!(who["pods"].as_array().unwrap().len(), 1);
    let explained = cluster.explained().await;
    assert_eq!(
        explained["accesses"][0]["state"], "Granted",
        "{explained:#}"
    );
}

async fn can(cluster: &Cluster, args: &[&str]) -> (String, u8) {
    let args: Vec<_> = ["can-i", "payments/prod-harbor"]
        .iter()
        .chain(args)
        .copied()
        .collect();
    let outcome = cluster.run(&args).await;
    let word = outcome.output.lines().next().unwrap_or_default().to_owned();
    (word, outcome.exit.code())
}

#[tokio::test]
async fn can_i_answers_for_the_user_an_account_and_a_pod_and_scripts_see_it() {
    let cluster = Cluster::waiting();
    let (yes, no) = (("yes".to_owned(), 0), ("no".to_owned(), 1));
    assert_eq!(can(&cluster, &[]).await, yes, "the administrator");
    assert_eq!(can(&cluster, &["--as-account", "team-a/builder"]).await, no);
    assert_eq!(can(&cluster, &["--pod", "team-a/build-1"]).await, no);
    cluster.standing("builder");
    assert_eq!(
        can(&cluster, &["--as-account", "team-a/builder"]).await,
        yes
    );
    assert_eq!(can(&cluster, &["--pod", "team-a/build-1"]).await, yes);
}

#[tokio::test]
async fn a_grant_without_its_binding_is_no_yes() {
    let cluster = Cluster::new();
    cluster.put(pod("build-1"));
    cluster.granted("build-1");
    assert_eq!(can(&cluster, &["--pod", "team-a/build-1"]).await.1, 0);
    cluster
        .server
        .delete("rolebindings", "payments", "car-build-1");
    assert_eq!(can(&cluster, &["--pod", "team-a/build-1"]).await.1, 1);
}

/// The services refuse a pod whose time is over, also while the controller is down.
#[tokio::test]
async fn a_grant_past_its_end_is_no_yes() {
    let cluster = Cluster::new();
    cluster.put(pod("build-1"));
    let request = cluster.granted("build-1");
    let change = |field: &str, value: Value| {
        cluster
            .server
            .change("accessrequests", "payments", &request, |it| {
                *it.pointer_mut("/status/policies/0/grant").unwrap() =
                    json!({"state": "Granted", "grantedAt": after(2), field: value});
            });
    };
    change("expiresAt", after(5).into());
    assert_eq!(can(&cluster, &["--pod", "team-a/build-1"]).await.1, 1);
    change("expiresAt", after(242).into());
    assert_eq!(can(&cluster, &["--pod", "team-a/build-1"]).await.1, 0);
}

#[tokio::test]
async fn a_pod_is_asked_about_with_the_verb_of_the_question() {
    let cluster = Cluster::new();
    cluster.put(pod("build-1"));
    cluster.granted("build-1");
    cluster
        .server
        .change("roles", "payments", "car-build-1", |it| {
            it["rules"][0]["verbs"] = json!(["get"]);
        });
    let get = ["--pod", "team-a/build-1", "--verb", "get"];
    assert_eq!(can(&cluster, &get).await.1, 0);
    assert_eq!(can(&cluster, &get[..2]).await.1, 1, "a mount asks for *");
}

#[tokio::test]
async fn a_question_that_may_not_be_asked_has_an_exit_code_of_its_own() {
    let cluster = Cluster::waiting();
    let dev = Caller {
        process: "dev".to_owned(),
        user: "dev".to_owned(),
        groups: vec![],
    };
    let args = [
        "can-i",
        "payments/prod-harbor",
        "--as-account",
        "team-a/builder",
    ];
    let outcome = cluster.run_as(&dev, &args).await;
    assert!(outcome.output.starts_with("not known\n"), "{outcome:?}");
    assert_eq!(outcome.exit.code(), 3);
}

/// Scripts must not take the part of an answer for the whole.
#[tokio::test]
async fn a_list_that_is_not_whole_has_the_exit_code_of_what_is_not_known() {
    let cluster = Cluster::new();
    cluster.put(pod("build-1"));
    cluster.granted("build-1");
    let mut reader = Caller::admin();
    let grants = ["grants", "-n", "payments"];
    let who_can = ["who-can", "payments/prod-harbor"];
    for args in [&grants[..], &who_can] {
        assert_eq!(
            cluster.run_as(&reader, args).await.exit.code(),
            0,
            "{args:?}"
        );
    }
    reader.user = "reader".to_owned();
    reader.groups = vec!["system:authenticated".to_owned()];
    cluster.put(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "reader", "namespace": "payments"},
        "rules": [{"apiGroups": ["connectors.alauda.io"], "resources": ["*"], "verbs": ["get", "list"]}],
    }));
    cluster.put(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "reader", "namespace": "payments"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "User", "name": "reader"}],
    }));
    for args in [&grants[..], &who_can] {
        let outcome = cluster.run_as(&reader, args).await;
        assert_eq!(outcome.exit.code(), 3, "{outcome:?}");
    }
    // All but the connector itself.
    cluster.put(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "auditor"},
        "rules": [
            {"apiGroups": ["connectors.alauda.io"], "resources": ["accessrequests"], "verbs": ["get", "list"]},
            {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["get", "list"]},
        ],
    }));
    cluster.put(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "auditor"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "auditor"},
        "subjects": [{"kind": "User", "name": "auditor"}],
    }));
    reader.user = "auditor".to_owned();
    let outcome = cluster.run_as(&reader, &who_can).await;
    assert!(outcome.output.contains("build-1"), "{outcome:?}");
    assert_eq!(outcome.exit.code(), 3, "{outcome:?}");
}

#[tokio::test]
async fn a_connector_that_is_not_there_is_told_and_answers_nothing() {
    let cluster = Cluster::new();
    for args in [
        &["who-can", "payments/harbour"][..],
        &["can-i", "payments/harbour"],
    ] {
        let outcome = cluster.run(args).await;
        assert_eq!((outcome.output.as_str(), outcome.exit.code()), ("", 3));
        let told = "there is no connector payments/harbour";
        assert!(outcome.errors.contains(told), "{outcome:?}");
    }
}

/// The lists of bindings and of requests are not of one moment.
#[tokio::test]
async fn only_an_old_binding_whose_request_does_not_exist_belongs_to_none() {
    let cluster = Cluster::new();
    cluster.put(pod("build-1"));
    let request = cluster.granted("build-1");
    let orphans = async || {
        let listed = cluster.json(&["grants", "-A"]).await;
        listed["orphans"].as_array().map_or(0, Vec::len)
    };
    cluster
        .server
        .change("accessrequests", "payments", &request, |it| {
            it["status"]["phase"] = "Ended".into();
            it["status"]["policies"][0]["grant"]["state"] = "Ended".into();
        });
    assert_eq!(orphans().await, 0, "the controller deletes it");
    cluster.bind(
        "build-9",
        "build-9",
        "uid-of-nothing",
        "uid-approved-changes",
    );
    let created = |at: String| {
        cluster
            .server
            .change("rolebindings", "payments", "car-build-9", |it| {
                it["metadata"]["creationTimestamp"] = at.into();
            });
    };
    created("2026-03-01T10:11:30Z".to_owned());
    assert_eq!(orphans().await, 0, "its request may be newer than the list");
    created(after(10));
    assert_eq!(orphans().await, 1);
}

#[tokio::test]
async fn top_shows_the_longest_wait_of_each_namespace() {
    let cluster = Cluster::waiting();
    assert_eq!(
        cluster.json(&["top", "-A"]).await["namespaces"][0]["waiting"],
        json!(1)
    );
    let mut other: Value = cluster.server.list("accessrequests")[0].clone();
    other["metadata"] =
        json!({"name": "other", "namespace": "payments", "creationTimestamp": after(-60)});
    other["spec"]["context"]["objectRef"]["namespace"] = "team-b".into();
    other["spec"]["subject"]["namespace"] = "team-b".into();
    cluster.put(other);
    let outcome = cluster.run(&["top", "-n", "payments"]).await;
    let rows: Vec<_> = outcome.output.lines().skip(1).collect();
    assert!(
        rows[0].starts_with("team-b      1         1h12m"),
        "{}",
        outcome.output
    );
    assert!(
        rows[1].starts_with("team-a      1         12m"),
        "{}",
        outcome.output
    );
    let one = cluster
        .run(&["top", "-n", "payments", "--limit", "1"])
        .await;
    assert!(
        one.output.contains("1 more namespaces wait"),
        "{}",
        one.output
    );
    let none = cluster.run(&["top", "-n", "team-a"]).await;
    assert_eq!(none.output, "nothing waits\n");
}
