//! Subjects after parsing: one variant per form, without optional fields that change the meaning.

use thiserror::Error;

use super::{SubjectKind, SubjectSpec};
use crate::LabelSelector;
use crate::names::{is_dns_label, is_dns_subdomain};

/// The group of all service accounts of the cluster. With `:<namespace>` appended, it is the group of those
/// of a namespace.
const ALL_ACCOUNTS: &str = "system:serviceaccounts";
/// The prefix of a service account's user name.
const ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// A parsed subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubjectForm {
    /// One service account.
    ServiceAccount {
        /// Its namespace; absent: the policy's own.
        namespace: Option<String>,
        /// Its name.
        name: String,
    },
    /// Every service account with certain labels.
    ServiceAccountsByLabel {
        /// The labels of the service accounts. The selector names values.
        selector: LabelSelector,
        /// The labels of their namespaces, with values; absent: the policy's own namespace.
        namespaces: Option<LabelSelector>,
    },
    /// All service accounts of every namespace with certain labels.
    ServiceAccountGroupsByNamespace {
        /// The labels of the namespaces. The selector names values.
        namespaces: LabelSelector,
    },
    /// One group.
    Group {
        /// Its name.
        name: String,
    },
    /// One user.
    User {
        /// Its name.
        name: String,
    },
}

impl SubjectForm {
    /// True when the subject is a selector, so that the objects in the cluster determine the accounts.
    #[must_use]
    pub const fn is_selector(&self) -> bool {
        match self {
            Self::ServiceAccountsByLabel { .. } | Self::ServiceAccountGroupsByNamespace { .. } => {
                true
            }
            Self::ServiceAccount { .. } | Self::Group { .. } | Self::User { .. } => false,
        }
    }

    /// The labels of the namespaces that it selects.
    #[must_use]
    pub const fn namespaces(&self) -> Option<&LabelSelector> {
        match self {
            Self::ServiceAccountsByLabel { namespaces, .. } => namespaces.as_ref(),
            Self::ServiceAccountGroupsByNamespace { namespaces } => Some(namespaces),
            Self::ServiceAccount { .. } | Self::Group { .. } | Self::User { .. } => None,
        }
    }
}

/// The reason why a subject cannot be parsed. The CEL rules use the same words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SubjectError {
    /// A User or Group without a name.
    #[error("name: required for kind User and Group")]
    NameRequired,
    /// A User or Group with a namespace.
    #[error("namespace: only a ServiceAccount has one; leave it out")]
    NamespaceNotAllowed,
    /// A User or Group with a `nameSelector`.
    #[error("nameSelector: finds ServiceAccounts only; give the User or Group by name")]
    NameSelectorNotAllowed,
    /// A service account without a name or selector.
    #[error("a ServiceAccount needs a name, or a nameSelector with at least one requirement")]
    NameOrSelectorRequired,
    /// A service account with a name and a selector.
    #[error("a ServiceAccount is given by name or by nameSelector, not by both")]
    NameAndSelector,
    /// A name that no service account can have.
    #[error(
        "name: must be the name of a ServiceAccount, or system:serviceaccount:<namespace>:<name>"
    )]
    AccountName,
    /// A namespace in the name, and a different one in the field.
    #[error("namespace: differs from the one in name; leave it out")]
    TwoNamespaces,
    /// A `nameSelector` next to a namespace.
    #[error("namespace: belongs to a name; next to nameSelector use namespaceSelector")]
    NamespaceWithSelector,
    /// A `namespaceSelector` without anything to select in the namespaces.
    #[error(
        "namespaceSelector: only next to a nameSelector, or for the Group system:serviceaccounts"
    )]
    NamespaceSelectorNotAllowed,
    /// A `nameSelector` in all namespaces.
    #[error(
        "namespaceSelector: would select every namespace; give it a requirement, or leave it out for the policy's own"
    )]
    EveryNamespace,
    /// All service accounts, by an empty selector.
    #[error(
        "namespaceSelector: would select every ServiceAccount of the cluster; give it a requirement"
    )]
    EveryAccount,
    /// A `nameSelector` that only excludes values, or only has keys.
    #[error(
        "nameSelector: names no value of a label; add matchLabels, or a requirement with operator In"
    )]
    NameSelectorOpen,
    /// A `namespaceSelector` that only excludes values, or only has keys.
    #[error(
        "namespaceSelector: names no value of a label; add matchLabels, or a requirement with operator In"
    )]
    NamespaceSelectorOpen,
}

impl TryFrom<&SubjectSpec> for SubjectForm {
    type Error = SubjectError;

    fn try_from(spec: &SubjectSpec) -> Result<Self, SubjectError> {
        match spec.kind {
            SubjectKind::ServiceAccount => account(spec),
            SubjectKind::Group => group(spec),
            SubjectKind::User => {
                let name = named(spec)?;
                match requirement(spec.namespace_selector.as_ref()) {
                    None => Ok(Self::User { name }),
                    Some(_) => Err(SubjectError::NamespaceSelectorNotAllowed),
                }
            }
        }
    }
}

fn account(spec: &SubjectSpec) -> Result<SubjectForm, SubjectError> {
    match (&spec.name, requirement(spec.name_selector.as_ref())) {
        (None, None) => Err(SubjectError::NameOrSelectorRequired),
        (Some(_), Some(_)) => Err(SubjectError::NameAndSelector),
        (Some(name), None) if requirement(spec.namespace_selector.as_ref()).is_none() => {
            account_by_name(name, spec.namespace.as_deref())
        }
        (Some(_), None) => Err(SubjectError::NamespaceSelectorNotAllowed),
        (None, Some(_)) if spec.namespace.is_some() => Err(SubjectError::NamespaceWithSelector),
        (None, Some(selector)) => {
            let namespaces = spec.namespace_selector.clone();
            if namespaces.as_ref().is_some_and(LabelSelector::is_empty) {
                return Err(SubjectError::EveryNamespace);
            }
            if !selector.names_values() {
                return Err(SubjectError::NameSelectorOpen);
            }
            if namespaces.as_ref().is_some_and(|it| !it.names_values()) {
                return Err(SubjectError::NamespaceSelectorOpen);
            }
            Ok(SubjectForm::ServiceAccountsByLabel {
                selector: selector.clone(),
                namespaces,
            })
        }
    }
}

fn account_by_name(name: &str, namespace: Option<&str>) -> Result<SubjectForm, SubjectError> {
    let (within, name) = match name.strip_prefix(ACCOUNT_PREFIX) {
        None => (None, name),
        Some(rest) => {
            let (within, name) = rest.split_once(':').ok_or(SubjectError::AccountName)?;
            if !is_dns_label(within) {
                return Err(SubjectError::AccountName);
            }
            (Some(within), name)
        }
    };
    if !is_dns_subdomain(name) {
        return Err(SubjectError::AccountName);
    }
    if let (Some(within), Some(beside)) = (within, namespace)
        && within != beside
    {
        return Err(SubjectError::TwoNamespaces);
    }
    let namespace = within.or(namespace).map(str::to_owned);
    Ok(SubjectForm::ServiceAccount {
        namespace,
        name: name.to_owned(),
    })
}

fn group(spec: &SubjectSpec) -> Result<SubjectForm, SubjectError> {
    let name = named(spec)?;
    match &spec.namespace_selector {
        Some(namespaces) if name == ALL_ACCOUNTS => {
            let namespaces = requirement(Some(namespaces))
                .ok_or(SubjectError::EveryAccount)?
                .clone();
            if !namespaces.names_values() {
                return Err(SubjectError::NamespaceSelectorOpen);
            }
            Ok(SubjectForm::ServiceAccountGroupsByNamespace { namespaces })
        }
        Some(namespaces) if !namespaces.is_empty() => {
            Err(SubjectError::NamespaceSelectorNotAllowed)
        }
        Some(_) | None => Ok(SubjectForm::Group { name }),
    }
}

/// The name of a user or group, which must have no other field.
fn named(spec: &SubjectSpec) -> Result<String, SubjectError> {
    if spec.namespace.is_some() {
        return Err(SubjectError::NamespaceNotAllowed);
    }
    if requirement(spec.name_selector.as_ref()).is_some() {
        return Err(SubjectError::NameSelectorNotAllowed);
    }
    spec.name
        .clone()
        .filter(|name| !name.is_empty())
        .ok_or(SubjectError::NameRequired)
}

/// The selector, if it requires anything.
fn requirement(selector: Option<&LabelSelector>) -> Option<&LabelSelector> {
    selector.filter(|selector| !selector.is_empty())
}

#[cfg(test)]
mod tests;
