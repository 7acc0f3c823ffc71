//! Conversions to and from the wire types. Invariant: a value that is encoded is decoded as the same value.

use super::{
    AccessQuestion, AccessTarget, ConnectorName, PodRef, ServiceAccountName, TokenQuestion,
};
use crate::v1;

impl From<ConnectorName> for v1::Connector {
    fn from(ConnectorName { namespace, name }: ConnectorName) -> Self {
        Self { namespace, name }
    }
}

impl From<v1::Connector> for ConnectorName {
    fn from(v1::Connector { namespace, name }: v1::Connector) -> Self {
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
