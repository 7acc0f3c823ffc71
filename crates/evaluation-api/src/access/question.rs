//! One question.

use std::fmt;

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

/// What is wanted of a connector, whoever wants it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AccessTarget {
    /// The connector.
    pub connector: ConnectorName,
    /// The capability.
    pub permission: Permission,
    /// The verb.
    pub verb: String,
}

impl AccessTarget {
    /// The question of a service account, and of a pod if there is one.
    #[must_use]
    pub fn asked_by(self, subject: ServiceAccountName, pod: Option<PodRef>) -> AccessQuestion {
        let Self {
            connector,
            permission,
            verb,
        } = self;
        AccessQuestion {
            subject,
            connector,
            permission,
            verb,
            pod,
        }
    }
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

impl QuestionError {
    /// The field that it is about.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::Missing(field) | Self::Name(field) => field,
            Self::Permission => "permission",
            Self::Verb => "verb",
            Self::Uid => "pod.uid",
        }
    }
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
        check("subject.namespace", &subject.namespace, is_dns_label)?;
        check("subject.name", &subject.name, is_dns_subdomain)?;
        let target = target(connector, &permission, verb)?;
        let pod = pod.map(|v1::Pod { name, uid }| {
            check("pod.name", &name, is_dns_subdomain)?;
            if uid.len() > LONGEST {
                return Err(QuestionError::Uid);
            }
            Ok(PodRef { name, uid })
        });
        let subject = ServiceAccountName {
            namespace: subject.namespace,
            name: subject.name,
        };
        Ok(target.asked_by(subject, pod.transpose()?))
    }
}

impl TryFrom<v1::WhoCanRequest> for AccessTarget {
    type Error = QuestionError;

    fn try_from(request: v1::WhoCanRequest) -> Result<Self, QuestionError> {
        let v1::WhoCanRequest {
            connector,
            permission,
            verb,
        } = request;
        target(connector, &permission, verb)
    }
}

/// A token, and what its owner wants of a connector.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenQuestion {
    /// A service account token of audience [`crate::POD_TOKEN_AUDIENCE`].
    pub token: String,
    /// What is wanted.
    pub target: AccessTarget,
}

impl TryFrom<v1::ReviewTokenRequest> for TokenQuestion {
    type Error = QuestionError;

    fn try_from(request: v1::ReviewTokenRequest) -> Result<Self, QuestionError> {
        let v1::ReviewTokenRequest {
            token,
            connector,
            permission,
            verb,
        } = request;
        let target = target(connector, &permission, verb)?;
        if token.is_empty() {
            return Err(QuestionError::Missing("token"));
        }
        Ok(Self { token, target })
    }
}

/// No output shows the token.
impl fmt::Debug for TokenQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenQuestion")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

fn target(
    connector: Option<v1::Connector>,
    permission: &str,
    verb: String,
) -> Result<AccessTarget, QuestionError> {
    let v1::Connector { namespace, name } = connector.ok_or(QuestionError::Missing("connector"))?;
    check("connector.namespace", &namespace, is_dns_label)?;
    check("connector.name", &name, is_dns_subdomain)?;
    let permission = Permission::from_segment(permission).ok_or(QuestionError::Permission)?;
    if verb.is_empty() || verb.len() > LONGEST {
        return Err(QuestionError::Verb);
    }
    Ok(AccessTarget {
        connector: ConnectorName { namespace, name },
        permission,
        verb,
    })
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

impl From<ConnectorName> for v1::Connector {
    fn from(ConnectorName { namespace, name }: ConnectorName) -> Self {
        Self { namespace, name }
    }
}

impl From<ServiceAccountName> for v1::ServiceAccount {
    fn from(ServiceAccountName { namespace, name }: ServiceAccountName) -> Self {
        Self { namespace, name }
    }
}

impl From<v1::ServiceAccount> for ServiceAccountName {
    fn from(v1::ServiceAccount { namespace, name }: v1::ServiceAccount) -> Self {
        Self { namespace, name }
    }
}

impl From<PodRef> for v1::Pod {
    fn from(PodRef { name, uid }: PodRef) -> Self {
        Self { name, uid }
    }
}

impl From<v1::Pod> for PodRef {
    fn from(v1::Pod { name, uid }: v1::Pod) -> Self {
        Self { name, uid }
    }
}

impl From<AccessTarget> for v1::WhoCanRequest {
    fn from(target: AccessTarget) -> Self {
        let AccessTarget {
            connector,
            permission,
            verb,
        } = target;
        Self {
            connector: Some(connector.into()),
            permission: permission.as_str().to_owned(),
            verb,
        }
    }
}

impl From<TokenQuestion> for v1::ReviewTokenRequest {
    fn from(TokenQuestion { token, target }: TokenQuestion) -> Self {
        let v1::WhoCanRequest {
            connector,
            permission,
            verb,
        } = target.into();
        Self {
            token,
            connector,
            permission,
            verb,
        }
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
            subject: Some(subject.into()),
            connector: Some(connector.into()),
            permission: permission.as_str().to_owned(),
            verb,
            pod: pod.map(Into::into),
        }
    }
}

#[cfg(test)]
mod tests;
