//! The rules that apply to a user, as a list rather than one answer.

use thiserror::Error;

use crate::User;

/// Lists the rules that apply to a user.
pub trait RuleResolver: Send + Sync {
    /// The rules that apply to a user in a namespace, including those of the whole cluster; only those of the
    /// whole cluster when the namespace is empty.
    fn rules_for(&self, user: &User, namespace: &str) -> UserRules;
}

/// The rules that apply to a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct UserRules {
    /// Rules about objects of the API.
    pub resource: Vec<ResourceRule>,
    /// Rules about paths of the server.
    pub non_resource: Vec<NonResourceRule>,
    /// The roles that could not be looked up. The rules that were found apply all the same.
    pub errors: Vec<ResolveError>,
}

/// Verbs on objects of the API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceRule {
    /// Verbs, `*` for all.
    pub verbs: Vec<String>,
    /// API groups, `*` for all.
    pub api_groups: Vec<String>,
    /// Resources: `*` for all, `*/<subresource>` for that subresource of all, otherwise compared as a whole.
    pub resources: Vec<String>,
    /// Names of the objects; none means all.
    pub resource_names: Vec<String>,
}

/// Verbs on paths of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NonResourceRule {
    /// Verbs, `*` for all.
    pub verbs: Vec<String>,
    /// Paths; a `*` at the end matches any suffix.
    pub urls: Vec<String>,
}

/// The reason why a binding yields no rules, worded as the API server does.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Error)]
pub enum ResolveError {
    /// The role of a binding does not exist in its namespace.
    #[error("role.rbac.authorization.k8s.io {0:?} not found")]
    RoleNotFound(String),
    /// The cluster role of a binding does not exist.
    #[error("clusterrole.rbac.authorization.k8s.io {0:?} not found")]
    ClusterRoleNotFound(String),
    /// A binding refers to something that is neither a role nor a cluster role.
    #[error("unsupported role reference kind: {0:?}")]
    UnsupportedKind(String),
}
