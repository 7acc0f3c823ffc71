//! Reviews of access requests.

use serde_json::{Value, json};

use super::{
    super::{
        dice::Dice,
        world::{World, get_pods},
    },
    ACCOUNTS, Case, NAMESPACES, NODES, PODS, UIDS, grant, grant_something_else, misroute, plugin,
    user,
};

pub(super) fn review(dice: &mut Dice, world: &mut World) -> Case {
    let (key, pod) = named(dice, world);
    let (namespace, name) = (key.0.as_str(), key.1.as_str());
    let user = if dice.one_in(3) {
        plugin(dice, pod["spec"]["nodeName"].as_str())
    } else {
        user(dice)
    };
    match dice.below(6) {
        0..3 => {
            let names = dice.one_in(2).then(|| vec![name.to_owned()]);
            grant(dice, world, &user, get_pods(), namespace, names);
        }
        3 => {
            // Of pods whose names begin or end alike.
            let names = PODS.iter().filter(|it| **it != name);
            let names = names.map(|it| (*it).to_owned()).collect();
            grant(dice, world, &user, get_pods(), namespace, Some(names));
        }
        4 => grant_something_else(dice, world, &user, namespace),
        _ => {}
    }
    let home = dice.pick(&NAMESPACES);
    let uid = pod["metadata"]["uid"].as_str().unwrap_or("u1");
    for _ in 0..dice.any(&[0, 0, 1, 14, 15, 16, 17, 40]) {
        world.requests.push((home.to_owned(), uid.to_owned()));
    }
    let mut object = json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessRequest",
        "metadata": {"name": "r", "namespace": home},
        "spec": {
            "subject": {"kind": "ServiceAccount", "name": pod["spec"]["serviceAccountName"].as_str().unwrap_or("default")},
            "connectorRef": {"name": "harbor"},
            "context": {"objectRef": {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name}},
        },
    });
    if !dice.one_in(3) {
        let uid = if dice.one_in(6) {
            dice.pick(&UIDS)
        } else {
            uid
        };
        object["spec"]["context"]["objectRef"]["uid"] = json!(uid);
    }
    if dice.one_in(3) {
        object["spec"]["permission"] = json!(dice.pick(&["apis", "proxy"]));
    }
    if dice.one_in(4) {
        object["metadata"]["labels"] = labels(dice);
    }
    while dice.one_in(3) {
        twist(dice, &mut object, namespace, home);
    }
    let page = dice.pick(&["/mutate/accessrequests", "/validate/accessrequests"]);
    let mut review = super::review(dice, "accessrequests", home, &user, &object);
    if dice.one_in(10) {
        misroute(dice, &mut review);
    }
    Case {
        page,
        review,
        flaws: Vec::new(),
    }
}

/// The pod that a request names, which may not exist.
fn named(dice: &mut Dice, world: &World) -> ((String, String), Value) {
    if dice.one_in(8) {
        let key = (
            dice.pick(&NAMESPACES).to_owned(),
            dice.pick(&PODS).to_owned(),
        );
        let pod = world.pods.get(&key).cloned().unwrap_or_default();
        return (key, pod);
    }
    let place = dice.below(world.pods.len());
    let (key, pod) = world.pods.iter().nth(place).unwrap();
    (key.clone(), pod.clone())
}

fn labels(dice: &mut Dice) -> Value {
    let ours = [
        "connectors.cpaas.io/contextObjectUID",
        "connectors.cpaas.io/contextObjectName",
        "connectors.cpaas.io/contextObjectNamespace",
        "connectors.cpaas.io/contextObjectKind",
        "connectors.cpaas.io/connector",
        "connectors.cpaas.io/connectors",
        "Connectors.cpaas.io/connector",
        "team",
    ];
    let mut labels = json!({});
    for key in dice.some(&ours) {
        labels[key] = json!(dice.pick(&["u1", "build-1", "another"]));
    }
    labels
}

/// Changes one thing, most often for the worse.
fn twist(dice: &mut Dice, object: &mut Value, namespace: &str, home: &str) {
    let spec = &mut object["spec"];
    let pod = &mut spec["context"]["objectRef"];
    match dice.below(20) {
        0 => spec["subject"]["namespace"] = json!(""),
        1 => spec["subject"]["namespace"] = json!(namespace),
        2 => spec["subject"]["namespace"] = json!(dice.pick(&NAMESPACES)),
        3 => spec["connectorRef"]["namespace"] = json!(home),
        4 => spec["connectorRef"]["namespace"] = json!(dice.pick(&NAMESPACES)),
        5 => spec["subject"]["name"] = json!(dice.pick(&ACCOUNTS)),
        6 => pod["name"] = json!(dice.pick(&["Build-1", "../secrets/x", "build_1", ""])),
        7 => pod["namespace"] = json!(dice.pick(&["Team", "team.a", "team/pods", ""])),
        8 => spec["subject"]["name"] = json!("system:serviceaccount:team:builder"),
        9 => spec["connectorRef"]["name"] = json!(dice.pick(&["Harbor", "har/bor"])),
        10 => spec["permision"] = json!("apis"),
        11 => pod["Uid"] = json!("u1"),
        12 => pod["kind"] = json!(dice.pick(&["Job", "pod"])),
        13 => spec["permission"] = json!(dice.pick(&["all", "Apis", ""])),
        14 => spec["subject"]["namespace"] = Value::Null,
        15 => pod["uid"] = json!(dice.pick(&["", "u1,u10", "u2"])),
        16 => spec["connectorRef"]["name"] = json!("c".repeat(dice.any(&[63, 64, 253, 254]))),
        17 => {
            // Exactly as long as a spec may be, or longer by a byte.
            spec["subject"]["apiGroup"] = json!("");
            let rest = 64 * 1024 - spec.to_string().len() + dice.below(2);
            spec["subject"]["apiGroup"] = json!("g".repeat(rest));
        }
        18 => {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            object["metadata"]["finalizers"] = json!(["example.com/kept"]);
        }
        _ => object["metadata"]["annotations"] = json!({"node": dice.pick(&NODES)}),
    }
}
