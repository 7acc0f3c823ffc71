//! The kinds that the script uses, and its own custom resources.

use serde_json::{Value, json};

/// A resource, with its spelling in paths and bodies.
#[derive(Debug, Clone, Copy)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// API version within the group.
    pub version: &'static str,
    /// Kind of its objects.
    pub kind: &'static str,
    /// Name in paths.
    pub plural: &'static str,
    /// Whether it is namespaced.
    pub namespaced: bool,
    /// Whether it has the subresource `status`.
    pub status: bool,
}

const fn core(kind: &'static str, plural: &'static str) -> Resource {
    grouped("", kind, plural)
}

const fn grouped(group: &'static str, kind: &'static str, plural: &'static str) -> Resource {
    Resource {
        group,
        version: "v1",
        kind,
        plural,
        namespaced: true,
        status: false,
    }
}

const RBAC: &str = "rbac.authorization.k8s.io";
/// The group of the custom resources that exist only for this script.
pub const TEST_GROUP: &str = "conformance.example.com";

pub(super) const CONFIG_MAP: Resource = core("ConfigMap", "configmaps");
pub(super) const SERVICE_ACCOUNT: Resource = core("ServiceAccount", "serviceaccounts");
pub(super) const POD: Resource = core("Pod", "pods");
pub(super) const NAMESPACE: Resource = Resource {
    namespaced: false,
    ..core("Namespace", "namespaces")
};
pub(super) const ROLE: Resource = grouped(RBAC, "Role", "roles");
pub(super) const ROLE_BINDING: Resource = grouped(RBAC, "RoleBinding", "rolebindings");
pub(super) const CLUSTER_ROLE: Resource = Resource {
    namespaced: false,
    ..grouped(RBAC, "ClusterRole", "clusterroles")
};
pub(super) const CLUSTER_ROLE_BINDING: Resource = Resource {
    namespaced: false,
    ..grouped(RBAC, "ClusterRoleBinding", "clusterrolebindings")
};
pub(super) const LEASE: Resource = grouped("coordination.k8s.io", "Lease", "leases");
pub(super) const EVENT: Resource = grouped("events.k8s.io", "Event", "events");
pub(super) const ACCESS_REQUEST: Resource = Resource {
    version: "v1alpha1",
    status: true,
    ..grouped("connectors.alauda.io", "AccessRequest", "accessrequests")
};
/// Any content, with a status subresource.
pub(super) const WIDGET: Resource = Resource {
    status: true,
    ..grouped(TEST_GROUP, "Widget", "widgets")
};
/// Any content, cluster-scoped and without status subresource.
pub(super) const GADGET: Resource = Resource {
    namespaced: false,
    ..grouped(TEST_GROUP, "Gadget", "gadgets")
};
/// The kind that is removed while the script runs.
pub(super) const GIZMO: Resource = grouped(TEST_GROUP, "Gizmo", "gizmos");

/// The custom resources that must exist before the script starts, in addition to those of the product.
#[must_use]
pub fn test_kinds() -> [Resource; 3] {
    [WIDGET, GADGET, GIZMO]
}

impl Resource {
    /// `group/version`, or the version alone for the core group.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The `CustomResourceDefinition`, which accepts any content.
    #[must_use]
    pub fn definition(&self) -> Value {
        let subresources = if self.status {
            json!({"status": {}})
        } else {
            json!({})
        };
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{}.{}", self.plural, self.group)},
            "spec": {
                "group": self.group,
                "scope": if self.namespaced { "Namespaced" } else { "Cluster" },
                "names": {
                    "kind": self.kind, "plural": self.plural,
                    "singular": self.kind.to_lowercase(), "listKind": format!("{}List", self.kind),
                },
                "versions": [{
                    "name": self.version, "served": true, "storage": true, "subresources": subresources,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                }],
            },
        })
    }

    /// Path of all objects in a namespace; the namespace is ignored for cluster-scoped kinds.
    pub(super) fn collection(&self, namespace: &str) -> String {
        if self.namespaced {
            format!("{}/namespaces/{namespace}/{}", self.root(), self.plural)
        } else {
            self.everywhere()
        }
    }

    /// Path of all objects of all namespaces.
    pub(super) fn everywhere(&self) -> String {
        format!("{}/{}", self.root(), self.plural)
    }

    pub(super) fn object(&self, namespace: &str, name: &str) -> String {
        format!("{}/{name}", self.collection(namespace))
    }

    fn root(&self) -> String {
        if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        }
    }

    /// The object of that name with the given content.
    pub(super) fn body(&self, name: &str, content: &Value) -> Value {
        let mut object = json!({
            "apiVersion": self.api_version(), "kind": self.kind, "metadata": {"name": name},
        });
        json_patch::merge(&mut object, content);
        object
    }
}
