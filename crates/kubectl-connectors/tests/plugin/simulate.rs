//! `policy simulate`.

use std::fs;

use kubectl_connectors::run::Outcome;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Caller, What};

use crate::cluster::{Cluster, after, change, pod, policy};

fn file(policies: &[Value]) -> TempDir {
    let place = tempfile::tempdir().unwrap();
    for (number, policy) in policies.iter().enumerate() {
        let path = place.path().join(format!("{number}.json"));
        fs::write(path, policy.to_string()).unwrap();
    }
    place
}

/// The policy as its author has it in a file.
pub(crate) fn written(change: impl FnOnce(&mut Value)) -> Value {
    let mut written = policy("approved-changes", "payments");
    for field in ["uid", "creationTimestamp"] {
        written["metadata"].as_object_mut().unwrap().remove(field);
    }
    change(&mut written);
    written
}

pub(crate) fn granted(policy: &mut Value) -> &mut Value {
    &mut policy["spec"]["checkGrantedPermission"]
}

fn others() -> Value {
    json!([{"kind": "ServiceAccount", "namespace": "team-b", "name": "builder"}])
}

pub(crate) fn standing(name: &str) -> Value {
    written(|it| {
        it["metadata"]["name"] = name.into();
        it["spec"] = json!({
            "connector": {"names": ["prod-harbor"]},
            "defaultPermission": {
                "roleTemplate": {"rules": [{
                    "apiGroups": ["connectors.alauda.io"], "resources": ["connectors/apis"], "verbs": ["*"],
                }]},
                "bindingTemplate": {"subjects": [
                    {"kind": "ServiceAccount", "name": "builder", "namespace": "team-a"},
                    {"kind": "Group", "name": "ops"},
                ]},
            },
        });
    })
}

impl Cluster {
    pub(crate) async fn simulated(&self, policies: &[Value], args: &[&str]) -> Outcome {
        self.simulated_as(&Caller::admin(), policies, args).await
    }

    async fn simulated_as(&self, caller: &Caller, policies: &[Value], args: &[&str]) -> Outcome {
        let place = file(policies);
        let path = place.path().to_str().unwrap();
        let simulate = ["policy", "simulate", "-f", path, "-n", "payments"];
        let args: Vec<_> = simulate.iter().chain(args).copied().collect();
        let before = self.server.version();
        let outcome = self.run_as(caller, &args).await;
        assert_eq!(self.server.version(), before, "it wrote something");
        outcome
    }

    pub(crate) async fn simulation(&self, policies: &[Value]) -> (Value, u8) {
        let outcome = self.simulated(policies, &["-o", "json"]).await;
        let document = serde_json::from_str(&outcome.output);
        (
            document.unwrap_or_else(|_| panic!("{outcome:?}")),
            outcome.exit.code(),
        )
    }
}

pub(crate) fn only_request(simulation: &Value) -> &Value {
    let requests = simulation["requests"].as_array().unwrap();
    assert_eq!(requests.len(), 1, "{simulation:#}");
    &requests[0]
}

pub(crate) fn words(request: &Value) -> (&str, &str) {
    (
        request["before"].as_str().unwrap(),
        request["after"].as_str().unwrap(),
    )
}

#[tokio::test]
async fn a_policy_as_it_is_changes_nothing() {
    let cluster = Cluster::waiting();
    let (simulation, code) = cluster.simulation(&[written(|_| {})]).await;
    assert_eq!(code, 0, "{simulation:#}");
    assert_eq!(simulation["policies"][0]["state"], "Same");
    assert_eq!(simulation["lookedAt"], 1);
    assert_eq!(simulation["requests"], json!([]));
    assert_eq!(simulation["complete"], true);
}

#[tokio::test]
async fn a_waiting_request_that_another_text_of_its_policy_decides_is_named() {
    let cluster = Cluster::waiting();
    let mut other = change("chg-7", Some("approved"));
    other["metadata"]["labels"] = json!({"of": "build-1"});
    cluster.put(other);
    let by_another_label = written(|it| {
        let check = &mut granted(it)["spec"]["checks"][0];
        check["selector"]["labels"] = json!({"of": "{.object.metadata.name}"});
    });
    let outcome = cluster
        .simulated(std::slice::from_ref(&by_another_label), &[])
        .await;
    assert_eq!(
        outcome.output,
        "\
policy payments/approved-changes: changed
pod team-a/build-1 (team-a/builder)  connector payments/prod-harbor (apis)  waits
  waits → would be granted
  every check of a policy passes
  + * on connectors/apis/v1/pod/team-a/build-1
1 requests looked at: 1 change; 0 standing permissions change
"
    );
    assert_eq!(outcome.exit.code(), 1);
    cluster
        .server
        .change("changerequests", "team-a", "chg-7", |it| {
            it["status"]["state"] = "rejected".into();
        });
    let (simulation, code) = cluster.simulation(&[by_another_label]).await;
    assert_eq!(words(only_request(&simulation)), ("Waits", "Refused"));
    assert_eq!(code, 1);
    let (simulation, _) = cluster
        .simulation(&[written(|it| granted(it)["requesters"] = others())])
        .await;
    assert_eq!(words(only_request(&simulation)), ("Waits", "NoPolicy"));
}

#[tokio::test]
async fn a_new_policy_stands_beside_the_others() {
    let cluster = Cluster::waiting();
    let mut other = change("chg-7", Some("approved"));
    other["metadata"]["labels"] = json!({"of": "build-1"});
    cluster.put(other);
    let new = written(|it| {
        it["metadata"]["name"] = "also".into();
        let check = &mut granted(it)["spec"]["checks"][0];
        check["selector"]["labels"] = json!({"of": "{.object.metadata.name}"});
    });
    let (simulation, _) = cluster.simulation(&[new]).await;
    assert_eq!(simulation["policies"][0]["state"], "New");
    assert_eq!(words(only_request(&simulation)), ("Waits", "Granted"));
}

/// A grant is frozen: an edit of its policy does not change it.
#[tokio::test]
async fn a_granted_request_keeps_its_grant_and_a_new_one_of_its_pod_is_foretold() {
    let cluster = Cluster::waiting();
    let request = cluster.first_request();
    cluster.put(change("chg-42", Some("approved")));
    cluster.grant("build-1", &request);
    let other_verb = written(|it| {
        granted(it)["spec"]["permissions"]["roleTemplate"]["rules"][0]["verbs"] =
            json!(["*", "get"]);
    });
    let (simulation, code) = cluster.simulation(&[other_verb]).await;
    let found = only_request(&simulation);
    assert_eq!(
        (words(found), code),
        (("Granted", "Granted"), 1),
        "{simulation:#}"
    );
    assert_eq!(found["phase"], "Granted");
    assert_eq!(found["about"], "NewRequest");
    assert_eq!(found["rulesAfter"][0]["verbs"], json!(["*", "get"]));
    let because = found["because"].as_str().unwrap();
    assert!(
        because.contains("it keeps its grant, which is frozen"),
        "{because}"
    );
    let (simulation, _) = cluster
        .simulation(&[written(|it| granted(it)["requesters"] = others())])
        .await;
    assert_eq!(words(only_request(&simulation)), ("Granted", "NoPolicy"));
}

#[tokio::test]
async fn standing_permissions_that_begin_or_end_are_named_with_their_holders() {
    let cluster = Cluster::waiting();
    let (simulation, code) = cluster.simulation(&[standing("builders")]).await;
    assert_eq!(code, 1);
    assert_eq!(
        simulation["standing"],
        json!([
            {"namespace": "payments", "change": "Gains", "holder": "Group ops", "resource": "connectors/apis",
                "verb": "*", "connectors": ["prod-harbor"]},
            {"namespace": "payments", "change": "Gains", "holder": "ServiceAccount team-a/builder",
                "resource": "connectors/apis", "verb": "*", "connectors": ["prod-harbor"]},
        ])
    );
    assert_eq!(words(only_request(&simulation)), ("Waits", "Standing"));
    let mut there = standing("builders");
    there["metadata"]["uid"] = "uid-builders".into();
    cluster.put(there);
    let narrower = {
        let mut narrower = standing("builders");
        let subjects = &mut narrower["spec"]["defaultPermission"]["bindingTemplate"]["subjects"];
        *subjects = json!([{"kind": "Group", "name": "ops"}]);
        narrower
    };
    let outcome = cluster.simulated(&[narrower], &[]).await;
    let told = "loses: ServiceAccount team-a/builder  * on connectors/apis of payments/prod-harbor";
    assert!(outcome.output.contains(told), "{}", outcome.output);
    assert!(!outcome.output.contains("ops"), "{}", outcome.output);
}

#[tokio::test]
async fn selectors_of_subjects_find_what_the_cluster_has() {
    let cluster = Cluster::new();
    cluster.server.change("namespaces", "", "team-a", |it| {
        it["metadata"]["labels"] = json!({"kubernetes.io/metadata.name": "team-a"});
    });
    cluster.put(json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "builder", "namespace": "team-a", "labels": {"role": "builder"}},
    }));
    let mut by_label = standing("builders");
    by_label["spec"]["defaultPermission"]["bindingTemplate"]["subjects"] = json!([{
        "kind": "ServiceAccount", "nameSelector": {"matchLabels": {"role": "builder"}},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "team-a"}},
    }]);
    let (simulation, _) = cluster.simulation(&[by_label]).await;
    let holders: Vec<_> = simulation["standing"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["holder"])
        .collect();
    assert_eq!(holders, ["ServiceAccount team-a/builder"], "{simulation:#}");
}

#[tokio::test]
async fn policies_that_the_webhook_would_refuse_are_not_simulated() {
    let cluster = Cluster::waiting();
    let wrong = written(|it| it["spec"]["conector"] = json!({}));
    let outcome = cluster.simulated(&[wrong], &[]).await;
    assert_eq!(outcome.exit.code(), 2, "{outcome:?}");
    assert!(
        outcome.errors.contains("spec.conector: unknown field"),
        "{outcome:?}"
    );
    let elsewhere = written(|it| it["metadata"]["namespace"] = "team-a".into());
    let outcome = cluster
        .simulated(std::slice::from_ref(&elsewhere), &[])
        .await;
    assert_eq!(outcome.exit.code(), 2, "{outcome:?}");
    assert!(
        outcome.errors.contains("use -n team-a, or -A"),
        "{outcome:?}"
    );
    let outcome = cluster.simulated(&[elsewhere], &["-A"]).await;
    assert_ne!(outcome.exit.code(), 2, "{outcome:?}");
    let twice = [written(|_| {}), written(|_| {})];
    let outcome = cluster.simulated(&twice, &[]).await;
    assert!(
        outcome
            .errors
            .contains("two policies payments/approved-changes"),
        "{outcome:?}"
    );
    let nothing = cluster
        .run(&["policy", "simulate", "-f", "/no/such/file"])
        .await;
    assert_eq!(nothing.exit.code(), 2, "{nothing:?}");
}

#[tokio::test]
async fn what_could_not_be_read_is_named_and_the_answer_is_not_known() {
    let cluster = Cluster::waiting();
    let rbac = "rbac.authorization.k8s.io/v1";
    cluster.put(json!({
        "apiVersion": rbac, "kind": "Role", "metadata": {"name": "dave", "namespace": "payments"},
        "rules": [{"apiGroups": ["connectors.alauda.io"], "resources": ["*"], "verbs": ["get", "list"]}],
    }));
    cluster.put(json!({
        "apiVersion": rbac, "kind": "RoleBinding", "metadata": {"name": "dave", "namespace": "payments"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "dave"},
        "subjects": [{"kind": "User", "name": "dave"}],
    }));
    let dave = Caller {
        process: "dave".to_owned(),
        user: "dave".to_owned(),
        groups: vec!["system:authenticated".to_owned()],
    };
    let outcome = cluster.simulated_as(&dave, &[written(|_| {})], &[]).await;
    assert_eq!(outcome.exit.code(), 3, "{outcome:?}");
    let told = "you may not get pods build-1 in namespace team-a";
    assert!(outcome.errors.contains(told), "{}", outcome.errors);
    assert!(
        outcome.output.contains("not everything could be read"),
        "{}",
        outcome.output
    );
}

/// A user with the rights of the role `view`, those on pods and check objects, and these of the connectors' namespace.
fn erin(cluster: &Cluster, more: &Value) -> Caller {
    let rbac = "rbac.authorization.k8s.io/v1";
    let connectors = json!({"apiGroups": ["connectors.alauda.io"], "resources": ["*"], "verbs": ["get", "list"]});
    for (namespace, rules) in [
        ("payments", json!([connectors, more])),
        (
            "connectors-system",
            json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]),
        ),
        (
            "team-a",
            json!([
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
                {"apiGroups": ["itsm.example.com"], "resources": ["changerequests"], "verbs": ["list"]},
            ]),
        ),
    ] {
        cluster.put(json!({
            "apiVersion": rbac, "kind": "Role", "metadata": {"name": "erin", "namespace": namespace}, "rules": rules,
        }));
        cluster.put(json!({
            "apiVersion": rbac, "kind": "RoleBinding", "metadata": {"name": "erin", "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "erin"},
            "subjects": [{"kind": "User", "name": "erin"}],
        }));
    }
    Caller {
        process: "erin".to_owned(),
        user: "erin".to_owned(),
        groups: vec!["system:authenticated".to_owned()],
    }
}

/// The rights of the role `view`, and those on pods and check objects, are enough.
#[tokio::test]
async fn a_reader_of_policies_requests_and_checks_gets_the_whole_answer() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("pending")));
    let erin = erin(
        &cluster,
        &json!({"verbs": ["get"], "apiGroups": [""], "resources": ["events"]}),
    );
    let outcome = cluster.simulated_as(&erin, &[written(|_| {})], &[]).await;
    assert_eq!(
        (outcome.exit.code(), outcome.errors.as_str()),
        (0, ""),
        "{outcome:?}"
    );
    // The request of a pod that is gone ends, whatever the policies say.
    cluster.server.delete("pods", "team-a", "build-1");
    let outcome = cluster.simulated_as(&erin, &[written(|_| {})], &[]).await;
    assert_eq!(outcome.exit.code(), 0, "{outcome:?}");
}

#[tokio::test]
async fn a_simulation_looks_at_a_bounded_number_of_requests_with_a_few_calls_each() {
    let cluster = Cluster::waiting();
    for number in 0..120 {
        let name = format!("other-{number}");
        cluster.put(pod(&name));
        cluster.request(&name);
    }
    let calls = |cluster: &Cluster| {
        let log = cluster.server.log();
        log.iter()
            .filter(|it| matches!(it.what, What::Call(_)))
            .count()
    };
    let before = calls(&cluster);
    let changed = written(|it| granted(it)["spec"]["limits"] = json!({"maxDuration": "1h"}));
    let (simulation, code) = cluster.simulation(&[changed]).await;
    assert_eq!(simulation["lookedAt"], 100);
    assert_eq!((&simulation["leftOut"], code), (&json!(21), 3));
    let made = calls(&cluster) - before;
    assert!(made <= 4 * 100 + 20, "{made} calls");
}

/// A gate in CI would otherwise pass them.
#[tokio::test]
async fn an_edit_that_a_waiting_request_does_not_feel_yet_is_a_change_too() {
    type Edit = fn(&mut Value);
    let edits: [(&str, Edit); 4] = [
        ("limits", |it| {
            granted(it)["spec"]["limits"] = json!({"maxDuration": "400h"});
        }),
        ("checks", |it| {
            granted(it)["spec"]["checks"][0]["latch"] = "Once".into();
        }),
        ("permissions", |it| {
            granted(it)["spec"]["permissions"]["roleTemplate"]["rules"][0]["verbs"] =
                json!(["*", "get"]);
        }),
        ("applies too", |it| it["metadata"]["name"] = "also".into()),
    ];
    for (what, edit) in edits {
        let cluster = Cluster::waiting();
        let (simulation, code) = cluster.simulation(&[written(edit)]).await;
        let found = only_request(&simulation);
        assert_eq!((words(found), code), (("Waits", "Waits"), 1), "{what}");
        let because = found["because"].as_str().unwrap();
        assert!(because.contains(what), "{what}: {because}");
    }
}

/// The request-controller refuses older requests for good, also where their checks pass.
#[tokio::test]
async fn a_shorter_time_to_wait_refuses_older_requests() {
    let cluster = Cluster::waiting();
    let shorter = |time: &'static str| {
        written(move |it| granted(it)["spec"]["limits"] = json!({"pendingTimeout": time}))
    };
    let (simulation, _) = cluster.simulation(&[shorter("10m")]).await;
    assert_eq!(words(only_request(&simulation)), ("Waits", "Refused"));
    let (simulation, _) = cluster.simulation(&[shorter("1h")]).await;
    assert_eq!(words(only_request(&simulation)), ("Waits", "Waits"));
    cluster.put(change("chg-42", Some("approved")));
    let (simulation, _) = cluster.simulation(&[shorter("10m")]).await;
    assert_eq!(words(only_request(&simulation)), ("Granted", "Refused"));
}

/// Whenever the policy was written: the time to wait counts from the request.
#[tokio::test]
async fn the_time_to_wait_is_that_of_the_request() {
    for written_at in [-60, 0, 9, 12] {
        let cluster = Cluster::waiting();
        cluster.policy(|it| it["metadata"]["creationTimestamp"] = after(written_at).into());
        for (time, foretold) in [("10m", "Refused"), ("12m", "Refused"), ("13m", "Waits")] {
            let shorter =
                written(|it| granted(it)["spec"]["limits"] = json!({"pendingTimeout": time}));
            for (name, told) in [("approved-changes", foretold), ("a-new-one", "Waits")] {
                let mut shorter = shorter.clone();
                shorter["metadata"]["name"] = name.into();
                let (simulation, _) = cluster.simulation(&[shorter]).await;
                let request = only_request(&simulation);
                assert_eq!(
                    words(request),
                    ("Waits", told),
                    "{written_at}: {name} {time}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_granted_request_gets_more_by_a_new_policy() {
    let cluster = Cluster::waiting();
    let request = cluster.first_request();
    cluster.put(change("chg-42", Some("approved")));
    cluster.grant("build-1", &request);
    // The same rules as those of the grant, and so merged rules would be the same.
    let also = written(|it| it["metadata"]["name"] = "also".into());
    let (simulation, code) = cluster.simulation(&[also]).await;
    assert_eq!(code, 1, "{simulation:#}");
    let told = "it keeps its grant, and with the next sweep of the request-controller gets more by policy also";
    assert!(simulation.to_string().contains(told), "{simulation:#}");
    let requests = simulation["requests"].as_array().unwrap();
    let about: Vec<_> = requests.iter().map(|it| &it["about"]).collect();
    assert_eq!(about, ["Grant", "NewRequest"], "{simulation:#}");
}

/// `policyController.maxSelectedSubjects` is a value of the installation.
#[tokio::test]
async fn a_selection_is_limited_as_the_installation_limits_it() {
    let cluster = Cluster::new();
    for name in ["a", "b"] {
        cluster.put(json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": "payments", "labels": {"role": "builder"}},
        }));
    }
    let mut by_label = standing("builders");
    by_label["spec"]["defaultPermission"]["bindingTemplate"]["subjects"] = json!([{
        "kind": "ServiceAccount", "nameSelector": {"matchLabels": {"role": "builder"}},
    }]);
    let (simulation, code) = cluster.simulation(std::slice::from_ref(&by_label)).await;
    assert_eq!((&simulation["complete"], code), (&json!(false), 3));
    cluster.put(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "policy-controller", "namespace": "connectors-system"},
        "spec": {"template": {"spec": {"containers": [{"name": "c", "args": ["--max-selected-subjects=1"]}]}}},
    }));
    let (simulation, code) = cluster.simulation(std::slice::from_ref(&by_label)).await;
    assert_eq!(
        (&simulation["standing"], code),
        (&json!([]), 1),
        "{simulation:#}"
    );
    let problem = simulation["problems"][0].as_str().unwrap();
    assert!(problem.contains("at most 1 may be selected"), "{problem}");
}

/// Accounts `builder` and `other` of `team-a` with a label, and a policy that gives a standing permission to both.
fn builders_by_label(cluster: &Cluster) -> Value {
    for name in ["builder", "other"] {
        cluster.put(json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": "team-a", "labels": {"role": "builder"}},
        }));
    }
    cluster.server.change("namespaces", "", "team-a", |it| {
        it["metadata"]["labels"] = json!({"kubernetes.io/metadata.name": "team-a"});
    });
    let mut by_label = standing("builders");
    by_label["spec"]["defaultPermission"]["bindingTemplate"]["subjects"] = json!([{
        "kind": "ServiceAccount", "nameSelector": {"matchLabels": {"role": "builder"}},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "team-a"}},
    }]);
    by_label
}

fn limit(cluster: &Cluster, most: usize) {
    cluster.put(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "policy-controller", "namespace": "connectors-system"},
        "spec": {"template": {"spec": {"containers": [
            {"name": "c", "args": [format!("--max-selected-subjects={most}")]},
        ]}}},
    }));
}

#[tokio::test]
async fn a_standing_permission_that_gives_nothing_covers_no_request() {
    for (most, word) in [(1, "Waits"), (2, "Standing")] {
        let cluster = Cluster::waiting();
        let by_label = builders_by_label(&cluster);
        limit(&cluster, most);
        let (simulation, code) = cluster.simulation(&[by_label]).await;
        assert_eq!(code, 1, "{simulation:#}");
        let requests = simulation["requests"].as_array().unwrap();
        let after = requests.first().map_or("Waits", |it| words(it).1);
        assert_eq!(after, word, "{simulation:#}");
    }
}

/// The limit matters only for a policy with selectors that changes something, or that covers a request.
#[tokio::test]
async fn the_limit_of_selected_subjects_needs_no_right_where_it_does_not_matter() {
    let cluster = Cluster::new();
    let accounts = json!({"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["list"]});
    let erin = erin(&cluster, &accounts);
    let by_label = |connector: &str| {
        let mut by_label = standing("builders");
        by_label["spec"]["connector"]["names"] = json!([connector]);
        by_label["spec"]["defaultPermission"]["bindingTemplate"]["subjects"] = json!([{
            "kind": "ServiceAccount", "nameSelector": {"matchLabels": {"role": "builder"}},
        }]);
        by_label
    };
    cluster.put(json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "builder", "namespace": "payments", "labels": {"role": "builder"}},
    }));
    let outcome = cluster
        .simulated_as(&erin, &[by_label("another")], &[])
        .await;
    assert_eq!(
        (outcome.exit.code(), outcome.errors.as_str()),
        (0, ""),
        "{outcome:?}"
    );
    let outcome = cluster
        .simulated_as(&erin, &[by_label("prod-harbor")], &[])
        .await;
    assert_eq!(outcome.exit.code(), 3, "{outcome:?}");
    let told = "you may not get deployments.apps policy-controller in namespace connectors-system";
    assert!(outcome.errors.contains(told), "{outcome:?}");
}
