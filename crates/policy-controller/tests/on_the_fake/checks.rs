//! Whether a policy's checks can be judged, as its status tells.

use std::time::Duration;

use connectors_api::names::{ANSWER_RULE, CREATOR_RULE};
use evaluation_api::v1::{Finding, FindingSeverity};
use serde_json::{Value, json};
use testkit::Kind;
use tokio::time::sleep;

use crate::support::{Cluster, Process, SYSTEMS, TOOLS, soon};

const GROUP: &str = "example.com";
const RBAC: &str = "rbac.authorization.k8s.io";

fn sign_offs() -> Kind {
    Kind {
        group: GROUP.to_owned(),
        version: "v1".to_owned(),
        kind: "SignOff".to_owned(),
        plural: "signoffs".to_owned(),
        namespaced: true,
        status: true,
    }
}

/// A cluster with a policy that asks for a sign-off.
fn cluster() -> Cluster {
    let cluster = Cluster::new();
    policy(&cluster, "p", json!({}));
    cluster
}

fn policy(cluster: &Cluster, name: &str, state: Value) {
    cluster.put(json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
        "metadata": {"name": name, "namespace": TOOLS},
        "spec": {"connector": {}, "checkGrantedPermission": {"spec": {
            "checks": [{
                "name": "sign-off", "state": state,
                "selector": {"labels": {"app": "{.object.metadata.labels.app}"}, "objectRef": {"apiVersion": "example.com/v1", "kind": "SignOff"}},
            }],
            "permissions": {"roleTemplate": {"rules": [{
                "apiGroups": ["connectors.alauda.io"],
                "resources": ["connectors/apis/v1/pod/{.object.metadata.namespace}/{.object.metadata.name}"],
                "verbs": ["*"],
            }]}},
        }}},
    }));
}

/// Gives a subject rights on sign-offs everywhere.
fn let_him(cluster: &Cluster, name: &str, verbs: &[&str], resources: &[&str], subject: Value) {
    cluster.put(json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": name},
        "rules": [{"apiGroups": [GROUP], "resources": resources, "verbs": verbs}],
    }));
    cluster.put(json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}, "subjects": [subject],
    }));
}

fn let_read(cluster: &Cluster) {
    let reader =
        json!({"kind": "ServiceAccount", "namespace": SYSTEMS[0], "name": "request-controller"});
    let_him(
        cluster,
        "reader",
        &["get", "list", "watch"],
        &["signoffs"],
        reader,
    );
}

fn group(name: &str) -> Value {
    json!({"kind": "Group", "apiGroup": RBAC, "name": name})
}

fn checks(cluster: &Cluster, policy: &str) -> (String, String) {
    let policy = cluster.server.get("accesspolicies", TOOLS, policy).unwrap();
    let conditions = policy["status"]["conditions"].as_array().unwrap();
    let of = |type_: &str| conditions.iter().find(|it| it["type"] == type_).unwrap();
    let checks = of("ChecksValid");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let ready = of("Ready");
    let line = format!(
        "{} {}, ready {} {}",
        text(&checks["status"]),
        text(&checks["reason"]),
        text(&ready["status"]),
        text(&ready["reason"])
    );
    (line, text(&checks["message"]))
}

async fn started() -> (Cluster, Process) {
    let cluster = cluster();
    cluster.server.register(sign_offs());
    let_read(&cluster);
    let process = cluster.start("one");
    soon().await;
    (cluster, process)
}

/// More than three batches.
const NEW: usize = 30;

#[tokio::test(start_paused = true)]
async fn new_policies_do_not_wait_for_a_pause_between_batches() {
    let (cluster, _process) = started().await;
    let names: Vec<_> = (0..NEW).map(|it| format!("new-{it}")).collect();
    for name in &names {
        policy(&cluster, name, json!({}));
    }
    sleep(Duration::from_secs(2)).await;
    for name in &names {
        let (line, _) = checks(&cluster, name);
        assert_eq!(line, "True ChecksValid, ready True Ready", "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_comes_and_may_be_read_and_the_status_follows() {
    let cluster = cluster();
    let _process = cluster.start("one");
    soon().await;
    let (line, message) = checks(&cluster, "p");
    assert_eq!(line, "False KindMissing, ready False KindMissing");
    assert!(
        message.contains("no kind SignOff of example.com/v1"),
        "{message}"
    );
    cluster.server.register(sign_offs());
    sleep(Duration::from_mins(1)).await;
    let (line, message) = checks(&cluster, "p");
    assert_eq!(line, "False KindNotReadable, ready False KindNotReadable");
    assert!(
        message.contains("add {apiGroup: example.com, resources: [signoffs]}"),
        "{message}"
    );
    let_read(&cluster);
    sleep(Duration::from_mins(1)).await;
    assert_eq!(
        checks(&cluster, "p"),
        (
            "True ChecksValid, ready True Ready".to_owned(),
            String::new()
        )
    );
    let events = cluster.events();
    let told = |word: &str| events.iter().filter(|it| it.contains(word)).count();
    assert_eq!(
        (told("KindMissing"), told("KindNotReadable")),
        (1, 1),
        "{events:?}"
    );
}

fn kind(group: &str, version: &str, kind: &str, plural: &str, namespaced: bool) -> Kind {
    Kind {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
        namespaced,
        status: namespaced,
    }
}

/// The admission rule about creators, which begins with its binding.
fn put_rule(cluster: &Cluster, kind: &str, name: &str, spec: Value) {
    cluster.put(json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": name}, "spec": spec,
    }));
}

const GATE: &str = "openshift-pipelines.org";
const RULES: &str = "admissionregistration.k8s.io";
const RULE: &str = "ValidatingAdmissionPolicy";
const RULE_BINDING: &str = "ValidatingAdmissionPolicyBinding";

/// A cluster with Tekton and its approval gate, and a policy that asks for an approval of the pod's own run.
fn cluster_with_pipelines(approvers: Value) -> Cluster {
    let cluster = Cluster::new();
    for kind in [
        kind(GATE, "v1alpha1", "ApprovalTask", "approvaltasks", true),
        kind("tekton.dev", "v1", "PipelineRun", "pipelineruns", true),
        kind("tekton.dev", "v1", "TaskRun", "taskruns", true),
        kind("tekton.dev", "v1beta1", "CustomRun", "customruns", true),
        kind(RULES, "v1", RULE, "validatingadmissionpolicies", false),
        kind(
            RULES,
            "v1",
            RULE_BINDING,
            "validatingadmissionpolicybindings",
            false,
        ),
    ] {
        cluster.server.register(kind);
    }
    cluster.put(json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": "read"},
        "rules": [{"apiGroups": [GATE, "tekton.dev"], "resources": ["*"], "verbs": ["get", "list", "watch"]}],
    }));
    cluster.put(json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "read"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "read"},
        "subjects": [{"kind": "ServiceAccount", "namespace": SYSTEMS[0], "name": "request-controller"}],
    }));
    policy(&cluster, "p", json!({}));
    cluster.edit("p", |spec| {
        let check = &mut spec["checkGrantedPermission"]["spec"]["checks"][0];
        check["selector"]["objectRef"] =
            json!({"apiVersion": format!("{GATE}/v1alpha1"), "kind": "ApprovalTask"});
        check["approvers"] = approvers;
    });
    cluster
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_excludes_creators_learns_whether_a_rule_says_who_they_are() {
    let cluster = cluster_with_pipelines(json!({"notRequester": true}));
    let _process = cluster.start("one");
    soon().await;
    let missing = "False CreatorsUnknown, ready False CreatorsUnknown";
    assert_eq!(checks(&cluster, "p").0, missing);
    put_rule(&cluster, RULE, CREATOR_RULE, json!({}));
    sleep(Duration::from_mins(1)).await;
    assert_eq!(checks(&cluster, "p").0, missing, "without its binding");
    put_rule(
        &cluster,
        RULE_BINDING,
        CREATOR_RULE,
        json!({"policyName": CREATOR_RULE, "validationActions": ["Deny"]}),
    );
    sleep(Duration::from_mins(1)).await;
    assert_eq!(
        checks(&cluster, "p").0,
        "True ChecksValid, ready True Ready"
    );
}

/// An account that may enter an approved pod uses the pod's access, and no proof sees that.
#[tokio::test(start_paused = true)]
async fn who_may_enter_approved_pods_is_told_as_a_hint_where_checks_need_a_proof() {
    let (proven, believed) = (
        cluster_with_pipelines(json!({"users": ["alice"]})),
        started().await,
    );
    let _process = proven.start("one");
    soon().await;
    let well = "True ChecksValid, ready True Ready";
    let (line, message) = checks(&proven, "p");
    assert_eq!(line, well);
    let no_rule = "hint: no admission rule keeps the answers of approvers apart";
    assert!(message.starts_with(no_rule), "{message}");
    // Its conditions except Tekton and the gate.
    let by_others = json!([{"name": "by-others", "expression": "true"}]);
    put_rule(
        &proven,
        RULE,
        ANSWER_RULE,
        json!({"matchConditions": by_others}),
    );
    put_rule(
        &proven,
        RULE_BINDING,
        ANSWER_RULE,
        json!({"policyName": ANSWER_RULE, "validationActions": ["Deny"]}),
    );
    for (resource, verb) in [("exec", "create"), ("ephemeralcontainers", "patch")] {
        for cluster in [&proven, &believed.0] {
            cluster.put(json!({
                "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": verb},
                "rules": [{"apiGroups": [""], "resources": [format!("pods/{resource}")], "verbs": [verb]}],
            }));
            cluster.put(json!({
                "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": verb},
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": verb},
                "subjects": [group("system:serviceaccounts:tools")],
            }));
        }
        sleep(Duration::from_secs(90)).await;
        let (line, message) = checks(&proven, "p");
        assert_eq!(line, well);
        let hint = format!(
            "hint: system:serviceaccounts:tools may {verb} pods ({resource}) in namespace tools: it can use what an \
             approved pod may use"
        );
        assert!(message.starts_with(&hint), "{message}");
        let of_others = checks(&believed.0, "p");
        assert_eq!(of_others, (well.to_owned(), String::new()));
        proven.server.delete("clusterrolebindings", "", verb);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_and_could_approve_himself_is_named_when_rights_change() {
    let (cluster, _process) = started().await;
    assert_eq!(
        checks(&cluster, "p").0,
        "True ChecksValid, ready True Ready"
    );
    let_him(
        &cluster,
        "makers",
        &["create"],
        &["signoffs"],
        group("system:serviceaccounts:tools"),
    );
    sleep(Duration::from_secs(90)).await;
    let (line, message) = checks(&cluster, "p");
    assert_eq!(line, "True ChecksForgeable, ready True ChecksForgeable");
    assert!(
        message.starts_with("system:serviceaccounts:tools may create signoffs.example.com in namespace tools: a pod in a namespace of the requesters can run as it"),
        "{message}"
    );
    assert!(
        cluster
            .events()
            .iter()
            .any(|it| it.contains("ChecksQuestionable"))
    );
    cluster.server.delete("clusterrolebindings", "", "makers");
    sleep(Duration::from_secs(90)).await;
    assert_eq!(
        checks(&cluster, "p").0,
        "True ChecksValid, ready True Ready"
    );
}

#[tokio::test(start_paused = true)]
async fn the_status_of_an_approval_is_an_approval_and_accounts_are_named() {
    let (cluster, _process) = started().await;
    cluster.account(TOOLS, "builder", json!({}));
    let account = json!({"kind": "ServiceAccount", "namespace": TOOLS, "name": "builder"});
    let_him(
        &cluster,
        "approvers",
        &["patch"],
        &["signoffs/status"],
        account,
    );
    sleep(Duration::from_secs(90)).await;
    let (_, message) = checks(&cluster, "p");
    assert!(
        message.starts_with("system:serviceaccount:tools:builder may patch signoffs.example.com (status) in namespace tools"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_account_that_may_not_ask_counts_because_a_pod_of_the_namespace_can_run_as_it() {
    let (cluster, _process) = started().await;
    cluster.account(TOOLS, "signer", json!({}));
    cluster.edit("p", |spec| {
        spec["checkGrantedPermission"]["requesters"] =
            json!([{"kind": "ServiceAccount", "name": "builder"}]);
    });
    let account = json!({"kind": "ServiceAccount", "namespace": TOOLS, "name": "signer"});
    let_him(&cluster, "signers", &["create"], &["signoffs"], account);
    sleep(Duration::from_secs(90)).await;
    let (line, message) = checks(&cluster, "p");
    assert_eq!(line, "True ChecksForgeable, ready True ChecksForgeable");
    assert!(
        message.starts_with("system:serviceaccount:tools:signer may create signoffs.example.com"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn who_could_delete_an_approval_before_it_is_withdrawn_is_named() {
    let (cluster, _process) = started().await;
    let_him(
        &cluster,
        "cleaners",
        &["delete"],
        &["signoffs"],
        group("system:serviceaccounts:tools"),
    );
    sleep(Duration::from_secs(90)).await;
    let (line, message) = checks(&cluster, "p");
    assert_eq!(line, "True ChecksDeletable, ready True ChecksDeletable");
    assert!(
        message.starts_with("system:serviceaccounts:tools may delete signoffs.example.com"),
        "{message}"
    );
    // Deletion revokes, or the object is never looked at again: either way a deletion gains nothing.
    for latch in ["WhileHolds", "Once"] {
        cluster.edit("p", |spec| {
            spec["checkGrantedPermission"]["spec"]["checks"][0]["latch"] = json!(latch);
        });
        sleep(Duration::from_secs(90)).await;
        let (line, message) = checks(&cluster, "p");
        assert_eq!(
            line, "True ChecksValid, ready True Ready",
            "{latch}: {message}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_told_how_many_of_many_accounts_were_looked_at() {
    let (cluster, _process) = started().await;
    for number in 0..80 {
        cluster.account(TOOLS, &format!("a{number}"), json!({}));
    }
    cluster.edit("p", |spec| {
        spec["checkGrantedPermission"]["requesters"] =
            json!([{"kind": "ServiceAccount", "name": "a7"}]);
    });
    sleep(Duration::from_secs(90)).await;
    let (line, message) = checks(&cluster, "p");
    assert_eq!(line, "True ChecksValid, ready True Ready");
    assert_eq!(
        message,
        "looked at 50 of 80 accounts: none of them could write an approval"
    );
}

#[tokio::test(start_paused = true)]
async fn an_installation_that_lets_everybody_ask_is_told_with_each_policy() {
    let (cluster, _process) = started().await;
    let say = |value: &str| {
        let map = "connectors-config";
        cluster.server.change("configmaps", SYSTEMS[0], map, |it| {
            it["data"]["enable-connectors-approval"] = json!("true");
            it["data"]["default-requesters"] = json!(value);
        });
    };
    say("Any");
    sleep(Duration::from_secs(30)).await;
    let (line, message) = checks(&cluster, "p");
    assert_eq!(line, "True RequestersOpen, ready True RequestersOpen");
    assert!(
        message.contains("name who may ask in spec.checkGrantedPermission.requesters"),
        "{message}"
    );
    cluster.edit("p", |spec| {
        spec["checkGrantedPermission"]["requesters"] =
            json!([{"kind": "ServiceAccount", "name": "builder"}]);
    });
    soon().await;
    assert_eq!(
        checks(&cluster, "p").0,
        "True ChecksValid, ready True Ready"
    );
}

#[tokio::test(start_paused = true)]
async fn rego_is_looked_at_by_the_evaluation_service() {
    let (cluster, _process) = started().await;
    policy(
        &cluster,
        "rego",
        json!({"rego": "package approval\noutput := {}"}),
    );
    soon().await;
    assert_eq!(
        checks(&cluster, "rego").0,
        "Unknown ChecksNotJudged, ready Unknown ChecksNotJudged"
    );
    let finding = Finding {
        path: "spec.x".to_owned(),
        code: "RegoInvalid".to_owned(),
        severity: FindingSeverity::Error.into(),
        message: "is no module".to_owned(),
        fix: String::new(),
    };
    *cluster.validator.0.lock().unwrap() = Some(vec![finding]);
    soon().await;
    let (line, message) = checks(&cluster, "rego");
    assert_eq!(line, "False ChecksInvalid, ready False ChecksInvalid");
    assert_eq!(message, "spec.x: is no module");
    assert_eq!(
        checks(&cluster, "p").0,
        "True ChecksValid, ready True Ready",
        "it has no Rego"
    );
}

#[tokio::test(start_paused = true)]
async fn a_successor_writes_nothing_that_is_known() {
    let (cluster, process) = started().await;
    cluster.kill(&process);
    let since = cluster.now();
    let _second = cluster.start("two");
    sleep(Duration::from_mins(5)).await;
    assert_eq!(
        checks(&cluster, "p").0,
        "True ChecksValid, ready True Ready"
    );
    let writes: Vec<String> = cluster.writes(since);
    let writes = writes
        .iter()
        .filter(|it| !it.contains("leases") && !it.contains("subjectaccessreviews"));
    assert_eq!(writes.collect::<Vec<_>>(), Vec::<&String>::new());
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_about_a_policy_without_checks() {
    let cluster = Cluster::new();
    cluster.policy("p", json!({}), json!([{"kind": "User", "name": "alice"}]));
    let _process = cluster.start("one");
    soon().await;
    assert_eq!(checks(&cluster, "p").0, "True NoChecks, ready True Ready");
    assert!(
        !cluster
            .writes(0)
            .iter()
            .any(|it| it.contains("subjectaccessreviews"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_does_not_count_for_a_connector_any_more_learns_it_and_when_it_does() {
    let (cluster, _process) = started().await;
    for number in 0..64 {
        policy(&cluster, &format!("q{number}"), json!({}));
        // Of the same second the names decide.
        sleep(Duration::from_secs(1)).await;
    }
    sleep(Duration::from_mins(5)).await;
    let (line, message) = checks(&cluster, "q63");
    assert_eq!(line, "False TooManyPolicies, ready False TooManyPolicies");
    assert!(
        message.contains("64 older policies") && message.contains("harbor"),
        "{message}"
    );
    let (line, _) = checks(&cluster, "q62");
    assert_eq!(line, "True ChecksValid, ready True Ready");
    cluster.server.delete("accesspolicies", TOOLS, "q7");
    sleep(Duration::from_mins(2)).await;
    assert_eq!(
        checks(&cluster, "q63").0,
        "True ChecksValid, ready True Ready"
    );
}
