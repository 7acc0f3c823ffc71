//! The served kinds.

/// A kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: String,
    /// Version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Plural, as in the path.
    pub plural: String,
    /// Whether it is namespaced.
    pub namespaced: bool,
    /// Whether it has the subresource `status`.
    pub status: bool,
}

const CORE: &str = "";
pub(crate) const RBAC: &str = "rbac.authorization.k8s.io";
const LEASES: &str = "coordination.k8s.io";
pub(crate) const EVENTS: &str = "events.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";
const CONNECTORS: &str = "connectors.alauda.io";

/// Group, version, kind, plural, namespaced, status.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    bool,
    bool,
);

const FROM_THE_START: [Row; 21] = [
    (CORE, "v1", "ConfigMap", "configmaps", true, false),
    (CORE, "v1", "Event", "events", true, false),
    (CORE, "v1", "Namespace", "namespaces", false, true),
    (CORE, "v1", "Node", "nodes", false, true),
    (CORE, "v1", "Pod", "pods", true, true),
    (CORE, "v1", "Secret", "secrets", true, false),
    (CORE, "v1", "Service", "services", true, true),
    (CORE, "v1", "ServiceAccount", "serviceaccounts", true, false),
    (RBAC, "v1", "ClusterRole", "clusterroles", false, false),
    (
        RBAC,
        "v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
        false,
        false,
    ),
    (RBAC, "v1", "Role", "roles", true, false),
    (RBAC, "v1", "RoleBinding", "rolebindings", true, false),
    (LEASES, "v1", "Lease", "leases", true, false),
    (EVENTS, "v1", "Event", "events", true, false),
    (
        ADMISSION,
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        false,
        false,
    ),
    (
        ADMISSION,
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        false,
        false,
    ),
    (
        CONNECTORS,
        "v1alpha1",
        "Connector",
        "connectors",
        true,
        true,
    ),
    (
        CONNECTORS,
        "v1alpha1",
        "ConnectorClass",
        "connectorclasses",
        false,
        true,
    ),
    (
        CONNECTORS,
        "v1alpha1",
        "AccessPolicy",
        "accesspolicies",
        true,
        true,
    ),
    (
        CONNECTORS,
        "v1alpha1",
        "AccessRequest",
        "accessrequests",
        true,
        true,
    ),
    // Served, so that tests can create it for the code that reads it; a definition does not register its
    // kind.
    (
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        false,
        true,
    ),
];

/// All kinds that are served from the start.
pub(crate) fn from_the_start() -> Vec<Kind> {
    let kinds = FROM_THE_START.iter();
    kinds
        .map(|&(group, version, kind, plural, namespaced, status)| Kind {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            namespaced,
            status,
        })
        .collect()
}

impl Kind {
    /// The spelling in objects.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// True when it is defined by a CRD, and not by the server itself.
    pub(crate) fn is_custom(&self) -> bool {
        self.group.contains('.') && !self.group.ends_with(".k8s.io")
    }

    /// True when a PUT without a version overwrites any version.
    pub(crate) fn allows_unconditional_update(&self) -> bool {
        !self.is_custom() && self.plural != "leases"
    }

    /// True when a PUT creates a missing object.
    pub(crate) fn is_created_by_update(&self) -> bool {
        self.group == RBAC || matches!(self.plural.as_str(), "leases" | "events")
    }

    /// True when a changed spec increments `metadata.generation`.
    pub(crate) fn has_generation(&self) -> bool {
        self.is_custom()
            || self.group == ADMISSION
            || matches!(self.plural.as_str(), "pods" | "customresourcedefinitions")
    }

    /// True when a deletion is answered with the deleted object.
    pub(crate) fn answers_deletion_with_the_object(&self) -> bool {
        !self.is_custom() && matches!(self.plural.as_str(), "pods" | "serviceaccounts")
    }

    /// True when the kind has this group and plural.
    pub(crate) fn is_plural(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }
}
