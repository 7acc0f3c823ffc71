//! The kinds of objects that tests use, and where the API server has them.

use std::fmt;

use serde_json::{Value, json};

use super::ApiError;

/// A kind of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceKind {
    api_version: &'static str,
    kind: &'static str,
    plural: &'static str,
    scope: Scope,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Namespace,
    Cluster,
}

impl fmt::Display for ResourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)
    }
}

/// Makes the constants and the list of them all.
macro_rules! table {
    ($($constant:ident: $api_version:literal $kind:literal $plural:literal $scope:ident,)*) => {
        $(
            #[doc = concat!("`", $kind, "` of `", $api_version, "`.")]
            pub const $constant: ResourceKind = ResourceKind {
                api_version: $api_version,
                kind: $kind,
                plural: $plural,
                scope: Scope::$scope,
            };
        )*
        const ALL: &[ResourceKind] = &[$($constant),*];
    };
}

table! {
    CONFIG_MAP: "v1" "ConfigMap" "configmaps" Namespace,
    NAMESPACE: "v1" "Namespace" "namespaces" Cluster,
    NODE: "v1" "Node" "nodes" Cluster,
    POD: "v1" "Pod" "pods" Namespace,
    SECRET: "v1" "Secret" "secrets" Namespace,
    SERVICE: "v1" "Service" "services" Namespace,
    SERVICE_ACCOUNT: "v1" "ServiceAccount" "serviceaccounts" Namespace,
    TOKEN_REVIEW: "authentication.k8s.io/v1" "TokenReview" "tokenreviews" Cluster,
    LEASE: "coordination.k8s.io/v1" "Lease" "leases" Namespace,
    ENDPOINT_SLICE: "discovery.k8s.io/v1" "EndpointSlice" "endpointslices" Namespace,
    EVENT: "events.k8s.io/v1" "Event" "events" Namespace,
    DAEMON_SET: "apps/v1" "DaemonSet" "daemonsets" Namespace,
    DEPLOYMENT: "apps/v1" "Deployment" "deployments" Namespace,
    JOB: "batch/v1" "Job" "jobs" Namespace,
    ROLE: "rbac.authorization.k8s.io/v1" "Role" "roles" Namespace,
    ROLE_BINDING: "rbac.authorization.k8s.io/v1" "RoleBinding" "rolebindings" Namespace,
    CLUSTER_ROLE: "rbac.authorization.k8s.io/v1" "ClusterRole" "clusterroles" Cluster,
    CLUSTER_ROLE_BINDING: "rbac.authorization.k8s.io/v1" "ClusterRoleBinding" "clusterrolebindings" Cluster,
    DEFINITION: "apiextensions.k8s.io/v1" "CustomResourceDefinition" "customresourcedefinitions" Cluster,
    ADMISSION_BINDING: "admissionregistration.k8s.io/v1" "ValidatingAdmissionPolicyBinding" "validatingadmissionpolicybindings" Cluster,
    ADMISSION_POLICY: "admissionregistration.k8s.io/v1" "ValidatingAdmissionPolicy" "validatingadmissionpolicies" Cluster,
    MUTATING_WEBHOOKS: "admissionregistration.k8s.io/v1" "MutatingWebhookConfiguration" "mutatingwebhookconfigurations" Cluster,
    VALIDATING_WEBHOOKS: "admissionregistration.k8s.io/v1" "ValidatingWebhookConfiguration" "validatingwebhookconfigurations" Cluster,
    ACCESS_POLICY: "connectors.alauda.io/v1alpha1" "AccessPolicy" "accesspolicies" Namespace,
    ACCESS_REQUEST: "connectors.alauda.io/v1alpha1" "AccessRequest" "accessrequests" Namespace,
    CONNECTOR: "connectors.alauda.io/v1alpha1" "Connector" "connectors" Namespace,
    CONNECTOR_CLASS: "connectors.alauda.io/v1alpha1" "ConnectorClass" "connectorclasses" Cluster,
    SIGN_OFF: "e2e.example.com/v1" "SignOff" "signoffs" Namespace,
    LATECOMER: "e2e.example.com/v1" "Latecomer" "latecomers" Namespace,
    PIPELINE: "tekton.dev/v1" "Pipeline" "pipelines" Namespace,
    PIPELINE_RUN: "tekton.dev/v1" "PipelineRun" "pipelineruns" Namespace,
    PIPELINE_RUN_BEFORE: "tekton.dev/v1beta1" "PipelineRun" "pipelineruns" Namespace,
    TASK: "tekton.dev/v1" "Task" "tasks" Namespace,
    TASK_RUN: "tekton.dev/v1" "TaskRun" "taskruns" Namespace,
    CUSTOM_RUN: "tekton.dev/v1beta1" "CustomRun" "customruns" Namespace,
    APPROVAL_REQUEST: "openshift-pipelines.org/v1alpha1" "ApprovalRequest" "approvalrequests" Namespace,
    APPROVAL_TASK: "openshift-pipelines.org/v1alpha1" "ApprovalTask" "approvaltasks" Namespace,
}

impl ResourceKind {
    /// The kind of an object, by its `apiVersion` and `kind`.
    pub fn of(object: &Value) -> Result<Self, ApiError> {
        let is_it =
            |it: &&Self| object["apiVersion"] == it.api_version && object["kind"] == it.kind;
        let found = ALL.iter().find(is_it).copied();
        found.ok_or_else(|| ApiError::UnknownKind {
            api_version: object["apiVersion"].to_string(),
            kind: object["kind"].to_string(),
        })
    }

    /// The kind of this name, in its current version.
    #[must_use]
    pub fn named(kind: &str) -> Option<Self> {
        ALL.iter().find(|it| it.kind == kind).copied()
    }

    /// The definition of a custom kind that keeps unknown fields, with a status of its own.
    #[must_use]
    pub fn definition(self) -> Value {
        let Self {
            api_version,
            kind,
            plural,
            ..
        } = self;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group,
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
                "scope": "Namespaced",
                "versions": [{
                    "name": version, "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                }],
            },
        })
    }

    /// The name of the resource, as rules and reviews have it.
    #[must_use]
    pub fn plural(self) -> &'static str {
        self.plural
    }

    /// Where the API server has the objects of a namespace, or of all of them.
    pub(super) fn path(self, namespace: Option<&str>) -> String {
        let Self {
            api_version,
            plural,
            scope,
            ..
        } = self;
        let root = if api_version.contains('/') {
            "apis"
        } else {
            "api"
        };
        match (scope, namespace) {
            (Scope::Namespace, Some(namespace)) => {
                format!("/{root}/{api_version}/namespaces/{namespace}/{plural}")
            }
            (Scope::Namespace, None) | (Scope::Cluster, _) => {
                format!("/{root}/{api_version}/{plural}")
            }
        }
    }

    /// The objects of a list, each with its kind, which lists of built-in kinds leave out.
    pub(super) fn items(self, mut list: Value) -> Vec<Value> {
        let Some(Value::Array(mut items)) = list.get_mut("items").map(Value::take) else {
            return Vec::new();
        };
        for fields in items.iter_mut().filter_map(Value::as_object_mut) {
            fields.insert("apiVersion".to_owned(), self.api_version.into());
            fields.insert("kind".to_owned(), self.kind.into());
        }
        items
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_are_those_of_the_api_server() {
        assert_eq!(POD.path(Some("a")), "/api/v1/namespaces/a/pods");
        assert_eq!(POD.path(None), "/api/v1/pods");
        assert_eq!(
            ROLE.path(Some("a")),
            "/apis/rbac.authorization.k8s.io/v1/namespaces/a/roles"
        );
        assert_eq!(NAMESPACE.path(Some("a")), "/api/v1/namespaces");
    }

    #[test]
    fn a_kind_is_found_by_its_version_and_name() {
        let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event"});
        assert_eq!(ResourceKind::of(&event).unwrap(), EVENT);
        for unknown in [
            json!({"apiVersion": "v1", "kind": "Event"}),
            json!({"kind": "Pod"}),
            json!(null),
        ] {
            ResourceKind::of(&unknown).unwrap_err();
        }
        assert_eq!(ResourceKind::named("SignOff"), Some(SIGN_OFF));
        assert_eq!(ResourceKind::named(""), None);
    }

    #[test]
    fn the_names_of_kinds_are_unique_but_for_versions() {
        let group = |it: ResourceKind| it.api_version.split_once('/').map(|it| it.0);
        for kind in ALL {
            let named = ResourceKind::named(kind.kind).unwrap();
            assert_eq!((named.plural, group(named)), (kind.plural, group(*kind)));
            let of = json!({"apiVersion": kind.api_version, "kind": kind.kind});
            assert_eq!(ResourceKind::of(&of).ok(), Some(*kind));
        }
        assert_eq!(ResourceKind::named("PipelineRun"), Some(PIPELINE_RUN));
    }

    #[test]
    fn objects_of_a_list_have_their_kind_and_an_empty_list_has_none() {
        let list = json!({"items": [{"metadata": {"name": "a"}}]});
        let expected = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}});
        assert_eq!(POD.items(list), [expected]);
        for empty in [json!({"items": []}), json!({"items": null}), json!({})] {
            assert_eq!(POD.items(empty), Vec::<Value>::new());
        }
    }
}
