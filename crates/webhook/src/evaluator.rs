//! The evaluation service, as far as admission needs it: it looks at the Rego of a policy.

use std::sync::Arc;

use evaluation_api::{
    client::{Client, ClientSettings, EvaluationCallError, UrlError},
    v1::{self, FindingSeverity},
};
use rustls::{ClientConfig, RootCertStore};
use serde::Serialize;
use serde_json::Value;
use service_kit::{report, tls};
use thiserror::Error;
use tokio::sync::watch;
use tonic::Code;
use tracing::warn;

use crate::finding::AdmissionFinding;

/// Why a policy was not looked at.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Unjudged {
    /// It may be away, or too busy.
    #[error("spec: the evaluation service, which looks at Rego, does not answer now; try again")]
    NoAnswer,
    /// It refuses this very policy.
    #[error("spec: the evaluation service, which looks at Rego, refuses the policy: {0}")]
    Refused(String),
    /// It refuses us.
    #[error(
        "spec: the evaluation service, which looks at Rego, refuses the webhook; its administrator finds why in the \
         webhook's log"
    )]
    NotLet,
    /// It says something that this version does not understand.
    #[error("spec: the evaluation service answers in words that are not understood")]
    Unknown,
}

/// The parts of a policy that it needs.
#[derive(Serialize)]
struct Sent<'a> {
    #[serde(rename = "apiVersion")]
    api_version: Option<&'a Value>,
    kind: Option<&'a Value>,
    metadata: PolicyIdentity<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<&'a Value>,
}

#[derive(Serialize)]
struct PolicyIdentity<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a Value>,
}

/// People's notes, and who wrote which field, may be longer than the policy.
fn sent(policy: &Value) -> Sent<'_> {
    Sent {
        api_version: policy.get("apiVersion"),
        kind: policy.get("kind"),
        metadata: PolicyIdentity {
            name: policy.pointer("/metadata/name"),
            namespace: policy.pointer("/metadata/namespace"),
        },
        spec: policy.get("spec"),
    }
}

/// Asks it.
#[derive(Clone)]
pub(crate) enum Evaluator {
    Service(Box<Client>),
    /// Says the same of every policy; nothing, and never, without words.
    #[cfg(test)]
    Fake(Option<Vec<v1::Finding>>),
}

impl Evaluator {
    /// To be called inside a runtime.
    pub(crate) fn new(settings: ClientSettings) -> Result<Self, UrlError> {
        Client::new(settings).map(|client| Self::Service(Box::new(client)))
    }

    /// Everything that is to be said about a policy.
    pub(crate) async fn findings(&self, policy: &Value) -> Result<Vec<AdmissionFinding>, Unjudged> {
        let client = match self {
            Self::Service(client) => client,
            #[cfg(test)]
            Self::Fake(None) => std::future::pending().await,
            #[cfg(test)]
            Self::Fake(Some(findings)) => return findings.iter().cloned().map(known).collect(),
        };
        let text = serde_json::to_vec(&sent(policy)).map_err(|_| Unjudged::Unknown)?;
        let answer = client.validate_policy(text).await;
        let answer = answer.map_err(|error| {
            warn!(error = report(&error), "a policy cannot be judged");
            Unjudged::from(&error)
        })?;
        answer.findings.into_iter().map(known).collect()
    }
}

impl From<&EvaluationCallError> for Unjudged {
    fn from(error: &EvaluationCallError) -> Self {
        match error {
            EvaluationCallError::Answer(_) | EvaluationCallError::Verdict(_) => Self::Unknown,
            error if error.may_pass() => Self::NoAnswer,
            EvaluationCallError::Status { status, .. } if is_about_the_policy(status.code()) => {
                Self::Refused(status.message().to_owned())
            }
            EvaluationCallError::Status { .. } => Self::NotLet,
            EvaluationCallError::Token(_) | EvaluationCallError::Deadline { .. } => Self::NoAnswer,
        }
    }
}

const fn is_about_the_policy(code: Code) -> bool {
    matches!(
        code,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange
    )
}

fn known(finding: v1::Finding) -> Result<AdmissionFinding, Unjudged> {
    let is_error = match finding.severity() {
        FindingSeverity::Error => true,
        FindingSeverity::Warning => false,
        FindingSeverity::Unspecified => return Err(Unjudged::Unknown),
    };
    let v1::Finding {
        path, message, fix, ..
    } = finding;
    Ok(AdmissionFinding {
        path,
        is_error,
        message,
        fix,
    })
}

/// The certificate authorities to trust, from the task that keeps the certificates: none at first.
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

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tonic::Status;

    use super::*;

    #[test]
    fn the_service_sees_what_it_needs() {
        let sent = |policy: &Value| serde_json::to_value(sent(policy)).unwrap();
        let policy = json!({
            "apiVersion": "v", "kind": "K", "spec": {"a": [1]}, "status": {},
            "metadata": {"name": "n", "namespace": "ns", "annotations": {"a": "b"}, "managedFields": [{}]},
        });
        let seen = json!({"apiVersion": "v", "kind": "K", "spec": {"a": [1]}, "metadata": {"name": "n", "namespace": "ns"}});
        assert_eq!(sent(&policy), seen);
        let absent = json!({"apiVersion": null, "kind": null, "metadata": {}});
        for nothing in [json!({}), json!([]), json!(null)] {
            assert_eq!(sent(&nothing), absent);
        }
    }

    #[test]
    fn try_again_is_said_only_where_that_may_help() {
        let of = |code, words: &str| {
            let status = Box::new(Status::new(code, words));
            Unjudged::from(&EvaluationCallError::Status { call: "x", status })
        };
        for code in [Code::Unavailable, Code::ResourceExhausted, Code::Unknown] {
            assert_eq!(of(code, "later"), Unjudged::NoAnswer);
        }
        assert_eq!(
            of(Code::InvalidArgument, "too long"),
            Unjudged::Refused("too long".to_owned())
        );
        for code in [Code::PermissionDenied, Code::Unimplemented] {
            assert_eq!(of(code, "no"), Unjudged::NotLet);
        }
    }
}
