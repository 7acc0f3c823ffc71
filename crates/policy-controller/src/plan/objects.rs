//! The Roles and RoleBindings that express the wanted permissions.
//!
//! Usually one of each. A RoleBinding refers to the Role of its own name and to no other, so a list that
//! is too long for one object makes pairs: each part of the connectors with each part of the holders.

use std::collections::{BTreeMap, BTreeSet};

use connectors_api::{
    labels,
    names::{self, GROUP},
};
use k8s_openapi::{
    api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{
    MOST_BYTES,
    split::{ListPart, split},
    wanted::{RbacSubject, StandingPermission, WantedPermissions, WantedRule},
};
use crate::seen::{Fingerprint, OwnerPolicy};

/// The API group of Roles.
const RBAC: &str = "rbac.authorization.k8s.io";
/// The kind of the owner.
const POLICY: &str = "AccessPolicy";

/// A Role and the RoleBinding of its name.
#[derive(Clone, Debug, PartialEq)]
pub struct RolePair {
    /// The permissions.
    pub role: Role,
    /// The subjects.
    pub binding: RoleBinding,
}

/// The pairs by name, none of their lists larger than that many bytes.
#[must_use]
pub fn pairs(
    wanted: &WantedPermissions,
    owner: &OwnerPolicy,
    most: usize,
) -> BTreeMap<String, RolePair> {
    let StandingPermission::Given { rules, holders, .. } = &wanted.standing else {
        return BTreeMap::new();
    };
    let connectors = split_connectors(&wanted.connectors, rules, most);
    let size = |it: &&RbacSubject| bytes(&it.subject());
    let holders = split(holders, most, ToString::to_string, size);
    let mut pairs = BTreeMap::new();
    for names in &connectors {
        for who in &holders {
            let name = name(&owner.uid, &names.bits, &who.bits);
            let pair = pair(&name, owner, rules, names, who);
            pairs.insert(name, pair);
        }
    }
    pairs
}

fn split_connectors<'a>(
    connectors: &'a BTreeSet<String>,
    rules: &[WantedRule],
    most: usize,
) -> Vec<ListPart<&'a String>> {
    // Each rule repeats the names.
    let size = |name: &&String| rules.len() * bytes(name);
    split(connectors, most, |name| (*name).clone(), size)
}

/// With the comma.
fn bytes(value: &impl Serialize) -> usize {
    serde_json::to_string(value).map_or(MOST_BYTES, |text| text.len() + 1)
}

/// From the policy's UID, so that a policy of the same name later on has objects of its own.
#[must_use]
pub fn name(policy_uid: &str, connector_bits: &str, holder_bits: &str) -> String {
    let part = |letter: char, bits: &str| match bits {
        "" => String::new(),
        bits => format!("-{letter}{bits}"),
    };
    let (connectors, holders) = (part('c', connector_bits), part('s', holder_bits));
    format!("policy-{policy_uid}{connectors}{holders}")
}

fn pair(
    name: &str,
    owner: &OwnerPolicy,
    rules: &[WantedRule],
    connectors: &ListPart<&String>,
    holders: &ListPart<&RbacSubject>,
) -> RolePair {
    let resource_names: Vec<String> = connectors.entries.iter().copied().cloned().collect();
    let rule = |rule: &WantedRule| PolicyRule {
        api_groups: Some(vec![GROUP.to_owned()]),
        resources: Some(rule.resources.clone()),
        resource_names: Some(resource_names.clone()),
        verbs: rule.verbs.clone(),
        non_resource_urls: None,
    };
    let metadata = metadata(name, owner);
    RolePair {
        role: Role {
            metadata: metadata.clone(),
            rules: Some(rules.iter().map(rule).collect()),
        },
        binding: RoleBinding {
            metadata,
            role_ref: role_ref(name),
            subjects: Some(holders.entries.iter().map(|it| it.subject()).collect()),
        },
    }
}

/// The only Role that a RoleBinding of ours may refer to.
#[must_use]
pub fn role_ref(name: &str) -> RoleRef {
    RoleRef {
        api_group: RBAC.to_owned(),
        kind: "Role".to_owned(),
        name: name.to_owned(),
    }
}

/// The metadata of every object of a policy.
#[must_use]
pub fn metadata(name: &str, owner: &OwnerPolicy) -> ObjectMeta {
    let policy = Some(owner.name.name.as_str()).filter(|name| labels::fits(name));
    let labels = [
        (labels::MANAGED_BY, Some(names::MANAGED_BY)),
        (labels::ACCESS_POLICY, policy),
        (labels::ACCESS_POLICY_UID, Some(&owner.uid)),
    ];
    let label = |(key, value): (&str, Option<&str>)| Some((key.to_owned(), value?.to_owned()));
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(owner.name.namespace.clone()),
        labels: Some(labels.into_iter().filter_map(label).collect()),
        owner_references: Some(vec![OwnerReference {
            api_version: names::API_VERSION.to_owned(),
            kind: POLICY.to_owned(),
            name: owner.name.name.clone(),
            uid: owner.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(false),
        }]),
        ..ObjectMeta::default()
    }
}

/// The policy to which an object belongs according to its metadata.
#[must_use]
pub fn owner_in(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    owners(metadata).next()
}

fn owners(metadata: &ObjectMeta) -> impl Iterator<Item = &OwnerReference> {
    let owners = metadata.owner_references.iter().flatten();
    owners.filter(|it| it.kind == POLICY && it.api_version == names::API_VERSION)
}

/// The part of the metadata that this controller owns.
#[derive(PartialEq, Eq, Serialize)]
struct OwnMetadata<'a> {
    labels: [Option<&'a String>; 3],
    owner: Option<(&'a str, &'a str, bool, bool)>,
}

impl<'a> OwnMetadata<'a> {
    fn of(metadata: &'a ObjectMeta) -> Self {
        let label = |key: &str| metadata.labels.as_ref()?.get(key);
        let uid = label(labels::ACCESS_POLICY_UID);
        // Other owners only make the object go sooner.
        let mut owners = owners(metadata).filter(|it| Some(&it.uid) == uid);
        let owner = owners.next();
        Self {
            labels: [
                labels::MANAGED_BY,
                labels::ACCESS_POLICY,
                labels::ACCESS_POLICY_UID,
            ]
            .map(label),
            owner: owner.map(|it| {
                (
                    it.name.as_str(),
                    it.uid.as_str(),
                    it.controller.unwrap_or(false),
                    it.block_owner_deletion.unwrap_or(false),
                )
            }),
        }
    }
}

/// Whether two objects have the same metadata of ours.
pub(super) fn same_identity(a: &ObjectMeta, b: &ObjectMeta) -> bool {
    OwnMetadata::of(a) == OwnMetadata::of(b)
}

/// Of a Role.
#[must_use]
pub fn of_role(role: &Role) -> Fingerprint {
    fingerprint(&(
        OwnMetadata::of(&role.metadata),
        role.rules.as_deref().unwrap_or_default(),
    ))
}

/// Of a RoleBinding.
#[must_use]
pub fn of_binding(binding: &RoleBinding) -> Fingerprint {
    let holders: Vec<_> = subjects(binding).map(|it| it.subject()).collect();
    fingerprint(&(
        OwnMetadata::of(&binding.metadata),
        &binding.role_ref,
        holders,
    ))
}

/// The subjects of a RoleBinding.
pub(super) fn subjects(binding: &RoleBinding) -> impl Iterator<Item = RbacSubject> {
    binding.subjects.iter().flatten().map(RbacSubject::of)
}

fn fingerprint(said: &impl Serialize) -> Fingerprint {
    // An object that cannot be serialized equals no wanted object.
    let text = serde_json::to_vec(said).unwrap_or_default();
    Sha256::digest(text).into()
}

#[cfg(test)]
mod tests;
