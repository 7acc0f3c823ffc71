//! Bindings of either kind, and the text that describes a grant.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::rbac::v1 as rbac;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::subject::{Subject, Subjects, quote};
use super::{RoleId, RoleRef};
use crate::User;
use crate::pieces::Pieces;
use crate::pool::TextPool;

/// The keys of a binding's labels, sorted.
pub(super) type Keys = Vec<String>;

/// A binding, with the fields that decisions and their explanations need.
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

/// The parts that bindings share with each other.
#[derive(Debug, Default)]
pub(super) struct Common {
    keys: TextPool<Keys>,
    subjects: TextPool<Subjects>,
}

impl Common {
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.subjects.is_empty()
    }
}

/// The location of a binding, and the role it refers to.
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
        let subjects = common.subjects.share(known, Subjects::new);
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

    /// The UID assigned by the API server.
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

    /// True when it has a deletion timestamp. In Kubernetes such a binding is effective until its last
    /// finalizer is removed, and so it is in the index; a caller may decide otherwise.
    #[must_use]
    pub const fn is_deleting(&self) -> bool {
        self.deleting
    }

    pub(super) const fn namespace_key(&self) -> Option<&Arc<str>> {
        self.namespace.as_ref()
    }

    /// The subjects. Those that can match no user are left out.
    #[must_use]
    pub fn subjects(&self) -> &[Subject] {
        self.subjects.list()
    }

    /// The first subject that matches the user.
    pub(super) fn subject_of(&self, user: &User) -> Option<&Subject> {
        self.subjects.first_of(user)
    }
}

/// The reason why an access is allowed: a binding, and the first of its subjects that matches the user.
///
/// Displayed as the API server words it: `RoleBinding "name/namespace" of Role "role" to User "alice"`.
/// Unprintable characters are escaped in Rust's way rather than in Go's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllowedBy<'a> {
    /// The binding.
    pub binding: &'a Binding,
    /// The role that it gives.
    pub role: &'a RoleRef,
    /// The subject.
    pub subject: &'a Subject,
}

impl AllowedBy<'_> {
    /// The capacity for the text, unless characters in it have to be escaped.
    pub(super) fn room(&self) -> usize {
        /// More than the length of the words between the names.
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

impl fmt::Display for AllowedBy<'_> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_parts_of_either_kind_that_stay_behind_are_a_trace() {
        let mut common = Common::default();
        assert!(common.is_empty());
        let keys = common.keys.share(Keys::new(), |keys| keys);
        assert!(!common.is_empty());
        common.keys.give_back(keys);
        assert!(common.is_empty());
        let subjects = common.subjects.share(Vec::new(), Subjects::new);
        assert!(!common.is_empty());
        common.subjects.give_back(subjects);
        assert!(common.is_empty());
    }
}
