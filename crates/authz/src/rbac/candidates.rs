//! Sets of roles, and how they meet what bindings give to a subject.

use std::collections::BTreeSet;

use super::postings::{Postings, RulePlace};
use super::role::Role;
use super::{BindingId, RoleId};
use crate::Target;
use crate::slab::Slab;

/// The bindings of one subject (or of all) in one scope, by role.
pub(super) type ByRole = BTreeSet<(RoleId, BindingId)>;

/// Some roles.
pub(super) trait RoleSet: Copy {
    /// No fewer than there are.
    fn at_most(self) -> usize;
    fn contains(self, role: RoleId) -> bool;
    /// Each role once.
    fn roles(self) -> impl Iterator<Item = RoleId>;
}

/// The bindings to the roles of a set. Walks the smaller side, so that neither a subject with many
/// bindings nor a resource that many roles name is slow alone.
pub(super) fn join<'a, S: RoleSet + 'a>(
    held: &'a ByRole,
    set: S,
) -> impl Iterator<Item = (RoleId, BindingId)> + 'a {
    let walk_set = set.at_most() < held.len();
    let by_role = walk_set.then(|| set.roles().flat_map(|role| held.range(bindings_of(role))));
    let by_binding = (!walk_set).then(|| held.iter().filter(move |(role, _)| set.contains(*role)));
    let by_role = by_role.into_iter().flatten();
    by_role.chain(by_binding.into_iter().flatten()).copied()
}

fn bindings_of(role: RoleId) -> std::ops::RangeInclusive<(RoleId, BindingId)> {
    (role, BindingId(usize::MIN))..=(role, BindingId(usize::MAX))
}

/// The roles that allow something: those of cluster roles and of one namespace's roles with a rule that
/// covers what is asked and allows the verb on it.
#[derive(Clone, Copy)]
pub(super) struct Candidates<'a> {
    all: &'a Slab<Role>,
    verb: &'a str,
    target: Target<'a>,
    lists: [&'a [RulePlace]; 12],
}

impl<'a> Candidates<'a> {
    pub(super) fn new(
        all: &'a Slab<Role>,
        cluster: &'a Postings,
        namespace: Option<&'a Postings>,
        verb: &'a str,
        target: Target<'a>,
    ) -> Self {
        let mut lists: [&[RulePlace]; 12] = [&[]; 12];
        match target {
            Target::Path(_) => lists[0] = cluster.paths(),
            Target::Resource(request) => {
                let own = namespace.map(|postings| postings.covering(&request));
                let found = cluster.covering(&request).into_iter();
                for (list, found) in lists.iter_mut().zip(found.chain(own.into_iter().flatten())) {
                    *list = found;
                }
            }
        }
        Self {
            all,
            verb,
            target,
            lists,
        }
    }

    fn allows(&self, place: RulePlace) -> bool {
        let role = self.all.get(place.role.0);
        let rules = role.and_then(|role| role.rules.as_deref());
        rules
            .and_then(|rules| rules.get(place.rule))
            .is_some_and(|rule| {
                let allows = rule.allows_covered(self.verb, self.target);
                debug_assert_eq!(allows, rule.allows(self.verb, self.target));
                allows
            })
    }
}

impl RoleSet for Candidates<'_> {
    fn at_most(self) -> usize {
        self.lists.iter().map(|list| list.len()).sum()
    }

    fn contains(self, role: RoleId) -> bool {
        self.lists.iter().any(|list| {
            let start = list.partition_point(|place| place.role < role);
            let rest = list.get(start..).unwrap_or_default();
            rest.iter()
                .take_while(|place| place.role == role)
                .any(|place| self.allows(*place))
        })
    }

    fn roles(self) -> impl Iterator<Item = RoleId> {
        // The lists are sorted by role, so the smallest first element is the next role.
        let mut lists = self.lists;
        let next = move || {
            let firsts = lists.iter().filter_map(|list| list.first());
            let role = firsts.map(|place| place.role).min()?;
            let mut allows = false;
            for list in &mut lists {
                while let Some((place, rest)) = list.split_first()
                    && place.role == role
                {
                    allows = allows || self.allows(*place);
                    *list = rest;
                }
            }
            Some(allows.then_some(role))
        };
        std::iter::from_fn(next).flatten()
    }
}

/// The roles that bindings refer to and that do not exist: in the cluster and in one namespace.
#[derive(Clone, Copy)]
pub(super) struct Missing<'a> {
    pub(super) cluster: &'a BTreeSet<RoleId>,
    pub(super) namespace: Option<&'a BTreeSet<RoleId>>,
}

impl RoleSet for Missing<'_> {
    fn at_most(self) -> usize {
        self.cluster.len() + self.namespace.map_or(0, BTreeSet::len)
    }

    fn contains(self, role: RoleId) -> bool {
        self.cluster.contains(&role) || self.namespace.is_some_and(|set| set.contains(&role))
    }

    fn roles(self) -> impl Iterator<Item = RoleId> {
        let namespace = self.namespace.into_iter().flatten();
        self.cluster.iter().chain(namespace).copied()
    }
}
