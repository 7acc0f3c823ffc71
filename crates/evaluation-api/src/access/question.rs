//! One question.

use connectors_api::Permission;
use connectors_api::names::{is_dns_label, is_dns_subdomain};
use thiserror::Error;

use crate::v1;

/// The longest verb, and the longest UID.
const LONGEST: usize = 63;

/// May a service account use a connector now?
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AccessQuestion {
    /// Who wants to use the connector.
    pub subject: ServiceAccountName,
    /// The connector.
    pub connector: ConnectorName,
    /// The capability.
    pub permission: Permission,
    /// The verb. A mount needs `*`, which only permissions for `*` cover.
    pub verb: String,
    /// The pod that asks. Without one, only what is held at any time counts.
    pub pod: Option<PodRef>,
}

/// A service account.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServiceAccountName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// A connector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConnectorName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// A pod in the namespace of the service account that it runs as.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodRef {
    /// Its name.
    pub name: String,
    /// Its UID. With an empty one the question is as good as one without a pod.
    pub uid: String,
}

/// Why a question is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum QuestionError {
    /// A field is missing.
    #[error("question: {0} is missing")]
    Missing(&'static str),
    /// A field holds what no object is called.
    #[error("question: {0} is no name that an object can have")]
    Name(&'static str),
    /// Not a permission.
    #[error("question: permission must be apis or proxy")]
    Permission,
    /// Not a verb.
    #[error("question: verb must have between 1 and {LONGEST} bytes; a mount asks for *")]
    Verb,
    /// Not a UID.
    #[error("question: pod.uid must have at most {LONGEST} bytes")]
    Uid,
}

impl AccessQuestion {
    /// The question of a pod that mounts a connector.
    #[must_use]
    pub fn mount(
        subject: ServiceAccountName,
        connector: ConnectorName,
        permission: Permission,
        pod: PodRef,
    ) -> Self {
        Self {
            subject,
            connector,
            permission,
            verb: "*".to_owned(),
            pod: Some(pod),
        }
    }
}

impl TryFrom<v1::AccessQuestion> for AccessQuestion {
    type Error = QuestionError;

    fn try_from(question: v1::AccessQuestion) -> Result<Self, QuestionError> {
        let v1::AccessQuestion {
            subject,
            connector,
            permission,
            verb,
            pod,
        } = question;
        let subject = subject.ok_or(QuestionError::Missing("subject"))?;
        let connector = connector.ok_or(QuestionError::Missing("connector"))?;
        check("subject.namespace", &subject.namespace, is_dns_label)?;
        check("subject.name", &subject.name, is_dns_subdomain)?;
        check("connector.namespace", &connector.namespace, is_dns_label)?;
        check("connector.name", &connector.name, is_dns_subdomain)?;
        let permission = Permission::from_segment(&permission).ok_or(QuestionError::Permission)?;
        if verb.is_empty() || verb.len() > LONGEST {
            return Err(QuestionError::Verb);
        }
        let pod = pod.map(|v1::Pod { name, uid }| {
            check("pod.name", &name, is_dns_subdomain)?;
            if uid.len() > LONGEST {
                return Err(QuestionError::Uid);
            }
            Ok(PodRef { name, uid })
        });
        Ok(Self {
            subject: ServiceAccountName {
                namespace: subject.namespace,
                name: subject.name,
            },
            connector: ConnectorName {
                namespace: connector.namespace,
                name: connector.name,
            },
            permission,
            verb,
            pod: pod.transpose()?,
        })
    }
}

fn check(field: &'static str, text: &str, valid: fn(&str) -> bool) -> Result<(), QuestionError> {
    if text.is_empty() {
        Err(QuestionError::Missing(field))
    } else if valid(text) {
        Ok(())
    } else {
        Err(QuestionError::Name(field))
    }
}

impl From<AccessQuestion> for v1::AccessQuestion {
    fn from(question: AccessQuestion) -> Self {
        let AccessQuestion {
            subject,
            connector,
            permission,
            verb,
            pod,
        } = question;
        Self {
            subject: Some(v1::ServiceAccount {
                namespace: subject.namespace,
                name: subject.name,
            }),
            connector: Some(v1::Connector {
                namespace: connector.namespace,
                name: connector.name,
            }),
            permission: permission.as_str().to_owned(),
            verb,
            pod: pod.map(|PodRef { name, uid }| v1::Pod { name, uid }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> v1::AccessQuestion {
        AccessQuestion::mount(
            ServiceAccountName {
                namespace: "devops".to_owned(),
                name: "builder".to_owned(),
            },
            ConnectorName {
                namespace: "tools".to_owned(),
                name: "harbor".to_owned(),
            },
            Permission::Apis,
            PodRef {
                name: "pod".to_owned(),
                uid: "u".to_owned(),
            },
        )
        .into()
    }

    #[test]
    fn a_question_comes_back_as_it_was_sent() {
        let mut wire = question();
        let parsed = AccessQuestion::try_from(wire.clone()).unwrap();
        assert_eq!(v1::AccessQuestion::from(parsed), wire);
        wire.pod = None;
        let parsed = AccessQuestion::try_from(wire.clone()).unwrap();
        assert_eq!(v1::AccessQuestion::from(parsed), wire);
    }

    #[test]
    fn every_field_is_looked_at() {
        type Change = fn(&mut v1::AccessQuestion);
        let long = || "x".repeat(64);
        assert_eq!(long().len(), LONGEST + 1);
        let cases: [(Change, QuestionError); 12] = [
            (|q| q.subject = None, QuestionError::Missing("subject")),
            (|q| q.connector = None, QuestionError::Missing("connector")),
            (
                |q| q.subject.as_mut().unwrap().namespace.clear(),
                QuestionError::Missing("subject.namespace"),
            ),
            (
                |q| q.subject.as_mut().unwrap().name = "a:b".to_owned(),
                QuestionError::Name("subject.name"),
            ),
            (
                |q| q.connector.as_mut().unwrap().namespace = "a.b".to_owned(),
                QuestionError::Name("connector.namespace"),
            ),
            (
                |q| q.connector.as_mut().unwrap().name.clear(),
                QuestionError::Missing("connector.name"),
            ),
            (|q| q.permission.clear(), QuestionError::Permission),
            (
                |q| q.permission = "apis/v1".to_owned(),
                QuestionError::Permission,
            ),
            (|q| q.verb.clear(), QuestionError::Verb),
            (|q| q.verb = "x".repeat(64), QuestionError::Verb),
            (
                |q| q.pod.as_mut().unwrap().name = "a/b".to_owned(),
                QuestionError::Name("pod.name"),
            ),
            (
                |q| q.pod.as_mut().unwrap().uid = "x".repeat(64),
                QuestionError::Uid,
            ),
        ];
        for (change, error) in cases {
            let mut wire = question();
            change(&mut wire);
            assert_eq!(AccessQuestion::try_from(wire), Err(error));
        }
    }
}
