//! `AccessRequest`: one pod's attempt to use one connector, and its outcome.

mod status;

use kube::CustomResource;
use kube::core::Rule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use status::{
    AccessRequestStatus, Approval, CheckRef, CheckRefStatus, GrantState, GrantedRule,
    MatchedPolicy, ObservedObject, Phase, PolicyGrant, frozen,
};

use crate::{Permission, cel, schema};

/// The limit of requests of one pod, over all connectors. Requests are objects in the namespaces of the
/// connectors.
pub const MOST_OF_A_POD: usize = 16;

/// One pod's attempt to use one connector.
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "connectors.alauda.io",
    version = "v1alpha1",
    kind = "AccessRequest",
    plural = "accessrequests",
    shortname = "areq",
    category = "connectors-approval",
    namespaced,
    status = "AccessRequestStatus",
    derive = "PartialEq",
    doc = "An AccessRequest records one pod's attempt to use one connector: which policies apply, which approvals are awaited, whether access was granted, and why it was taken back. It lives in the connector's namespace and decides once: delete it to start over.",
    printcolumn = r#"{"name": "Connector", "type": "string", "jsonPath": ".spec.connectorRef.name"}"#,
    printcolumn = r#"{"name": "Subject", "type": "string", "jsonPath": ".spec.subject.name"}"#,
    printcolumn = r#"{"name": "Pod", "type": "string", "jsonPath": ".spec.context.objectRef.name"}"#,
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "Check", "type": "string", "jsonPath": ".status.conditions[?(@.type=='AccessCheckReady')].reason"}"#,
    printcolumn = r#"{"name": "Permission", "type": "string", "jsonPath": ".status.conditions[?(@.type=='AccessPermissionSync')].reason"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Pod-Namespace", "type": "string", "jsonPath": ".spec.context.objectRef.namespace", "priority": 1}"#,
    printcolumn = r#"{"name": "Context", "type": "string", "jsonPath": ".status.conditions[?(@.type=='ContextObjectValid')].reason", "priority": 1, "description": "Whether the pod is still there and running"}"#,
    printcolumn = r#"{"name": "Expires", "type": "string", "jsonPath": ".status.expiresAt", "priority": 1}"#
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    immutable(),
    cel::invalid(
        "!has(self.subject.namespace) || self.subject.namespace in ['', self.context.objectRef.namespace]",
        "subject: a pod runs as a ServiceAccount of its own namespace; leave namespace out",
    ).field_path(".subject.namespace"),
]))]
pub struct AccessRequestSpec {
    /// The ServiceAccount that the pod runs as.
    pub subject: RequestSubject,
    /// The connector that the pod wants to use.
    pub connector_ref: ConnectorRef,
    /// The object that the access is for.
    pub context: RequestContext,
    /// The requested capability: `apis` (the default: use of the tool's API, and mounting into a pod) or
    /// `proxy` (use through the connector's proxy).
    #[serde(default)]
    pub permission: Permission,
}

/// Compares in both directions. For fields without a schema, the API server's equality checks only the fields
/// of its left side, so one field could be replaced by an undeclared one.
fn immutable() -> Rule {
    cel::forbidden(
        "self == oldSelf && oldSelf == self",
        "spec: immutable, because it is what was decided on; delete the request and create another",
    )
}

/// The service account that a pod runs as.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestSubject {
    /// Accepted because RBAC subjects have it; not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub api_group: Option<String>,
    /// Only `ServiceAccount`.
    pub kind: RequestSubjectKind,
    /// Namespace of the ServiceAccount. Absent or empty: the pod's, and it can be no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
    /// Name of the ServiceAccount.
    #[schemars(length(min = 1, max = 253), regex(pattern = schema::DNS_SUBDOMAIN))]
    pub name: String,
}

/// Kind of a request's subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum RequestSubjectKind {
    /// The identity of every pod.
    ServiceAccount,
}

/// A connector.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConnectorRef {
    /// Name of the connector.
    #[schemars(length(min = 1, max = 253), regex(pattern = schema::DNS_SUBDOMAIN))]
    pub name: String,
    /// Namespace of the connector. It can only be the request's own, and is filled in at creation when
    /// it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::DNS_LABEL))]
    pub namespace: Option<String>,
}

/// The object that an access is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestContext {
    /// The pod that asks. The access ends with it.
    pub object_ref: ContextObjectRef,
}

/// The pod that asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContextObjectRef {
    /// Only `v1`.
    pub api_version: ContextApiVersion,
    /// Only `Pod`.
    pub kind: ContextKind,
    /// Namespace of the pod.
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::DNS_LABEL))]
    pub namespace: String,
    /// Name of the pod.
    #[schemars(length(min = 1, max = 253), regex(pattern = schema::DNS_SUBDOMAIN))]
    pub name: String,
    /// UID of the pod. Filled in at creation when it is absent, so that a later pod of the same name
    /// does not inherit the access.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub uid: Option<String>,
}

/// API version of a context object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ContextApiVersion {
    /// That of pods.
    #[serde(rename = "v1")]
    V1,
}

/// Kind of a context object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ContextKind {
    /// The only kind with a life that an access can be tied to, so far.
    Pod,
}

impl ContextKind {
    /// The kind as Kubernetes spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
        }
    }
}

impl AccessRequestSpec {
    /// The namespace of the subject, however it is spelled.
    #[must_use]
    pub fn subject_namespace(&self) -> &str {
        match self.subject.namespace.as_deref() {
            Some(namespace) if !namespace.is_empty() => namespace,
            Some(_) | None => &self.context.object_ref.namespace,
        }
    }
}
