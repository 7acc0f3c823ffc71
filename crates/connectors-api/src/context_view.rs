//! The part of the asking pod that a policy may see.

use serde_json::{Map, Value};

use crate::field::field;

/// Fields of the metadata that a policy of another namespace sees.
const IDENTITY: [&str; 4] = ["name", "namespace", "uid", "labels"];

/// The pod as templates and Rego of a policy see it. A policy of the pod's own namespace sees all of it.
/// Others see its identity, labels and service account only, because the rest belongs to the pod's tenant.
#[must_use]
pub fn of(pod: &Value, policy_namespace: &str) -> Value {
    if is_in(pod, policy_namespace) {
        pod.clone()
    } else {
        seen_from_elsewhere(pod)
    }
}

/// The same, for callers that no longer need the pod.
#[must_use]
pub fn into(pod: Value, policy_namespace: &str) -> Value {
    if is_in(&pod, policy_namespace) {
        pod
    } else {
        seen_from_elsewhere(&pod)
    }
}

fn is_in(pod: &Value, namespace: &str) -> bool {
    let own = field(pod, &["metadata", "namespace"]).and_then(Value::as_str);
    own == Some(namespace)
}

fn seen_from_elsewhere(pod: &Value) -> Value {
    let mut view = Map::new();
    copy(pod, &["apiVersion", "kind"], &mut view);
    view.insert("metadata".to_owned(), part(pod, "metadata", &IDENTITY));
    view.insert(
        "spec".to_owned(),
        part(pod, "spec", &["serviceAccountName"]),
    );
    view.into()
}

fn part(pod: &Value, name: &str, fields: &[&str]) -> Value {
    let mut part = Map::new();
    copy(&pod[name], fields, &mut part);
    part.into()
}

fn copy(from: &Value, fields: &[&str], to: &mut Map<String, Value>) {
    for field in fields {
        if let Some(value) = from.get(field) {
            to.insert((*field).to_owned(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::{into, of};
    use crate::testing::json_values;

    #[test]
    fn a_policy_of_the_pods_namespace_sees_the_pod() {
        let pod =
            json!({"metadata": {"namespace": "a", "annotations": {"x": "y"}}, "spec": {"env": 1}});
        assert_eq!(of(&pod, "a"), pod);
        assert_eq!(into(pod.clone(), "a"), pod);
    }

    #[test]
    fn a_policy_of_another_namespace_sees_who_it_is() {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "namespace": "a", "uid": "u", "labels": {"l": "v"}, "annotations": {"x": "y"}, "ownerReferences": []},
            "spec": {"serviceAccountName": "s", "containers": [{"env": "hidden"}]},
            "status": {"podIP": "hidden"},
        });
        let seen = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "namespace": "a", "uid": "u", "labels": {"l": "v"}},
            "spec": {"serviceAccountName": "s"},
        });
        assert_eq!(of(&pod, "b"), seen);
        // A missing namespace is not the policy's, even if the policy has none.
        assert_eq!(
            of(&json!({"status": 1}), ""),
            json!({"metadata": {}, "spec": {}})
        );
    }

    proptest! {
        #[test]
        fn nothing_else_is_ever_seen(pod in json_values()) {
            let view = of(&pod, "no-such-namespace");
            prop_assert_eq!(&into(pod, "no-such-namespace"), &view);
            let keys = |value: &serde_json::Value| -> Vec<String> {
                value.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default()
            };
            prop_assert!(keys(&view).iter().all(|key| ["apiVersion", "kind", "metadata", "spec"].contains(&key.as_str())));
            prop_assert!(keys(&view["metadata"]).iter().all(|key| super::IDENTITY.contains(&key.as_str())));
            prop_assert!(keys(&view["spec"]).iter().all(|key| key == "serviceAccountName"));
        }
    }
}
