//! Random policies, and random edits of them.

use campaign::stage::{APPS, MORE_APPS, TOOLS};
use serde_json::{Value, json};

use crate::dice::Dice;
use crate::world::{CONNECTORS, OURS, TEAM};

/// A module that reads the decision of a `ConfigMap`.
const DECIDES: &str = r#"package approval
import rego.v1
default output := {"state": "pending"}
output := {"state": input.data.state} if input.data.state
"#;
/// A module that gives two answers where the decision is `approved`, which is an error.
const FAILS: &str = r#"package approval
import rego.v1
output := {"state": "pending"}
output := {"state": "approved"} if input.data.state == "approved"
"#;
/// A module whose answer is no state.
const ODD: &str = r"package approval
import rego.v1
output := 7
";

/// A policy that can be read.
pub(crate) fn policy(dice: &mut Dice, namespace: &str, name: &str) -> Value {
    let permission = if dice.percent(92) { "apis" } else { "proxy" };
    let mut spec = json!({"connector": connectors(dice), "permission": permission});
    let (standing, checked) = dice.pick(&[
        (false, true),
        (false, true),
        (false, true),
        (true, false),
        (true, true),
    ]);
    if standing {
        spec["defaultPermission"] = json!({
            "roleTemplate": {"rules": [rule(dice, &format!("connectors/{permission}"))]},
            "bindingTemplate": {"subjects": subjects(dice, 1)},
        });
    }
    if checked {
        spec["checkGrantedPermission"] = granted(dice, permission);
    }
    json!({
        "apiVersion": OURS, "kind": "AccessPolicy",
        "metadata": {"name": name, "namespace": namespace}, "spec": spec,
    })
}

/// The same policy with a field that no version of the API knows. It was stored while the webhook was away.
pub(crate) fn unreadable(mut policy: Value) -> Value {
    policy["spec"]["conector"] = json!({"names": ["harbor"]});
    policy
}

/// The policy with another text, as its author could have it in a file. The word says how it was edited.
pub(crate) fn edited(dice: &mut Dice, policy: &Value) -> (Value, &'static str) {
    let (namespace, name) = (
        policy["metadata"]["namespace"].as_str().unwrap(),
        policy["metadata"]["name"].as_str().unwrap(),
    );
    let mut edited = policy.clone();
    let is_unreadable = edited["spec"]
        .as_object_mut()
        .unwrap()
        .remove("conector")
        .is_some();
    if is_unreadable {
        return (edited, "repaired");
    }
    let permission = edited["spec"]["permission"].as_str().unwrap().to_owned();
    let spec = &mut edited["spec"];
    let (has_standing, has_checks) = (
        spec["defaultPermission"].is_object(),
        spec["checkGrantedPermission"].is_object(),
    );
    match dice.number(0, 8) {
        0 => (edited, "the same"),
        8 if has_checks => {
            let nobody = json!([{"kind": "ServiceAccount", "name": "nobody"}]);
            spec["checkGrantedPermission"]["requesters"] = nobody;
            (edited, "no requesters any more")
        }
        1 => {
            spec["connector"] = connectors(dice);
            (edited, "other connectors")
        }
        2 if has_standing => {
            let more = subjects(dice, 1);
            let list = spec["defaultPermission"]["bindingTemplate"]["subjects"].as_array_mut();
            let list = list.unwrap();
            list.extend(more.as_array().unwrap().iter().cloned());
            list.dedup();
            (edited, "more subjects")
        }
        3 if has_standing => {
            spec["defaultPermission"]["bindingTemplate"]["subjects"] = subjects(dice, 1);
            (edited, "other subjects")
        }
        2 | 3 if has_checks => {
            let requesters = requesters(dice);
            spec["checkGrantedPermission"]["requesters"] = requesters;
            (edited, "other requesters")
        }
        4 | 5 if has_checks => {
            let check = check(dice, "first");
            spec["checkGrantedPermission"]["spec"]["checks"][0] = check;
            (edited, "another check")
        }
        6 if has_checks => {
            let other = granted(dice, &permission);
            let part = dice.pick(&["permissions", "limits"]);
            let spec = &mut spec["checkGrantedPermission"]["spec"];
            spec[part] = other["spec"].get(part).cloned().unwrap_or(json!({}));
            (edited, "other permissions or limits")
        }
        _ => (self::policy(dice, namespace, name), "another text"),
    }
}

fn connectors(dice: &mut Dice) -> Value {
    let oci = json!({"matchLabels": {"form": "oci"}});
    match dice.number(0, 9) {
        0..=4 => json!({}),
        5 => {
            let mut names = dice.some(&CONNECTORS, 70);
            if names.is_empty() {
                names.push(CONNECTORS[0]);
            }
            json!({"names": names})
        }
        6 => json!({"selector": oci}),
        7 => json!({"names": [CONNECTORS[0]], "selector": oci}),
        8 => json!({"selector": {"matchLabels": {"connectors.cpaas.io/connectorclass": "harbor"}}}),
        _ => json!({"selector": {"matchExpressions": [
            {"key": "form", "operator": "NotIn", "values": ["git"]},
        ]}}),
    }
}

/// Mostly one that opens the mount.
fn rule(dice: &mut Dice, resource: &str) -> Value {
    let verbs = if dice.percent(80) {
        json!(["*"])
    } else {
        json!(["read"])
    };
    json!({"apiGroups": ["connectors.alauda.io"], "resources": [resource], "verbs": verbs})
}

/// At least so many.
fn subjects(dice: &mut Dice, least: usize) -> Value {
    let team = json!({"matchLabels": {TEAM: "x"}});
    let role = json!({"matchLabels": {"role": "ci"}});
    let all = [
        json!({"kind": "ServiceAccount", "name": "builder", "namespace": APPS}),
        json!({"kind": "ServiceAccount", "name": "builder", "namespace": MORE_APPS}),
        json!({"kind": "ServiceAccount", "name": format!("system:serviceaccount:{APPS}:default")}),
        json!({"kind": "ServiceAccount", "name": "builder"}),
        json!({"kind": "ServiceAccount", "nameSelector": role}),
        json!({"kind": "ServiceAccount", "nameSelector": role, "namespaceSelector": team}),
        json!({"kind": "Group", "name": format!("system:serviceaccounts:{APPS}")}),
        json!({"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": team}),
        json!({"kind": "User", "name": format!("system:serviceaccount:{APPS}:builder")}),
        json!({"kind": "Group", "name": "ops"}),
        json!({"kind": "User", "name": "ada"}),
    ];
    let number = dice.number(least, 3);
    let mut chosen = Vec::new();
    while chosen.len() < number {
        let subject = dice.pick(&all);
        if !chosen.contains(&subject) {
            chosen.push(subject);
        }
    }
    json!(chosen)
}

/// Null for none.
fn requesters(dice: &mut Dice) -> Value {
    let namespaces: Vec<Value> = [APPS, MORE_APPS, TOOLS]
        .map(|it| json!({"kind": "Group", "name": format!("system:serviceaccounts:{it}")}))
        .into();
    match dice.number(0, 9) {
        0 => Value::Null,
        1 if dice.percent(50) => json!([]),
        1..=7 => json!(namespaces),
        _ => subjects(dice, 2),
    }
}

fn granted(dice: &mut Dice, permission: &str) -> Value {
    let mut checks = vec![check(dice, "first")];
    if dice.percent(25) {
        checks.push(check(dice, "second"));
    }
    let object = if dice.percent(88) {
        "v1/pod"
    } else {
        "tekton.dev/v1/pipelineruns"
    };
    let resource = format!(
        "connectors/{permission}/{object}/{{.object.metadata.namespace}}/{{.object.metadata.name}}"
    );
    let mut spec = json!({
        "checks": checks,
        "permissions": {"roleTemplate": {"rules": [rule(dice, &resource)]}},
    });
    match dice.number(0, 9) {
        0 => spec["limits"] = json!({"pendingTimeout": "20s"}),
        1 => spec["limits"] = json!({"pendingTimeout": "9h"}),
        2 => spec["limits"] = json!({"maxDuration": "9h"}),
        _ => {}
    }
    let mut granted = json!({"spec": spec});
    let requesters = requesters(dice);
    if !requesters.is_null() {
        granted["requesters"] = requesters;
    }
    granted
}

fn check(dice: &mut Dice, name: &str) -> Value {
    let signoff = ("example.com/v1", "Signoff");
    let (api_version, kind) = dice.pick(&[
        signoff,
        signoff,
        signoff,
        signoff,
        signoff,
        signoff,
        signoff,
        signoff,
        ("v1", "ConfigMap"),
        ("v1", "ConfigMap"),
        ("openshift-pipelines.org/v1alpha1", "ApprovalTask"),
        ("example.com/v1", "Latecomer"),
        ("example.com/v1", "Freeze"),
    ]);
    let (key, template) = dice.pick(&[
        ("run", "{.object.metadata.name}"),
        ("run", "{.object.metadata.name}"),
        ("run", "{.object.metadata.name}"),
        ("run", "{.object.metadata.name}"),
        ("run", "{.object.metadata.name}"),
        ("change", "{.object.metadata.labels.change}"),
    ]);
    let mut check = json!({"name": name, "selector": {
        "labels": {key: template}, "objectRef": {"apiVersion": api_version, "kind": kind},
    }});
    if kind == "Signoff" && dice.percent(35) {
        check["selector"]["fieldSelector"] = json!({"spec.type": "window"});
    }
    if dice.percent(30) {
        check["match"] = "Any".into();
    }
    if dice.percent(20) {
        check["latch"] = dice.pick(&["WhileHolds", "Once"]).into();
    }
    match kind {
        "ConfigMap" => {
            let module = dice.pick(&[DECIDES, DECIDES, DECIDES, FAILS, ODD]);
            check["state"] = json!({"rego": module});
        }
        "ApprovalTask" => {
            check["provenance"] = dice.pick(&["None", "None", "Auto"]).into();
            if dice.percent(50) {
                check["approvers"] = json!({"users": ["ada"], "minimum": 1});
            }
        }
        _ => {}
    }
    check
}
