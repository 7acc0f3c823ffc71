//! Sets of roles, from which the search for the bindings behind an answer starts.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::RoleId;
use super::postings::{LookupKey, Postings, RulePlace};
use super::role::Role;
use crate::Target;
use crate::slab::Slab;

/// Some roles.
pub(super) trait RoleSet {
    /// An upper bound of the number of roles.
    fn at_most(&self) -> usize;
    fn contains(&self, role: RoleId) -> bool;
    /// The first role after another one; the first of all if none is given.
    fn next(&self, last: Option<RoleId>) -> Option<RoleId>;

    /// Each role once.
    fn roles(&self) -> impl Iterator<Item = RoleId> {
        std::iter::successors(self.next(None), |last| self.next(Some(*last)))
    }
}

/// The roles that allow something: cluster roles and roles of one namespace that have a rule which covers the
/// target and allows the verb.
#[derive(Clone, Copy)]
pub(super) struct CandidateRoles<'a> {
    all: &'a Slab<Role>,
    verb: &'a str,
    target: Target<'a>,
    /// The lists that are not empty, `count` in all, those of cluster roles first.
    lists: [&'a [RulePlace]; 12],
    of_cluster: usize,
    count: usize,
}

impl<'a> CandidateRoles<'a> {
    pub(super) fn new(
        all: &'a Slab<Role>,
        cluster: &'a Postings,
        namespace: Option<&'a Postings>,
        verb: &'a str,
        target: Target<'a>,
        asked: Option<&[Option<LookupKey<'a>>; 6]>,
    ) -> Self {
        let mut candidates = Self {
            all,
            verb,
            target,
            lists: [&[]; 12],
            of_cluster: 0,
            count: 0,
        };
        match asked {
            None => candidates.add(cluster.paths()),
            Some(asked) => {
                for list in cluster.covering(all, asked) {
                    candidates.add(list);
                }
            }
        }
        candidates.of_cluster = candidates.count;
        // A path is in no namespace.
        if let (Some(own), Some(asked)) = (namespace, asked) {
            for list in own.covering(all, asked) {
                candidates.add(list);
            }
        }
        candidates
    }

    fn add(&mut self, list: &'a [RulePlace]) {
        if let Some(place) = self.lists.get_mut(self.count)
            && !list.is_empty()
        {
            *place = list;
            self.count += 1;
        }
    }

    /// The cluster roles among them.
    pub(super) fn of_cluster(mut self) -> Self {
        self.count = self.of_cluster;
        self
    }

    fn lists(&self) -> &[&'a [RulePlace]] {
        self.lists.get(..self.count).unwrap_or_default()
    }

    fn allows(&self, place: RulePlace) -> bool {
        let role = self.all.get(place.role.0);
        let rules = role.and_then(|role| role.rules.as_deref());
        rules
            .and_then(|rules| rules.get(place.rule as usize))
            .is_some_and(|rule| {
                let allows = rule.allows_covered(self.verb, self.target);
                debug_assert_eq!(allows, rule.allows(self.verb, self.target));
                allows
            })
    }
}

/// The places after those of a role in a sorted list.
fn behind(list: &[RulePlace], role: RoleId) -> &[RulePlace] {
    let end = match list {
        // The usual case: a list with one place.
        [.., end] if end.role <= role => list.len(),
        _ => list.partition_point(|place| place.role <= role),
    };
    list.get(end..).unwrap_or_default()
}

impl RoleSet for CandidateRoles<'_> {
    fn at_most(&self) -> usize {
        self.lists().iter().map(|list| list.len()).sum()
    }

    fn contains(&self, role: RoleId) -> bool {
        self.lists().iter().any(|list| {
            let start = list.partition_point(|place| place.role < role);
            let rest = list.get(start..).unwrap_or_default();
            rest.iter()
                .take_while(|place| place.role == role)
                .any(|place| self.allows(*place))
        })
    }

    fn next(&self, mut last: Option<RoleId>) -> Option<RoleId> {
        loop {
            // The lists are sorted by role, so the smallest first one is the next.
            let firsts = self.lists().iter().filter_map(|list| match last {
                None => list.first(),
                Some(last) => behind(list, last).first(),
            });
            let role = firsts.map(|place| place.role).min()?;
            if self.contains(role) {
                return Some(role);
            }
            last = Some(role);
        }
    }
}

/// The roles that bindings refer to and that do not exist: in the cluster and in one namespace.
#[derive(Clone, Copy)]
pub(super) struct MissingRoles<'a> {
    pub(super) cluster: &'a BTreeSet<RoleId>,
    pub(super) namespace: Option<&'a BTreeSet<RoleId>>,
}

impl RoleSet for MissingRoles<'_> {
    fn at_most(&self) -> usize {
        self.cluster.len() + self.namespace.map_or(0, BTreeSet::len)
    }

    fn contains(&self, role: RoleId) -> bool {
        self.cluster.contains(&role) || self.namespace.is_some_and(|set| set.contains(&role))
    }

    fn next(&self, last: Option<RoleId>) -> Option<RoleId> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let sets = self.namespace.into_iter().chain([self.cluster]);
        let firsts = sets.filter_map(|set| set.range((from, Bound::Unbounded)).next());
        firsts.min().copied()
    }
}
