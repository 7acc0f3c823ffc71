//! The Role and the RoleBinding of one policy for one request, and the rule that decides which may stay.

use std::collections::BTreeMap;

use connectors_api::{
    AccessRequest, AccessResource,
    access_request::{GrantState, GrantedRule, MatchedPolicy, Phase, PolicyGrant},
    hex, labels,
    names::{self, CONNECTORS, GROUP},
};
use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{
    grant_digest::{GrantDigest, owners, rules, subjects},
    seen::{GrantKind, Managed, ManagedObject},
};

const RBAC: &str = "rbac.authorization.k8s.io";

/// The objects that one policy grants to one request.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// UID of the policy.
    pub policy_uid: String,
    /// The rules.
    pub role: Role,
    /// The subject of the rules.
    pub binding: RoleBinding,
}

/// Name and UID of a policy in a status.
#[must_use]
pub fn identity(entry: &MatchedPolicy) -> Option<(&str, &str)> {
    let metadata = entry.policy.0.get("metadata")?;
    let text = |field| metadata.get(field).and_then(Value::as_str);
    Some((text("name")?, text("uid")?))
}

/// The name of the Role and of the RoleBinding. It is computed, not looked up, so a crash loses no object.
#[must_use]
pub fn name(request_uid: &str, policy_uid: &str) -> String {
    let digest = Sha256::digest(policy_uid.as_bytes());
    let short = hex(&digest[..4]);
    format!("car-{request_uid}-{short}")
}

/// The grant of an entry, if it is in force now.
#[must_use]
pub fn in_force(entry: &MatchedPolicy, now: Timestamp) -> Option<&PolicyGrant> {
    let grant = entry.grant.as_ref()?;
    let active = match grant.state {
        GrantState::Granting | GrantState::Granted => true,
        GrantState::Ended => false,
    };
    let expired = grant.expires_at.is_some_and(|end| now >= end);
    (active && !expired).then_some(grant)
}

/// The objects that an entry of the status describes, computed from nothing else.
#[must_use]
pub fn of_entry(request: &AccessRequest, entry: &MatchedPolicy) -> Option<Grant> {
    let grant = entry.grant.as_ref()?;
    with_rules(request, entry, &grant.rules)
}

/// The grant of which an entry without a result describes the Role, and not the RoleBinding.
#[must_use]
pub fn prepared(request: &AccessRequest, entry: &MatchedPolicy) -> Option<Grant> {
    if entry.grant.is_some() {
        return None;
    }
    with_rules(request, entry, &entry.prepared_rules)
}

fn with_rules(
    request: &AccessRequest,
    entry: &MatchedPolicy,
    rules: &[GrantedRule],
) -> Option<Grant> {
    let (policy, policy_uid) = identity(entry)?;
    let request_uid = request.metadata.uid.as_deref()?;
    let namespace = request.metadata.namespace.as_deref()?;
    let request_name = request.metadata.name.as_deref()?;
    if !allowed(request, rules) {
        return None;
    }
    let name = name(request_uid, policy_uid);
    let metadata = ObjectMeta {
        name: Some(name.clone()),
        namespace: Some(namespace.to_owned()),
        labels: Some(labels_of(request_name, request_uid, policy, policy_uid)),
        owner_references: Some(vec![OwnerReference {
            api_version: names::API_VERSION.to_owned(),
            kind: "AccessRequest".to_owned(),
            name: request_name.to_owned(),
            uid: request_uid.to_owned(),
            controller: Some(true),
            block_owner_deletion: Some(false),
        }]),
        ..ObjectMeta::default()
    };
    let rule = |rule: &GrantedRule| PolicyRule {
        api_groups: Some(vec![GROUP.to_owned()]),
        resources: Some(rule.resources.clone()),
        resource_names: Some(vec![request.spec.connector_ref.name.clone()]),
        verbs: rule.verbs.clone(),
        non_resource_urls: None,
    };
    Some(Grant {
        policy_uid: policy_uid.to_owned(),
        role: Role {
            metadata: metadata.clone(),
            rules: Some(rules.iter().map(rule).collect()),
        },
        binding: RoleBinding {
            metadata,
            role_ref: RoleRef {
                api_group: RBAC.to_owned(),
                kind: "Role".to_owned(),
                name,
            },
            subjects: Some(vec![Subject {
                api_group: None,
                kind: "ServiceAccount".to_owned(),
                name: request.spec.subject.name.clone(),
                namespace: Some(request.spec.subject_namespace().to_owned()),
            }]),
        },
    })
}

fn labels_of(
    request: &str,
    request_uid: &str,
    policy: &str,
    policy_uid: &str,
) -> BTreeMap<String, String> {
    [
        (labels::MANAGED_BY, names::MANAGED_BY),
        (labels::ACCESS_REQUEST, request),
        (labels::ACCESS_REQUEST_UID, request_uid),
        (labels::ACCESS_POLICY, policy),
        (labels::ACCESS_POLICY_UID, policy_uid),
    ]
    .into_iter()
    .filter(|(_, value)| labels::fits(value))
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect()
}

/// True when the rules contain only the requested capability for the requested pod. This check decides whether rules
/// may be written, wherever they were rendered.
#[must_use]
pub fn allowed(request: &AccessRequest, rules: &[GrantedRule]) -> bool {
    let pod = &request.spec.context.object_ref;
    let own = |text: &String| {
        text.starts_with(CONNECTORS)
            && text.parse::<AccessResource>().is_ok_and(|resource| {
                resource.permission == request.spec.permission
                    && resource.is_of(&pod.namespace, &pod.name)
            })
    };
    let fits = |rule: &GrantedRule| {
        !rule.resources.is_empty()
            && rule.resources.iter().all(own)
            && !rule.verbs.is_empty()
            && rule.verbs.iter().all(|verb| !verb.is_empty())
    };
    !rules.is_empty() && rules.iter().all(fits)
}

/// The one rule about every managed object: it stays only while its request, read live, has its UID, is neither being
/// deleted nor final, and describes exactly this object in the entry of its policy. While the checks are awaited, the
/// entry describes a Role alone.
#[must_use]
pub fn keep(object: &Managed, request: Option<&AccessRequest>, now: Timestamp) -> bool {
    request.is_some_and(|it| describes(it, object, now))
}

/// True when a request describes an object, its time limit aside: the request is looked at when that is over.
#[must_use]
pub fn is_described(object: &Managed, request: &AccessRequest) -> bool {
    describes(request, object, Timestamp::MIN)
}

fn describes(request: &AccessRequest, object: &Managed, now: Timestamp) -> bool {
    let Some(status) = &request.status else {
        return false;
    };
    if request.metadata.deletion_timestamp.is_some() || status.phase.is_some_and(is_terminal) {
        return false;
    }
    let described = |entry: &MatchedPolicy| match (in_force(entry, now), object.kind()) {
        (Some(_), _) => of_entry(request, entry),
        (None, GrantKind::Role) => prepared(request, entry),
        (None, GrantKind::RoleBinding) => None,
    };
    let mut described = status.policies.iter().filter_map(described);
    described.any(|grant| is_exactly(object, &grant))
}

/// True when a phase is final.
#[must_use]
pub const fn is_terminal(phase: Phase) -> bool {
    match phase {
        Phase::Rejected | Phase::Revoked | Phase::Invalid | Phase::Ended => true,
        Phase::Pending | Phase::Granted => false,
    }
}

/// True when an object is exactly the decided one. An object that is being deleted counts as deleted.
#[must_use]
pub fn is_exactly(object: &Managed, grant: &Grant) -> bool {
    let same = match &object.object {
        ManagedObject::Role(Ok(role)) => rules(role) == rules(&grant.role),
        ManagedObject::RoleBinding(Ok(binding)) => {
            binding.role_ref.kind == grant.binding.role_ref.kind
                && binding.role_ref.name == grant.binding.role_ref.name
                && binding.role_ref.api_group == grant.binding.role_ref.api_group
                && subjects(binding) == subjects(&grant.binding)
        }
        ManagedObject::Kept(kind, Ok(digest)) => {
            return object.metadata.deletion_timestamp.is_none()
                && *digest == digest_of(*kind, grant);
        }
        ManagedObject::Role(Err(_))
        | ManagedObject::RoleBinding(Err(_))
        | ManagedObject::Kept(_, Err(_)) => false,
    };
    let (is, must) = (&object.metadata, &grant.role.metadata);
    let labelled = must.labels.iter().flatten().all(|(key, value)| {
        is.labels
            .as_ref()
            .is_some_and(|labels| labels.get(key) == Some(value))
    });
    same && labelled
        && is.deletion_timestamp.is_none()
        && is.name == must.name
        && is.namespace == must.namespace
        && owners(is) == owners(must)
}

fn digest_of(kind: GrantKind, grant: &Grant) -> GrantDigest {
    match kind {
        GrantKind::Role => GrantDigest::of_role(&grant.role.metadata, &grant.role),
        GrantKind::RoleBinding => GrantDigest::of_binding(&grant.binding.metadata, &grant.binding),
    }
}

/// True when both objects of an entry exist exactly as it describes them.
#[must_use]
pub fn is_written(request: &AccessRequest, entry: &MatchedPolicy, found: &[Managed]) -> bool {
    of_entry(request, entry).is_some_and(|grant| {
        let mut kinds = GrantKind::ALL.into_iter();
        kinds.all(|kind| is_there(kind, &grant, found))
    })
}

/// True when the object of this kind exists exactly as the grant has it.
#[must_use]
pub fn is_there(kind: GrantKind, grant: &Grant, found: &[Managed]) -> bool {
    let mut found = found.iter();
    found.any(|it| it.kind() == kind && is_exactly(it, grant))
}

/// The name of the request in the object's owner references. Only a live read of that request tells whether it is the
/// owner.
#[must_use]
pub fn owner_name(metadata: &ObjectMeta) -> Option<&str> {
    let owners = metadata.owner_references.as_ref()?;
    let owner = owners
        .iter()
        .find(|owner| owner.kind == "AccessRequest" && owner.api_version == names::API_VERSION)?;
    Some(&owner.name)
}
