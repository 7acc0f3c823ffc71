//! Worlds and reviews from a seed. Names are prefixes of each other and differ in case; counts are at their bounds.

mod connectors;
mod policies;
mod requests;

use std::time::Duration;

use evaluation_api::v1::{Finding, FindingSeverity};
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::{
    dice::Dice,
    world::{self, Deed, Mood, Right, Target, Trait, World},
};

pub(super) const NAMESPACES: [&str; 6] = ["team", "team-a", "tea", "a-team", "tools", "tools-2"];
const PODS: [&str; 4] = ["build-1", "build-10", "build", "1-build"];
const UIDS: [&str; 4] = ["u1", "u10", "u", "U1"];
const ACCOUNTS: [&str; 4] = ["builder", "builder-2", "build", "default"];
const NODES: [&str; 4] = ["n1", "n10", "n", "N1"];
pub(super) const PLUGIN: &str = "system:serviceaccount:connectors-system:csi-node";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const USERS: [&str; 11] = [
    "ada",
    "Ada",
    "ad",
    "ada-2",
    "system:serviceaccount:team:builder",
    "system:serviceaccount:team-a:builder",
    "system:serviceaccount:team:builder-2",
    "system:serviceaccount:connectors-system:csi-node-2",
    "system:serviceaccount:connectors-system:csi-nod",
    "system:serviceaccount:connectors-system-2:csi-node",
    "System:ServiceAccount:Connectors-System:Csi-Node",
];
const GROUPS: [&str; 7] = [
    "dev",
    "dev-ops",
    "Dev",
    "system:authenticated",
    "system:serviceaccounts",
    "system:serviceaccounts:team",
    "system:serviceaccounts:team-a",
];

/// A review as the API server sends it, and where to.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) page: &'static str,
    pub(super) review: Value,
    /// What is wrong with a policy by itself, by words that a refusal may tell.
    pub(super) flaws: Vec<&'static str>,
}

pub(super) fn case(dice: &mut Dice, world: &mut World) -> Case {
    match dice.below(20) {
        0..9 => requests::review(dice, world),
        9..16 => policies::review(dice, world),
        _ => connectors::review(dice, world),
    }
}

pub(super) fn world(dice: &mut Dice) -> World {
    let mut world = World {
        is_list_whole: dice.one_in(2),
        config: config(dice),
        ..World::default()
    };
    for _ in 0..10 {
        let (namespace, pod) = pod(dice);
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        world.pods.insert((namespace, name), pod);
    }
    for namespace in NAMESPACES {
        let count = dice.any(&[0, 1, 255, 255, 256, 257, 300]);
        world.policies.insert(namespace.to_owned(), count);
        // Requests of other pods come first in each list.
        for _ in 0..dice.any(&[0, 0, 15, 40]) {
            let other = (namespace.to_owned(), "another-pod".to_owned());
            world.requests.push(other);
        }
    }
    for class in ["oci", "oci-2", "git"] {
        if dice.one_in(2) {
            world.classes.insert(class.to_owned());
        }
    }
    if dice.one_in(3) {
        let target = any_target(dice);
        let mood = mood(dice, &target);
        world.moods.insert(target, mood);
    }
    world
}

fn any_target(dice: &mut Dice) -> Target {
    dice.any(&[
        || Target::PodRight,
        || Target::AllRight,
        || Target::NameRight("c1".to_owned()),
        || Target::NameRight("c9".to_owned()),
        || Target::Pod,
        || Target::Requests,
        || Target::Policies,
        || Target::Config,
        || Target::Class,
    ])()
}

fn mood(dice: &mut Dice, target: &Target) -> Mood {
    let codes = [
        StatusCode::INTERNAL_SERVER_ERROR,
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::FORBIDDEN,
        StatusCode::UNAUTHORIZED,
    ];
    match dice.below(6) {
        0 | 1 => Mood::Fails(dice.any(&codes)),
        2 => Mood::Hangs,
        3 => Mood::Raves,
        // A connector is not kept waiting for its class.
        4 if *target == Target::Class => Mood::Slow(Duration::from_millis(100)),
        4 => Mood::Slow(Duration::from_millis(600)),
        _ => Mood::Stumbles,
    }
}

fn config(dice: &mut Dice) -> Option<Value> {
    if dice.one_in(4) {
        return None;
    }
    let mut data = json!({"enable-connectors-approval": dice.pick(&["true", "false", "yes"])});
    if dice.one_in(2) {
        data["default-requesters"] = json!(dice.pick(&["Any", "any", "Namespace", ""]));
    }
    if dice.one_in(2) {
        data["namespace-selector-keys"] = json!(dice.pick(&[
            r#"["kubernetes.io/metadata.name","project"]"#,
            r#"["proj"]"#,
            "project"
        ]));
    }
    Some(data)
}

/// A pod in a namespace, which may run, wait, have finished or be kept by a finalizer.
fn pod(dice: &mut Dice) -> (String, Value) {
    let longest = ["p".repeat(63), "p".repeat(64), "p".repeat(253)];
    let name = match dice.below(20) {
        0 => longest[dice.below(3)].as_str(),
        _ => dice.pick(&PODS),
    };
    let namespace = dice.pick(&NAMESPACES[..4]);
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": dice.pick(&UIDS)},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": dice.pick(&["Running", "Running", "Running", "Pending", "Unknown", "Succeeded", "Failed"])},
    });
    if !dice.one_in(6) {
        pod["spec"]["serviceAccountName"] = json!(dice.pick(&ACCOUNTS));
    }
    if !dice.one_in(4) {
        pod["spec"]["nodeName"] = json!(dice.pick(&NODES));
    }
    if dice.one_in(5) {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        pod["metadata"]["finalizers"] = json!(["example.com/kept"]);
    }
    if dice.one_in(10) {
        pod["status"] = json!({});
    }
    (namespace.to_owned(), pod)
}

/// Somebody, as a review says it.
fn user(dice: &mut Dice) -> Value {
    let mut user = json!({"username": dice.pick(&USERS)});
    if dice.one_in(2) {
        user["uid"] = json!(dice.pick(&["7", "70", "7a", "7A"]));
    }
    if !dice.one_in(4) {
        user["groups"] = json!(dice.some(&GROUPS));
    }
    if dice.one_in(3) {
        let mut extra = Map::new();
        let key = dice.pick(&["scopes", "Scopes", "example.com/scope"]);
        let scopes = dice.some(&["read", "Read", "reader", "write"]);
        extra.insert(key.to_owned(), json!(scopes));
        if dice.one_in(2) {
            // A token that is bound to a pod says so, whoever shows it.
            extra.insert(NODE_NAME.to_owned(), json!([dice.pick(&NODES)]));
        }
        user["extra"] = Value::Object(extra);
    }
    if dice.one_in(30) {
        enlarge(dice, &mut user);
    }
    user
}

/// Exactly as much of a user as is read, or one more.
fn enlarge(dice: &mut Dice, user: &mut Value) {
    let more = dice.below(2);
    match dice.below(3) {
        0 => {
            let groups = (0..1024 + more).map(|it| json!(format!("g{it}")));
            user["groups"] = groups.collect();
        }
        1 => {
            // The keys count, too.
            let values = vec!["v"; 1022 + more];
            user["extra"] = json!({"scopes": values, "empty": []});
        }
        _ => {
            user["uid"] = json!("");
            let rest = 64 * 1024 - user.to_string().len() + more;
            user["uid"] = json!("7".repeat(rest));
        }
    }
}

/// The node plugin, which may be on a node.
fn plugin(dice: &mut Dice, node: Option<&str>) -> Value {
    let groups = ["system:serviceaccounts", "system:authenticated"];
    let mut user = json!({"username": PLUGIN, "uid": "9", "groups": groups});
    let node = node.unwrap_or("n1");
    let nodes = match dice.below(12) {
        0 => return user,
        1 => json!([]),
        2 => json!([""]),
        3 => json!([node, node]),
        4 => json!([dice.pick(&NODES), node]),
        5 | 6 => json!([dice.pick(&NODES)]),
        _ => json!([node]),
    };
    user["extra"] = json!({NODE_NAME: nodes});
    user
}

/// Somebody may do this by one or two of the traits of a user.
fn grant(
    dice: &mut Dice,
    world: &mut World,
    user: &Value,
    deed: Deed,
    namespace: &str,
    names: Option<Vec<String>>,
) {
    let texts = |list: &Value| -> Vec<String> {
        let texts = list.as_array().into_iter().flatten();
        texts
            .filter_map(|it| Some(it.as_str()?.to_owned()))
            .collect()
    };
    let mut traits = vec![Trait::User(user["username"].as_str().unwrap().to_owned())];
    traits.extend(texts(&user["groups"]).into_iter().take(8).map(Trait::Group));
    traits.extend(user["uid"].as_str().map(|it| Trait::Uid(it.to_owned())));
    for (key, values) in user["extra"].as_object().into_iter().flatten() {
        let extra = |value| Trait::Extra(key.clone(), value);
        traits.extend(texts(values).into_iter().map(extra));
    }
    let who = (0..=dice.below(2)).map(|_| traits[dice.below(traits.len())].clone());
    let right = Right {
        who: who.collect(),
        deed,
        namespace: (!dice.one_in(8)).then(|| namespace.to_owned()),
        names,
    };
    world.rights.push(right);
}

/// What is nearly the right that is needed: another verb, another kind, another namespace.
fn grant_something_else(dice: &mut Dice, world: &mut World, user: &Value, namespace: &str) {
    let deeds = [
        world::deed("list", "", "pods"),
        world::deed("get", "", "pods/log"),
        world::deed("get", "apps", "pods"),
        world::deed("get", "connectors.alauda.io", "connectors"),
        world::deed("update", "connectors.alauda.io", "connectors/status"),
        world::deed("update", "", "connectors"),
        world::deed("update", "connectors.alauda.io", "accesspolicies"),
        world::deed("*", "*", "*"),
        world::get_pods(),
        world::update_connectors(),
    ];
    let place = dice.below(deeds.len());
    let elsewhere = dice.pick(&NAMESPACES);
    let (namespace, names) = if place < 8 {
        (namespace, None)
    } else if elsewhere == namespace {
        (namespace, Some(vec!["nothing".to_owned()]))
    } else {
        (elsewhere, None)
    };
    grant(dice, world, user, deeds[place].clone(), namespace, names);
}

/// What the evaluation service says of all Rego. None: nothing, and never.
pub(super) fn evaluator(dice: &mut Dice) -> Option<Vec<Finding>> {
    let finding = |severity: FindingSeverity| Finding {
        path: "spec.rego".to_owned(),
        code: "RegoInvalid".to_owned(),
        severity: severity.into(),
        message: "is odd".to_owned(),
        fix: String::new(),
    };
    match dice.below(10) {
        0 => None,
        1 => Some(vec![finding(FindingSeverity::Unspecified)]),
        2 => Some(vec![
            finding(FindingSeverity::Warning),
            finding(FindingSeverity::Error),
        ]),
        3 => Some(vec![finding(FindingSeverity::Warning)]),
        _ => Some(Vec::new()),
    }
}

/// The frame of every review.
pub(super) fn review(
    dice: &mut Dice,
    resource: &str,
    namespace: &str,
    user: &Value,
    object: &Value,
) -> Value {
    let kind = match resource {
        "accessrequests" => "AccessRequest",
        "accesspolicies" => "AccessPolicy",
        _ => "Connector",
    };
    let group = "connectors.alauda.io";
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": format!("review-{}", dice.below(1000)), "operation": "CREATE", "namespace": namespace,
            "name": "r", "dryRun": dice.one_in(3),
            "kind": {"group": group, "version": "v1alpha1", "kind": kind},
            "resource": {"group": group, "version": "v1alpha1", "resource": resource},
            "requestKind": {"group": group, "version": "v1alpha1", "kind": kind},
            "requestResource": {"group": group, "version": "v1alpha1", "resource": resource},
            "userInfo": user, "object": object, "oldObject": null,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
        },
    })
}

/// What the API server sends to a webhook that is configured for more than it serves.
fn misroute(dice: &mut Dice, review: &mut Value) {
    let request = &mut review["request"];
    match dice.below(8) {
        0 => request["resource"]["resource"] = json!("connectors"),
        1 => request["resource"]["version"] = json!("v1"),
        2 => request["resource"]["group"] = json!("connectors.alauda.io.evil"),
        3 => request["namespace"] = json!(""),
        4 => {
            request.as_object_mut().unwrap().remove("namespace");
        }
        5 => request["object"] = Value::Null,
        6 => request["subResource"] = json!(dice.pick(&["status", "scale", ""])),
        _ => request["operation"] = json!(dice.pick(&["DELETE", "CONNECT", "UPDATE"])),
    }
    if request["operation"] == "DELETE" {
        request["oldObject"] = request["object"].take();
    }
}
