//! Reviews of access policies: sound ones, and some with flaws that are known.

use serde_json::{Map, Value, json};

use super::{
    super::{
        dice::Dice,
        world::{World, update_connectors},
    },
    Case, NAMESPACES, grant, grant_something_else, misroute, user,
};

pub(super) fn review(dice: &mut Dice, world: &mut World) -> Case {
    let user = user(dice);
    let namespace = dice.pick(&NAMESPACES);
    let mut policy = sound(dice, namespace);
    grant_some(dice, world, &user, namespace, &policy["spec"]["connector"]);
    let before = policy.clone();
    let mut flaws = Vec::new();
    while flaws.len() < 2 && dice.one_in(4) {
        flaws.extend(spoil(dice, &mut policy));
    }
    let mut review = super::review(dice, "accesspolicies", namespace, &user, &policy);
    let request = &mut review["request"];
    match dice.below(9) {
        0 => {
            request["operation"] = json!("UPDATE");
            request["oldObject"] = before;
        }
        1 => {
            request["operation"] = json!("UPDATE");
            request["oldObject"] = sound(dice, namespace);
        }
        2 => {
            // Labels, annotations or finalizers alone change, perhaps of one that is being deleted.
            request["operation"] = json!("UPDATE");
            let mut old = policy;
            old["metadata"]["labels"] = json!({"stage": "old"});
            old["metadata"]["finalizers"] = json!(["example.com/kept"]);
            request["oldObject"] = old;
        }
        3 if dice.one_in(2) => misroute(dice, &mut review),
        _ => {}
    }
    Case {
        page: "/validate/accesspolicies",
        review,
        flaws,
    }
}

fn text(number: usize) -> String {
    format!("c{number}")
}

/// A policy in which nothing is wrong.
fn sound(dice: &mut Dice, namespace: &str) -> Value {
    let mut spec = json!({});
    let many = dice.any(&[1, 1, 2, 8, 9, 10, 16, 17, 40]);
    let many = if dice.one_in(30) { 256 } else { many };
    let names: Vec<String> = (0..many).map(text).collect();
    let selectors = [
        json!({"matchLabels": {"stage": "test"}}),
        json!({"matchExpressions": [{"key": "stage", "operator": "NotIn", "values": ["prod"]}]}),
    ];
    let selector = selectors[dice.below(2)].clone();
    match dice.below(7) {
        0 => {}
        1 => spec["connector"] = json!({}),
        2 => spec["connector"] = json!({"selector": selector}),
        3 => spec["connector"] = json!({"names": names, "selector": selector}),
        _ => spec["connector"] = json!({"names": names}),
    }
    let permission = dice.pick(&["apis", "proxy"]);
    if permission == "proxy" || dice.one_in(2) {
        spec["permission"] = json!(permission);
    }
    let grants = dice.below(3);
    if grants != 1 {
        spec["defaultPermission"] = standing(dice, permission);
    } else if dice.one_in(3) {
        spec["defaultPermission"] = json!({});
    }
    if grants != 0 {
        spec["checkGrantedPermission"] = checked(dice, permission);
    } else if dice.one_in(3) {
        spec["checkGrantedPermission"] = json!({});
    }
    let mut metadata = json!({"name": "p", "namespace": namespace});
    if dice.one_in(5) {
        metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        metadata["finalizers"] = json!(["example.com/kept"]);
    }
    json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy", "metadata": metadata, "spec": spec,
    })
}

fn rules(resource: &str) -> Value {
    json!({"rules": [{"apiGroups": ["connectors.alauda.io"], "resources": [resource], "verbs": ["*"]}]})
}

fn standing(dice: &mut Dice, permission: &str) -> Value {
    let by = |key: &str| json!({"matchLabels": {key: "a"}});
    if dice.one_in(60) {
        let many = vec![json!({"kind": "User", "name": "ada"}); 1000];
        let resource = format!("connectors/{permission}");
        return json!({"roleTemplate": rules(&resource), "bindingTemplate": {"subjects": many}});
    }
    let subjects = match dice.below(8) {
        0 => json!([{"kind": "Group", "name": "dev"}, {"kind": "User", "name": "ada"}]),
        1 => {
            json!([{"kind": "ServiceAccount", "name": "a", "namespaceSelector": {}, "nameSelector": {}}])
        }
        2 => json!([
            {"kind": "ServiceAccount", "name": "system:serviceaccount:team:builder"},
            {"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": by("project")},
        ]),
        3 => json!([
            {"kind": "ServiceAccount", "nameSelector": by("role"), "namespaceSelector": by("kubernetes.io/metadata.name")},
            {"kind": "ServiceAccount", "nameSelector": by("role")},
            {"kind": "ServiceAccount", "nameSelector": by("role"), "namespaceSelector": by("proj")},
        ]),
        4 => {
            // As many as may select, and the last of them by a key of its own.
            let mut subjects =
                vec![json!({"kind": "ServiceAccount", "nameSelector": by("role")}); 15];
            let last = json!({"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": by("Project")});
            subjects.push(last);
            json!(subjects)
        }
        _ => json!([{"kind": "ServiceAccount", "name": "builder", "namespace": "team-a"}]),
    };
    let resource = format!("connectors/{permission}");
    json!({"roleTemplate": rules(&resource), "bindingTemplate": {"subjects": subjects}})
}

fn checked(dice: &mut Dice, permission: &str) -> Value {
    let own = "v1/pod/{.object.metadata.namespace}/{.object.metadata.name}";
    let count = if dice.one_in(10) {
        32
    } else {
        dice.any(&[1, 1, 2, 3])
    };
    let has_rego = dice.one_in(2);
    let mut checks = Vec::new();
    for number in 0..count {
        let mut check = json!({
            "name": format!("check-{number}"),
            "selector": {
                "labels": {"change": "{.object.metadata.labels.change}"},
                "objectRef": {"apiVersion": "itsm.example.com/v1", "kind": "ChangeRequest"},
            },
        });
        // The last one alone has some.
        if has_rego && number + 1 == count {
            check["state"] =
                json!({"rego": "package approval\noutput := {\"state\": input.state}"});
        }
        checks.push(check);
    }
    let role = rules(&format!("connectors/{permission}/{own}"));
    let mut granted = json!({"spec": {"checks": checks, "permissions": {"roleTemplate": role}}});
    if dice.one_in(2) {
        granted["requesters"] = json!([{"kind": "ServiceAccount", "name": "deployer"}]);
    }
    if dice.one_in(3) {
        granted["spec"]["limits"] = json!({"maxDuration": "4h"});
    }
    granted
}

/// The author may change all that the policy is about, a part of it, or something else.
fn grant_some(
    dice: &mut Dice,
    world: &mut World,
    user: &Value,
    namespace: &str,
    connector: &Value,
) {
    let names: Vec<String> = connector["names"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|it| Some(it.as_str()?.to_owned()))
        .collect();
    let update = update_connectors;
    match dice.below(8) {
        0 | 1 => grant(dice, world, user, update(), namespace, None),
        2 | 3 if !names.is_empty() => grant(dice, world, user, update(), namespace, Some(names)),
        4 if !names.is_empty() => {
            let mut most = names;
            most.remove(dice.below(most.len()));
            grant(dice, world, user, update(), namespace, Some(most));
        }
        5 => {
            // As the first begin, and as they end.
            let alike = ["c", "C0", "c0-2", "0", ""].map(str::to_owned).to_vec();
            grant(dice, world, user, update(), namespace, Some(alike));
        }
        6 => grant_something_else(dice, world, user, namespace),
        _ => {}
    }
}

/// Puts one flaw in, where there is a place for it; tells the words for it.
fn spoil(dice: &mut Dice, policy: &mut Value) -> Option<&'static str> {
    let flaw = dice.below(20);
    if flaw == 0 {
        policy["apiVersion"] = json!("connectors.alauda.io/v1");
        return Some("must be an AccessPolicy of");
    }
    let spec = &mut policy["spec"];
    let has = |spec: &Value, place: &str| spec.pointer(place).is_some();
    let is_checked = has(spec, "/checkGrantedPermission/spec/checks");
    let stands = has(spec, "/defaultPermission/bindingTemplate");
    match flaw {
        1 => {
            spec["conector"] = json!({});
            Some("spec.conector: unknown field; did you mean `connector`?")
        }
        2 => {
            spec["limits"] = json!({"maxDuration": "4h"});
            Some("`limits` belongs under spec.checkGrantedPermission.spec")
        }
        3 => {
            spec["connector"] = json!({"selector": {}});
            Some("has no requirement")
        }
        4 => {
            spec["connector"] = json!({"names": []});
            Some("spec.connector.names")
        }
        5 => {
            spec["connector"] = json!({"names": ["a", "b", "a"]});
            Some("is listed before")
        }
        6 => {
            spec["connector"] = json!({"names": (0..257).map(text).collect::<Vec<_>>()});
            Some("spec.connector.names")
        }
        7 => {
            spec["connector"] = json!({"names": ["Harbor"]});
            Some("is no name that a connector can have")
        }
        8 => {
            let fields: &mut Map<_, _> = spec.as_object_mut().unwrap();
            fields.remove("defaultPermission");
            fields.remove("checkGrantedPermission");
            Some("has neither defaultPermission nor checkGrantedPermission")
        }
        9 => {
            spec["padding"] = json!("x".repeat(64 * 1024));
            Some("bytes")
        }
        _ if flaw < 15 && is_checked => {
            Some(spoil_checks(flaw, &mut spec["checkGrantedPermission"]))
        }
        _ if stands => Some(spoil_standing(flaw, &mut spec["defaultPermission"])),
        _ => None,
    }
}

fn spoil_checks(flaw: usize, granted: &mut Value) -> &'static str {
    let checks = granted["spec"]["checks"].as_array_mut().unwrap();
    match flaw {
        10 => {
            checks.last_mut().unwrap()["aprovers"] = json!({"users": ["ada"]});
            ".aprovers"
        }
        11 => {
            let more = |number| {
                let mut check = checks[0].clone();
                check["name"] = json!(format!("more-{number}"));
                check
            };
            let all: Vec<Value> = (0..33).map(more).collect();
            granted["spec"]["checks"] = json!(all);
            "checks"
        }
        12 => {
            granted["requesters"] =
                json!([{"kind": "User", "name": "ada"}, {"kind": "Group", "name": "dev"}]);
            "none of them can be the ServiceAccount of a pod"
        }
        13 => {
            let rule = &mut granted["spec"]["permissions"]["roleTemplate"]["rules"][0];
            rule["resources"] = json!(["connectors/apis"]);
            "resources"
        }
        _ => {
            granted["limits"] = json!({"maxDuration": "4h"});
            "`limits` belongs under spec.checkGrantedPermission.spec"
        }
    }
}

fn spoil_standing(flaw: usize, standing: &mut Value) -> &'static str {
    let open = json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]});
    let rule = &mut standing["roleTemplate"]["rules"][0];
    match flaw {
        15 => {
            let many = vec![json!({"kind": "User", "name": "ada"}); 1001];
            standing["bindingTemplate"]["subjects"] = json!(many);
            "bindingTemplate.subjects"
        }
        16 => {
            rule["apiGroups"] = json!(["connectors.alauda.io", "apps"]);
            "a policy hands out access to connectors only"
        }
        17 => {
            rule["resources"] = json!(["connectors/tokens"]);
            "resources"
        }
        18 => {
            let subject = json!({"kind": "ServiceAccount", "nameSelector": open});
            standing["bindingTemplate"]["subjects"] = json!([subject]);
            "names no value of a label"
        }
        _ => {
            let one =
                json!({"kind": "ServiceAccount", "nameSelector": {"matchLabels": {"a": "b"}}});
            standing["bindingTemplate"]["subjects"] = json!(vec![one; 17]);
            "17 of them have selectors"
        }
    }
}
