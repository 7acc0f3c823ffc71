//! `policy lint`, `policy test` and `policy coverage`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::Parser as _;
use kubectl_connectors::answer::Consent;
use kubectl_connectors::args::Args;
use kubectl_connectors::modules::Modules;
use kubectl_connectors::output::Colours;
use kubectl_connectors::run::{self, Outcome, RunPlace};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::{change, pod, policy, start};
use crate::convert::plugin;

async fn offline(args: &[&str]) -> Outcome {
    plugin(&[&["policy"], args].concat()).await
}

/// Files of a directory that goes away with the test.
fn directory(files: &[(&str, String)]) -> TempDir {
    let place = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = place.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    place
}

fn shown(place: &TempDir, text: &str) -> String {
    text.replace(place.path().to_str().unwrap(), "DIR")
}

fn documents(objects: &[Value]) -> String {
    let texts: Vec<_> = objects
        .iter()
        .map(|it| serde_yaml::to_string(it).unwrap())
        .collect();
    texts.join("---\n")
}

#[derive(Deserialize)]
struct RefusedPolicies {
    bases: BTreeMap<String, Value>,
    cases: Vec<RefusedPolicy>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct RefusedPolicy {
    name: String,
    base: String,
    set: BTreeMap<String, Value>,
    message: String,
    neighbour: Option<BTreeMap<String, Value>>,
}

fn with(base: &Value, set: &BTreeMap<String, Value>) -> Value {
    let mut spec = base.clone();
    for (path, value) in set {
        let (parent, field) = path.rsplit_once('/').unwrap();
        spec.pointer_mut(parent).unwrap()[field] = value.clone();
    }
    json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
        "metadata": {"name": "p", "namespace": "tools"}, "spec": spec,
    })
}

async fn errors_of(policy: &Value) -> (u8, Vec<Value>) {
    let place = directory(&[("p.yaml", documents(std::slice::from_ref(policy)))]);
    let file = place.path().join("p.yaml");
    let outcome = offline(&["lint", file.to_str().unwrap(), "-o", "json"]).await;
    let report: Value = serde_json::from_str(&outcome.output).unwrap();
    let findings = report["files"][0]["policies"][0]["findings"]
        .as_array()
        .unwrap()
        .clone();
    let errors = findings.into_iter().filter(|it| it["severity"] == "Error");
    (outcome.exit.code(), errors.collect())
}

/// The table of what the API server with its webhook refuses. Only the rights of the author are left to the webhook.
#[tokio::test]
async fn lint_refuses_what_the_webhook_refuses_and_lets_its_neighbour_through() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/cases/webhook/policies.yaml");
    let RefusedPolicies { bases, cases } =
        serde_yaml::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let mut seen = 0;
    for case in cases {
        if case.message.contains("you may not update") {
            continue;
        }
        let base = &bases[&case.base];
        let (code, errors) = errors_of(&with(base, &case.set)).await;
        assert_eq!(code, 1, "{}: {errors:?}", case.name);
        assert!(!errors.is_empty(), "{}", case.name);
        if let Some(neighbour) = &case.neighbour {
            let (code, errors) = errors_of(&with(base, neighbour)).await;
            assert_eq!(
                (code, errors),
                (0, vec![]),
                "the neighbour of {}",
                case.name
            );
        }
        seen += 1;
    }
    assert!(seen >= 12, "{seen}");
}

#[tokio::test]
async fn lint_names_file_line_and_column_as_compilers_do() {
    let text = "\
# Two policies.
apiVersion: connectors.alauda.io/v1alpha1
kind: AccessPolicy
metadata: {name: p, namespace: tools}
spec:
  connector: {names: [prod]}
  conector: {}
  defaultPermission:
    roleTemplate: {rules: [{apiGroups: [connectors.alauda.io], resources: [connectors/apis], verbs: [read]}]}
    bindingTemplate: {subjects: [{kind: ServiceAccount, name: builder}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: m}
";
    let place = directory(&[("p.yaml", text.to_owned()), ("odd.yaml", "a: [".to_owned())]);
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let outcome = offline(&["lint", &path("p.yaml")]).await;
    let output = shown(&place, &outcome.output);
    assert!(
        output.starts_with("DIR/p.yaml:7:3: error: spec.conector: unknown field"),
        "{output}"
    );
    assert!(output.contains("DIR/p.yaml:9:"), "{output}");
    assert!(
        output.ends_with("1 policies: 1 errors, 1 warnings\n"),
        "{output}"
    );
    let outcome = offline(&[
        "lint",
        &path("p.yaml"),
        &path("odd.yaml"),
        &path("none.yaml"),
    ])
    .await;
    assert_eq!(outcome.exit.code(), 2, "{outcome:?}");
    assert!(
        outcome.output.contains("odd.yaml: error: line "),
        "{}",
        outcome.output
    );
    assert!(
        outcome.output.contains("none.yaml: error: "),
        "{}",
        outcome.output
    );
}

#[tokio::test]
async fn a_warning_fails_only_where_it_shall() {
    let mut suspicious = policy("p", "payments");
    suspicious["spec"]["checkGrantedPermission"]["spec"]["checks"][0]["selector"]["labels"] =
        json!({"app": "fixed"});
    let place = directory(&[("p.yaml", documents(&[suspicious]))]);
    let file = place.path().join("p.yaml");
    let file = file.to_str().unwrap();
    let outcome = offline(&["lint", file]).await;
    assert!(outcome.output.contains("warning: "), "{}", outcome.output);
    assert_eq!(outcome.exit.code(), 0);
    assert_eq!(offline(&["lint", "--strict", file]).await.exit.code(), 1);
}

fn connector() -> Value {
    json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "Connector",
        "metadata": {"name": "prod-harbor", "namespace": "payments"}, "spec": {"connectorClassName": "oci"},
    })
}

fn world() -> String {
    documents(&[
        policy("approved-changes", "payments"),
        pod("build-1"),
        connector(),
    ])
}

const TEST: &str = "\
apiVersion: cli.connectors.alauda.io/v1
kind: PolicyTest
metadata: {name: changes}
cases:
- name: waits without a change
  pod: team-a/build-1
  connector: payments/prod-harbor
  expect:
    access: Waits
    policies:
      approved-changes:
        applies: Yes
        verdict: AccessCheckPending
        checks: {change: {reason: NoObjects, message: no ChangeRequest with labels pod=build-1}}
        rules: []
- name: an approved change lets in, for this pod alone
  pod: team-a/build-1
  connector: payments/prod-harbor
  objects:
  - apiVersion: itsm.example.com/v1
    kind: ChangeRequest
    metadata: {name: chg-42, namespace: team-a, labels: {pod: build-1}}
    status: {state: approved}
  expect:
    access: Granted
    policies:
      approved-changes:
        checks: {change: {objects: [chg-42]}}
        rules: [{resources: [connectors/apis/v1/pod/team-a/build-1], verbs: ['*']}]
- name: another account does not get in
  pod:
    metadata: {name: other, namespace: team-a}
    spec: {serviceAccountName: intruder}
  connector: payments/prod-harbor
  expect: {access: NoPolicy, policies: {approved-changes: {applies: OtherSubject}}}
";

async fn tested(test: &str, args: &[&str]) -> (TempDir, Outcome) {
    let place = directory(&[("world.yaml", world()), ("test.yaml", test.to_owned())]);
    let path = place.path().to_str().unwrap().to_owned();
    let args: Vec<_> = ["test", &path]
        .into_iter()
        .chain(args.iter().copied())
        .collect();
    let outcome = offline(&args).await;
    (place, outcome)
}

#[tokio::test]
async fn answers_as_expected_pass() {
    let (_, outcome) = tested(TEST, &[]).await;
    assert_eq!(
        outcome.output,
        "\
ok   changes: waits without a change
ok   changes: an approved change lets in, for this pod alone
ok   changes: another account does not get in
3 passed, 0 failed
"
    );
    assert_eq!(outcome.exit.code(), 0);
}

#[tokio::test]
async fn each_difference_has_its_line_its_field_and_the_reason() {
    let wrong = TEST
        .replace("access: Waits", "access: Granted")
        .replace("reason: NoObjects", "reason: Pending")
        .replace("build-1], verbs", "build-2], verbs");
    let (place, outcome) = tested(&wrong, &[]).await;
    assert_eq!(outcome.exit.code(), 1);
    let output = shown(&place, &outcome.output);
    for told in [
        "DIR/test.yaml:9: expect.access: expected Granted, found Waits",
        "DIR/test.yaml:14: expect.policies.approved-changes.checks.change.reason: expected Pending, found NoObjects",
        "no ChangeRequest with labels pod=build-1 in namespace team-a",
        "DIR/test.yaml:29: expect.policies.approved-changes.rules: expected * on connectors/apis/v1/pod/team-a/build-2, \
         found * on connectors/apis/v1/pod/team-a/build-1",
        "1 passed, 2 failed",
    ] {
        assert!(output.contains(told), "{told}\n{output}");
    }
}

#[tokio::test]
async fn a_test_that_cannot_be_used_names_the_field_and_the_line() {
    for (from, to, told) in [
        (
            "access: Waits",
            "acess: Waits",
            "test.yaml:9: error: cases[0].expect.acess: unknown field `acess`",
        ),
        (
            "applies: Yes",
            "applies: Maybe",
            "test.yaml:12: error: cases[0].expect.policies.approved-changes.applies: unknown variant",
        ),
        (
            "pod: team-a/build-1",
            "pod: team-a/nobody",
            "test.yaml:6: error: cases[0].pod: there is no pod `team-a/nobody`",
        ),
        (
            "connector: payments/",
            "connector: /",
            "test.yaml:7: error: cases[0].connector: ",
        ),
        (
            "metadata: {name: changes}",
            "settings: {sharedFields: [1]}",
            "test.yaml:3: error: settings: ",
        ),
        (
            "cli.connectors.alauda.io/v1",
            "v1",
            "test.yaml:1: error: apiVersion: must be cli.connectors.alauda.io/v1",
        ),
    ] {
        let (_, outcome) = tested(&TEST.replacen(from, to, 1), &[]).await;
        assert!(outcome.output.contains(told), "{told}\n{}", outcome.output);
        assert_eq!(outcome.exit.code(), 2, "{told}");
    }
    let empty = directory(&[]);
    let outcome = offline(&["test", empty.path().to_str().unwrap()]).await;
    assert!(
        outcome
            .errors
            .contains("holds no document of kind PolicyTest"),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn ci_systems_read_the_report_in_their_forms() {
    let name = "another account does not get in";
    let wrong = TEST.replace(name, &format!("'#1 <&> {name}'"));
    let wrong = wrong.replace("access: NoPolicy", "access: Waits");
    let (_, outcome) = tested(&wrong, &["--format", "tap"]).await;
    let lines: Vec<_> = outcome.output.lines().collect();
    assert_eq!(
        lines[..3],
        [
            "TAP version 14",
            "1..3",
            "ok 1 - changes: waits without a change"
        ]
    );
    assert!(
        lines[4].starts_with(r"not ok 3 - changes: \#1 <&> another"),
        "{lines:?}"
    );
    let (_, outcome) = tested(&wrong, &["--format", "junit"]).await;
    for told in [
        r#"<testsuite name="policy test" tests="3" failures="1" errors="0">"#,
        r##"name="#1 &lt;&amp;&gt; another account does not get in""##,
        r#"<failure message=""#,
    ] {
        assert!(outcome.output.contains(told), "{told}\n{}", outcome.output);
    }
    let (_, outcome) = tested(TEST, &["-o", "json"]).await;
    let report: Value = serde_json::from_str(&outcome.output).unwrap();
    assert_eq!(
        (&report["kind"], &report["passed"]),
        (&json!("PolicyTestReport"), &json!(3))
    );
}

#[tokio::test]
async fn modules_and_objects_that_are_missing_in_one_case_are_tried() {
    let mut gated = policy("approved-changes", "payments");
    gated["spec"]["checkGrantedPermission"]["spec"]["checks"][0]["state"] = json!({
        "rego": "package approval\noutput := {\"state\": input.status.verdict}",
    });
    let mut approval = change("chg-42", None);
    approval["status"] = json!({"verdict": "passed"});
    let test = "\
apiVersion: cli.connectors.alauda.io/v1
kind: PolicyTest
cases:
- {name: passes, pod: team-a/build-1, connector: payments/prod-harbor, expect: {access: Granted}}
- name: waits
  pod: team-a/build-1
  connector: payments/prod-harbor
  without: [ChangeRequest team-a/chg-42]
  expect: {access: Waits}
";
    let place = directory(&[
        (
            "world.yaml",
            documents(&[gated, pod("build-1"), approval, connector()]),
        ),
        ("test.yaml", test.to_owned()),
    ]);
    let outcome = offline(&["test", place.path().to_str().unwrap()]).await;
    assert!(
        outcome.output.ends_with("2 passed, 0 failed\n"),
        "{}",
        outcome.output
    );
}

/// In a cluster the request of a missing connector waits, and rules that cover no mount open none.
#[tokio::test]
async fn a_missing_connector_and_rules_that_cover_no_mount_give_no_access() {
    let rule = |resource: &str, verb: &str| json!({"apiGroups": ["connectors.alauda.io"], "resources": [resource], "verbs": [verb]});
    let of_pod = "connectors/apis/v1/pod/{.object.metadata.namespace}/{.object.metadata.name}";
    let standing = |name: &str, verb: &str| {
        let mut policy = policy(name, "payments");
        policy["spec"] = json!({
            "connector": {"names": ["prod-harbor"]},
            "defaultPermission": {
                "roleTemplate": {"rules": [rule("connectors/apis", verb)]},
                "bindingTemplate": {"subjects": [{"kind": "ServiceAccount", "namespace": "team-a", "name": "builder"}]},
            },
        });
        policy
    };
    let granting = |rule: Value| {
        let mut policy = policy("approved-changes", "payments");
        let permissions = &mut policy["spec"]["checkGrantedPermission"]["spec"]["permissions"];
        permissions["roleTemplate"]["rules"] = json!([rule]);
        policy
    };
    let approval = || change("chg-42", Some("approved"));
    for (access, objects) in [
        (
            "Granted",
            vec![granting(rule(of_pod, "*")), approval(), connector()],
        ),
        ("Waits", vec![granting(rule(of_pod, "*")), approval()]),
        (
            "Waits",
            vec![granting(rule(of_pod, "get")), approval(), connector()],
        ),
        ("Standing", vec![standing("always", "*"), connector()]),
        ("Waits", vec![standing("always", "*")]),
        ("NoPolicy", vec![standing("always", "get"), connector()]),
    ] {
        let test = format!(
            "apiVersion: cli.connectors.alauda.io/v1\nkind: PolicyTest\ncases:\n- {{name: x, pod: team-a/build-1, \
             connector: payments/prod-harbor, expect: {{access: {access}}}}}\n"
        );
        let objects: Vec<_> = objects.into_iter().chain([pod("build-1")]).collect();
        let place = directory(&[("world.yaml", documents(&objects)), ("test.yaml", test)]);
        let outcome = offline(&["test", place.path().to_str().unwrap()]).await;
        assert!(
            outcome.output.ends_with("1 passed, 0 failed\n"),
            "{access}: {}",
            outcome.output
        );
    }
}

/// Directories of manifests have other objects too.
#[tokio::test]
async fn lint_finds_policies_in_lists_and_needs_one_policy_in_all_files() {
    let mut wrong = policy("p", "payments");
    wrong["spec"]["conector"] = json!({});
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [connector(), wrong]});
    let place = directory(&[
        ("list.yaml", documents(&[list])),
        ("other.yaml", documents(&[connector()])),
    ]);
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let outcome = offline(&["lint", &path("list.yaml"), &path("other.yaml")]).await;
    assert!(outcome.output.contains("spec.conector"), "{outcome:?}");
    assert_eq!(outcome.exit.code(), 1, "{outcome:?}");
    let outcome = offline(&["lint", &path("other.yaml")]).await;
    assert!(
        outcome.output.contains("has no AccessPolicy"),
        "{outcome:?}"
    );
    assert_eq!(outcome.exit.code(), 2);
}

/// `cargo xtask bench plugin` measures the time.
#[tokio::test]
async fn a_thousand_cases_are_answered() {
    let case = "- {name: waits, pod: team-a/build-1, connector: payments/prod-harbor, expect: {access: Waits}}\n";
    let head = "apiVersion: cli.connectors.alauda.io/v1\nkind: PolicyTest\ncases:\n";
    let (_, outcome) = tested(&format!("{head}{}", case.repeat(1_000)), &[]).await;
    assert!(outcome.output.ends_with("1000 passed, 0 failed\n"));
}

/// What a case of the directory reaches is not listed.
#[tokio::test]
async fn coverage_names_the_outcomes_that_no_case_reaches() {
    let place = directory(&[("world.yaml", world()), ("test.yaml", test_of(&[]))]);
    let outcome = offline(&["coverage", place.path().to_str().unwrap()]).await;
    assert_eq!(outcome.exit.code(), 1, "{outcome:?}");
    assert_eq!(
        shown(&place, &outcome.output),
        "\
DIR/world.yaml:1: policy payments/approved-changes: 2 of 6 reached
  no test in which requesters refuses another account
  no test in which checks.change passes
  no test in which checks.change says no
  no test in which rules[0] is given to a pod
2 of 6 reached
"
    );
    let stranger = {
        let mut stranger = pod("build-1");
        stranger["spec"]["serviceAccountName"] = "other".into();
        stranger
    };
    let all = test_of(&[
        json!({"name": "yes", "pod": "team-a/build-1", "connector": "payments/prod-harbor", "expect": {},
            "objects": [change("chg-42", Some("approved"))]}),
        json!({"name": "no", "pod": "team-a/build-1", "connector": "payments/prod-harbor", "expect": {},
            "objects": [change("chg-42", Some("rejected"))]}),
        json!({"name": "stranger", "pod": stranger, "connector": "payments/prod-harbor", "expect": {}}),
    ]);
    fs::write(place.path().join("test.yaml"), all).unwrap();
    let outcome = offline(&["coverage", place.path().to_str().unwrap(), "-o", "json"]).await;
    assert_eq!(outcome.exit.code(), 0, "{outcome:?}");
    let report: Value = serde_json::from_str(&outcome.output).unwrap();
    assert_eq!(
        (&report["kind"], &report["reached"]),
        (&json!("PolicyCoverage"), &json!(6))
    );
}

/// A case with a policy of its own says nothing about that of the directory.
#[tokio::test]
async fn a_case_that_replaces_the_policy_reaches_no_part_of_it() {
    let mut replaced = policy("approved-changes", "payments");
    replaced["spec"]["checkGrantedPermission"]["spec"]["limits"] = json!({"maxDuration": "1h"});
    let only = json!({
        "apiVersion": "cli.connectors.alauda.io/v1", "kind": "PolicyTest", "metadata": {"name": "t"},
        "cases": [{"name": "replaced", "pod": "team-a/build-1", "connector": "payments/prod-harbor", "expect": {},
            "objects": [replaced]}],
    });
    let place = directory(&[("world.yaml", world()), ("test.yaml", documents(&[only]))]);
    let outcome = offline(&["coverage", place.path().to_str().unwrap()]).await;
    assert!(
        outcome.output.ends_with("0 of 6 reached\n"),
        "{}",
        outcome.output
    );
    let empty = directory(&[]);
    let outcome = offline(&["coverage", empty.path().to_str().unwrap()]).await;
    assert_eq!(outcome.exit.code(), 2, "{outcome:?}");
}

/// A test with a case that waits, and these.
fn test_of(cases: &[Value]) -> String {
    let waits = json!({"name": "waits", "pod": "team-a/build-1", "connector": "payments/prod-harbor",
        "expect": {"access": "Waits"}});
    let cases: Vec<_> = [waits].into_iter().chain(cases.iter().cloned()).collect();
    documents(&[json!({
        "apiVersion": "cli.connectors.alauda.io/v1", "kind": "PolicyTest", "metadata": {"name": "t"}, "cases": cases,
    })])
}

#[tokio::test(start_paused = true)]
async fn a_watched_test_runs_again_after_each_change_of_a_file() {
    let place = directory(&[("world.yaml", world()), ("test.yaml", test_of(&[]))]);
    let path = place.path().join("test.yaml");
    let printed = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&printed);
    let print = Box::new(move |text: &str| {
        seen.borrow_mut().push(text.to_owned());
        let more = json!({"name": "more", "pod": "team-a/build-1", "connector": "payments/prod-harbor",
            "expect": {"access": "Granted"}});
        fs::write(&path, test_of(&[more])).unwrap();
        seen.borrow().len() < 2
    });
    let run = RunPlace {
        modules: Modules::of(PathBuf::from(env!("CARGO_BIN_EXE_kubectl-connectors"))),
        colours: Colours::Off,
        now: start,
        print,
        ask: Box::new(|_| Consent::NoTerminal),
    };
    let directory = place.path().to_str().unwrap();
    let args = ["kubectl-connectors", "policy", "test", directory, "--watch"];
    run::run(Args::try_parse_from(args).unwrap(), &run).await;
    let printed = printed.borrow();
    assert!(printed[0].ends_with("1 passed, 0 failed\n"), "{printed:?}");
    assert!(printed[1].ends_with("1 passed, 1 failed\n"), "{printed:?}");
    assert_eq!(printed.len(), 2);
}
