//! The parts of an exported object that an API server or kubectl wrote. Written back, they would be refused, or would
//! undo the conversion.

use serde_json::Value;

use super::place::{ConvertLog, ConvertSource};
use super::words::{NoteWord, RefusalWord};

/// The fields of `metadata` that the API server fills in.
const FILLED_IN: [&str; 8] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
];
/// The object as it was applied before, which `kubectl apply` compares with.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The references of an object that hold in its own cluster alone.
const OF_THE_CLUSTER: [&str; 2] = ["ownerReferences", "finalizers"];
/// The parts of a policy beside its spec and status.
const OF_A_POLICY: [&str; 3] = ["apiVersion", "kind", "metadata"];
/// The fields of a policy's metadata that its author writes.
const WRITTEN: [&str; 5] = ["name", "generateName", "namespace", "labels", "annotations"];

/// An object without its status and without these parts.
pub(super) fn of_object(source: ConvertSource<'_>, log: &mut ConvertLog) -> Value {
    for field in OF_THE_CLUSTER {
        let at = format!("metadata.{field}");
        if source
            .value()
            .pointer(&format!("/metadata/{field}"))
            .is_some()
        {
            let message = "names what only the old cluster has: left out";
            log.note(source.at(&at), NoteWord::OwnersLeftOut, message);
        }
    }
    cleaned(source.value())
}

/// A policy without these parts. A field that is not known is refused: nothing here knows what it means.
pub(super) fn of_policy(source: ConvertSource<'_>, log: &mut ConvertLog) -> Value {
    let object = of_object(source, log);
    let mut unknown = Vec::new();
    for (field, value) in object.as_object().into_iter().flatten() {
        if field != "spec" && !OF_A_POLICY.contains(&field.as_str()) {
            unknown.push(field.clone());
        }
        if field == "metadata" {
            let fields = value.as_object().into_iter().flatten();
            let fields = fields.filter(|(field, _)| !WRITTEN.contains(&field.as_str()));
            unknown.extend(fields.map(|(field, _)| format!("metadata.{field}")));
        }
    }
    for path in unknown {
        let message = "no policy has this field";
        let fix = "remove it, or correct its name";
        log.refuse(source.at(&path), RefusalWord::FieldUnreadable, message, fix);
    }
    object
}

fn cleaned(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in FILLED_IN.iter().chain(&OF_THE_CLUSTER) {
            metadata.remove(*field);
        }
        let annotations = metadata
            .get_mut("annotations")
            .and_then(Value::as_object_mut);
        if let Some(annotations) = annotations {
            annotations.remove(LAST_APPLIED);
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_api_server_and_kubectl_wrote_is_left_out() {
        let exported = json!({
            "kind": "X",
            "metadata": {
                "name": "a", "uid": "u", "resourceVersion": "1", "generation": 2, "creationTimestamp": null,
                "managedFields": [], "ownerReferences": [{}], "finalizers": ["f"], "annotations": {LAST_APPLIED: "{}"}, "labels": {"a": "b"},
            },
            "spec": {"status": 1},
            "status": {"conditions": []},
        });
        let written = json!({"kind": "X", "metadata": {"name": "a", "labels": {"a": "b"}}, "spec": {"status": 1}});
        assert_eq!(cleaned(&exported), written);
        let kept =
            json!({"metadata": {"annotations": {LAST_APPLIED: "{}", "cpaas.io/description": "x"}}});
        assert_eq!(
            cleaned(&kept),
            json!({"metadata": {"annotations": {"cpaas.io/description": "x"}}})
        );
    }
}
