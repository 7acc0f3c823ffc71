//! Connector: how to reach a tool, and which credential opens it.
//!
//! This is the part of the kind that mounting needs. Other software owns the rest, so the schema and the
//! types keep fields that are not declared here.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{opaque::Opaque, schema};

mod selectable;

pub use selectable::Selectable;

/// How to reach a tool, and which credential opens it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "connectors.alauda.io",
    version = "v1alpha1",
    kind = "Connector",
    plural = "connectors",
    shortname = "conn",
    category = "connectors-approval",
    namespaced,
    status = "Opaque",
    derive = "PartialEq",
    derive = "Default",
    doc = "A Connector describes an external tool (a registry, a git host, a cluster): where it is, and which credential opens it. A pod names it in a volume. The volume holds its address and other facts, and the files that its class makes. It never holds the tool's own credential.",
    printcolumn = r#"{"name": "Class", "type": "string", "jsonPath": ".spec.connectorClassName"}"#,
    printcolumn = r#"{"name": "Address", "type": "string", "jsonPath": ".spec.address"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status", "priority": 1, "description": "Told by software that tries connectors, where there is any"}"#,
    printcolumn = r#"{"name": "Reason", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].reason", "priority": 1, "description": "Told by software that tries connectors, where there is any"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ConnectorSpec {
    /// The ConnectorClass that knows this kind of tool.
    #[schemars(length(min = 1, max = 253), regex(pattern = schema::DNS_SUBDOMAIN))]
    pub connector_class_name: String,
    /// Where the tool is reached, usually a URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub address: Option<String>,
    /// Further addresses of the same tool, by the names that its class gives them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub address_extensions: Vec<NamedValue>,
    /// Values for the parameters that the class declares.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub params: Vec<NamedValue>,
    /// How to authenticate to the tool. Absent: without credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<ConnectorAuth>,
    /// Secret in the same namespace with the CA certificate that signed the tool's certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_cert_secret_ref: Option<SecretName>,
    /// Fields that other software declares.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// A value under a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamedValue {
    /// The name that the class declares.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The value. Never a credential: those live in Secrets.
    pub value: String,
}

/// How to authenticate to the tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectorAuth {
    /// One of the class's `auth.types`.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The Secret that holds the credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
    /// Values for the parameters that this way of authenticating declares.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub params: Vec<NamedValue>,
    /// Fields that other software declares.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// A Secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecretRef {
    /// Name of the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub name: Option<String>,
    /// Namespace of the Secret. Absent: the connector's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
    /// Fields that other software declares.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// A Secret in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretName {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_other_software_survive() {
        let wire = serde_json::json!({
            "apiVersion": "connectors.alauda.io/v1alpha1",
            "kind": "Connector",
            "metadata": {"name": "prod-harbor", "namespace": "devops-ns1"},
            "spec": {
                "connectorClassName": "oci",
                "address": "https://harbor.example",
                "auth": {"name": "basic", "secretRef": {"name": "s", "fieldPath": "x"}, "renewal": {"days": 3}},
                "generators": [{"name": "child"}],
            },
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "proxy": {"httpAddress": {}}},
        });
        let connector: Connector = serde_json::from_value(wire.clone()).unwrap();
        assert_eq!(serde_json::to_value(connector).unwrap(), wire);
    }
}
