//! How objects come into the index and leave it without a trace.

use std::sync::Arc;

use super::binding::{Binding, Bound};
use super::role::{Role, RoleKind, RoleRef};
use super::rule::Rule;
use super::{BindingId, RbacIndex, RoleId};

impl RbacIndex {
    pub(super) fn put_role(
        &mut self,
        namespace: Option<&Arc<str>>,
        name: Arc<str>,
        rules: Box<[Rule]>,
    ) {
        let id = self.role_id(
            namespace,
            RoleRef {
                kind: kind_in(namespace),
                name,
            },
        );
        let Some(role) = self.roles.get_mut(id.0) else {
            return;
        };
        let scope = self.scopes.make(namespace);
        if let Some(old) = &role.rules {
            if *old == rules {
                return;
            }
            scope.postings.remove(id, old);
        }
        scope.postings.insert(id, &rules);
        scope.missing.remove(&id);
        role.rules = Some(rules);
    }

    pub(super) fn remove_role(&mut self, namespace: Option<&Arc<str>>, name: &Arc<str>) {
        let reference = RoleRef {
            kind: kind_in(namespace),
            name: name.clone(),
        };
        let Some(scope) = self.scopes.get_mut(namespace) else {
            return;
        };
        let Some(&id) = scope.roles.get(&reference) else {
            return;
        };
        if let Some(rules) = self.roles.get_mut(id.0).and_then(|role| role.rules.take()) {
            scope.postings.remove(id, &rules);
            scope.missing.insert(id);
        }
        self.release(id);
    }

    pub(super) fn put_binding(&mut self, binding: Binding) {
        let namespace = binding.namespace_key().cloned();
        let name = binding.name_key().clone();
        let known = self.scopes.get(namespace.as_deref());
        let known = known.and_then(|scope| scope.bindings.get(&name));
        if let Some(known) = known.and_then(|id| self.bindings.get(id.0)) {
            if known.binding == binding {
                return;
            }
            self.remove_binding(namespace.as_ref(), &name);
        }
        let home = match binding.role().kind {
            RoleKind::ClusterRole => None,
            RoleKind::Role | RoleKind::Unsupported(_) => namespace.as_ref(),
        };
        let role = self.role_id(home, binding.role().clone());
        if let Some(role) = self.roles.get_mut(role.0) {
            role.bindings += 1;
        }
        let id = BindingId(self.bindings.insert(Bound { binding, role }));
        let scope = self.scopes.make(namespace.as_ref());
        scope.bindings.insert(name, id);
        if let Some(bound) = self.bindings.get(id.0) {
            scope.insert(id, role, &bound.binding);
        }
    }

    pub(super) fn remove_binding(&mut self, namespace: Option<&Arc<str>>, name: &Arc<str>) {
        let Some(scope) = self.scopes.get_mut(namespace) else {
            return;
        };
        let id = scope.bindings.remove(name);
        let Some((id, bound)) = id.and_then(|id| Some((id, self.bindings.remove(id.0)?))) else {
            return;
        };
        let Bound {
            binding,
            role: role_id,
        } = bound;
        scope.remove(id, role_id, &binding);
        self.scopes.tidy(namespace);
        if let Some(role) = self.roles.get_mut(role_id.0) {
            role.bindings = role.bindings.saturating_sub(1);
        }
        self.release(role_id);
    }

    /// The place of a role; one that is missing gets a place too, for its bindings to refer to.
    fn role_id(&mut self, namespace: Option<&Arc<str>>, reference: RoleRef) -> RoleId {
        let scope = self.scopes.make(namespace);
        if let Some(id) = scope.roles.get(&reference) {
            return *id;
        }
        let role = Role {
            namespace: namespace.cloned(),
            reference: reference.clone(),
            rules: None,
            bindings: 0,
        };
        let id = RoleId(self.roles.insert(role));
        scope.roles.insert(reference, id);
        scope.missing.insert(id);
        id
    }

    /// Forgets a role that neither exists nor is referred to.
    fn release(&mut self, id: RoleId) {
        let unused = |role: &Role| role.rules.is_none() && role.bindings == 0;
        if !self.roles.get(id.0).is_some_and(unused) {
            return;
        }
        let Some(role) = self.roles.remove(id.0) else {
            return;
        };
        if let Some(scope) = self.scopes.get_mut(role.namespace.as_ref()) {
            scope.roles.remove(&role.reference);
            scope.missing.remove(&id);
        }
        self.scopes.tidy(role.namespace.as_ref());
    }
}

fn kind_in(namespace: Option<&Arc<str>>) -> RoleKind {
    match namespace {
        Some(_) => RoleKind::Role,
        None => RoleKind::ClusterRole,
    }
}
