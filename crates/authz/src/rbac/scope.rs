//! The contents of one namespace, or of the cluster: its roles, and its bindings by subject.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::hash::BuildHasher;

use hashbrown::HashTable;

use super::binding::Binding;
use super::postings::Postings;
use super::role::{Role, RoleKind};
use super::{BindingId, ByRole, RoleId, RoleRef, Subject};
use crate::User;
use crate::attributes::service_account_user_name;
use crate::hash::{HashMap, Hashing};
use crate::slab::Slab;

/// The part of the index for one namespace, or for the cluster-scoped objects.
#[derive(Debug, Default)]
pub(super) struct Scope {
    /// Roles that exist here or that a binding refers to, by kind and name.
    roles: HashTable<RoleId>,
    /// Those that do not exist and that only bindings refer to.
    pub(super) missing: BTreeSet<RoleId>,
    /// The rules of those that exist.
    pub(super) postings: Postings,
    /// All bindings, by name.
    bindings: HashTable<BindingId>,
    users: HashMap<Box<str>, ByRole>,
    groups: HashMap<Box<str>, ByRole>,
}

/// The name of the user by which a binding was found.
#[derive(Clone, Copy)]
pub(super) enum FoundBy {
    User,
    /// The group at this place in the user's list.
    Group(usize),
}

impl FoundBy {
    /// A user's names in order: its own, then its groups.
    pub(super) fn of(number: usize, user: &User) -> Option<Self> {
        match number.checked_sub(1) {
            None => Some(Self::User),
            Some(at) => (at < user.groups.len()).then_some(Self::Group(at)),
        }
    }

    /// True when a subject is found by this name, and no earlier group of the user finds it.
    pub(super) fn finds(self, subject: &Subject, user: &User) -> bool {
        match (self, subject) {
            (Self::User, Subject::User(_) | Subject::ServiceAccount { .. }) => true,
            (Self::Group(at), Subject::Group(name)) => {
                user.groups.iter().position(|group| **group == **name) == Some(at)
            }
            (Self::User, Subject::Group(_))
            | (Self::Group(_), Subject::User(_) | Subject::ServiceAccount { .. }) => false,
        }
    }
}

impl Scope {
    pub(super) fn role(
        &self,
        hashing: &Hashing,
        roles: &Slab<Role>,
        kind: &RoleKind,
        name: &str,
    ) -> Option<RoleId> {
        let hash = RoleRef::hash(hashing, kind, name);
        let is_it = |id: &RoleId| {
            let role = roles.get(id.0);
            role.is_some_and(|role| role.reference.is(kind, name))
        };
        self.roles.find(hash, is_it).copied()
    }

    pub(super) fn add_role(&mut self, hashing: &Hashing, roles: &Slab<Role>, id: RoleId) {
        let hash = |id: &RoleId| hash_of_role(hashing, roles, *id);
        self.roles.insert_unique(hash(&id), id, hash);
    }

    pub(super) fn forget_role(&mut self, hashing: &Hashing, roles: &Slab<Role>, id: RoleId) {
        let hash = hash_of_role(hashing, roles, id);
        if let Ok(found) = self.roles.find_entry(hash, |other| *other == id) {
            found.remove();
        }
        self.missing.remove(&id);
    }

    pub(super) fn roles(&self) -> impl Iterator<Item = RoleId> {
        self.roles.iter().copied()
    }

    pub(super) fn binding(
        &self,
        hashing: &Hashing,
        bindings: &Slab<Binding>,
        name: &str,
    ) -> Option<BindingId> {
        let is_it = |id: &BindingId| bindings.get(id.0).is_some_and(|one| one.name() == name);
        self.bindings.find(hashing.hash_one(name), is_it).copied()
    }

    pub(super) fn bindings(&self) -> impl ExactSizeIterator<Item = BindingId> {
        self.bindings.iter().copied()
    }

    /// Adds a binding, which must already be in the slab of bindings.
    pub(super) fn add_binding(
        &mut self,
        hashing: &Hashing,
        bindings: &Slab<Binding>,
        id: BindingId,
    ) {
        let Some(binding) = bindings.get(id.0) else {
            return;
        };
        let hash = |id: &BindingId| {
            let name = bindings.get(id.0).map(Binding::name);
            name.map_or(0, |name| hashing.hash_one(name))
        };
        self.bindings.insert_unique(hash(&id), id, hash);
        for subject in binding.subjects() {
            let (map, key) = self.of_subject(subject);
            match map.get_mut(&*key) {
                Some(held) => {
                    held.insert((binding.role, id));
                }
                None => {
                    map.insert((*key).into(), ByRole::from([(binding.role, id)]));
                }
            }
        }
    }

    /// Removes a binding, which may still be in the slab of bindings.
    pub(super) fn forget_binding(&mut self, hashing: &Hashing, id: BindingId, binding: &Binding) {
        let hash = hashing.hash_one(binding.name());
        if let Ok(found) = self.bindings.find_entry(hash, |other| *other == id) {
            found.remove();
        }
        for subject in binding.subjects() {
            let (map, key) = self.of_subject(subject);
            if let Some(held) = map.get_mut(&*key) {
                held.remove(&(binding.role, id));
                if held.is_empty() {
                    map.remove(&*key);
                }
            }
        }
    }

    fn of_subject<'a>(
        &mut self,
        subject: &'a Subject,
    ) -> (&mut HashMap<Box<str>, ByRole>, Cow<'a, str>) {
        match subject {
            Subject::User(name) => (&mut self.users, Cow::Borrowed(name)),
            Subject::Group(name) => (&mut self.groups, Cow::Borrowed(name)),
            Subject::ServiceAccount { namespace, name } => {
                let name = service_account_user_name(namespace, name);
                (&mut self.users, Cow::Owned(name))
            }
        }
    }

    /// The bindings that apply to a user. One that applies under several names comes up once for each.
    pub(super) fn held_by<'a>(
        &'a self,
        user: &'a User,
    ) -> impl Iterator<Item = (usize, &'a ByRole)> + 'a {
        let names = (0..).map_while(|name| Some((name, FoundBy::of(name, user)?)));
        names.filter_map(|(name, via)| Some((name, self.held_via(via, user)?)))
    }

    /// The bindings that apply to a user by one of its names.
    pub(super) fn held_via(&self, via: FoundBy, user: &User) -> Option<&ByRole> {
        match via {
            FoundBy::User => self.users.get(user.name.as_str()),
            FoundBy::Group(at) => self.groups.get(user.groups.get(at)?.as_str()),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        let Self {
            roles,
            missing,
            postings,
            bindings,
            users,
            groups,
        } = self;
        let objects = roles.is_empty() && bindings.is_empty();
        let traces = missing.is_empty() && postings.is_empty();
        objects && traces && users.is_empty() && groups.is_empty()
    }
}

fn hash_of_role(hashing: &Hashing, roles: &Slab<Role>, id: RoleId) -> u64 {
    roles.get(id.0).map_or(0, |role| {
        let RoleRef { kind, name } = &role.reference;
        RoleRef::hash(hashing, kind, name)
    })
}
