//! Reviews of connectors.

use serde_json::{Value, json};

use super::{
    super::{dice::Dice, world::World},
    Case, NAMESPACES, user,
};

pub(super) fn review(dice: &mut Dice, _: &mut World) -> Case {
    let user = user(dice);
    let namespace = dice.pick(&NAMESPACES);
    let object = connector(dice, namespace);
    let mut review = super::review(dice, "connectors", namespace, &user, &object);
    let request = &mut review["request"];
    match dice.below(6) {
        0 | 1 => {
            request["operation"] = json!("UPDATE");
            request["oldObject"] = if dice.one_in(2) {
                // Labels or finalizers alone change.
                let mut old = object;
                old["metadata"]["labels"] = json!({"stage": "old"});
                old["metadata"]["finalizers"] = json!(["example.com/kept"]);
                old
            } else {
                connector(dice, namespace)
            };
        }
        2 if dice.one_in(2) => {
            request["operation"] = json!("DELETE");
            request["oldObject"] = request["object"].take();
        }
        _ => {}
    }
    Case {
        page: "/mutate/connectors",
        review,
        flaws: Vec::new(),
    }
}

fn connector(dice: &mut Dice, namespace: &str) -> Value {
    let long = [62, 63, 64, 253, 400].map(|it| "o".repeat(it));
    let class = match dice.below(8) {
        0 => long[dice.below(5)].as_str(),
        1 => dice.pick(&["", "not a value", "-oci", "oci.", "oci/2", "ocí"]),
        _ => dice.pick(&["oci", "oci-2", "OCI", "oc", "git", "git.example.com"]),
    };
    let mut connector = json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "Connector",
        "metadata": {"name": "harbor", "namespace": namespace},
        "spec": {"connectorClassName": class, "address": "https://x", "params": [{"name": "a", "value": "b"}]},
    });
    let metadata = &mut connector["metadata"];
    match dice.below(4) {
        0 => {}
        1 => metadata["labels"] = json!({}),
        _ => {
            let ours = [
                "connectors.cpaas.io/connectorclass",
                "connectors.alauda.io/connectorclass",
                "connectors.alauda.io/connectorClass",
                "connectorclass",
                "stage",
            ];
            metadata["labels"] = json!({});
            for key in dice.some(&ours) {
                metadata["labels"][key] = json!(dice.pick(&["oci", "git", "prod", ""]));
            }
        }
    }
    if dice.one_in(5) {
        metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        metadata["finalizers"] = json!(["example.com/kept"]);
    }
    match dice.below(20) {
        0 => connector["spec"] = json!({}),
        1 => connector["spec"]["connectorClassName"] = json!(7),
        _ => {}
    }
    connector
}
