//! The digest of a grant's object, which the caches keep in place of the object.

use connectors_api::labels;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// The digest of all that [`crate::grant::is_exactly`] compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantDigest([u8; 32]);

/// The labels of every managed object.
const LABELS: [&str; 5] = [
    labels::MANAGED_BY,
    labels::ACCESS_REQUEST,
    labels::ACCESS_REQUEST_UID,
    labels::ACCESS_POLICY,
    labels::ACCESS_POLICY_UID,
];

impl GrantDigest {
    /// Of a Role.
    pub(crate) fn of_role(metadata: &ObjectMeta, role: &Role) -> Self {
        Self::of_parts(metadata, rules(role))
    }

    /// Of a RoleBinding.
    pub(crate) fn of_binding(metadata: &ObjectMeta, binding: &RoleBinding) -> Self {
        let role = &binding.role_ref;
        let role = (&role.api_group, &role.kind, &role.name);
        Self::of_parts(metadata, (role, subjects(binding)))
    }

    /// An object with another value of one of the labels has another digest, also where a value is too long for the
    /// label of a grant. A live read then tells.
    fn of_parts(metadata: &ObjectMeta, content: impl Serialize) -> Self {
        let labels = metadata.labels.as_ref();
        let labels = LABELS.map(|key| labels.and_then(|it| it.get(key)));
        let name = (&metadata.namespace, &metadata.name);
        // Lists and texts cannot fail to be written.
        let text = serde_json::to_vec(&(name, labels, owners(metadata), content));
        Self(Sha256::digest(text.unwrap_or_default()).into())
    }
}

/// The API server treats absent and empty lists as the same.
pub(crate) fn rules(role: &Role) -> Vec<[&[String]; 5]> {
    fn list(field: Option<&Vec<String>>) -> &[String] {
        field.map(Vec::as_slice).unwrap_or_default()
    }
    role.rules
        .iter()
        .flatten()
        .map(|rule| {
            [
                list(rule.api_groups.as_ref()),
                list(rule.resources.as_ref()),
                list(rule.resource_names.as_ref()),
                &rule.verbs,
                list(rule.non_resource_urls.as_ref()),
            ]
        })
        .collect()
}

pub(crate) fn subjects(binding: &RoleBinding) -> Vec<(&str, &str, &str, &str)> {
    binding
        .subjects
        .iter()
        .flatten()
        .map(|subject| {
            (
                subject.api_group.as_deref().unwrap_or_default(),
                subject.kind.as_str(),
                subject.namespace.as_deref().unwrap_or_default(),
                subject.name.as_str(),
            )
        })
        .collect()
}

pub(crate) fn owners(metadata: &ObjectMeta) -> Vec<(&str, &str, &str, &str, bool, bool)> {
    metadata
        .owner_references
        .iter()
        .flatten()
        .map(|owner| {
            (
                owner.api_version.as_str(),
                owner.kind.as_str(),
                owner.name.as_str(),
                owner.uid.as_str(),
                owner.controller.unwrap_or(false),
                owner.block_owner_deletion.unwrap_or(false),
            )
        })
        .collect()
}
