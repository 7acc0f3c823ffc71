//! The questions whose answers a change of RBAC can affect.
//!
//! They follow from the facts that decide: the rules of a role, and the subjects of its bindings. Labels are not looked
//! at, because tenants write them.
//!
//! Invariant: a question whose answer changed is among them. An answer rests on pairs of a role and a binding. So both
//! the pairs before the change and those after it count, and an object without a pair affects nothing. Facts that
//! are not plain names make the set wider: all questions of the namespace, or all.
//!
//! If more than eight roles or bindings give the same access, other bindings decide where the search for the first one
//! begins. An answer may then go on naming a binding that gives the access as well, until the next look at everything.

#[cfg(test)]
mod tests;

use authz::{BoundRole, RbacObject, Subject};
use connectors_api::names::{CONNECTORS, GROUP};

use super::question_keys::GivenTarget;
use super::{World, WorldChange};

/// Bindings and subjects that are looked at for the targets of a role. With more, the namespace is affected: tenants
/// choose the numbers, and decisions wait meanwhile.
const MOST_LOOKS: usize = 128;

/// The same for the targets of a role in the group of connectors.
const MOST_TARGETS: usize = 1024;

/// The same for the rules of a role, about any group.
const MOST_RULES: usize = 1024;

/// Keys of one change, before and after it together. Each stream looks each of them up.
const MOST_KEYS: usize = 32;

/// Questions about connectors.
#[derive(Debug, PartialEq, Eq)]
enum Affected {
    /// Those with one of these keys.
    Keys(Vec<u64>),
    /// Those of this namespace, or all.
    Wide(Option<String>),
}

/// The part of a rule's resource that counts for connectors.
#[derive(Debug, PartialEq, Eq)]
enum CoveredConnectors<'a> {
    Nothing,
    Subresource(&'a str),
    All,
}

impl<'a> CoveredConnectors<'a> {
    /// A question about a connector always has a subresource.
    fn by(resource: &'a str) -> Self {
        if resource == "*" {
            return Self::All;
        }
        let of = |kind| resource.strip_prefix(kind)?.strip_prefix('/');
        of(CONNECTORS)
            .or_else(|| of("*"))
            .map_or(Self::Nothing, Self::Subresource)
    }
}

/// Changes an object of RBAC, and names the questions that this can affect.
pub(super) fn change_rbac<K: RbacObject>(
    world: &mut World,
    object: &K,
    change: impl FnOnce(&mut World),
) -> Vec<WorldChange> {
    let mut affected = Affected::Keys(Vec::new());
    affected.add(world, object);
    change(world);
    affected.add(world, object);
    affected.changes()
}

impl Affected {
    /// Adds the questions whose answers may rest on an object at this moment.
    fn add<K: RbacObject>(&mut self, world: &World, object: &K) {
        let Some(bound) = world.chain.rbac.resting_on(object) else {
            return;
        };
        if self.add_bound(world, &bound).is_none() {
            *self = Self::Wide(bound.namespace().map(str::to_owned));
        }
    }

    /// None when keys do not suffice.
    fn add_bound(&mut self, world: &World, bound: &BoundRole<'_>) -> Option<()> {
        let Self::Keys(keys) = self else {
            return None;
        };
        if bound.rules() > MOST_RULES {
            return None;
        }
        let mut looks = MOST_LOOKS;
        for (number, (resource, name)) in bound.targets(GROUP).enumerate() {
            if number == MOST_TARGETS {
                return None;
            }
            let subresource = match CoveredConnectors::by(resource) {
                CoveredConnectors::Nothing => continue,
                CoveredConnectors::Subresource(subresource) => subresource,
                CoveredConnectors::All => return None,
            };
            let (namespace, connector) = (bound.namespace()?, name?);
            for binding in bound.bindings() {
                looks = looks.checked_sub(1 + binding.subjects().len())?;
                for subject in binding.subjects() {
                    // The members of a group are not known.
                    if matches!(subject, Subject::Group(_)) {
                        return None;
                    }
                    if keys.len() == MOST_KEYS {
                        return None;
                    }
                    let given = GivenTarget {
                        namespace,
                        user: &subject.alone().name,
                        connector,
                        subresource,
                    };
                    keys.push(world.question_keys.of_given(given));
                }
            }
        }
        Some(())
    }

    fn changes(self) -> Vec<WorldChange> {
        match self {
            Self::Keys(keys) if keys.is_empty() => Vec::new(),
            Self::Keys(mut keys) => {
                // Most changes affect the same questions before and after.
                keys.sort_unstable();
                keys.dedup();
                vec![WorldChange::Keys(keys.into())]
            }
            Self::Wide(Some(namespace)) => vec![WorldChange::Namespace(namespace)],
            Self::Wide(None) => vec![WorldChange::Everything],
        }
    }
}
