//! The parts of an exported object that an API server or kubectl wrote. Written back, they would be refused, or would
//! undo the conversion.

use serde_json::Value;

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

/// An object without its status and without these parts.
pub(super) fn cleaned(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in FILLED_IN {
            metadata.remove(field);
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
                "managedFields": [], "annotations": {LAST_APPLIED: "{}"}, "labels": {"a": "b"},
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
