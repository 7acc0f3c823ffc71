//! What is in one namespace, or in none: the roles there, and the bindings there by whom they are for.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::binding::Binding;
use super::candidates::ByRole;
use super::postings::Postings;
use super::{BindingId, RoleId, RoleRef, Subject};
use crate::User;
use crate::attributes::service_account_user_name;

/// The part of the index that one namespace fills, or the objects without a namespace.
#[derive(Debug, Default)]
pub(super) struct Scope {
    /// Roles that exist here or that a binding expects here.
    pub(super) roles: HashMap<RoleRef, RoleId>,
    /// Those that only bindings speak of.
    pub(super) missing: BTreeSet<RoleId>,
    /// The rules of those that exist.
    pub(super) postings: Postings,
    /// Bindings by name.
    pub(super) bindings: HashMap<Arc<str>, BindingId>,
    /// All bindings, by role.
    pub(super) held: ByRole,
    users: HashMap<Box<str>, ByRole>,
    groups: HashMap<Box<str>, ByRole>,
}

/// By which of a user's names a binding was found.
#[derive(Clone, Copy)]
pub(super) enum Via {
    User,
    /// The group at this place in the user's list.
    Group(usize),
}

impl Via {
    /// True when a subject is found this way, and no other group of the user finds it earlier.
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
    pub(super) fn insert(&mut self, id: BindingId, role: RoleId, binding: &Binding) {
        self.held.insert((role, id));
        for subject in binding.subjects() {
            let (map, key) = self.of_subject(subject);
            map.entry(key).or_default().insert((role, id));
        }
    }

    pub(super) fn remove(&mut self, id: BindingId, role: RoleId, binding: &Binding) {
        self.held.remove(&(role, id));
        for subject in binding.subjects() {
            let (map, key) = self.of_subject(subject);
            if let Some(held) = map.get_mut(&key) {
                held.remove(&(role, id));
                if held.is_empty() {
                    map.remove(&key);
                }
            }
        }
    }

    fn of_subject(&mut self, subject: &Subject) -> (&mut HashMap<Box<str>, ByRole>, Box<str>) {
        match subject {
            Subject::User(name) => (&mut self.users, name.clone()),
            Subject::Group(name) => (&mut self.groups, name.clone()),
            Subject::ServiceAccount { namespace, name } => {
                let name = service_account_user_name(namespace, name);
                (&mut self.users, name.into_boxed_str())
            }
        }
    }

    /// The bindings that reach a user. One that does so in several ways comes up once for each.
    pub(super) fn held_by<'a>(
        &'a self,
        user: &'a User,
    ) -> impl Iterator<Item = (Via, &'a ByRole)> + 'a {
        let own = self.users.get(user.name.as_str());
        let own = own.into_iter().map(|held| (Via::User, held));
        let groups = user.groups.iter().enumerate();
        own.chain(
            groups
                .filter_map(|(at, group)| Some((Via::Group(at), self.groups.get(group.as_str())?))),
        )
    }

    pub(super) fn is_empty(&self) -> bool {
        let Self {
            roles,
            missing,
            postings,
            bindings,
            held,
            users,
            groups,
        } = self;
        let objects = roles.is_empty() && bindings.is_empty();
        let traces = missing.is_empty() && postings.is_empty();
        objects && traces && held.is_empty() && users.is_empty() && groups.is_empty()
    }
}
