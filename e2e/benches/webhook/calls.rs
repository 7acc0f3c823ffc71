//! The calls and their expected answers: reviews for the webhook itself, objects for the API server.

use std::sync::Arc;

use http::Request;
use http::header::{ACCEPT, CONTENT_TYPE};
use http_body_util::Full;
use hyper::body::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::installed::NODE_PLUGIN;
use crate::support::connection::Connection;
use crate::support::echo::EchoConnection;
use crate::support::load::Caller;

/// The author of policies and connectors.
pub(crate) const AUTHOR: &str = "author";
pub(crate) const POD: &str = "waiting";
const ACCOUNT: &str = "default";
const GROUP: &str = "connectors.alauda.io";
/// The class of all connectors.
pub(crate) const CLASS: &str = "harbor";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

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

    /// The webhook's questions to the API server for it.
    pub(crate) const fn waits_for(self) -> &'static str {
        match self {
            Self::Connector => "a look at its class",
            Self::Policy => "a review of its author's rights and a count of policies",
            Self::Request => "a look at its pod and a count of the pod's requests",
        }
    }

    /// The same as calls, one after another.
    pub(crate) fn questions(self, place: &Around) -> Vec<Request<Full<Bytes>>> {
        let Around { namespace, .. } = place;
        let count = |of: &str| {
            let any = "resourceVersion=1&resourceVersionMatch=NotOlderThan";
            Request::get(format!(
                "/apis/{GROUP}/v1alpha1/namespaces/{namespace}/{of}&{any}"
            ))
            .header(ACCEPT, METADATA)
        };
        let none = Full::default();
        match self {
            Self::Connector => {
                let class = format!("/apis/{GROUP}/v1alpha1/connectorclasses/{CLASS}");
                let look = Request::get(class).header(
                    ACCEPT,
                    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                );
                vec![look.body(none).unwrap()]
            }
            Self::Policy => {
                let review = json!({
                    "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {},
                    "spec": {"user": AUTHOR, "groups": ["system:authenticated"], "resourceAttributes": {
                        "namespace": namespace, "verb": "update", "group": GROUP, "resource": "connectors",
                    }},
                });
                let rights = Request::post(REVIEWS).header(CONTENT_TYPE, "application/json");
                vec![
                    rights.body(Full::from(review.to_string())).unwrap(),
                    count("accesspolicies?limit=1").body(none).unwrap(),
                ]
            }
            Self::Request => {
                let uid = &place.pod_uid;
                let requests = format!(
                    "accessrequests?limit=16&labelSelector=connectors.cpaas.io/contextObjectUID%3D{uid}"
                );
                let pod = Request::get(format!("/api/v1/namespaces/{namespace}/pods/{POD}"));
                vec![
                    pod.body(none.clone()).unwrap(),
                    count(&requests).body(none).unwrap(),
                ]
            }
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
            Self::Connector => ("Connector", json!({"connectorClassName": CLASS})),
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
    /// The webhook's questions for a review.
    Questions,
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
    async fn ask(&self) {
        let mut connection = self.connection.lock().await;
        for question in self.kind.questions(&self.around) {
            let (status, answer) = connection.send(question).await;
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            let is_right = match answer["kind"].as_str() {
                Some("Pod") => answer["metadata"]["uid"] == self.around.pod_uid.as_str(),
                Some("SubjectAccessReview") => answer["status"]["allowed"] == true,
                // The class does not have to exist.
                Some("Status") => answer["details"]["name"] == CLASS,
                _ => status.is_success() && answer["metadata"].is_object(),
            };
            assert!(is_right, "{:?}: {answer}", self.kind);
        }
    }

    async fn create(&self, number: usize) {
        let Self { kind, around, .. } = self;
        let path = format!(
            "/apis/{GROUP}/v1alpha1/namespaces/{}/{}?dryRun=All",
            around.namespace,
            kind.resource()
        );
        let object = kind.object(around, number).to_string();
        let request = Request::post(path).header(CONTENT_TYPE, "application/json");
        let request = request.body(Full::from(object)).unwrap();
        let (_, answer) = self.connection.lock().await.send(request).await;
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert!(answer["metadata"]["uid"].is_string(), "{number}: {answer}");
    }
}

impl Caller for Direct {
    async fn call(&self, number: usize) {
        match self.call {
            Call::Questions => self.ask().await,
            Call::Creation => self.create(number).await,
        }
    }
}

/// Sends bytes to a peer that answers with bytes.
#[derive(Clone)]
pub(crate) struct BytesAlone(pub(crate) Arc<Mutex<EchoConnection>>);

impl Caller for BytesAlone {
    async fn call(&self, _number: usize) {
        self.0.lock().await.call().await;
    }
}
