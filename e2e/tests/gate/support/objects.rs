//! The objects of the scenarios, and the readers of their fields.

use e2e::checker::Timestamp;
use serde_json::{Value, json};

use super::{CONNECTOR, MOUNT};

/// How an approval is expressed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Approval {
    /// A `ConfigMap` whose data a Rego module reads.
    ConfigMap,
    /// An object of the test's own kind, with the word in `status.state`.
    SignOff,
}

/// A policy as JSON, for tests that change it further.
pub(crate) fn policy(name: &str, approval: Approval) -> Value {
    let (object, state) = match approval {
        Approval::ConfigMap => (
            json!({"apiVersion": "v1", "kind": "ConfigMap"}),
            json!({"rego": VERDICT}),
        ),
        Approval::SignOff => (
            json!({"apiVersion": "e2e.example.com/v1", "kind": "SignOff"}),
            json!({}),
        ),
    };
    let pod = "connectors/apis/v1/pod/{.object.metadata.namespace}/{.object.metadata.name}";
    json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
        "metadata": {"name": name},
        "spec": {
            "connector": {"names": [CONNECTOR]},
            "checkGrantedPermission": {"spec": {
                "checks": [{
                    "name": "approval",
                    "selector": {"labels": {"app": "{.object.metadata.labels.app}"}, "objectRef": object},
                    "state": state,
                }],
                "permissions": {"roleTemplate": {"rules": [
                    {"apiGroups": ["connectors.alauda.io"], "resources": [pod], "verbs": ["*"]},
                ]}},
            }},
        },
    })
}

/// The check of such a policy.
pub(crate) fn check_of(policy: &mut Value) -> &mut Value {
    &mut policy["spec"]["checkGrantedPermission"]["spec"]["checks"][0]
}

/// A pod's volume with these attributes, and where it is mounted.
pub(crate) fn volume(attributes: &Value) -> Value {
    json!({
        "volumes": [{"name": "connector", "csi": {
            "driver": "connectors-csi", "readOnly": true, "volumeAttributes": attributes,
        }}],
        "volumeMounts": [{"name": "connector", "mountPath": MOUNT}],
    })
}

/// The state of a `ConfigMap` is the word in its data.
const VERDICT: &str = r#"package approval
import rego.v1
default output := {"state": "pending", "message": "nobody decided yet"}
output := {"state": input.data.verdict, "message": "decided"} if input.data.verdict
"#;

/// The definition of a kind that follows the duck type; the installation lets checks read it.
pub(crate) fn definition_of(kind: &str) -> Value {
    let singular = kind.to_lowercase();
    let plural = format!("{singular}s");
    let state = json!({"type": "object", "properties": {"state": {"type": "string"}}});
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.e2e.example.com")},
        "spec": {
            "group": "e2e.example.com",
            "names": {"kind": kind, "plural": plural, "singular": singular},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": anything, "status": state},
                }},
            }],
        },
    })
}

pub(crate) fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

pub(crate) fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// A time in an object, by its path.
pub(crate) fn timestamp(object: &Value, pointer: &str) -> Timestamp {
    let text = object.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_else(|| panic!("no {pointer} in {object}"))
        .parse()
        .unwrap()
}

/// `status reason` of a condition, or nothing.
pub(crate) fn condition<'a>(request: &'a Value, type_: &str) -> Option<(&'a str, &'a str)> {
    let conditions = request["status"]["conditions"].as_array()?;
    let condition = conditions.iter().find(|it| it["type"] == type_)?;
    Some((condition["status"].as_str()?, condition["reason"].as_str()?))
}

pub(super) fn reason_of<'a>(request: &'a Value, type_: &str) -> &'a str {
    condition(request, type_).map_or("", |(_, reason)| reason)
}

/// The selector of the requests of a pod.
pub(super) fn of_pod(uid: &str) -> String {
    format!("connectors.cpaas.io/contextObjectUID={uid}")
}
