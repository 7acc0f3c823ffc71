//! The kinds that are served.

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
    /// Whether its objects live in namespaces.
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
    // Served, so that it can be created in tests of what reads it; a definition brings no kind with it.
    (
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        false,
        true,
    ),
];

/// All kinds that are there from the start.
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
    /// As objects write it.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Whether it is defined by a CRD, and not by the server itself.
    pub(crate) fn is_custom(&self) -> bool {
        self.group.contains('.') && !self.group.ends_with(".k8s.io")
    }

    /// Whether a PUT without a version overwrites whatever is there.
    pub(crate) fn allows_unconditional_update(&self) -> bool {
        !self.is_custom() && self.plural != "leases"
    }

    /// Whether a PUT makes what is not there.
    pub(crate) fn is_created_by_update(&self) -> bool {
        self.group == RBAC || matches!(self.plural.as_str(), "leases" | "events")
    }

    /// Whether a changed spec counts up `metadata.generation`.
    pub(crate) fn has_generation(&self) -> bool {
        self.is_custom()
            || self.group == ADMISSION
            || matches!(self.plural.as_str(), "pods" | "customresourcedefinitions")
    }

    /// Whether a deletion is answered with what was deleted.
    pub(crate) fn answers_deletion_with_the_object(&self) -> bool {
        !self.is_custom() && matches!(self.plural.as_str(), "pods" | "serviceaccounts")
    }

    /// A kind that is none of the API's, for what is named by its path.
    pub(crate) fn is_plural(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }
}
