//! The events about a change: the subjects that gain permissions, and those that lose them.

use std::collections::BTreeSet;

use connectors_api::{
    AccessPolicyCondition, AccessPolicyStatus, Condition, ConditionStatus,
    policy_reason::{ChecksValid, Event, PermissionSynced},
};
use k8s_openapi::api::rbac::v1::PolicyRule;

use super::{
    objects,
    wanted::{RbacSubject, StandingPermission, WantedPermissions, WantedRule},
};
use crate::seen::{FoundObject, Managed, ManagedKind};

/// A condition of a policy.
type OneCondition = Condition<AccessPolicyCondition>;

/// An event to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The event.
    pub event: Event,
    /// As a sentence.
    pub note: String,
}

/// The limit of names in a sentence.
const MOST: usize = 8;

/// All that a policy gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Given {
    holders: BTreeSet<RbacSubject>,
    connectors: BTreeSet<String>,
    /// Verbs and resources of each rule.
    rules: BTreeSet<(String, String)>,
}

impl Given {
    fn wanted(wanted: &WantedPermissions) -> Self {
        let StandingPermission::Given { rules, holders, .. } = &wanted.standing else {
            return Self::default();
        };
        let rule = |rule: &WantedRule| (rule.verbs.join(","), rule.resources.join(", "));
        Self {
            holders: holders.clone(),
            connectors: wanted.connectors.clone(),
            rules: rules.iter().map(rule).collect(),
        }
        .or_nothing()
    }

    fn there(there: &Managed) -> Self {
        let mut given = Self::default();
        for (name, found) in &there.bindings {
            let role = there.roles.get(name).and_then(|it| it.object.as_ref());
            let binding = found.object.as_ref();
            let binding = binding.filter(|it| it.role_ref == objects::role_ref(name));
            let (Some(role), Some(binding)) = (role, binding) else {
                continue;
            };
            given.holders.extend(objects::subjects(binding));
            for rule in role.rules.iter().flatten() {
                let names = rule.resource_names.iter().flatten().cloned();
                given.connectors.extend(names);
                given.rules.insert(said(rule));
            }
        }
        given.or_nothing()
    }

    /// No subject holds a permission if one of the three is missing.
    fn or_nothing(self) -> Self {
        let Self {
            holders,
            connectors,
            rules,
        } = &self;
        if holders.is_empty() || connectors.is_empty() || rules.is_empty() {
            Self::default()
        } else {
            self
        }
    }

    fn what(&self, connectors: &BTreeSet<String>) -> String {
        let rule = |(verbs, resources): &(String, String)| format!("{verbs} on {resources}");
        let rules = listed(self.rules.iter().map(rule));
        let connectors = listed(connectors.iter().cloned());
        format!("{rules} of connectors {connectors}")
    }
}

fn said(rule: &PolicyRule) -> (String, String) {
    let resources = rule.resources.as_deref().unwrap_or_default();
    (rule.verbs.join(","), resources.join(", "))
}

/// The events for a change from the existing to the wanted objects.
pub(super) fn of_change(
    there: &Managed,
    wanted: &WantedPermissions,
    was_in_force: bool,
    names: &BTreeSet<&String>,
) -> Vec<Told> {
    let (before, after) = (Given::there(there), Given::wanted(wanted));
    let mut told = restored(there, was_in_force, names);
    told.extend(difference(
        &after,
        &before,
        Event::PermissionGranted,
        "may now use",
    ));
    told.extend(difference(
        &before,
        &after,
        Event::PermissionRevoked,
        "may no longer use",
    ));
    told
}

/// The part of the one that the other lacks.
fn difference(one: &Given, other: &Given, event: Event, verb: &str) -> Option<Told> {
    let holders: BTreeSet<_> = one.holders.difference(&other.holders).cloned().collect();
    let connectors: BTreeSet<_> = one
        .connectors
        .difference(&other.connectors)
        .cloned()
        .collect();
    let has_rules = !one.rules.is_subset(&other.rules);
    let (who, which) = match (holders.is_empty(), connectors.is_empty(), has_rules) {
        (true, true, false) => return None,
        (false, true, false) => (&holders, &one.connectors),
        (true, false, false) => (&one.holders, &connectors),
        _ => (&one.holders, &one.connectors),
    };
    let people = listed(who.iter().map(ToString::to_string));
    let note = format!("{people} {verb} {}", one.what(which));
    Some(Told { event, note })
}

/// The objects that another client changed or deleted.
fn restored(there: &Managed, was_in_force: bool, names: &BTreeSet<&String>) -> Vec<Told> {
    let mut told = Vec::new();
    let mut tell = |kind: ManagedKind, name: &str, note: String| {
        let note = format!("{} {name} {note}", kind.as_str());
        let event = Event::PermissionRestored;
        told.push(Told { event, note });
    };
    for name in names {
        let (role, binding) = (there.roles.get(*name), there.bindings.get(*name));
        let gone = || was_in_force.then(|| "was deleted and is made again".to_owned());
        let of_role = changed(role).or_else(|| role.is_none().then(gone).flatten());
        let of_binding = changed(binding).or_else(|| binding.is_none().then(gone).flatten());
        if let Some(note) = of_role {
            tell(ManagedKind::Role, name, note);
        }
        if let Some(note) = of_binding {
            tell(ManagedKind::RoleBinding, name, note);
        }
    }
    told
}

fn changed<K>(found: Option<&FoundObject<K>>) -> Option<String> {
    let by = found?.changed_by.as_ref()?;
    Some(format!("was changed by {by} and is put back"))
}

/// The event for the deletion of a policy under which subjects held permissions.
#[must_use]
pub fn of_deletion(status: &AccessPolicyStatus) -> Option<Told> {
    let mut conditions = status.conditions.iter();
    let is_held = conditions.any(|it| it.reason == PermissionSynced::PermissionGranted.as_str());
    let holders = status.granted_subjects.filter(|it| is_held && *it > 0)?;
    let connectors = status.matched_connectors.iter().map(|it| it.name.clone());
    let connectors = listed(connectors);
    let note = format!(
        "the policy was deleted: its {holders} subjects may no longer use connectors {connectors} by it"
    );
    let event = Event::PermissionRevoked;
    Some(Told { event, note })
}

/// The problems that were not reported before.
pub(super) fn of_status(
    last: Option<&AccessPolicyStatus>,
    status: &AccessPolicyStatus,
) -> Vec<Told> {
    let find = |status: &AccessPolicyStatus, type_| {
        let mut conditions = status.conditions.iter();
        conditions.find(|it| it.type_ == type_).cloned()
    };
    let tell = |type_, event, is_wrong: fn(&OneCondition) -> bool| {
        let now = find(status, type_).filter(is_wrong)?;
        let before = last.and_then(|it| find(it, type_));
        if before.is_some_and(|it| it.reason == now.reason && it.message == now.message) {
            return None;
        }
        let note = format!("{}: {}", now.reason, now.message);
        Some(Told { event, note })
    };
    let is_false: fn(&OneCondition) -> bool = |it| it.status == ConditionStatus::False;
    // An unreadable policy is reported once, and an unknown state may be known a moment later.
    let is_questionable: fn(&OneCondition) -> bool = |it| {
        it.status != ConditionStatus::Unknown
            && ![
                ChecksValid::ChecksValid,
                ChecksValid::NoChecks,
                ChecksValid::PolicyUnreadable,
            ]
            .iter()
            .any(|word| it.reason == word.as_str())
    };
    let synced = tell(
        AccessPolicyCondition::PermissionSynced,
        Event::PermissionNotSynced,
        is_false,
    );
    let checks = tell(
        AccessPolicyCondition::ChecksValid,
        Event::ChecksQuestionable,
        is_questionable,
    );
    synced.into_iter().chain(checks).collect()
}

/// Names, the first of them if there are many.
fn listed(names: impl ExactSizeIterator<Item = String>) -> String {
    let count = names.len();
    let first = names.take(MOST).collect::<Vec<_>>().join(", ");
    match count.checked_sub(MOST) {
        Some(more @ 1..) => format!("{first} and {more} more"),
        Some(0) | None => first,
    }
}

#[cfg(test)]
mod tests;
