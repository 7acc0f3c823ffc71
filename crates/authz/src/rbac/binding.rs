//! Bindings of either kind, their subjects, and the sentence about them.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::rbac::v1 as rbac;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{RoleId, RoleRef};
use crate::User;
use crate::pieces::Pieces;
use crate::pool::Pool;

/// Whom a binding is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject<T = Box<str>> {
    /// The user of this name, service accounts by their user names included.
    User(T),
    /// Every member of this group.
    Group(T),
    /// A service account.
    ServiceAccount {
        /// Its namespace: the one given, else that of the binding.
        namespace: T,
        /// Its name.
        name: T,
    },
}

impl<'a> Subject<&'a str> {
    /// Reads a subject of a binding. None for one that reaches nobody: of another kind, or a service
    /// account for which neither subject nor binding names a namespace.
    fn parse(subject: &'a rbac::Subject, binding_namespace: Option<&'a str>) -> Option<Self> {
        let rbac::Subject {
            api_group: _, // Kubernetes does not look at it either when it decides
            kind,
            name,
            namespace,
        } = subject;
        match kind.as_str() {
            "User" => Some(Self::User(name)),
            "Group" => Some(Self::Group(name)),
            "ServiceAccount" => {
                let given = namespace.as_deref().filter(|it| !it.is_empty());
                let namespace = given.or(binding_namespace)?;
                Some(Self::ServiceAccount { namespace, name })
            }
            _ => None,
        }
    }

    fn keep(self) -> Subject {
        match self {
            Self::User(name) => Subject::User(name.into()),
            Self::Group(name) => Subject::Group(name.into()),
            Self::ServiceAccount { namespace, name } => Subject::ServiceAccount {
                namespace: namespace.into(),
                name: name.into(),
            },
        }
    }
}

impl PartialEq<Subject> for Subject<&str> {
    fn eq(&self, other: &Subject) -> bool {
        match (self, other) {
            (Self::User(name), Subject::User(other))
            | (Self::Group(name), Subject::Group(other)) => **name == **other,
            (
                Self::ServiceAccount { namespace, name },
                Subject::ServiceAccount {
                    namespace: other_namespace,
                    name: other,
                },
            ) => **namespace == **other_namespace && **name == **other,
            (Self::User(_) | Self::Group(_) | Self::ServiceAccount { .. }, _) => false,
        }
    }
}

impl Subject {
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
            Self::User(name) => {
                f.write_str("User ")?;
                quote(f, &[name])
            }
            Self::Group(name) => {
                f.write_str("Group ")?;
                quote(f, &[name])
            }
            Self::ServiceAccount { namespace, name } => {
                f.write_str("ServiceAccount ")?;
                quote(f, &[name, "/", namespace])
            }
        }
    }
}

/// Subjects as they stand in a binding.
pub(super) type Subjects = Vec<Subject>;

/// The keys of a binding's labels, sorted.
pub(super) type Keys = Vec<String>;

/// A binding, as far as decisions and those who explain them need it.
#[derive(Debug, PartialEq, Eq)]
pub struct Binding {
    namespace: Option<Arc<str>>,
    name: Arc<str>,
    /// The UID, then the values of the labels.
    texts: Pieces,
    keys: Arc<Keys>,
    subjects: Arc<Subjects>,
    pub(super) role: RoleId,
    deleting: bool,
}

/// What bindings have in common with each other.
#[derive(Debug, Default)]
pub(super) struct Common {
    keys: Pool<Keys>,
    subjects: Pool<Subjects>,
}

impl Common {
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.subjects.is_empty()
    }
}

/// Where a binding is, and what it refers to there.
pub(super) struct Place {
    pub(super) namespace: Option<Arc<str>>,
    pub(super) name: Arc<str>,
    pub(super) role: RoleId,
}

impl Binding {
    pub(super) fn new(
        place: Place,
        metadata: &ObjectMeta,
        subjects: &[rbac::Subject],
        common: &mut Common,
    ) -> Self {
        let Place {
            namespace,
            name,
            role,
        } = place;
        let mut known = Vec::with_capacity(subjects.len());
        for subject in subjects {
            known.extend(Subject::parse(subject, namespace.as_deref()));
        }
        let own = |known: Vec<Subject<&str>>| known.into_iter().map(Subject::keep).collect();
        let subjects = common.subjects.share(known, own);
        let labels = metadata.labels.iter().flatten();
        let (mut keys, mut texts) = (
            Vec::new(),
            vec![metadata.uid.as_deref().unwrap_or_default()],
        );
        for (key, value) in labels {
            keys.push(key.as_str());
            texts.push(value.as_str());
        }
        let own = |keys: Vec<&str>| keys.into_iter().map(str::to_owned).collect();
        let keys = common.keys.share(keys, own);
        Self {
            namespace,
            name,
            texts: Pieces::from(texts.as_slice()),
            keys,
            subjects,
            role,
            deleting: metadata.deletion_timestamp.is_some(),
        }
    }

    pub(super) fn give_back(self, common: &mut Common) {
        common.keys.give_back(self.keys);
        common.subjects.give_back(self.subjects);
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
        self.texts.iter().next().filter(|uid| !uid.is_empty())
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        let at = self.keys.binary_search_by(|have| (**have).cmp(key));
        self.texts.iter().nth(1 + at.ok()?)
    }

    /// All labels, in the order of their keys.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let keys = self.keys.iter().map(String::as_str);
        keys.zip(self.texts.iter().skip(1))
    }

    /// True when it has a deletion timestamp. Kubernetes lets such a binding count until its last
    /// finalizer is gone, and so does the index; a caller may not want to.
    #[must_use]
    pub const fn is_deleting(&self) -> bool {
        self.deleting
    }

    pub(super) const fn namespace_key(&self) -> Option<&Arc<str>> {
        self.namespace.as_ref()
    }

    /// Whom it is for. Subjects that can reach nobody are left out.
    #[must_use]
    pub fn subjects(&self) -> &[Subject] {
        &self.subjects
    }
}

/// Why an access is allowed: a binding, and the first of its subjects that the asking user is.
///
/// Shown in the API server's words: `RoleBinding "name/namespace" of Role "role" to User "alice"`.
/// Characters that cannot be printed are escaped in Rust's way rather than in Go's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant<'a> {
    /// The binding.
    pub binding: &'a Binding,
    /// The role that it gives.
    pub role: &'a RoleRef,
    /// The subject.
    pub subject: &'a Subject,
}

impl Grant<'_> {
    /// Room for the sentence, unless characters in it have to be escaped.
    pub(super) fn room(&self) -> usize {
        /// More than the words between the names.
        const WORDS: usize = 96;
        let Self {
            binding,
            role,
            subject,
        } = self;
        let subject = match subject {
            Subject::User(name) | Subject::Group(name) => name.len(),
            Subject::ServiceAccount { namespace, name } => namespace.len() + name.len(),
        };
        let namespace = binding.namespace().map_or(0, str::len);
        let role = role.kind.as_str().len() + role.name.len();
        WORDS + binding.name.len() + namespace + role + subject
    }
}

impl fmt::Display for Grant<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            binding,
            role,
            subject,
        } = self;
        f.write_str(binding.kind())?;
        f.write_str(" ")?;
        match binding.namespace() {
            Some(namespace) => quote(f, &[&binding.name, "/", namespace])?,
            None => quote(f, &[&binding.name])?,
        }
        f.write_str(" of ")?;
        f.write_str(role.kind.as_str())?;
        f.write_str(" ")?;
        quote(f, &[&role.name])?;
        f.write_str(" to ")?;
        subject.fmt(f)
    }
}

/// Several pieces of text in one pair of quotes.
fn quote(f: &mut fmt::Formatter<'_>, pieces: &[&str]) -> fmt::Result {
    f.write_str("\"")?;
    for piece in pieces {
        let is_plain = |byte: u8| (b' '..=b'~').contains(&byte) && !b"\"\\".contains(&byte);
        if piece.bytes().all(is_plain) {
            f.write_str(piece)?;
            continue;
        }
        for c in piece.chars() {
            match c {
                '\'' => f.write_str("'")?,
                _ => write!(f, "{}", c.escape_debug())?,
            }
        }
    }
    f.write_str("\"")
}
