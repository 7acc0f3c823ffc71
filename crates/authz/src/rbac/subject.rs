//! The subjects of bindings: users, groups and service accounts, in compact form, and whether one is a user that asks. A
//! further kind of subject is a variant here.

use std::fmt;
use std::hash::{Hash, Hasher};

use k8s_openapi::api::rbac::v1 as rbac;

use crate::User;
use crate::attributes::service_account_user_name;

/// A subject of a binding.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject<T = Box<str>> {
    /// The user of this name; service accounts too, by their user names.
    User(T),
    /// Every member of this group.
    Group(T),
    /// A service account.
    ServiceAccount {
        /// Its namespace: that of the subject, otherwise that of the binding.
        namespace: T,
        /// Its name.
        name: T,
    },
}

impl<'a> Subject<&'a str> {
    /// Parses a subject of a binding. None for one that matches no user: one of an unknown kind, or a service
    /// account for which neither the subject nor the binding names a namespace.
    pub(super) fn parse(
        subject: &'a rbac::Subject,
        binding_namespace: Option<&'a str>,
    ) -> Option<Self> {
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
        *self == other.borrowed()
    }
}

impl Subject {
    /// A user that this subject applies to, and no other subject.
    #[must_use]
    pub fn alone(&self) -> User {
        let (name, groups) = match self {
            Self::User(name) => (name.to_string(), Vec::new()),
            Self::Group(name) => (String::new(), vec![name.to_string()]),
            Self::ServiceAccount { namespace, name } => {
                (service_account_user_name(namespace, name), Vec::new())
            }
        };
        User { name, groups }
    }

    /// True when it matches the user.
    #[must_use]
    pub fn applies_to(&self, user: &User) -> bool {
        match self {
            Self::User(name) => *user.name == **name,
            Self::Group(name) => user.groups.iter().any(|group| **group == **name),
            Self::ServiceAccount { namespace, name } => user.is_service_account(namespace, name),
        }
    }
}

impl<T: AsRef<str>> Subject<T> {
    fn borrowed(&self) -> Subject<&str> {
        match self {
            Self::User(name) => Subject::User(name.as_ref()),
            Self::Group(name) => Subject::Group(name.as_ref()),
            Self::ServiceAccount { namespace, name } => Subject::ServiceAccount {
                namespace: namespace.as_ref(),
                name: name.as_ref(),
            },
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

/// Up to this many subjects are compared with a user one by one.
const FEW: usize = 16;

/// Subjects in the order of the binding.
#[derive(Debug)]
pub(super) enum Subjects {
    Few(Box<[Subject]>),
    Many(Box<Sorted>),
}

/// Many subjects, and their positions sorted by subject, so that a lookup among many is as fast as among a
/// few.
#[derive(Debug)]
pub(super) struct Sorted {
    list: Box<[Subject]>,
    places: Box<[u32]>,
}

impl Subjects {
    pub(super) fn new(list: Vec<Subject<&str>>) -> Self {
        let list: Box<[Subject]> = list.into_iter().map(Subject::keep).collect();
        if list.len() <= FEW {
            return Self::Few(list);
        }
        let mut places: Vec<(&Subject, u32)> = list.iter().zip(0..).collect();
        places.sort_unstable();
        let places = places.into_iter().map(|(_, place)| place).collect();
        Self::Many(Box::new(Sorted { list, places }))
    }

    pub(super) fn list(&self) -> &[Subject] {
        match self {
            Self::Few(list) => list,
            Self::Many(sorted) => &sorted.list,
        }
    }

    /// The first one that matches a user.
    pub(super) fn first_of(&self, user: &User) -> Option<&Subject> {
        match self {
            Self::Few(list) => list.iter().find(|subject| subject.applies_to(user)),
            Self::Many(sorted) => {
                let places = ways_to_name(user).filter_map(|way| sorted.first(&way));
                sorted.at(places.min()?)
            }
        }
    }
}

impl Sorted {
    fn at(&self, place: u32) -> Option<&Subject> {
        self.list.get(place as usize)
    }

    /// The first position of a subject.
    fn first(&self, subject: &Subject<&str>) -> Option<u32> {
        let is_before = |place: &u32| self.at(*place).is_some_and(|it| it.borrowed() < *subject);
        let place = *self.places.get(self.places.partition_point(is_before))?;
        (*subject == *self.at(place)?).then_some(place)
    }
}

/// Every subject that matches a user.
fn ways_to_name(user: &User) -> impl Iterator<Item = Subject<&str>> {
    let groups = user.groups.iter().map(|name| Subject::Group(name.as_str()));
    let account = user.service_account_name().into_iter();
    // RBAC does not parse the names, so a colon may belong to either the namespace or the name.
    let accounts = account.flat_map(|account| {
        let colons = account
            .match_indices(':')
            .map(|(at, _)| account.split_at(at));
        colons.filter_map(|(namespace, rest)| {
            let name = rest.strip_prefix(':')?;
            Some(Subject::ServiceAccount { namespace, name })
        })
    });
    groups.chain([Subject::User(&*user.name)]).chain(accounts)
}

impl PartialEq for Subjects {
    fn eq(&self, other: &Self) -> bool {
        self.list() == other.list()
    }
}

impl Eq for Subjects {}

impl PartialEq<Subjects> for Vec<Subject<&str>> {
    fn eq(&self, other: &Subjects) -> bool {
        **self == *other.list()
    }
}

/// Hashes as the list from which they were made.
impl Hash for Subjects {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.list().hash(state);
    }
}

/// Several pieces of text within one pair of quotes.
pub(super) fn quote(f: &mut fmt::Formatter<'_>, pieces: &[&str]) -> fmt::Result {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::pool::TextPool;

    /// Few names, so that they match by chance, some with a colon where none belongs.
    const NAME: &str = "[ab](:[ab])?";

    fn subject() -> impl Strategy<Value = Subject<String>> {
        prop_oneof![
            NAME.prop_map(Subject::User),
            NAME.prop_map(|name| Subject::User(format!("system:serviceaccount:{name}:a"))),
            NAME.prop_map(Subject::Group),
            (NAME, NAME).prop_map(|(namespace, name)| Subject::ServiceAccount { namespace, name }),
        ]
    }

    fn user() -> impl Strategy<Value = User> {
        let name = prop_oneof![
            NAME.prop_map(String::from),
            (NAME, NAME).prop_map(|(a, b)| format!("system:serviceaccount:{a}:{b}")),
        ];
        let groups = prop::collection::vec(NAME, 0..3);
        (name, groups).prop_map(|(name, groups)| User { name, groups })
    }

    proptest! {
        #[test]
        fn a_subject_applies_to_the_user_that_is_it_alone(subject in subject()) {
            let subject = subject.borrowed().keep();
            prop_assert!(subject.applies_to(&subject.alone()));
        }
    }

    #[test]
    fn a_name_in_a_reason_is_quoted_and_what_is_not_plain_is_escaped() {
        for (name, quoted) in [
            ("ada", r#""ada""#),
            ("it's", r#""it's""#),
            ("", r#""""#),
            ("\"", r#""\"""#),
            ("\\", r#""\\""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("a\nb", r#""a\nb""#),
        ] {
            let subject = Subject::User(name.into());
            assert_eq!(subject.to_string(), format!("User {quoted}"));
            let subject = Subject::Group(name.into());
            assert_eq!(subject.to_string(), format!("Group {quoted}"));
        }
        let (namespace, name) = ("dev\"ops".into(), "ci".into());
        let account = Subject::ServiceAccount { namespace, name };
        assert_eq!(account.to_string(), r#"ServiceAccount "ci/dev\"ops""#);
    }

    #[test]
    fn equal_lists_of_subjects_are_stored_once() {
        let mut pool = TextPool::default();
        let subjects = |count| vec![Subject::User("ada"); count];
        for count in [0, 1, FEW, FEW + 1] {
            let [one, same] = [(); 2].map(|()| pool.share(subjects(count), Subjects::new));
            assert!(Arc::ptr_eq(&one, &same), "{count} subjects");
            assert_eq!(*one, Subjects::new(subjects(count)));
            assert_ne!(*one, Subjects::new(subjects(count + 1)));
        }
    }

    proptest! {
        #[test]
        fn the_first_of_a_crowd_is_the_first_of_all_one_by_one(
            list in prop::collection::vec(subject(), 0..4 * FEW),
            users in prop::collection::vec(user(), 8),
        ) {
            let subjects = Subjects::new(list.iter().map(Subject::borrowed).collect());
            prop_assert_eq!(matches!(subjects, Subjects::Many(_)), list.len() > FEW);
            for user in users {
                let found = subjects.first_of(&user);
                let wanted = subjects.list().iter().find(|it| it.applies_to(&user));
                prop_assert_eq!(found.map(std::ptr::from_ref), wanted.map(std::ptr::from_ref));
            }
        }
    }
}
