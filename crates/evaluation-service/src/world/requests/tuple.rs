//! The key of one decision.

use connectors_api::Permission;
use evaluation_api::access::AccessQuestion;

/// The key of one decision: the subject, the connector, the permission and the pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// The namespace of connector and request.
    pub namespace: Box<str>,
    /// The connector.
    pub connector: Box<str>,
    /// The capability.
    pub permission: Permission,
    /// The namespace of pod and service account.
    pub subject_namespace: Box<str>,
    /// The service account.
    pub subject: Box<str>,
    /// The pod. Never empty.
    pub pod_uid: Box<str>,
}

/// A borrowed tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TupleRef<'a> {
    namespace: &'a str,
    connector: &'a str,
    permission: Permission,
    subject_namespace: &'a str,
    subject: &'a str,
    pod_uid: &'a str,
}

impl<'a> TupleRef<'a> {
    /// The tuple of a question. None when no pod asks.
    #[must_use]
    pub fn of_question<T: AsRef<str>>(question: &'a AccessQuestion<T>) -> Option<Self> {
        let AccessQuestion {
            subject,
            connector,
            permission,
            pod,
            ..
        } = question.borrowed();
        let pod = pod.filter(|pod| !pod.uid.is_empty())?;
        Some(Self {
            namespace: connector.namespace,
            connector: connector.name,
            permission,
            subject_namespace: subject.namespace,
            subject: subject.name,
            pod_uid: pod.uid,
        })
    }
}

impl Tuple {
    /// The tuple of a question. None when no pod asks.
    #[must_use]
    pub fn of_question(question: &AccessQuestion) -> Option<Self> {
        TupleRef::of_question(question).map(Self::from)
    }

    /// The borrowed tuple, for a search.
    #[must_use]
    pub fn about(&self) -> TupleRef<'_> {
        TupleRef {
            namespace: &self.namespace,
            connector: &self.connector,
            permission: self.permission,
            subject_namespace: &self.subject_namespace,
            subject: &self.subject,
            pod_uid: &self.pod_uid,
        }
    }
}

impl From<TupleRef<'_>> for Tuple {
    fn from(about: TupleRef<'_>) -> Self {
        Self {
            namespace: about.namespace.into(),
            connector: about.connector.into(),
            permission: about.permission,
            subject_namespace: about.subject_namespace.into(),
            subject: about.subject.into(),
            pod_uid: about.pod_uid.into(),
        }
    }
}
