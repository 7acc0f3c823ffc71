//! Subjects as a policy spells them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SubjectError as Error;
use crate::{LabelSelector, cel, schema};

/// Kind of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SubjectKind {
    /// A service account, or several.
    ServiceAccount,
    /// A user.
    User,
    /// A group, or the groups of the service accounts of several namespaces.
    Group,
}

/// A subject: one by name, or the service accounts that selectors find.
///
/// [`super::SubjectForm`] is its parsed form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(
    description = "Who: one subject by name, or the service accounts that selectors find.",
    extend("x-kubernetes-validations" = rules())
)]
pub struct SubjectSpec {
    /// `ServiceAccount`, `User` or `Group`.
    pub kind: SubjectKind,
    /// Name of the subject. A ServiceAccount may also be written
    /// `system:serviceaccount:<namespace>:<name>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub name: Option<String>,
    /// Namespace of the ServiceAccount that `name` names. Absent: the policy's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::DNS_LABEL))]
    pub namespace: Option<String>,
    /// Instead of `name`: every ServiceAccount with these labels, in the policy's own namespace or in
    /// those of `namespaceSelector`. It needs `matchLabels` or a requirement with operator `In`. Next to a
    /// `name`, an empty one is ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_selector: Option<LabelSelector>,
    /// The namespaces of a `nameSelector`, or of the Group `system:serviceaccounts`, by their labels.
    /// It needs `matchLabels` or a requirement with operator `In`. Next to the `name` of a ServiceAccount, an
    /// empty one is ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
}

fn rules() -> [kube::core::Rule; 13] {
    let account = "self.kind == 'ServiceAccount'";
    let name = schema::DNS_SUBDOMAIN.trim_start_matches('^');
    let name = format!("^(system:serviceaccount:[a-z0-9]([-a-z0-9]*[a-z0-9])?:)?{name}");
    let all_accounts =
        "self.kind == 'Group' && has(self.name) && self.name == 'system:serviceaccounts'";
    let by_label = cel::selects("nameSelector");
    let by_namespace = cel::selects("namespaceSelector");
    let invalid = |rule: String, error: &Error| cel::invalid(rule, &error.to_string());
    let forbidden = |rule: String, error: &Error| cel::forbidden(rule, &error.to_string());
    let required = |rule: String, error: &Error| cel::required(rule, &error.to_string());
    [
        required(format!("{account} || has(self.name)"), &Error::NameRequired).field_path(".name"),
        forbidden(
            format!("{account} || !has(self.namespace)"),
            &Error::NamespaceNotAllowed,
        )
        .field_path(".namespace"),
        forbidden(
            format!("{account} || !{by_label}"),
            &Error::NameSelectorNotAllowed,
        )
        .field_path(".nameSelector"),
        required(
            format!("!({account}) || has(self.name) || {by_label}"),
            &Error::NameOrSelectorRequired,
        ),
        invalid(
            format!("!({account}) || !has(self.name) || !{by_label}"),
            &Error::NameAndSelector,
        ),
        invalid(
            format!(
                "!({account}) || !has(self.name) || \
                 size(self.name) <= 339 && self.name.matches(r'{name}')"
            ),
            &Error::AccountName,
        )
        .field_path(".name"),
        invalid(
            format!(
                "!({account}) || !has(self.name) || !has(self.namespace) || \
                 !self.name.startsWith('system:serviceaccount:') || \
                 self.name.split(':')[2] == self.namespace"
            ),
            &Error::TwoNamespaces,
        )
        .field_path(".namespace"),
        forbidden(
            format!("!({account}) || !has(self.namespace) || has(self.name)"),
            &Error::NamespaceWithSelector,
        )
        .field_path(".namespace"),
        forbidden(
            format!("!{by_namespace} || ({account} && {by_label}) || ({all_accounts})"),
            &Error::NamespaceSelectorNotAllowed,
        )
        .field_path(".namespaceSelector"),
        invalid(
            format!("!has(self.namespaceSelector) || {by_namespace} || !({account} && {by_label})"),
            &Error::EveryNamespace,
        )
        .field_path(".namespaceSelector"),
        invalid(
            format!("!has(self.namespaceSelector) || {by_namespace} || !({all_accounts})"),
            &Error::EveryAccount,
        )
        .field_path(".namespaceSelector"),
        invalid(cel::names_values("nameSelector"), &Error::NameSelectorOpen)
            .field_path(".nameSelector"),
        invalid(
            cel::names_values("namespaceSelector"),
            &Error::NamespaceSelectorOpen,
        )
        .field_path(".namespaceSelector"),
    ]
}
