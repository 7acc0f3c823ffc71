//! Bindings of either kind, their subjects, and the sentence about them.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::rbac::v1 as rbac;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{RoleId, RoleKind, RoleRef};
use crate::User;

/// Whom a binding is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// The user of this name, service accounts by their user names included.
    User(Box<str>),
    /// Every member of this group.
    Group(Box<str>),
    /// A service account.
    ServiceAccount {
        /// Its namespace: the one given, else that of the binding.
        namespace: Box<str>,
        /// Its name.
        name: Box<str>,
    },
}

impl Subject {
    /// Reads a subject of a binding. None for one that reaches nobody: of another kind, or a service
    /// account for which neither subject nor binding names a namespace.
    fn parse(subject: rbac::Subject, binding_namespace: Option<&str>) -> Option<Self> {
        let rbac::Subject {
            api_group: _, // Kubernetes does not look at it either when it decides
            kind,
            name,
            namespace,
        } = subject;
        let name = name.into_boxed_str();
        match kind.as_str() {
            "User" => Some(Self::User(name)),
            "Group" => Some(Self::Group(name)),
            "ServiceAccount" => {
                let given = namespace.filter(|namespace| !namespace.is_empty());
                let namespace = given.map(String::into_boxed_str);
                let namespace = namespace.or_else(|| binding_namespace.map(Into::into))?;
                Some(Self::ServiceAccount { namespace, name })
            }
            _ => None,
        }
    }

    /// True when the user is meant.
    #[must_use]
    pub fn applies_to(&self, user: &User) -> bool {
        match self {
            Self::User(name) => *user.name == **name,
            Self::Group(name) => user.groups.iter().any(|group| **group == **name),
            Self::ServiceAccount { namespace, name } => user.is_service_account(namespace, name),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "User {name:?}"),
            Self::Group(name) => write!(f, "Group {name:?}"),
            Self::ServiceAccount { namespace, name } => {
                write!(f, "ServiceAccount {}", Quoted(&[name, "/", namespace]))
            }
        }
    }
}

/// A binding, as far as decisions and those who explain them need it.
#[derive(Debug, PartialEq, Eq)]
pub struct Binding {
    namespace: Option<Arc<str>>,
    name: Arc<str>,
    uid: Option<Box<str>>,
    labels: Box<[(Box<str>, Box<str>)]>,
    deleting: bool,
    role: RoleRef,
    subjects: Box<[Subject]>,
}

impl Binding {
    pub(super) fn new(
        namespace: Option<Arc<str>>,
        name: Arc<str>,
        metadata: ObjectMeta,
        role: rbac::RoleRef,
        subjects: Vec<rbac::Subject>,
    ) -> Self {
        let subjects = subjects.into_iter();
        let subjects = subjects.filter_map(|one| Subject::parse(one, namespace.as_deref()));
        let labels = metadata.labels.unwrap_or_default().into_iter();
        Self {
            subjects: subjects.collect(),
            namespace,
            name,
            uid: metadata.uid.map(String::into_boxed_str),
            labels: labels
                .map(|(key, value)| (key.into_boxed_str(), value.into_boxed_str()))
                .collect(),
            deleting: metadata.deletion_timestamp.is_some(),
            role: RoleRef {
                kind: RoleKind::parse(&role.kind),
                name: role.name.into(),
            },
        }
    }

    /// `RoleBinding` or `ClusterRoleBinding`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self.namespace {
            Some(_) => "RoleBinding",
            None => "ClusterRoleBinding",
        }
    }

    /// The namespace of a `RoleBinding`.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The UID that the API server gave it.
    #[must_use]
    pub fn uid(&self) -> Option<&str> {
        self.uid.as_deref()
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(have, _)| (**have).cmp(key));
        let (_, value) = self.labels.get(at.ok()?)?;
        Some(value)
    }

    /// All labels, in the order of their keys.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.labels.iter().map(|(key, value)| (&**key, &**value))
    }

    /// True when it has a deletion timestamp. Kubernetes lets such a binding count until its last
    /// finalizer is gone, and so does the index; a caller may not want to.
    #[must_use]
    pub const fn is_deleting(&self) -> bool {
        self.deleting
    }

    /// The role that it gives.
    #[must_use]
    pub const fn role(&self) -> &RoleRef {
        &self.role
    }

    pub(super) const fn namespace_key(&self) -> Option<&Arc<str>> {
        self.namespace.as_ref()
    }

    pub(super) const fn name_key(&self) -> &Arc<str> {
        &self.name
    }

    /// Whom it is for. Subjects that can reach nobody are left out.
    #[must_use]
    pub fn subjects(&self) -> &[Subject] {
        &self.subjects
    }
}

/// A binding in the index.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) binding: Binding,
    pub(super) role: RoleId,
}

/// Why an access is allowed: a binding, and the first of its subjects that the asking user is.
///
/// Shown in the API server's words: `RoleBinding "name/namespace" of Role "role" to User "alice"`.
/// Characters that cannot be printed are escaped in Rust's way rather than in Go's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant<'a> {
    /// The binding.
    pub binding: &'a Binding,
    /// The subject.
    pub subject: &'a Subject,
}

impl fmt::Display for Grant<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { binding, subject } = self;
        let RoleRef { kind, name: role } = &binding.role;
        let (of, name) = (kind.as_str(), &*binding.name);
        match &binding.namespace {
            Some(namespace) => {
                let name = Quoted(&[name, "/", namespace]);
                write!(f, "RoleBinding {name} of {of} {role:?} to {subject}")
            }
            None => write!(
                f,
                "ClusterRoleBinding {name:?} of {of} {role:?} to {subject}"
            ),
        }
    }
}

/// Several pieces of text in one pair of quotes.
struct Quoted<'a>(&'a [&'a str]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for piece in self.0 {
            for c in piece.chars() {
                match c {
                    '\'' => f.write_str("'")?,
                    _ => write!(f, "{}", c.escape_debug())?,
                }
            }
        }
        f.write_str("\"")
    }
}
