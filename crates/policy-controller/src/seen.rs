//! The inputs of decisions.

use std::{collections::BTreeMap, fmt};

pub use connectors_api::standing::{MostSelected, Surroundings};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};

pub use service_kit::name::Name;

/// Our field manager in server-side apply.
pub const MANAGER: &str = "policy-controller";

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// The policy that something is managed for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerPolicy {
    /// Its namespace and name.
    pub name: Name,
    /// Its UID.
    pub uid: String,
}

/// The two kinds that are managed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ManagedKind {
    /// The permissions.
    Role,
    /// The subjects.
    RoleBinding,
}

impl ManagedKind {
    /// Both: each pair of objects has one of each.
    pub const ALL: [Self; 2] = [Self::Role, Self::RoleBinding];

    /// As people write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Role => "Role",
            Self::RoleBinding => "RoleBinding",
        }
    }
}

impl fmt::Display for ManagedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One version of an object. A write changes this version or fails.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pin {
    /// Its UID.
    pub uid: String,
    /// Its resource version.
    pub version: String,
}

/// An existing managed object.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundObject<K> {
    /// Which version it is.
    pub pin: Pin,
    /// It is being deleted, and something keeps it: it still counts for RBAC.
    pub terminating: bool,
    /// Another writer of its content.
    pub changed_by: Option<String>,
    /// The object; none when it cannot be read.
    pub object: Option<K>,
}

/// Everything that is managed for one policy, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Managed {
    /// Roles.
    pub roles: BTreeMap<String, FoundObject<Role>>,
    /// RoleBindings.
    pub bindings: BTreeMap<String, FoundObject<RoleBinding>>,
}

impl Managed {
    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.roles.is_empty() && self.bindings.is_empty()
    }
}

/// A digest that differs between two states of an object, computed from the fields that are ours.
pub type Fingerprint = [u8; 32];

/// A managed object as the cache keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedCached {
    /// Which version it is.
    pub version: String,
    /// Its content; none if it cannot be parsed.
    pub said: Option<Fingerprint>,
    /// It is being deleted.
    pub terminating: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<K>() -> BTreeMap<String, FoundObject<K>> {
        let found = FoundObject {
            pin: Pin::default(),
            terminating: false,
            changed_by: None,
            object: None,
        };
        BTreeMap::from([("a".to_owned(), found)])
    }

    #[test]
    fn nothing_is_managed_only_without_roles_and_without_bindings() {
        let mut managed = Managed::default();
        assert!(managed.is_empty());
        managed.roles = found();
        assert!(!managed.is_empty());
        managed.bindings = found();
        assert!(!managed.is_empty());
        managed.roles = BTreeMap::new();
        assert!(!managed.is_empty());
    }
}
