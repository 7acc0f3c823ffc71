//! The file in the volume of a pod that is finally refused: the content of a gRPC error, as JSON.

use std::fmt;

use evaluation_api::refusal::DOMAIN;
use serde_json::{Map, Value, json};
use tonic::Code;

use crate::refusal::AccessRefusal;

/// The text of the file. It has a few hundred bytes beside the message, which is cut as in an event.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ErrorFile(String);

/// Without the text, which is for the pod alone.
impl fmt::Debug for ErrorFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ErrorFile(..)")
    }
}

impl ErrorFile {
    /// A `google.rpc.Status` with this message. It names the request and the condition only to pods of the connector's
    /// own namespace.
    pub(crate) fn of(refusal: &AccessRefusal, message: &str) -> Self {
        let AccessRefusal {
            connector,
            permission,
            request,
            kind,
            text: _,
            at_home,
        } = refusal;
        let mut metadata = Map::new();
        let mut put = |key: &str, value: &str| {
            metadata.insert(key.to_owned(), Value::from(value));
        };
        put("connector", &connector.to_string());
        put("permission", permission.as_str());
        let namespace = &connector.namespace;
        if *at_home {
            put("request", &request.name);
            put("phase", request.phase.as_str());
            if let Some(reason) = request.reason {
                put("condition", reason.as_str());
            }
            let name = &request.name;
            let action = format!(
                "see kubectl -n {namespace} get areq {name} -o yaml; start a new pod to ask again"
            );
            put("action", &action);
        } else {
            let action = format!(
                "the owners of namespace {namespace} can tell more; start a new pod to ask again"
            );
            put("action", &action);
        }
        let status = json!({
            "code": i32::from(Code::PermissionDenied),
            "message": message,
            "details": [{
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": kind.word(),
                "domain": DOMAIN,
                "metadata": metadata,
            }],
        });
        Self(format!("{status:#}\n"))
    }

    /// The text of the file.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use connectors_api::{access_request::Phase, reason::Ready};

    use super::*;
    use crate::{
        error::PublishError,
        testing::{key, seen, wish},
    };

    fn file(connector: &str) -> Value {
        let (wish, connector) = (wish(&[connector]), key(connector));
        let request = seen("r1", Some(Phase::Rejected), Some(Ready::CheckRejected));
        let refusal = AccessRefusal::of(&wish, &connector, &request, Phase::Rejected);
        let message = PublishError::Denied(Box::new(refusal.clone())).text();
        let file = ErrorFile::of(&refusal, &message);
        assert!(file.text().ends_with("}\n"));
        assert_eq!(format!("{file:?}"), "ErrorFile(..)");
        serde_json::from_str(file.text()).unwrap()
    }

    #[test]
    fn at_home_it_says_who_refused_and_what_to_do() {
        let expected = json!({
            "code": 7,
            "message": "connector shop/own: the sentence of the request",
            "details": [{
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "ACCESS_REJECTED",
                "domain": "connectors.alauda.io",
                "metadata": {
                    "connector": "shop/own",
                    "permission": "apis",
                    "request": "the-request",
                    "phase": "Rejected",
                    "condition": "CheckRejected",
                    "action": "see kubectl -n shop get areq the-request -o yaml; start a new pod to ask again",
                },
            }],
        });
        assert_eq!(file("shop/own"), expected);
    }

    #[test]
    fn elsewhere_it_says_what_the_pods_event_says_and_names_no_request() {
        let expected = json!({
            "code": 7,
            "message": "connector tools/harbor: access was rejected; a new pod may ask again",
            "details": [{
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "ACCESS_REJECTED",
                "domain": "connectors.alauda.io",
                "metadata": {
                    "connector": "tools/harbor",
                    "permission": "apis",
                    "action": "the owners of namespace tools can tell more; start a new pod to ask again",
                },
            }],
        });
        assert_eq!(file("tools/harbor"), expected);
    }
}
