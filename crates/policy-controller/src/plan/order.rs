//! The writes that lead from the existing to the wanted objects, in their order.
//!
//! After each write, a subject has only permissions that the old or the wanted objects give it. A permission
//! that both give is never interrupted. Removals come first:
//! 1. RoleBindings lose the subjects that must not be in them, before their Role gets new rules. A
//!    RoleBinding is deleted if it refers to another Role, or if neither its name nor the rules of its Role
//!    are wanted any more.
//! 2. Roles get their rules, those that lose something first. A RoleBinding whose Role stays as it is changes
//!    in one write.
//! 3. RoleBindings get their new subjects.
//! 4. Objects with an unwanted name are deleted: other objects give the same permissions now.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::rbac::v1::{PolicyRule, Role, RoleBinding},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::{
    objects::{self, RolePair},
    wanted::RbacSubject,
};
use crate::seen::{FoundObject, Managed, ManagedKind, Pin};

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Makes it, if nothing has its name.
    Create(WrittenObject),
    /// Makes this version of it so.
    Change(WrittenObject, Pin),
    /// Deletes this version of it.
    Delete(ManagedKind, String, Pin),
}

impl Write {
    /// The kind of its object.
    #[must_use]
    pub const fn kind(&self) -> ManagedKind {
        match self {
            Self::Create(object) | Self::Change(object, _) => object.kind(),
            Self::Delete(kind, ..) => *kind,
        }
    }

    /// The name of its object.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Create(object) | Self::Change(object, _) => {
                object.metadata().name.as_deref().unwrap_or_default()
            }
            Self::Delete(_, name, _) => name,
        }
    }
}

/// The written object.
#[derive(Clone, Debug, PartialEq)]
pub enum WrittenObject {
    /// A Role.
    Role(Role),
    /// A RoleBinding.
    Binding(RoleBinding),
}

/// A write, and whether it gives anything.
#[derive(Clone, Debug, PartialEq)]
pub struct WriteStep {
    /// The write.
    pub write: Write,
    /// Whether a subject may hold more after it.
    pub gives: bool,
}

impl WrittenObject {
    /// Which of the two.
    #[must_use]
    pub const fn kind(&self) -> ManagedKind {
        match self {
            Self::Role(_) => ManagedKind::Role,
            Self::Binding(_) => ManagedKind::RoleBinding,
        }
    }

    /// Its metadata.
    #[must_use]
    pub const fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Role(role) => &role.metadata,
            Self::Binding(binding) => &binding.metadata,
        }
    }
}

const fn take(write: Write) -> WriteStep {
    WriteStep {
        write,
        gives: false,
    }
}

const fn give(write: Write) -> WriteStep {
    WriteStep { write, gives: true }
}

/// The writes, in their order.
#[must_use]
pub fn steps(wanted: &BTreeMap<String, RolePair>, there: &Managed) -> Vec<WriteStep> {
    let all = All::of(wanted);
    let mut narrowing = Vec::new();
    let mut both = Vec::new();
    let mut bindings = Vec::new();
    let mut last = Vec::new();
    for (name, found) in &there.bindings {
        let role = there.roles.get(name);
        match wanted.get(name) {
            None if all.covers(role) && is_on_own_role(name, found) => {
                let narrowed = left_to(found, &all.holders);
                if !matches!(narrowed, Some(Write::Delete(..))) {
                    last.push(take(binding_gone(found, name)));
                }
                narrowing.extend(narrowed.map(take));
            }
            None => narrowing.push(take(binding_gone(found, name))),
            Some(pair) if !is_on_own_role(name, found) => {
                // The role reference of a RoleBinding cannot be changed.
                narrowing.push(take(binding_gone(found, name)));
                bindings.push(give(create(WrittenObject::Binding(pair.binding.clone()))));
            }
            Some(pair) => {
                let holders = objects::subjects(&pair.binding).collect();
                let before = found_holders(found);
                let has_too_many = !before.is_subset(&holders);
                let change = Write::Change(
                    WrittenObject::Binding(pair.binding.clone()),
                    found.pin.clone(),
                );
                let is_role_same = role.is_some_and(|role| is_same_role(role, &pair.role));
                if has_too_many && role.is_none() {
                    // The API server changes no RoleBinding to a Role that is not there.
                    narrowing.push(take(binding_gone(found, name)));
                    bindings.push(give(create(WrittenObject::Binding(pair.binding.clone()))));
                } else if has_too_many && holders.is_subset(&before) {
                    narrowing.push(take(change));
                } else if is_role_same && has_too_many {
                    both.push(give(change));
                } else if has_too_many {
                    // Between the two writes the binding has no subjects, or only those present before and
                    // after.
                    let narrowed = left_to(found, &holders);
                    let is_deleted = matches!(narrowed, Some(Write::Delete(..)));
                    narrowing.extend(narrowed.map(take));
                    bindings.push(give(if is_deleted {
                        create(WrittenObject::Binding(pair.binding.clone()))
                    } else {
                        change
                    }));
                } else if !is_same_binding(found, &pair.binding) {
                    bindings.push(give(change));
                }
            }
        }
    }
    let mut roles = Vec::new();
    for (name, pair) in wanted {
        match there.roles.get(name) {
            None => roles.push((false, give(create(WrittenObject::Role(pair.role.clone()))))),
            Some(found)
                if is_same_role(found, &pair.role)
                    && found_identity(found, &pair.role.metadata, |it| &it.metadata) => {}
            Some(found) => {
                let loses = !covers(rules_of(found), &rules(&pair.role));
                let change =
                    Write::Change(WrittenObject::Role(pair.role.clone()), found.pin.clone());
                roles.push((loses, give(change)));
            }
        }
        if !there.bindings.contains_key(name) {
            bindings.push(give(create(WrittenObject::Binding(pair.binding.clone()))));
        }
    }
    for (name, found) in &there.roles {
        if !wanted.contains_key(name) {
            last.push(take(role_gone(found, name)));
        }
    }
    let (losing, gaining): (Vec<_>, Vec<_>) = roles.into_iter().partition(|(loses, _)| *loses);
    let of_roles = |roles: Vec<(bool, WriteStep)>| roles.into_iter().map(|(_, step)| step);
    let steps = narrowing.into_iter().chain(of_roles(losing)).chain(both);
    let steps = steps.chain(of_roles(gaining)).chain(bindings).chain(last);
    steps.filter(|step| !is_done(step, there)).collect()
}

/// All wanted permissions, regardless of the objects that express them.
struct All<'a> {
    holders: BTreeSet<RbacSubject>,
    rules: Vec<&'a PolicyRule>,
}

impl<'a> All<'a> {
    fn of(wanted: &'a BTreeMap<String, RolePair>) -> Self {
        let pairs = || wanted.values();
        Self {
            holders: pairs()
                .flat_map(|it| objects::subjects(&it.binding))
                .collect(),
            rules: pairs().flat_map(|it| rules(&it.role)).collect(),
        }
    }

    /// Whether a Role gives only wanted permissions. A missing one may later give any permission.
    fn covers(&self, role: Option<&FoundObject<Role>>) -> bool {
        role.is_some_and(|role| covers(rules_of(role), &self.rules.iter().copied()))
    }
}

fn rules(role: &Role) -> impl Iterator<Item = &PolicyRule> + Clone {
    role.rules.iter().flatten()
}

/// An unreadable rule is covered by no other rule.
fn rules_of(found: &FoundObject<Role>) -> Option<impl Iterator<Item = &PolicyRule> + Clone> {
    found.object.as_ref().map(rules)
}

/// Whether each rule is within one of the others, connectors apart: those may be spread over several.
fn covers<'a, 'b>(
    rules: Option<impl Iterator<Item = &'a PolicyRule>>,
    within: &(impl Iterator<Item = &'b PolicyRule> + Clone),
) -> bool {
    let Some(mut rules) = rules else {
        return false;
    };
    rules.all(|rule| {
        let may: Vec<&PolicyRule> = within.clone().filter(|it| does(it, rule)).collect();
        let is_named = |name: &String| {
            let mut names = may.iter().filter_map(|it| it.resource_names.as_ref());
            names.any(|names| names.contains(name))
        };
        let names = rule.resource_names.iter().flatten();
        rule.resource_names
            .as_ref()
            .is_some_and(|it| !it.is_empty())
            && names.clone().all(is_named)
    })
}

/// Whether a rule allows all of another's verbs on all of its resources.
fn does(rule: &PolicyRule, other: &PolicyRule) -> bool {
    let within = |a: &Option<Vec<String>>, b: &Option<Vec<String>>| {
        a.iter()
            .flatten()
            .all(|it| b.iter().flatten().any(|that| that == it))
    };
    within(&other.api_groups, &rule.api_groups)
        && within(&other.resources, &rule.resources)
        && other.verbs.iter().all(|verb| rule.verbs.contains(verb))
        && other.non_resource_urls.iter().flatten().next().is_none()
}

fn is_on_own_role(name: &str, found: &FoundObject<RoleBinding>) -> bool {
    let binding = found.object.as_ref();
    binding.is_some_and(|it| it.role_ref == objects::role_ref(name))
}

fn found_holders(found: &FoundObject<RoleBinding>) -> BTreeSet<RbacSubject> {
    let binding = found.object.iter();
    binding.flat_map(objects::subjects).collect()
}

fn found_identity<K>(
    found: &FoundObject<K>,
    wanted: &ObjectMeta,
    metadata: fn(&K) -> &ObjectMeta,
) -> bool {
    let object = found.object.as_ref();
    object.is_some_and(|it| objects::same_identity(metadata(it), wanted))
}

/// Whether it gives the same. Its metadata is compared elsewhere.
fn is_same_role(found: &FoundObject<Role>, wanted: &Role) -> bool {
    let role = found.object.as_ref();
    role.is_some_and(|it| rules(it).eq(rules(wanted)))
}

fn is_same_binding(found: &FoundObject<RoleBinding>, wanted: &RoleBinding) -> bool {
    let object = found.object.as_ref();
    object.is_some_and(|it| objects::of_binding(it) == objects::of_binding(wanted))
}

const fn create(object: WrittenObject) -> Write {
    Write::Create(object)
}

fn delete<K>(found: &FoundObject<K>, kind: ManagedKind, name: &str) -> Write {
    Write::Delete(kind, name.to_owned(), found.pin.clone())
}

/// The deletion of an object; or its content removed, if it is being deleted already.
fn gone<K>(
    found: &FoundObject<K>,
    kind: ManagedKind,
    name: &str,
    empty: impl Fn(&K) -> WrittenObject,
) -> Write {
    match &found.object {
        Some(object) if found.terminating => Write::Change(empty(object), found.pin.clone()),
        Some(_) | None => delete(found, kind, name),
    }
}

fn binding_gone(found: &FoundObject<RoleBinding>, name: &str) -> Write {
    gone(found, ManagedKind::RoleBinding, name, |it| {
        WrittenObject::Binding(empty_binding(it))
    })
}

fn role_gone(found: &FoundObject<Role>, name: &str) -> Write {
    gone(found, ManagedKind::Role, name, |it| {
        WrittenObject::Role(empty_role(it))
    })
}

/// Removes all subjects from a binding but these; nothing if there are no others.
fn left_to(found: &FoundObject<RoleBinding>, stay: &BTreeSet<RbacSubject>) -> Option<Write> {
    let binding = found.object.as_ref()?;
    let name = binding.metadata.name.as_deref().unwrap_or_default();
    let (keep, lose): (Vec<_>, Vec<_>) =
        objects::subjects(binding).partition(|it| stay.contains(it));
    if lose.is_empty() {
        return None;
    }
    if keep.is_empty() {
        return Some(binding_gone(found, name));
    }
    let subjects = keep.iter().map(RbacSubject::subject).collect();
    let narrowed = RoleBinding {
        subjects: Some(subjects),
        ..said(binding)
    };
    Some(Write::Change(
        WrittenObject::Binding(narrowed),
        found.pin.clone(),
    ))
}

/// The part of a `RoleBinding` that may be applied, without subjects.
#[must_use]
pub fn empty_binding(binding: &RoleBinding) -> RoleBinding {
    RoleBinding {
        subjects: Some(Vec::new()),
        ..said(binding)
    }
}

/// The part of a `Role` that may be applied, without rules.
#[must_use]
pub fn empty_role(role: &Role) -> Role {
    Role {
        rules: Some(Vec::new()),
        metadata: ours(&role.metadata),
    }
}

fn said(binding: &RoleBinding) -> RoleBinding {
    RoleBinding {
        metadata: ours(&binding.metadata),
        ..binding.clone()
    }
}

/// The part of the metadata of an object that may be applied.
fn ours(metadata: &ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        labels: metadata.labels.clone(),
        owner_references: metadata.owner_references.clone(),
        ..ObjectMeta::default()
    }
}

/// Whether an object that is kept during its deletion is empty already.
fn is_done(step: &WriteStep, there: &Managed) -> bool {
    let name = step.write.name();
    match &step.write {
        Write::Change(WrittenObject::Role(role), _)
            if role.rules.iter().flatten().next().is_none() =>
        {
            let found = there.roles.get(name).and_then(|it| it.object.as_ref());
            found.is_some_and(|it| rules(it).next().is_none())
        }
        Write::Change(WrittenObject::Binding(binding), _)
            if objects::subjects(binding).next().is_none() =>
        {
            let found = there.bindings.get(name).and_then(|it| it.object.as_ref());
            found.is_some_and(|it| objects::subjects(it).next().is_none())
        }
        Write::Create(_) | Write::Change(..) | Write::Delete(..) => false,
    }
}

#[cfg(test)]
mod tests;
