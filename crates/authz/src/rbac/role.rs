//! Roles of either kind, and the bindings that refer to them.

use std::collections::btree_set::{self, BTreeSet};
use std::hash::BuildHasher;
use std::sync::Arc;

use super::BindingId;
use super::rule::Rule;
use crate::hash::Hashing;
use crate::rules::ResolveError;

/// The kind of the object that a binding's `roleRef` points to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RoleKind {
    /// A role in the binding's own namespace.
    Role,
    /// A cluster role.
    ClusterRole,
    /// Any other kind. No API server accepts it, and it yields no rules.
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

    /// The kind as the object spells it.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleRef {
    /// Its kind, which also determines its scope.
    pub kind: RoleKind,
    /// Its name.
    pub name: Arc<str>,
}

impl RoleRef {
    pub(super) fn is(&self, kind: &RoleKind, name: &str) -> bool {
        *self.name == *name && self.kind == *kind
    }

    /// The hash under which a role of that kind and name is found in its scope.
    pub(super) fn hash(hashing: &Hashing, kind: &RoleKind, name: &str) -> u64 {
        hashing.hash_one((kind, name))
    }
}

/// A role that exists, or that bindings refer to, or both.
#[derive(Debug)]
pub(super) struct Role {
    /// Its scope: a namespace, or the cluster.
    pub(super) namespace: Option<Arc<str>>,
    pub(super) reference: RoleRef,
    /// None while the role does not exist and only bindings refer to it.
    pub(super) rules: Option<Box<[Rule]>>,
    /// The bindings that refer to it.
    pub(super) bound: BoundBy,
}

impl Role {
    /// The reason why bindings to it yield no rules; for roles that do not exist.
    pub(super) fn missing(&self) -> ResolveError {
        let RoleRef { kind, name } = &self.reference;
        match kind {
            RoleKind::Role => ResolveError::RoleNotFound(name.to_string()),
            RoleKind::ClusterRole => ResolveError::ClusterRoleNotFound(name.to_string()),
            RoleKind::Unsupported(kind) => ResolveError::UnsupportedKind(kind.to_string()),
        }
    }
}

/// The bindings to one role. There is usually one.
#[derive(Debug, Default)]
#[expect(
    clippy::box_collection,
    reason = "the rare case must not make every role larger"
)]
pub(super) enum BoundBy {
    #[default]
    Nobody,
    One(BindingId),
    Many(Box<BTreeSet<BindingId>>),
}

impl BoundBy {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Nobody => 0,
            Self::One(_) => 1,
            Self::Many(ids) => ids.len(),
        }
    }

    pub(super) fn iter(&self) -> Bound<'_> {
        match self {
            Self::Nobody => Bound::One(None),
            Self::One(id) => Bound::One(Some(*id)),
            Self::Many(ids) => Bound::Many(ids.iter()),
        }
    }

    pub(super) fn insert(&mut self, id: BindingId) {
        match self {
            Self::Nobody => *self = Self::One(id),
            Self::One(other) => *self = Self::Many(Box::new([*other, id].into())),
            Self::Many(ids) => {
                ids.insert(id);
            }
        }
    }

    pub(super) fn remove(&mut self, id: BindingId) {
        match self {
            Self::Nobody => {}
            Self::One(other) => {
                if *other == id {
                    *self = Self::Nobody;
                }
            }
            Self::Many(ids) => {
                ids.remove(&id);
                if ids.is_empty() {
                    *self = Self::Nobody;
                }
            }
        }
    }
}

/// Walks the bindings to one role.
pub(super) enum Bound<'a> {
    One(Option<BindingId>),
    Many(btree_set::Iter<'a, BindingId>),
}

impl Iterator for Bound<'_> {
    type Item = BindingId;

    fn next(&mut self) -> Option<BindingId> {
        match self {
            Self::One(id) => id.take(),
            Self::Many(ids) => ids.next().copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_spelled_as_the_object_spells_it() {
        for kind in ["Role", "ClusterRole", "role", "User", ""] {
            assert_eq!(RoleKind::parse(kind).as_str(), kind);
        }
    }

    /// Tenants choose the names, but not which of them collide.
    #[test]
    fn a_role_is_hashed_by_its_kind_its_name_and_the_key_of_its_table() {
        let [table, other] = [(); 2].map(|()| Hashing::default());
        let hash = RoleRef::hash(&table, &RoleKind::Role, "a");
        assert_eq!(hash, RoleRef::hash(&table, &RoleKind::Role, "a"));
        assert_ne!(hash, RoleRef::hash(&table, &RoleKind::Role, "b"));
        assert_ne!(hash, RoleRef::hash(&table, &RoleKind::ClusterRole, "a"));
        assert_ne!(hash, RoleRef::hash(&other, &RoleKind::Role, "a"));
    }
}
