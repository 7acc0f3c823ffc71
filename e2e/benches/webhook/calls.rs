//! The calls and their expected answers: reviews for the webhook itself, objects for the API server.

use std::sync::Arc;

use http::Request;
use http::header::CONTENT_TYPE;
use http_body_util::Full;
use hyper::body::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::installed::NODE_PLUGIN;
use crate::support::connection::Connection;
use crate::support::load::Caller;

/// The author of policies and connectors.
pub(crate) const AUTHOR: &str = "author";
pub(crate) const POD: &str = "waiting";
const ACCOUNT: &str = "default";
const GROUP: &str = "connectors.alauda.io";

/// The path of the API server's reviews of rights.
pub(crate) const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// A kind of call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Connector,
    Policy,
    Request,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Connector, Self::Policy, Self::Request];

    /// Its name in the table.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Connector => "labels for a connector",
            Self::Policy => "a policy",
            Self::Request => "a request of the node plugin",
        }
    }

    /// The webhook's question to the API server for it.
    pub(crate) const fn waits_for(self) -> Option<&'static str> {
        match self {
            Self::Connector => None,
            Self::Policy => Some("a review of its author's rights"),
            Self::Request => Some("a look at its pod"),
        }
    }

    const fn resource(self) -> &'static str {
        match self {
            Self::Connector => "connectors",
            Self::Policy => "accesspolicies",
            Self::Request => "accessrequests",
        }
    }

    const fn path(self) -> &'static str {
        match self {
            Self::Connector => "/mutate/connectors",
            Self::Policy => "/validate/accesspolicies",
            Self::Request => "/validate/accessrequests",
        }
    }

    /// The object of this number.
    pub(crate) fn object(self, place: &Around, number: usize) -> Value {
        let (kind, spec) = match self {
            Self::Connector => ("Connector", json!({"connectorClassName": "harbor"})),
            Self::Policy => ("AccessPolicy", policy(number)),
            Self::Request => ("AccessRequest", request(place, number)),
        };
        json!({
            "apiVersion": "connectors.alauda.io/v1alpha1", "kind": kind,
            "metadata": {"name": format!("it-{number}"), "namespace": place.namespace},
            "spec": spec,
        })
    }

    fn user(self, place: &Around) -> Value {
        match self {
            Self::Connector | Self::Policy => {
                json!({"username": AUTHOR, "groups": ["system:authenticated"]})
            }
            Self::Request => json!({
                "username": NODE_PLUGIN,
                "groups": ["system:serviceaccounts", "system:authenticated"],
                "extra": {"authentication.kubernetes.io/node-name": [place.node]},
            }),
        }
    }
}

/// The objects that others refer to.
#[derive(Clone)]
pub(crate) struct Around {
    pub(crate) namespace: String,
    pub(crate) node: String,
    pub(crate) pod_uid: String,
}

/// Where the pod is.
pub(crate) fn pod_path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods/{POD}")
}

fn policy(number: usize) -> Value {
    json!({
        "connector": {"selector": {"matchLabels": {"tier": format!("tier-{}", number % 10)}}},
        "defaultPermission": {
            "roleTemplate": {"rules": [{
                "apiGroups": [GROUP], "resources": ["connectors/apis"], "verbs": ["*"],
            }]},
            "bindingTemplate": {"subjects": [{"kind": "ServiceAccount", "name": format!("builder-{number}")}]},
        },
    })
}

fn request(place: &Around, number: usize) -> Value {
    json!({
        "subject": {"kind": "ServiceAccount", "namespace": place.namespace, "name": ACCOUNT},
        "connectorRef": {"name": format!("connector-{number}")},
        "context": {"objectRef": {
            "apiVersion": "v1", "kind": "Pod", "namespace": place.namespace, "name": POD, "uid": place.pod_uid,
        }},
        "permission": "apis",
    })
}

/// Calls the webhook itself. Clones share a connection, and take turns.
#[derive(Clone)]
pub(crate) struct Reviewer {
    pub(crate) kind: Kind,
    pub(crate) connection: Arc<Mutex<Connection>>,
    pub(crate) around: Around,
}

#[derive(Deserialize)]
struct Answered {
    response: Response,
}

#[derive(Deserialize)]
struct Response {
    allowed: bool,
    #[serde(default)]
    patch: Option<String>,
}

impl Caller for Reviewer {
    async fn call(&self, number: usize) {
        let Self {
            kind,
            connection,
            around,
        } = self;
        let resource = json!({"group": GROUP, "version": "v1alpha1", "resource": kind.resource()});
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": format!("00000000-0000-4000-8000-{number:012}"), "operation": "CREATE", "resource": resource,
                "namespace": around.namespace, "name": format!("it-{number}"), "userInfo": kind.user(around),
                "object": kind.object(around, number), "dryRun": true,
            },
        });
        let url = format!("https://webhook{}", kind.path());
        let request = Request::post(url).header("content-type", "application/json");
        let request = request.body(Full::from(review.to_string())).unwrap();
        let (_, body) = connection.lock().await.send(request).await;
        let answer: Answered = serde_json::from_slice(&body).unwrap();
        let Response { allowed, patch } = answer.response;
        assert!(allowed, "{kind:?} {number}");
        assert_eq!(patch.is_some(), matches!(kind, Kind::Connector));
    }
}

/// The kind of a call to the API server.
#[derive(Clone, Copy)]
pub(crate) enum Call {
    /// The webhook's question for a review.
    Question,
    /// An object, of which it stores nothing.
    Creation,
}

/// Calls the API server. Clones share a connection, and take turns.
#[derive(Clone)]
pub(crate) struct Direct {
    pub(crate) kind: Kind,
    pub(crate) call: Call,
    pub(crate) connection: Arc<Mutex<Connection>>,
    pub(crate) around: Around,
}

impl Direct {
    fn request(&self, number: usize) -> Request<Full<Bytes>> {
        let Self { kind, around, .. } = self;
        let namespace = &around.namespace;
        let (request, body) = match (self.call, kind) {
            (Call::Question, Kind::Connector) => panic!("a connector waits for nothing"),
            (Call::Question, Kind::Policy) => {
                let review = json!({
                    "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {},
                    "spec": {"user": AUTHOR, "groups": ["system:authenticated"], "resourceAttributes": {
                        "namespace": namespace, "verb": "create", "group": GROUP, "resource": "connectors",
                    }},
                });
                (Request::post(REVIEWS), review.to_string())
            }
            (Call::Question, Kind::Request) => (Request::get(pod_path(namespace)), String::new()),
            (Call::Creation, _) => {
                let path = format!(
                    "/apis/{GROUP}/v1alpha1/namespaces/{namespace}/{}?dryRun=All",
                    kind.resource()
                );
                let object = kind.object(around, number);
                (Request::post(path), object.to_string())
            }
        };
        let request = request.header(CONTENT_TYPE, "application/json");
        request.body(Full::from(body)).unwrap()
    }

    fn is_right(&self, answer: &Value) -> bool {
        match (self.call, self.kind) {
            (Call::Question, Kind::Request) => {
                answer["metadata"]["uid"] == self.around.pod_uid.as_str()
            }
            (Call::Question, _) => answer["status"]["allowed"] == true,
            (Call::Creation, _) => answer["metadata"]["uid"].is_string(),
        }
    }
}

impl Caller for Direct {
    async fn call(&self, number: usize) {
        let request = self.request(number);
        let (_, answer) = self.connection.lock().await.send(request).await;
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert!(self.is_right(&answer), "{number}: {answer}");
    }
}
