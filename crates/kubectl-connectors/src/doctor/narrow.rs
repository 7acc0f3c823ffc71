//! Roles and bindings that give the use of every connector, written without that right. Pure.
//!
//! An object is made only where it takes this right and no other. Where a role gives more in the same words, such as `*`,
//! a person decides.

use std::collections::BTreeSet;

use authz::Subject;
use connectors_api::{Permission, names};
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject as Bound,
};
use kube::Resource;
use serde_json::json;

use super::FixObject;
use crate::terms::NamespacedName;

/// Group and version of roles and bindings.
pub(super) const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// Roles and bindings as they were read, without those of the product.
#[derive(Debug, Default)]
pub struct RbacObjects {
    /// The roles of the cluster.
    pub cluster_roles: Vec<ClusterRole>,
    /// Their bindings.
    pub cluster_bindings: Vec<ClusterRoleBinding>,
    /// The roles of the scope.
    pub roles: Vec<Role>,
    /// The bindings of the scope.
    pub bindings: Vec<RoleBinding>,
}

/// A binding in any place.
#[derive(Clone, Copy)]
struct BindingRead<'a> {
    role: &'a RoleRef,
    subjects: &'a [Bound],
}

/// The binding, or the role that it refers to, without the right of these subjects. The namespace is empty for a binding of
/// the cluster.
pub(super) fn without(
    read: &RbacObjects,
    namespace: &str,
    binding: &str,
    out: &BTreeSet<&Subject>,
) -> Option<FixObject> {
    let found = read.binding(namespace, binding)?;
    let rules = read.rules(namespace, found.role)?;
    let gives_nothing_else = |it: &PolicyRule| narrowed(it).is_some_and(|rest| rest.is_empty());
    if rules.iter().all(gives_nothing_else) {
        let is_out = |it: &&Bound| out.iter().any(|subject| is(it, subject, namespace));
        let rest: Vec<_> = found.subjects.iter().filter(|it| !is_out(it)).collect();
        if rest.len() == found.subjects.len() {
            return None;
        }
        let kind = if namespace.is_empty() {
            "ClusterRoleBinding"
        } else {
            "RoleBinding"
        };
        let name = NamespacedName::new(namespace, binding);
        let object = FixObject::new(RBAC, kind, name).with_field("roleRef", json!(found.role));
        return Some(object.with_field("subjects", json!(rest)));
    }
    // Others may rightly have what the role gives.
    let is_of_these_alone = found
        .subjects
        .iter()
        .all(|it| out.iter().any(|subject| is(it, subject, namespace)));
    let is_bound_once = read.bindings.iter().filter(|it| {
        in_place(*it, namespace)
            && it.role_ref.kind == "Role"
            && it.role_ref.name == found.role.name
    });
    if found.role.kind != "Role" || !is_of_these_alone || is_bound_once.count() != 1 {
        return None;
    }
    let narrow: Option<Vec<_>> = rules.iter().map(narrowed).collect();
    let narrow: Vec<_> = narrow?.into_iter().flatten().collect();
    let name = NamespacedName::new(namespace, &found.role.name);
    (narrow != rules).then(|| FixObject::new(RBAC, "Role", name).with_field("rules", json!(narrow)))
}

impl RbacObjects {
    fn binding(&self, namespace: &str, name: &str) -> Option<BindingRead<'_>> {
        if namespace.is_empty() {
            let mut all = self.cluster_bindings.iter();
            let found = all.find(|it| it.metadata.name.as_deref() == Some(name))?;
            return Some(BindingRead {
                role: &found.role_ref,
                subjects: found.subjects.as_deref().unwrap_or_default(),
            });
        }
        let mut all = self.bindings.iter().filter(|it| in_place(*it, namespace));
        let found = all.find(|it| it.metadata.name.as_deref() == Some(name))?;
        Some(BindingRead {
            role: &found.role_ref,
            subjects: found.subjects.as_deref().unwrap_or_default(),
        })
    }

    fn rules(&self, namespace: &str, role: &RoleRef) -> Option<&[PolicyRule]> {
        let is_it = |it: Option<&str>| it == Some(role.name.as_str());
        let rules = if role.kind == "Role" {
            let mut all = self.roles.iter().filter(|it| in_place(*it, namespace));
            &all.find(|it| is_it(it.metadata.name.as_deref()))?.rules
        } else {
            let mut all = self.cluster_roles.iter();
            &all.find(|it| is_it(it.metadata.name.as_deref()))?.rules
        };
        rules.as_deref()
    }
}

fn in_place<K: Resource>(object: &K, namespace: &str) -> bool {
    object.meta().namespace.as_deref() == Some(namespace)
}

/// True for the entry of a binding that means the subject.
fn is(bound: &Bound, subject: &Subject, namespace: &str) -> bool {
    let kind = bound.kind.as_str();
    match subject {
        Subject::ServiceAccount {
            namespace: of,
            name,
        } => {
            let place = bound.namespace.as_deref().unwrap_or(namespace);
            kind == "ServiceAccount" && place == &**of && bound.name == **name
        }
        Subject::Group(name) => kind == "Group" && bound.name == **name,
        Subject::User(name) => kind == "User" && bound.name == **name,
    }
}

/// The rule without the use of every connector; no rule where that is all that it gives. None where the use cannot be told
/// apart from what else it gives.
fn narrowed(rule: &PolicyRule) -> Option<Vec<PolicyRule>> {
    let groups = rule.api_groups.as_deref().unwrap_or_default();
    let is_about_some = rule
        .resource_names
        .as_ref()
        .is_some_and(|it| !it.is_empty());
    let is_of_group = groups.iter().any(|it| it == "*" || it == names::GROUP);
    if !is_of_group || is_about_some || !rule.verbs.iter().any(|it| it == "*") {
        return Some(vec![rule.clone()]);
    }
    let resources = rule.resources.as_deref().unwrap_or_default();
    if groups != [names::GROUP] || resources.iter().any(|it| it.contains('*')) {
        return None;
    }
    let kept: Vec<_> = resources
        .iter()
        .filter(|it| !Permission::ALL.iter().any(|of| is_of_every_pod(it, *of)))
        .cloned()
        .collect();
    if kept.is_empty() {
        return Some(Vec::new());
    }
    Some(vec![PolicyRule {
        resources: Some(kept),
        ..rule.clone()
    }])
}

fn is_of_every_pod(resource: &str, permission: Permission) -> bool {
    let part = resource.strip_prefix(names::CONNECTORS);
    part.and_then(|it| it.strip_prefix('/')) == Some(permission.as_str())
}

#[cfg(test)]
mod tests;
