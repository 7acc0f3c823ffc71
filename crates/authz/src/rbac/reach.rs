//! The search for bindings that give a user one of a set of roles.
//!
//! It is one flat state machine instead of nested iterators: their state is so large that moving it costs
//! more than the search.

use std::collections::btree_set::{self, BTreeSet};

use super::candidates::RoleSet;
use super::role::{Bound, BoundBy};
use super::scope::{FoundBy, Scope};
use super::{AllowedBy, Binding, BindingId, ByRole, RbacIndex, RoleId};
use crate::User;

/// Up to this many roles, or bindings of a role, are checked one by one without comparing the sizes of the
/// two sides.
const FEW: usize = 8;

/// One scope whose bindings count, and its name unless it is the cluster.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) name: Option<&'a str>,
    pub(super) scope: &'a Scope,
}

/// The bindings of a view that give a user one of a set of roles, each once. Walks the smaller side, so that
/// neither a subject with many bindings nor a resource that many roles name is slow by itself.
pub(super) struct Reached<'a, S> {
    index: &'a RbacIndex,
    view: View<'a>,
    user: &'a User,
    set: S,
    walk: Walk<'a>,
}

/// The current position of the search.
enum Walk<'a> {
    Start,
    /// The roles of the set after this one.
    Roles(Option<RoleId>),
    /// The few bindings to a role.
    Bound(RoleId, Bound<'a>),
    /// The bindings to a role under one of the user's names.
    HeldOfRole(RoleId, usize, btree_set::Range<'a, (RoleId, BindingId)>),
    /// All bindings under one of the user's names.
    Held(usize, btree_set::Iter<'a, (RoleId, BindingId)>),
    End,
}

/// No bindings, for a name that has none.
static NONE: ByRole = BTreeSet::new();

impl<'a, S: RoleSet> Reached<'a, S> {
    pub(super) fn new(index: &'a RbacIndex, view: View<'a>, user: &'a User, set: S) -> Self {
        Self {
            index,
            view,
            user,
            set,
            walk: Walk::Start,
        }
    }

    fn start(&self) -> Walk<'a> {
        let at_most = self.set.at_most();
        let held = || self.view.scope.held_by(self.user);
        let walk_set = at_most <= FEW || at_most < held().map(|(_, held)| held.len()).sum();
        if walk_set {
            Walk::Roles(None)
        } else {
            Walk::Held(0, self.held(0).unwrap_or(&NONE).iter())
        }
    }

    /// The bindings under one of the user's names; none when there are no more names.
    fn held(&self, name: usize) -> Option<&'a ByRole> {
        let via = FoundBy::of(name, self.user)?;
        Some(self.view.scope.held_via(via, self.user).unwrap_or(&NONE))
    }

    fn held_of_role(&self, role: RoleId, name: usize) -> Walk<'a> {
        let all = (role, BindingId(0))..=(role, BindingId(u32::MAX));
        match self.held(name) {
            Some(held) => Walk::HeldOfRole(role, name, held.range(all)),
            None => Walk::Roles(Some(role)),
        }
    }

    fn of_role(&self, role: RoleId) -> Walk<'a> {
        let bound: Option<&'a BoundBy> = self.index.roles.get(role.0).map(|role| &role.bound);
        match bound {
            Some(bound) if bound.len() > FEW => self.held_of_role(role, 0),
            Some(bound) => Walk::Bound(role, bound.iter()),
            None => Walk::Roles(Some(role)),
        }
    }
}

impl<'a, S: RoleSet> Iterator for Reached<'a, S> {
    type Item = AllowedBy<'a>;

    fn next(&mut self) -> Option<AllowedBy<'a>> {
        loop {
            let next = match &mut self.walk {
                Walk::Start => self.start(),
                Walk::Roles(last) => {
                    let last = *last;
                    match self.set.next(last) {
                        Some(role) => self.of_role(role),
                        None => Walk::End,
                    }
                }
                Walk::Bound(role, bound) => {
                    for id in bound.by_ref() {
                        let binding = self.index.bindings.get(id.0);
                        let here = binding.filter(|one| one.namespace() == self.view.name);
                        let grant = here.and_then(|one| self.index.grant(one, self.user));
                        if grant.is_some() {
                            return grant;
                        }
                    }
                    Walk::Roles(Some(*role))
                }
                Walk::HeldOfRole(role, name, held) => {
                    for (_, id) in held.by_ref() {
                        let grant = self.index.grant_via(*id, self.user, *name);
                        if grant.is_some() {
                            return grant;
                        }
                    }
                    let (role, name) = (*role, *name + 1);
                    self.held_of_role(role, name)
                }
                Walk::Held(name, held) => {
                    for (role, id) in held.by_ref() {
                        if self.set.contains(*role) {
                            let grant = self.index.grant_via(*id, self.user, *name);
                            if grant.is_some() {
                                return grant;
                            }
                        }
                    }
                    let name = *name + 1;
                    match self.held(name) {
                        Some(held) => Walk::Held(name, held.iter()),
                        None => Walk::End,
                    }
                }
                Walk::End => return None,
            };
            self.walk = next;
        }
    }
}

impl RbacIndex {
    /// The grant of a binding, if it reaches a user.
    fn grant<'a>(&'a self, binding: &'a Binding, user: &User) -> Option<AllowedBy<'a>> {
        let subject = binding.subject_of(user)?;
        let role = &self.roles.get(binding.role.0)?.reference;
        Some(AllowedBy {
            binding,
            role,
            subject,
        })
    }

    /// As `grant`, but none unless the name by which it was found is the one that Kubernetes reports. So each
    /// binding comes up once.
    pub(super) fn grant_via<'a>(
        &'a self,
        id: BindingId,
        user: &User,
        name: usize,
    ) -> Option<AllowedBy<'a>> {
        let grant = self.grant(self.bindings.get(id.0)?, user)?;
        let via = FoundBy::of(name, user)?;
        via.finds(grant.subject, user).then_some(grant)
    }
}
