//! Adding objects to the index, and removing them without a trace.

use std::sync::Arc;

use k8s_openapi::api::rbac::v1 as rbac;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::binding::{Binding, Place};
use super::postings::PostingContext;
use super::role::{BoundBy, Role, RoleKind, RoleRef};
use super::rule::Rule;
use super::{BindingId, RbacIndex, RoleId};

impl RbacIndex {
    pub(super) fn put_role(
        &mut self,
        namespace: Option<&str>,
        name: &str,
        rules: &[rbac::PolicyRule],
    ) -> RoleId {
        let rules = rules.iter().map(|rule| Rule::new(rule, &mut self.shapes));
        let rules: Box<[Rule]> = rules.collect();
        let id = self.role_id(namespace, kind_in(namespace), name);
        if self.roles.get(id.0).and_then(|role| role.rules.as_ref()) == Some(&rules) {
            self.give_back(rules);
            return id;
        }
        self.take_rules(namespace, id);
        if let Some(role) = self.roles.get_mut(id.0) {
            role.rules = Some(rules);
        }
        let context = PostingContext {
            roles: &self.roles,
            hashing: &self.hashing,
        };
        if let Some(scope) = self.scopes.get_mut(namespace) {
            scope.postings.insert(context, id);
            scope.missing.remove(&id);
        }
        id
    }

    /// The id of a role that exists, or that bindings refer to.
    pub(super) fn known_role(&self, namespace: Option<&str>, name: &str) -> Option<RoleId> {
        let scope = self.scopes.get(namespace)?;
        scope.role(&self.hashing, &self.roles, &kind_in(namespace), name)
    }

    pub(super) fn remove_role(&mut self, namespace: Option<&str>, name: &str) {
        if let Some(id) = self.known_role(namespace, name) {
            self.forget_role(id);
        }
    }

    pub(super) fn forget_role(&mut self, id: RoleId) {
        let Some(role) = self.roles.get(id.0) else {
            return;
        };
        let namespace = role.namespace.clone();
        self.take_rules(namespace.as_deref(), id);
        if let Some(scope) = self.scopes.get_mut(namespace.as_deref()) {
            scope.missing.insert(id);
        }
        self.release(id);
    }

    pub(super) fn put_binding(
        &mut self,
        namespace: Option<&str>,
        name: &str,
        metadata: &ObjectMeta,
        role: &rbac::RoleRef,
        subjects: &[rbac::Subject],
    ) -> BindingId {
        let kind = RoleKind::parse(&role.kind);
        let home = match kind {
            RoleKind::ClusterRole => None,
            RoleKind::Role | RoleKind::Unsupported(_) => namespace,
        };
        let role = self.role_id(home, kind, &role.name);
        // A grant's role and binding have the same name, which is stored once.
        let known = self.roles.get(role.0).map(|role| &role.reference.name);
        let known = known.filter(|known| ***known == *name).cloned();
        let (place, _) = self.scopes.make(namespace);
        let place = Place {
            namespace: place,
            name: known.unwrap_or_else(|| Arc::from(name)),
            role,
        };
        let binding = Binding::new(place, metadata, subjects, &mut self.common);

        let scope = self.scopes.get(namespace);
        let old = scope.and_then(|scope| scope.binding(&self.hashing, &self.bindings, name));
        let id = match old {
            Some(id) if self.bindings.get(id.0) == Some(&binding) => {
                binding.give_back(&mut self.common);
                return id;
            }
            Some(id) => {
                self.bind(role, id);
                if let Some(old) = self.bindings.replace(id.0, binding) {
                    self.unlink(id, old, Some(role));
                }
                id
            }
            None => {
                let id = BindingId(self.bindings.insert(binding));
                self.bind(role, id);
                id
            }
        };
        let (_, scope) = self.scopes.make(namespace);
        scope.add_binding(&self.hashing, &self.bindings, id);
        id
    }

    pub(super) fn remove_binding(&mut self, namespace: Option<&str>, name: &str) {
        let scope = self.scopes.get(namespace);
        let id = scope.and_then(|scope| scope.binding(&self.hashing, &self.bindings, name));
        if let Some(id) = id {
            self.forget_binding(id);
        }
    }

    pub(super) fn forget_binding(&mut self, id: BindingId) {
        let Some(binding) = self.bindings.remove(id.0) else {
            return;
        };
        let namespace = binding.namespace_key().cloned();
        self.unlink(id, binding, None);
        self.scopes.tidy(namespace.as_deref());
    }

    /// Removes every trace of a binding that was taken from its place, except for its role if that is to
    /// stay.
    fn unlink(&mut self, id: BindingId, binding: Binding, stays: Option<RoleId>) {
        if let Some(scope) = self.scopes.get_mut(binding.namespace()) {
            scope.forget_binding(&self.hashing, id, &binding);
        }
        let role = binding.role;
        binding.give_back(&mut self.common);
        if stays != Some(role) {
            if let Some(role) = self.roles.get_mut(role.0) {
                role.bound.remove(id);
            }
            self.release(role);
        }
    }

    fn bind(&mut self, role: RoleId, id: BindingId) {
        if let Some(role) = self.roles.get_mut(role.0) {
            role.bound.insert(id);
        }
    }

    /// The id of a role; a missing role gets an id too, for its bindings to refer to.
    fn role_id(&mut self, namespace: Option<&str>, kind: RoleKind, name: &str) -> RoleId {
        let (namespace, scope) = self.scopes.make(namespace);
        if let Some(id) = scope.role(&self.hashing, &self.roles, &kind, name) {
            return id;
        }
        let name = Arc::from(name);
        let id = RoleId(self.roles.insert(Role {
            namespace,
            reference: RoleRef { kind, name },
            rules: None,
            bound: BoundBy::default(),
        }));
        scope.add_role(&self.hashing, &self.roles, id);
        scope.missing.insert(id);
        id
    }

    /// Removes the rules of a role, if it has any.
    fn take_rules(&mut self, namespace: Option<&str>, id: RoleId) {
        let context = PostingContext {
            roles: &self.roles,
            hashing: &self.hashing,
        };
        if let Some(scope) = self.scopes.get_mut(namespace) {
            scope.postings.remove(context, id);
        }
        let rules = self.roles.get_mut(id.0).and_then(|role| role.rules.take());
        self.give_back(rules.unwrap_or_default());
    }

    fn give_back(&mut self, rules: Box<[Rule]>) {
        for rule in rules {
            rule.give_back(&mut self.shapes);
        }
    }

    /// Removes a role that neither exists nor is referred to.
    fn release(&mut self, id: RoleId) {
        let unused = |role: &&Role| role.rules.is_none() && role.bound.len() == 0;
        let Some(role) = self.roles.get(id.0).filter(unused) else {
            return;
        };
        let namespace = role.namespace.clone();
        if let Some(scope) = self.scopes.get_mut(namespace.as_deref()) {
            scope.forget_role(&self.hashing, &self.roles, id);
        }
        self.roles.remove(id.0);
        self.scopes.tidy(namespace.as_deref());
    }
}

fn kind_in(namespace: Option<&str>) -> RoleKind {
    match namespace {
        Some(_) => RoleKind::Role,
        None => RoleKind::ClusterRole,
    }
}
