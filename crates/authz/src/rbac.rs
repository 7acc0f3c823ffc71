//! Kubernetes' RBAC over an index of its objects.
//!
//! Roles and bindings are indexed separately: roles by the resources and names in their rules, bindings by
//! their subjects and their roles. An answer joins the two and walks the smaller side. Its cost therefore
//! depends on the number of matches, not on the number of objects. An edited role touches its own rules only,
//! however many bindings refer to it.
//!
//! There may be a hundred thousand grants. Content that many objects share is therefore stored once, and the
//! tables hold ids and read their keys from the objects behind the ids.

mod answer;
mod binding;
mod candidates;
mod listing;
mod object;
mod postings;
mod reach;
mod resting;
mod role;
mod rule;
mod scope;
mod scopes;
mod subject;
mod update;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use thiserror::Error;

pub use answer::AllowedSubjects;
pub use binding::{AllowedBy, Binding};
pub use listing::Listing;
pub use object::RbacObject;
pub use resting::BoundRole;
pub use role::{RoleKind, RoleRef};
pub use subject::Subject;

use binding::Common;
use object::{Half, RbacContent};
use role::Role;
use rule::Shape;
use scopes::Scopes;

use crate::hash::{HashSet, Hashing};
use crate::pool::TextPool;
use crate::slab::Slab;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct RoleId(u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct BindingId(u32);

/// The bindings of one subject in one scope, by role.
type ByRole = BTreeSet<(RoleId, BindingId)>;

/// All RBAC objects of a cluster that have arrived so far, ready to answer.
///
/// Kinds and objects may come in any order: a binding whose role has not arrived yet allows nothing, and the
/// reason says so.
#[derive(Debug, Default)]
pub struct RbacIndex {
    hashing: Hashing,
    roles: Slab<Role>,
    bindings: Slab<Binding>,
    scopes: Scopes,
    shapes: TextPool<Shape>,
    common: Common,
}

/// The reason why an object is not in the index, and therefore grants nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IndexError {
    /// It has no name.
    #[error("a {kind} has no name")]
    NoName {
        /// Its kind.
        kind: &'static str,
    },
    /// It has no namespace although its kind is namespaced.
    #[error("the {kind} {name} has no namespace")]
    NoNamespace {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
    },
}

/// An object's id among those of its half.
type Number = u32;

impl RbacIndex {
    /// Stores the current state of an object, new or changed.
    pub fn apply<K: RbacObject>(&mut self, object: &K) -> Result<(), IndexError> {
        self.put(object).map(drop)
    }

    /// Removes an object. Only its kind, namespace and name count.
    pub fn delete<K: RbacObject>(&mut self, object: &K) {
        let Ok((namespace, name)) = key::<K>(object.metadata()) else {
            return;
        };
        match K::HALF {
            Half::Roles => self.remove_role(namespace, name),
            Half::Bindings => self.remove_binding(namespace, name),
        }
    }

    /// Replaces all objects of a kind by those of a new list: objects that are not in it were deleted.
    /// Objects that cannot be indexed are left out and reported.
    pub fn reset<'a, K: RbacObject + 'a>(
        &mut self,
        objects: impl IntoIterator<Item = &'a K>,
    ) -> Vec<IndexError> {
        let mut listing = Listing::begin(self);
        let mut errors = Vec::new();
        for object in objects {
            errors.extend(listing.show(self, object).err());
        }
        listing.end(self);
        errors
    }

    /// True when no trace of any object is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let scopes = self.scopes.namespaces.is_empty() && self.scopes.cluster.is_empty();
        scopes && self.shapes.is_empty() && self.common.is_empty()
    }

    fn put<K: RbacObject>(&mut self, object: &K) -> Result<Number, IndexError> {
        let metadata = object.metadata();
        let (namespace, name) = key::<K>(metadata)?;
        Ok(match object.content() {
            RbacContent::Rules(rules) => self.put_role(namespace, name, rules).0,
            RbacContent::Binding(role, subjects) => {
                let id = self.put_binding(namespace, name, metadata, role, subjects);
                id.0
            }
        })
    }

    /// All objects of a kind.
    fn all<K: RbacObject>(&self) -> HashSet<Number> {
        let exists = |id: &RoleId| {
            let role = self.roles.get(id.0);
            role.is_some_and(|role| role.rules.is_some())
        };
        let mut all = HashSet::default();
        for scope in self.scopes.all(K::NAMESPACED) {
            match K::HALF {
                Half::Roles => all.extend(scope.roles().filter(exists).map(|id| id.0)),
                Half::Bindings => all.extend(scope.bindings().map(|id| id.0)),
            }
        }
        all
    }
}

/// The namespace and the name of an object.
fn key<K: RbacObject>(metadata: &ObjectMeta) -> Result<(Option<&str>, &str), IndexError> {
    let kind = K::KIND;
    let name = given(metadata.name.as_deref()).ok_or(IndexError::NoName { kind })?;
    if !K::NAMESPACED {
        return Ok((None, name));
    }
    match given(metadata.namespace.as_deref()) {
        Some(namespace) => Ok((Some(namespace), name)),
        None => Err(IndexError::NoNamespace {
            kind,
            name: name.to_owned(),
        }),
    }
}

/// An empty string counts as absent.
fn given(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}
