//! Kubernetes' RBAC over an index of its objects.
//!
//! Roles and bindings are indexed apart: roles by the resources and names that their rules speak of,
//! bindings by whom they are for. An answer joins the two, walking whichever side is smaller, so its
//! cost follows what matches and not what there is; and an edited role touches its own rules only,
//! however many bindings refer to it.

mod answer;
mod binding;
mod candidates;
mod object;
mod postings;
mod role;
mod rule;
mod scope;
mod scopes;
mod update;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use thiserror::Error;

pub use answer::WhoCan;
pub use binding::{Binding, Grant, Subject};
pub use object::RbacObject;
pub use role::{RoleKind, RoleRef};

use binding::Bound;
use object::{Content, Half};
use role::Role;
use rule::Rule;
use scopes::Scopes;

use crate::slab::Slab;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RoleId(usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BindingId(usize);

/// All RBAC objects of a cluster, as far as they have come, ready to answer.
///
/// Kinds and objects may come in any order: a binding whose role is not there yet allows nothing, and
/// says so in the reason.
#[derive(Debug, Default)]
pub struct RbacIndex {
    roles: Slab<Role>,
    bindings: Slab<Bound>,
    scopes: Scopes,
}

/// Why an object is not in the index, and therefore grants nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IndexError {
    /// It has no name.
    #[error("a {kind} has no name")]
    NoName {
        /// Its kind.
        kind: &'static str,
    },
    /// It has no namespace, and its kind lives in namespaces.
    #[error("the {kind} {name} has no namespace")]
    NoNamespace {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
    },
}

/// Where an object is, and its name there.
type Key = (Option<Arc<str>>, Arc<str>);

impl RbacIndex {
    /// Takes an object as it is now, new or changed.
    pub fn apply<K: RbacObject>(&mut self, object: K) -> Result<(), IndexError> {
        let (namespace, name) = key(&object)?;
        let (metadata, content) = object.split();
        match content {
            Content::Rules(rules) => {
                let rules = rules.into_iter().map(Rule::from).collect();
                self.put_role(namespace.as_ref(), name, rules);
            }
            Content::Binding(role, subjects) => {
                self.put_binding(Binding::new(namespace, name, metadata, role, subjects));
            }
        }
        Ok(())
    }

    /// Forgets an object. Only its kind, namespace and name count.
    pub fn delete<K: RbacObject>(&mut self, object: &K) {
        if let Ok(key) = key(object) {
            self.remove(K::HALF, &key);
        }
    }

    /// Takes all objects of a kind, as a new list shows them: what it does not show was deleted. What
    /// cannot be indexed is left out and told.
    pub fn reset<K: RbacObject>(
        &mut self,
        objects: impl IntoIterator<Item = K>,
    ) -> Vec<IndexError> {
        let mut gone = self.keys::<K>();
        let mut errors = Vec::new();
        for object in objects {
            let applied = key(&object).and_then(|key| {
                gone.remove(&key);
                self.apply(object)
            });
            errors.extend(applied.err());
        }
        for key in gone {
            self.remove(K::HALF, &key);
        }
        errors
    }

    /// True when nothing is left of any object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.scopes.namespaces.is_empty() && self.scopes.cluster.is_empty()
    }

    fn keys<K: RbacObject>(&self) -> HashSet<Key> {
        let exists = |id: &RoleId| {
            self.roles
                .get(id.0)
                .is_some_and(|role| role.rules.is_some())
        };
        let mut keys = HashSet::new();
        for (namespace, scope) in self.scopes.all(K::NAMESPACED) {
            match K::HALF {
                Half::Roles => {
                    let roles = scope.roles.iter().filter(|(_, id)| exists(id));
                    keys.extend(roles.map(|(role, _)| (namespace.cloned(), role.name.clone())));
                }
                Half::Bindings => {
                    let names = scope.bindings.keys();
                    keys.extend(names.map(|name| (namespace.cloned(), name.clone())));
                }
            }
        }
        keys
    }

    fn remove(&mut self, half: Half, (namespace, name): &Key) {
        match half {
            Half::Roles => self.remove_role(namespace.as_ref(), name),
            Half::Bindings => self.remove_binding(namespace.as_ref(), name),
        }
    }
}

fn key<K: RbacObject>(object: &K) -> Result<Key, IndexError> {
    let kind = K::KIND;
    let metadata = object.metadata();
    let given = |text: &Option<String>| {
        text.as_deref()
            .filter(|text| !text.is_empty())
            .map(Arc::from)
    };
    let name: Arc<str> = given(&metadata.name).ok_or(IndexError::NoName { kind })?;
    if !K::NAMESPACED {
        return Ok((None, name));
    }
    match given(&metadata.namespace) {
        Some(namespace) => Ok((Some(namespace), name)),
        None => Err(IndexError::NoNamespace {
            kind,
            name: name.to_string(),
        }),
    }
}
