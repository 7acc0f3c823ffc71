//! The evaluation service, as far as admission needs it: it looks at the Rego of a policy.

use std::sync::Arc;

use evaluation_api::{
    client::{CallError, Client, Settings, UrlError},
    v1::{self, FindingSeverity},
};
use rustls::{ClientConfig, RootCertStore};
use service_kit::{report, tls};
use thiserror::Error;
use tokio::sync::watch;
use tracing::warn;

use crate::admission::Finding;

/// Why a policy was not looked at.
#[derive(Debug, Error)]
pub(crate) enum Unjudged {
    /// It may be away, or too busy.
    #[error("spec: the evaluation service, which looks at Rego, does not answer now; try again")]
    NoAnswer,
    /// It says something that this version does not understand.
    #[error("spec: the evaluation service answers in words that are not understood")]
    Unknown,
}

/// Asks it.
#[derive(Clone)]
pub(crate) enum Evaluator {
    Service(Client),
    /// Says the same of every policy; nothing, and never, without words.
    #[cfg(test)]
    Fake(Option<Vec<v1::Finding>>),
}

impl Evaluator {
    /// To be called inside a runtime.
    pub(crate) fn new(settings: Settings) -> Result<Self, UrlError> {
        Client::new(settings).map(Self::Service)
    }

    /// Everything that is to be said about a policy.
    pub(crate) async fn findings(&self, policy: &str) -> Result<Vec<Finding>, Unjudged> {
        let client = match self {
            Self::Service(client) => client,
            #[cfg(test)]
            Self::Fake(None) => std::future::pending().await,
            #[cfg(test)]
            Self::Fake(Some(findings)) => return findings.iter().cloned().map(known).collect(),
        };
        let answer = client.validate_policy(policy.as_bytes().to_vec()).await;
        let answer = answer.map_err(|error| {
            warn!(error = report(&error), "a policy cannot be judged");
            Unjudged::from(&error)
        })?;
        answer.findings.into_iter().map(known).collect()
    }
}

impl From<&CallError> for Unjudged {
    fn from(error: &CallError) -> Self {
        match error {
            CallError::Answer(_) | CallError::Verdict(_) => Self::Unknown,
            CallError::Token(_) | CallError::Status { .. } | CallError::Deadline { .. } => {
                Self::NoAnswer
            }
        }
    }
}

fn known(finding: v1::Finding) -> Result<Finding, Unjudged> {
    let is_error = match finding.severity() {
        FindingSeverity::Error => true,
        FindingSeverity::Warning => false,
        FindingSeverity::Unspecified => return Err(Unjudged::Unknown),
    };
    let v1::Finding {
        path, message, fix, ..
    } = finding;
    Ok(Finding {
        path,
        is_error,
        message,
        fix,
    })
}

/// The certificate authorities to trust, as the keeper of the certificates knows them: nobody at first.
pub(crate) fn trust() -> (
    watch::Sender<Arc<ClientConfig>>,
    watch::Receiver<Arc<ClientConfig>>,
) {
    watch::channel(Arc::new(trusting(RootCertStore::empty())))
}

/// A configuration that trusts these authorities alone.
pub(crate) fn trusting(roots: RootCertStore) -> ClientConfig {
    tls::install_provider();
    ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth()
}
