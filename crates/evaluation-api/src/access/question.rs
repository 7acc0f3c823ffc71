//! One question.

use std::fmt;

use connectors_api::names::{is_dns_label, is_dns_subdomain};
use connectors_api::{ConnectorKey, Permission, PodIdentity};
use thiserror::Error;

use crate::v1;

mod wire;

/// The longest verb, and the longest UID.
const LONGEST: usize = 63;

/// May a service account use a connector now? The texts are owned or borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AccessQuestion<T = String> {
    /// The service account that wants to use the connector.
    pub subject: ServiceAccountName<T>,
    /// The connector.
    pub connector: ConnectorName<T>,
    /// The capability.
    pub permission: Permission,
    /// The verb. A mount needs `*`, which only permissions for `*` cover.
    pub verb: T,
    /// The asking pod. Without one, only standing permissions count.
    pub pod: Option<PodRef<T>>,
}

/// The requested access to a connector, without the asker.
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
    /// The question of a service account, and of its pod if there is one.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServiceAccountName<T = String> {
    /// Its namespace.
    pub namespace: T,
    /// Its name.
    pub name: T,
}

/// A connector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectorName<T = String> {
    /// Its namespace.
    pub namespace: T,
    /// Its name.
    pub name: T,
}

/// A pod in the namespace of the service account that it runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PodRef<T = String> {
    /// Its name.
    pub name: T,
    /// Its UID. If it is empty, the question is treated like one without a pod.
    pub uid: T,
}

/// The reason why a question is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum QuestionError {
    /// A field is missing.
    #[error("question: {0} is missing")]
    Missing(&'static str),
    /// A field is not a valid name.
    #[error("question: {0} is no name that an object can have")]
    Name(&'static str),
    /// The permission is unknown.
    #[error("question: permission must be apis or proxy")]
    Permission,
    /// The verb is invalid.
    #[error("question: verb must have between 1 and {LONGEST} bytes; a mount asks for *")]
    Verb,
    /// The UID is invalid.
    #[error("question: pod.uid must have at most {LONGEST} bytes")]
    Uid,
}

impl QuestionError {
    /// The name of the invalid field.
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

    /// The question of a pod for one of the connectors of its volumes.
    #[must_use]
    pub fn of_pod(pod: &PodIdentity, connector: &ConnectorKey, permission: Permission) -> Self {
        Self::mount(
            ServiceAccountName {
                namespace: pod.namespace.clone(),
                name: pod.service_account.clone(),
            },
            ConnectorName {
                namespace: connector.namespace.clone(),
                name: connector.name.clone(),
            },
            permission,
            PodRef {
                name: pod.name.clone(),
                uid: pod.uid.clone(),
            },
        )
    }

    /// May the pods of an account mount a connector at any time? Without a pod, only standing permissions
    /// count.
    #[must_use]
    pub fn standing(
        subject: ServiceAccountName,
        connector: ConnectorName,
        permission: Permission,
    ) -> Self {
        Self {
            subject,
            connector,
            permission,
            verb: "*".to_owned(),
            pod: None,
        }
    }
}

impl<T: AsRef<str>> AccessQuestion<T> {
    /// The same question with borrowed texts.
    #[must_use]
    pub fn borrowed(&self) -> AccessQuestion<&str> {
        AccessQuestion {
            subject: self.subject.borrowed(),
            connector: self.connector.borrowed(),
            permission: self.permission,
            verb: self.verb.as_ref(),
            pod: self.pod.as_ref().map(PodRef::borrowed),
        }
    }
}

impl<T: AsRef<str>> ServiceAccountName<T> {
    /// The same with borrowed texts.
    #[must_use]
    pub fn borrowed(&self) -> ServiceAccountName<&str> {
        ServiceAccountName {
            namespace: self.namespace.as_ref(),
            name: self.name.as_ref(),
        }
    }
}

impl<T: AsRef<str>> ConnectorName<T> {
    /// The same with borrowed texts.
    #[must_use]
    pub fn borrowed(&self) -> ConnectorName<&str> {
        ConnectorName {
            namespace: self.namespace.as_ref(),
            name: self.name.as_ref(),
        }
    }
}

impl<T: AsRef<str>> PodRef<T> {
    /// The same with borrowed texts.
    #[must_use]
    pub fn borrowed(&self) -> PodRef<&str> {
        PodRef {
            name: self.name.as_ref(),
            uid: self.uid.as_ref(),
        }
    }
}

/// A decoded question that has not been validated.
pub(super) struct Came<T> {
    pub(super) subject: Option<ServiceAccountName<T>>,
    pub(super) connector: Option<ConnectorName<T>>,
    pub(super) permission: T,
    pub(super) verb: T,
    pub(super) pod: Option<PodRef<T>>,
}

impl<T: AsRef<str>> Came<T> {
    pub(super) fn question(self) -> Result<AccessQuestion<T>, QuestionError> {
        let Self {
            subject,
            connector,
            permission,
            verb,
            pod,
        } = self;
        let subject = subject.ok_or(QuestionError::Missing("subject"))?;
        check("subject.namespace", &subject.namespace, is_dns_label)?;
        check("subject.name", &subject.name, is_dns_subdomain)?;
        let (connector, permission) = target(connector, &permission, &verb)?;
        if let Some(PodRef { name, uid }) = &pod {
            check("pod.name", name, is_dns_subdomain)?;
            if uid.as_ref().len() > LONGEST {
                return Err(QuestionError::Uid);
            }
        }
        Ok(AccessQuestion {
            subject,
            connector,
            permission,
            verb,
            pod,
        })
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
        let came = Came {
            subject: subject.map(Into::into),
            connector: connector.map(Into::into),
            permission,
            verb,
            pod: pod.map(Into::into),
        };
        came.question()
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
        let connector = connector.map(Into::into);
        let (connector, permission) = target(connector, &permission, &verb)?;
        Ok(Self {
            connector,
            permission,
            verb,
        })
    }
}

/// A token, and the access that its owner wants to a connector.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenQuestion {
    /// A service account token of audience [`crate::POD_TOKEN_AUDIENCE`].
    pub token: String,
    /// The requested access.
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
        let target = v1::WhoCanRequest {
            connector,
            permission,
            verb,
        };
        let target = target.try_into()?;
        if token.is_empty() {
            return Err(QuestionError::Missing("token"));
        }
        Ok(Self { token, target })
    }
}

/// Debug output omits the token.
impl fmt::Debug for TokenQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenQuestion")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

/// The requested connector and permission. The verb is validated but not returned, because the caller may own
/// it.
fn target<T: AsRef<str>>(
    connector: Option<ConnectorName<T>>,
    permission: &T,
    verb: &T,
) -> Result<(ConnectorName<T>, Permission), QuestionError> {
    let connector = connector.ok_or(QuestionError::Missing("connector"))?;
    check("connector.namespace", &connector.namespace, is_dns_label)?;
    check("connector.name", &connector.name, is_dns_subdomain)?;
    let permission = Permission::from_segment(permission.as_ref());
    let permission = permission.ok_or(QuestionError::Permission)?;
    let verb = verb.as_ref();
    if verb.is_empty() || verb.len() > LONGEST {
        return Err(QuestionError::Verb);
    }
    Ok((connector, permission))
}

fn check(
    field: &'static str,
    text: &impl AsRef<str>,
    valid: fn(&str) -> bool,
) -> Result<(), QuestionError> {
    let text = text.as_ref();
    if text.is_empty() {
        Err(QuestionError::Missing(field))
    } else if valid(text) {
        Ok(())
    } else {
        Err(QuestionError::Name(field))
    }
}

#[cfg(test)]
mod tests;
