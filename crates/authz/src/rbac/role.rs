//! Roles of either kind, and what bindings say about them.

use std::sync::Arc;

use super::rule::Rule;
use crate::rules::ResolveError;

/// What a binding's `roleRef` points to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RoleKind {
    /// A role in the binding's own namespace.
    Role,
    /// A cluster role.
    ClusterRole,
    /// Something that no API server accepts and that yields no rules.
    Unsupported(Box<str>),
}

impl RoleKind {
    pub(super) fn parse(kind: &str) -> Self {
        match kind {
            "Role" => Self::Role,
            "ClusterRole" => Self::ClusterRole,
            _ => Self::Unsupported(kind.into()),
        }
    }

    /// The kind as it stands in the object.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Role => "Role",
            Self::ClusterRole => "ClusterRole",
            Self::Unsupported(kind) => kind,
        }
    }
}

/// The role of a binding.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RoleRef {
    /// Its kind, which also says where it is.
    pub kind: RoleKind,
    /// Its name.
    pub name: Arc<str>,
}

/// A role that exists, that bindings wait for, or both.
#[derive(Debug)]
pub(super) struct Role {
    /// Where it is: a namespace, or the cluster.
    pub(super) namespace: Option<Arc<str>>,
    pub(super) reference: RoleRef,
    /// None while only bindings speak of it.
    pub(super) rules: Option<Box<[Rule]>>,
    /// How many bindings refer to it.
    pub(super) bindings: usize,
}

impl Role {
    /// Why bindings to it yield no rules; for roles that do not exist.
    pub(super) fn missing(&self) -> ResolveError {
        let RoleRef { kind, name } = &self.reference;
        match kind {
            RoleKind::Role => ResolveError::RoleNotFound(name.to_string()),
            RoleKind::ClusterRole => ResolveError::ClusterRoleNotFound(name.to_string()),
            RoleKind::Unsupported(kind) => ResolveError::UnsupportedKind(kind.to_string()),
        }
    }
}
