//! ConnectorClass: the common properties of the connectors of one kind of tool.
//!
//! This is the part of the kind that mounting needs. Other software owns the rest, so the schema and the
//! types keep fields that are not declared here.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::opaque::Opaque;

/// The common properties of the connectors of one kind of tool.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "connectors.alauda.io",
    version = "v1alpha1",
    kind = "ConnectorClass",
    plural = "connectorclasses",
    shortname = "connclass",
    category = "connectors-approval",
    status = "Opaque",
    derive = "PartialEq",
    doc = "A ConnectorClass describes one kind of tool: what its connectors must say, and how they authenticate.",
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status", "priority": 1, "description": "Told by software that tries connectors, where there is any"}"#,
    printcolumn = r#"{"name": "Reason", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].reason", "priority": 1, "description": "Told by software that tries connectors, where there is any"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ConnectorClassSpec {
    /// The address of a connector of this class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Parameter>,
    /// Parameters that a connector of this class gives values for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub params: Vec<Parameter>,
    /// How connectors of this class may authenticate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<ClassAuth>,
    /// Sets of files for pods that mount a connector of this class and ask for a set by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub configurations: Vec<Configuration>,
    /// Fields that other software declares.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// A parameter that gets its value from a connector or a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Parameter {
    /// Name of the parameter.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Type of the value. Only strings are in use.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub type_: Option<String>,
    /// The value when none is given. Absent: a value is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The purpose of the parameter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Fields that other software declares.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// How connectors of a class may authenticate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassAuth {
    /// The ways to authenticate. A connector names one of them in its `auth.name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<AuthType>,
    /// Fields that other software declares.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// One way to authenticate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuthType {
    /// Name of this way.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The `type` that the Secret must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub secret_type: Option<String>,
    /// True when the tool also works without the Secret. Absent: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
    /// Parameters that a connector gives values for when it authenticates this way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub params: Vec<Parameter>,
    /// Fields that other software declares.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// A set of files for a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Configuration {
    /// Name by which a pod asks for the set.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The files: name to template, in Go's text/template with the functions of sprig. A template sees the connectors, the
    /// class, the values of the parameters and the pod's token.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, String>,
    /// Parameters that a pod gives values for when it asks for the set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub params: Vec<Parameter>,
    /// Fields that other software declares.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_other_software_survive() {
        let wire = serde_json::json!({
            "apiVersion": "connectors.alauda.io/v1alpha1",
            "kind": "ConnectorClass",
            "metadata": {"name": "oci"},
            "spec": {
                "address": {"name": "address", "type": "string"},
                "auth": {"types": [{"name": "basic", "secretType": "kubernetes.io/basic-auth", "generator": {"rego": ""}}]},
                "configurations": [{"name": "docker", "data": {"config.json": "{}"}, "params": [{"name": "a"}], "mode": 1}],
                "livenessProbe": {"probe": {"http": {"path": "/"}}},
            },
        });
        let class: ConnectorClass = serde_json::from_value(wire.clone()).unwrap();
        assert_eq!(serde_json::to_value(class).unwrap(), wire);
    }
}
