//! The hashes under which changes name questions.
//!
//! A question has one key for each fact that its answer rests on: the tuple of its request, and the two targets that a
//! role may name. Equal facts have equal keys. When different ones have the same, one question too many is checked.

use std::hash::BuildHasher;

use authz::User;
use connectors_api::AccessResource;
use evaluation_api::access::AccessQuestion;
use foldhash::fast::RandomState;

use super::TupleRef;
/// Makes keys. Its clones make the same ones.
#[derive(Clone, Debug, Default)]
pub struct QuestionKeys(RandomState);

/// A target that a role and a binding may give an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GivenTarget<'a> {
    /// The namespace of the connector.
    pub namespace: &'a str,
    /// The user name of the account.
    pub user: &'a str,
    /// The connector.
    pub connector: &'a str,
    /// The subresource: a permission, or the form of a pod.
    pub subresource: &'a str,
}

/// The keys of one question.
#[derive(Clone, Copy, Debug)]
pub struct KeysOfQuestion([Option<u64>; Self::MOST]);

impl KeysOfQuestion {
    /// The largest number of them.
    pub(crate) const MOST: usize = 3;

    /// Each of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter().copied().flatten()
    }
}

impl QuestionKeys {
    /// The keys of a question. Without a pod there is one.
    pub(crate) fn of_question(&self, question: &AccessQuestion) -> KeysOfQuestion {
        let about = TupleRef::of_question(question);
        let AccessQuestion {
            subject,
            connector,
            permission,
            verb: _,
            pod,
        } = question.borrowed();
        let User { name: user, .. } = User::service_account(subject.namespace, subject.name);
        let key = |subresource: &str| {
            self.of_given(GivenTarget {
                namespace: connector.namespace,
                user: &user,
                connector: connector.name,
                subresource,
            })
        };
        let standing = key(permission.as_str());
        let of_pod = pod.map(|pod| {
            let namespace = subject.namespace;
            key(&AccessResource::subresource_of_pod(
                permission, namespace, pod.name,
            ))
        });
        let of_tuple = about.map(|about| self.of_tuple(about));
        KeysOfQuestion([Some(standing), of_pod, of_tuple])
    }

    /// The key of all questions with a tuple.
    #[must_use]
    pub fn of_tuple(&self, about: TupleRef<'_>) -> u64 {
        self.0.hash_one(about)
    }

    /// The key of all questions about the connectors of a namespace.
    #[must_use]
    pub fn of_namespace(&self, namespace: &str) -> u64 {
        self.0.hash_one(namespace)
    }

    /// The key of all questions that ask for a target.
    #[must_use]
    pub fn of_given(&self, given: GivenTarget<'_>) -> u64 {
        self.0.hash_one(given)
    }
}
