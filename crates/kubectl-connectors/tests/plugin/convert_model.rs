//! A conversion gives no more access than before: what the other product decides is written down here on its own, and
//! compared with what this product decides by the converted policy.
//!
//! The model runs the original Rego modules by the engine alone, under both forms of input that the versions of that product
//! have. Nothing of `convert` takes part in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use regorus::Engine;
use serde_json::{Value, json};

use crate::cluster::CHANGES;
use crate::convert::{TEMPLATES, path, plugin};

/// What that product makes of an object, or of all objects of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShippedAnswer {
    True,
    False,
    Unknown,
}

/// Versions with different inputs, as `--from` names them.
const VERSIONS: [&str; 2] = ["1.12", "1.14"];

/// The answer of a module about an object.
fn answer(module: &str, object: &Value, version: &str) -> ShippedAnswer {
    let input = match version {
        "1.12" => object.clone(),
        _ => json!({"object": object, "check": {"params": {}}}),
    };
    let load = |is_version_0| {
        let mut engine = Engine::new();
        engine.set_rego_v0(is_version_0);
        let loaded = engine.add_policy("check.rego".to_owned(), module.to_owned());
        loaded.map(|_| engine)
    };
    let mut engine = load(false).or_else(|_| load(true)).unwrap();
    engine.set_input_json(&input.to_string()).unwrap();
    let result = engine.eval_rule("data.check.result".to_owned()).unwrap();
    let status = result["status"].as_string().map(ToString::to_string);
    match status.as_deref() {
        Ok("True") => ShippedAnswer::True,
        Ok("False") => ShippedAnswer::False,
        _ => ShippedAnswer::Unknown,
    }
}

/// One that passes is enough; without one, a rejection counts more than silence.
fn together(answers: &[ShippedAnswer]) -> ShippedAnswer {
    let order = [ShippedAnswer::True, ShippedAnswer::False];
    let first = order.into_iter().find(|it| answers.contains(it));
    first.unwrap_or(ShippedAnswer::Unknown)
}

/// The rules of a module, and whether it can be converted.
const MODULES: [(&str, bool); 14] = [
    (
        "result = {\"status\": \"True\"} { input.status.phase == \"Done\" }",
        true,
    ),
    (
        "result = {\"status\": \"True\"} { input.object.status.phase == \"Done\" }",
        true,
    ),
    (
        "# The object decides.\nresult = {\"status\": \"True\"} { not input.spec.frozen }",
        true,
    ),
    (
        "result = {\"status\": \"True\"} { not input.object.spec.frozen }",
        true,
    ),
    (
        "# object\nresult = {\"status\": \"True\"} { not object.get(input.spec, \"frozen\", false) }",
        true,
    ),
    (
        "result = {\"status\": \"True\"} { not input.spec.object; input.status.phase == \"Done\" }",
        true,
    ),
    (
        "result = {\"status\": \"True\", \"reason\": \"input.object\"} { not input[\"spec\"].frozen }",
        true,
    ),
    (
        "result = {\"status\": \"True\"} { not input[\"object\"][\"spec\"].frozen }",
        true,
    ),
    (
        "bad { input.spec.frozen }\nresult = {\"status\": \"True\"} { not bad }",
        true,
    ),
    (
        "bad { input.object.spec.frozen }\nresult = {\"status\": \"True\"} { not bad; not input.spec.frozen }",
        false,
    ),
    (
        "result = {\"status\": \"True\"} { seen := input; not seen.spec.frozen }",
        false,
    ),
    (
        "result = {\"status\": \"True\"} { key := \"object\"; not input[key].spec.frozen }",
        false,
    ),
    (
        "import input.object as seen\nresult = {\"status\": \"True\"} { not seen.spec.frozen }",
        false,
    ),
    (
        "bad { input.frozen }\nresult = {\"status\": \"True\"} { not bad with input as input.spec }",
        false,
    ),
];

/// Each pair of them is looked at: they pass, reject, and say nothing.
fn objects() -> Vec<Value> {
    vec![
        json!({"spec": {}, "status": {"phase": "Done"}}),
        json!({"spec": {"frozen": true}, "status": {"phase": "Done"}}),
        json!({"spec": {"frozen": true}, "status": {"phase": "Failed"}}),
        json!({"spec": {"frozen": true}, "status": {"phase": "Running"}}),
        json!({"object": {"spec": {}, "status": {"phase": "Done"}}, "spec": {"frozen": true}}),
    ]
}

fn pairs() -> Vec<Vec<Value>> {
    let objects = objects();
    let mut pairs = vec![Vec::new()];
    for (place, first) in objects.iter().enumerate() {
        pairs.push(vec![first.clone()]);
        pairs.extend(
            objects
                .iter()
                .skip(place)
                .map(|it| vec![first.clone(), it.clone()]),
        );
    }
    // Names and labels are those of the world.
    for (pod, objects) in pairs.iter_mut().enumerate() {
        for (number, object) in objects.iter_mut().enumerate() {
            object["apiVersion"] = json!(CHANGES);
            object["kind"] = json!("ChangeRequest");
            object["metadata"] = json!({"name": format!("c{pod}-{number}"), "namespace": "team-a",
                "labels": {"pod": format!("build-{pod}")}});
        }
    }
    pairs
}

/// An object of that product, converted: what is printed, and what is told. None if it is refused.
pub(crate) async fn converted(policy: &Value, flags: &[&str]) -> Option<(String, String)> {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("policy.json");
    fs::write(&file, policy.to_string()).unwrap();
    let templates = path(TEMPLATES);
    let mut args = vec!["convert", file.to_str().unwrap(), &templates];
    args.extend(flags);
    let outcome = plugin(&args).await;
    (outcome.exit.code() == 0).then_some((outcome.output, outcome.errors))
}

/// The access of each case to its connector, by this product.
async fn found(
    policy: &str,
    world: &[Value],
    cases: &[(String, String)],
) -> BTreeMap<(String, String), String> {
    let place = tempfile::tempdir().unwrap();
    let texts: Vec<_> = world
        .iter()
        .map(|it| serde_yaml::to_string(it).unwrap())
        .collect();
    let asked: Vec<_> = cases
        .iter()
        .map(|(pod, connector)| {
            json!({"name": format!("{pod} {connector}"), "pod": pod, "connector": connector, "permission": "proxy",
                "expect": {"access": "NoPolicy"}})
        })
        .collect();
    let test = json!({"apiVersion": "cli.connectors.alauda.io/v1", "kind": "PolicyTest",
        "metadata": {"name": "t"}, "settings": {"namespaceSelectorKeys": ["project"]}, "cases": asked});
    for (name, text) in [
        ("policy.yaml", policy.to_owned()),
        ("world.yaml", texts.join("---\n")),
        ("test.json", test.to_string()),
    ] {
        fs::write(place.path().join(name), text).unwrap();
    }
    let outcome = plugin(&[
        "policy",
        "test",
        place.path().to_str().unwrap(),
        "-o",
        "json",
    ])
    .await;
    let report: Value = serde_json::from_str(&outcome.output).unwrap();
    let told = report["cases"].as_array().unwrap().iter().map(|case| {
        let name = case["case"].as_str().unwrap();
        let (pod, connector) = name.split_once(' ').unwrap();
        let access = case["differences"]
            .as_array()
            .unwrap()
            .iter()
            .find(|it| it["field"] == "expect.access");
        let access = access.map_or("NoPolicy", |it| it["found"].as_str().unwrap());
        ((pod.to_owned(), connector.to_owned()), access.to_owned())
    });
    let told: BTreeMap<_, _> = told.collect();
    assert_eq!(told.len(), cases.len(), "{report}");
    told
}

fn object(version: &str, kind: &str, namespace: &str, name: &str, rest: &Value) -> Value {
    let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}});
    for (field, value) in rest.as_object().unwrap() {
        if field == "labels" {
            object["metadata"][field] = value.clone();
        } else {
            object[field] = value.clone();
        }
    }
    object
}

fn pod(namespace: &str, name: &str, account: &str) -> Value {
    object(
        "v1",
        "Pod",
        namespace,
        name,
        &json!({"spec": {"serviceAccountName": account}}),
    )
}

fn connector(name: &str, class: &str, labels: &Value) -> Value {
    let rest = json!({"spec": {"connectorClassName": class}, "labels": labels});
    object(
        "connectors.alauda.io/v1alpha1",
        "Connector",
        "team-a",
        name,
        &rest,
    )
}

fn policy(spec: &Value) -> Value {
    object(
        "connectors.alauda.io/v1alpha1",
        "AccessPolicy",
        "team-a",
        "p",
        &json!({"spec": spec}),
    )
}

/// What pods get by the converted module, and what the conversion tells. None if the module is refused.
async fn by_module(module: &str, flags: &[&str]) -> Option<(Vec<String>, String)> {
    let policy = policy(&json!({"checkGrantedPermission": {"spec": {
        "roleTemplate": {"ref": {"configMap": {"name": "connectors-use-connectors-proxy-in-pod"}}},
        "checks": [{"name": "change", "spec": {
            "selector": {
                "objectRef": {"apiVersion": CHANGES, "kind": "ChangeRequest"},
                "matchLabels": {"pod": "{.object.metadata.name}"},
            },
            "state": {"rego": module},
        }}],
    }}}));
    let (policy, told) = converted(&policy, flags).await?;
    let pairs = pairs();
    let pods: Vec<_> = (0..pairs.len()).map(|it| format!("build-{it}")).collect();
    let mut world: Vec<_> = pairs.into_iter().flatten().collect();
    world.extend(pods.iter().map(|it| pod("team-a", it, "builder")));
    world.push(connector("harbor", "oci", &json!({})));
    let case = |pod: &String| (format!("team-a/{pod}"), "team-a/harbor".to_owned());
    let cases: Vec<_> = pods.iter().map(case).collect();
    let found = found(&policy, &world, &cases).await;
    Some((cases.iter().map(|it| found[it].clone()).collect(), told))
}

/// The part of every module that is the same: what fails is rejected, and the rest waits.
fn whole(rules: &str) -> String {
    let (imports, rules) = match rules.strip_prefix("import ") {
        Some(rest) => {
            let (import, rules) = rest.split_once('\n').unwrap();
            (format!("import {import}\n"), rules)
        }
        None => (String::new(), rules),
    };
    let failed = if rules.contains("input.object.") || rules.contains("input[\"object\"]") {
        "input.object.status.phase"
    } else {
        "input.status.phase"
    };
    format!(
        "package check\n{imports}default result = {{\"status\": \"Unknown\"}}\n{rules}\n\
         result = {{\"status\": \"False\"}} {{ {failed} == \"Failed\" }}\n"
    )
}

/// With the version known there is one difference, and it is told: a rejection beside silence waits.
#[tokio::test]
async fn a_converted_module_decides_as_the_original_in_its_version() {
    let (mut compared, mut waits) = (0, 0);
    for (rules, is_sayable) in MODULES {
        let module = whole(rules);
        let mut is_said = false;
        for version in VERSIONS {
            let Some((found, told)) = by_module(&module, &["--from", version]).await else {
                continue;
            };
            is_said = true;
            for (objects, found) in pairs().iter().zip(&found) {
                let answers: Vec<_> = objects
                    .iter()
                    .map(|it| answer(&module, it, version))
                    .collect();
                let expected = match together(&answers) {
                    ShippedAnswer::True => "Granted",
                    ShippedAnswer::False if answers.contains(&ShippedAnswer::Unknown) => {
                        assert!(told.contains("[RejectionWaits]"), "{told}");
                        waits += 1;
                        "Waits"
                    }
                    ShippedAnswer::False => "Refused",
                    ShippedAnswer::Unknown => "Waits",
                };
                assert_eq!(found, expected, "{version}: {objects:?}\n{module}");
                compared += 1;
            }
        }
        assert_eq!(is_said, is_sayable, "{module}");
    }
    assert!(compared >= 180 && waits >= 5, "{compared} {waits}");
}

/// Without the version, a grant that one version would not give is told.
#[tokio::test]
async fn a_grant_that_one_version_would_not_give_is_told() {
    let mut told_of = 0;
    for (rules, is_sayable) in MODULES {
        let module = whole(rules);
        let said = by_module(&module, &[]).await;
        assert_eq!(said.is_some(), is_sayable, "{module}");
        let Some((found, told)) = said else {
            continue;
        };
        let exceeds = |version: &str| {
            let mut pods = pairs().into_iter().zip(&found);
            pods.any(|(objects, found)| {
                let answers: Vec<_> = objects
                    .iter()
                    .map(|it| answer(&module, it, version))
                    .collect();
                found == "Granted" && together(&answers) != ShippedAnswer::True
            })
        };
        let exceeded = VERSIONS.into_iter().filter(|it| exceeds(it)).count();
        assert!(exceeded < VERSIONS.len(), "{module}");
        if exceeded > 0 {
            assert!(
                told.contains("wider: ") && told.contains("[ModuleOfOneVersion]"),
                "{told}"
            );
            told_of += 1;
        }
    }
    assert!(told_of >= 3, "{told_of}");
}

/// True when a selector of that product selects an object: by name if it has names, else by labels. Nothing selects all.
fn selects(selector: &Value, name: &str, labels: &Value) -> bool {
    if let Some(names) = selector["names"].as_array().filter(|it| !it.is_empty()) {
        return names.contains(&json!(name));
    }
    let by_value = selector["matchLabels"].as_object().into_iter().flatten();
    let mut by_value = by_value.map(|(key, value)| labels.get(key) == Some(value));
    let by_rule = selector["matchExpressions"]
        .as_array()
        .into_iter()
        .flatten();
    let mut by_rule = by_rule.map(|it| {
        let value = labels.get(it["key"].as_str().unwrap());
        let is_in = value.is_some_and(|value| {
            it["values"]
                .as_array()
                .is_some_and(|all| all.contains(value))
        });
        match it["operator"].as_str().unwrap() {
            "In" => is_in,
            "NotIn" => !is_in,
            "Exists" => value.is_some(),
            _ => value.is_none(),
        }
    });
    by_value.all(|it| it) && by_rule.all(|it| it)
}

/// Namespaces with their labels.
const NAMESPACES: [(&str, &str); 3] = [("team-a", "one"), ("team-b", "one"), ("team-c", "two")];
const ACCOUNTS: [&str; 2] = ["builder", "deployer"];

/// Names of connectors with their class and the labels that are written.
fn connectors() -> [(&'static str, &'static str, Value); 4] {
    [
        ("bare", "oci", json!({})),
        (
            "labelled",
            "oci",
            json!({"connectors.cpaas.io/connectorclass": "oci"}),
        ),
        (
            "lying",
            "git",
            json!({"connectors.alauda.io/connectorclass": "oci", "tier": "prod"}),
        ),
        ("other", "git", json!({"tier": "test"})),
    ]
}

/// Subjects and connectors of standing permissions.
#[tokio::test]
async fn a_converted_standing_permission_has_no_more_subjects_and_connectors() {
    let class = |key: &str| json!({"matchLabels": {key: "oci"}});
    let selectors = [
        json!({}),
        json!({"names": ["bare", "other"]}),
        json!({"matchLabels": {"tier": "prod"}}),
        json!({"names": ["bare"], "matchLabels": {"tier": "prod"}}),
        json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["prod"]}]}),
        json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}),
        class("connectors.cpaas.io/connectorclass"),
        class("connectors.alauda.io/connectorclass"),
        json!({"matchExpressions": [{"key": "connectors.cpaas.io/connectorclass", "operator": "DoesNotExist"}]}),
        json!({"names": [], "matchLabels": {"tier": "prod"}}),
        json!({"names": []}),
    ];
    let accounts = [
        json!({"names": ["builder"], "namespaceSelector": {"names": ["team-a", "team-b"]}}),
        json!({"names": [], "namespaceSelector": {"names": ["team-b"]}}),
        json!({"names": [""], "namespaceSelector": {"matchLabels": {"project": "one"}}}),
        json!({"namespaceSelector": {"names": ["team-a"], "matchLabels": {"project": "two"}}}),
        json!({"namespaceSelector": {"matchExpressions": [{"key": "project", "operator": "NotIn", "values": ["two"]}]}}),
        json!({"names": ["builder"], "namespaceSelector": {"matchLabels": {"project": "one"}}}),
        json!({"names": ["builder"]}),
        json!({}),
    ];
    let mut world = Vec::new();
    let mut cases = Vec::new();
    let label = |project: &str, name: &str| json!({"project": project, "kubernetes.io/metadata.name": name});
    for (name, project) in NAMESPACES {
        world.push(json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": label(project, name)}}));
        for account in ACCOUNTS {
            world.push(pod(name, account, account));
            for (connector, ..) in connectors() {
                cases.push((format!("{name}/{account}"), format!("team-a/{connector}")));
            }
        }
    }
    for (name, class, labels) in connectors() {
        world.push(connector(name, class, &labels));
    }
    let mut outcomes = BTreeSet::new();
    for selector in &selectors {
        for account in &accounts {
            let spec = json!({"connector": selector, "defaultPermission": {
                "roleTemplate": {"ref": {"configMap": {"name": "connectors-use-connectors-proxy"}}},
                "bindingTemplate": {"serviceAccounts": [account]},
            }});
            let Some((policy, told)) = converted(&policy(&spec), &[]).await else {
                outcomes.insert("refused");
                continue;
            };
            for ((pod, wanted), access) in found(&policy, &world, &cases).await {
                let is_told = told.contains("[ClassLabelsAreImplied]");
                let (namespace, name) = pod.split_once('/').unwrap();
                let project = NAMESPACES.iter().find(|it| it.0 == namespace).unwrap().1;
                let names = account["names"].as_array();
                let names = names.filter(|it| !it.is_empty() && **it != vec![json!("")]);
                let is_subject = names.is_none_or(|it| it.contains(&json!(name)))
                    && selects(
                        &account["namespaceSelector"],
                        namespace,
                        &label(project, namespace),
                    );
                let connectors = connectors();
                let (short, _, labels) =
                    connectors.iter().find(|it| wanted.ends_with(it.0)).unwrap();
                let is_selected = selects(selector, short, labels);
                match (access == "Standing", is_subject && is_selected) {
                    (true, true) => outcomes.insert("kept"),
                    (true, false) => {
                        assert!(is_subject && is_told, "{pod} {wanted}: {spec}\n{told}");
                        outcomes.insert("told")
                    }
                    (false, true) => outcomes.insert("narrower"),
                    (false, false) => outcomes.insert("nothing"),
                };
            }
        }
    }
    assert_eq!(
        outcomes,
        ["kept", "narrower", "nothing", "refused", "told"].into()
    );
}
