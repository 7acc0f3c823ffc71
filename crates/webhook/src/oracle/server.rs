//! An API server that answers from a world, naively.
//!
//! It stays beside `testkit`, because the oracle shares no code with what other tests trust.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    sync::{Arc, Mutex},
};

use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use kube::client::Body;
use serde_json::{Value, json};

use super::world::{Deed, Mood, Target, World};

const GROUP: &str = "/apis/connectors.alauda.io/v1alpha1";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const UID_LABEL: &str = "connectors.cpaas.io/contextObjectUID";

#[derive(Clone)]
pub(super) struct Server(Arc<Mutex<State>>);

struct State {
    world: World,
    stumbled: BTreeSet<Target>,
    asked: Vec<Asked>,
}

/// What was asked: method, path, query, and body.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Asked(pub(super) String, pub(super) String, pub(super) String);

/// A question that is understood.
enum Question {
    Right(Box<Value>),
    Pod(String, String),
    Requests(String),
    Policies(String),
    Config,
    Class(String),
}

impl Server {
    pub(super) fn of(world: World) -> Self {
        Self(Arc::new(Mutex::new(State {
            world,
            stumbled: BTreeSet::new(),
            asked: Vec::new(),
        })))
    }

    pub(super) fn becomes(&self, world: World) {
        self.0.lock().unwrap().world = world;
    }

    /// What was asked since the last time, and the end of that.
    pub(super) fn asked(&self) -> Vec<Asked> {
        let state = &mut *self.0.lock().unwrap();
        state.stumbled.clear();
        std::mem::take(&mut state.asked)
    }

    pub(super) fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        kube::Client::new(service, "default")
    }

    async fn answer(&self, request: Request<Body>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
        let text = String::from_utf8(body.to_vec()).unwrap();
        let question = understood(&parts.method, path, &text);
        let (mood, has_stumbled) = {
            let state = &mut *self.0.lock().unwrap();
            let line = format!("{} {path}", parts.method);
            state.asked.push(Asked(line, query.to_owned(), text));
            let Some(question) = &question else {
                return refusal(StatusCode::NOT_FOUND);
            };
            let target = target(question);
            let mood = state.world.mood(&target);
            (mood, !state.stumbled.insert(target))
        };
        match mood {
            None => {}
            Some(Mood::Slow(time)) => tokio::time::sleep(time).await,
            Some(Mood::Hangs) => std::future::pending().await,
            Some(Mood::Fails(code)) => return refusal(code),
            Some(Mood::Stumbles) if has_stumbled => {}
            Some(Mood::Stumbles) => return refusal(StatusCode::INTERNAL_SERVER_ERROR),
            Some(Mood::Raves) => {
                let odd =
                    json!({"metadata": 7, "status": {"allowed": "yes"}, "data": 7, "items": 7});
                return said(&odd);
            }
        }
        let state = self.0.lock().unwrap();
        match question.and_then(|it| look(&state.world, &it, query)) {
            Some(found) => said(&found),
            None => refusal(StatusCode::NOT_FOUND),
        }
    }
}

fn understood(method: &Method, path: &str, body: &str) -> Option<Question> {
    if method == Method::POST && path == REVIEWS {
        let review: Value = serde_json::from_str(body).unwrap();
        return Some(Question::Right(Box::new(review["spec"].clone())));
    }
    assert_eq!(method, Method::GET, "the webhook writes nothing: {path}");
    let class = format!("{GROUP}/connectorclasses/");
    if let Some(name) = path.strip_prefix(&class) {
        return Some(Question::Class(name.to_owned()));
    }
    let ours = format!("{GROUP}/namespaces/");
    if let Some(rest) = path.strip_prefix(&ours) {
        let (namespace, kind) = rest.split_once('/')?;
        return match kind {
            "accessrequests" => Some(Question::Requests(namespace.to_owned())),
            "accesspolicies" => Some(Question::Policies(namespace.to_owned())),
            _ => None,
        };
    }
    let (namespace, rest) = path.strip_prefix("/api/v1/namespaces/")?.split_once('/')?;
    match rest.split_once('/')? {
        ("pods", name) => Some(Question::Pod(namespace.to_owned(), name.to_owned())),
        ("configmaps", "connectors-config") if namespace == "connectors-system" => {
            Some(Question::Config)
        }
        _ => None,
    }
}

fn target(question: &Question) -> Target {
    match question {
        Question::Right(spec) => {
            let what = &spec["resourceAttributes"];
            match (what["resource"].as_str(), what["name"].as_str()) {
                (Some("pods"), _) => Target::PodRight,
                (_, None | Some("")) => Target::AllRight,
                (_, Some(name)) => Target::NameRight(name.to_owned()),
            }
        }
        Question::Pod(..) => Target::Pod,
        Question::Requests(_) => Target::Requests,
        Question::Policies(_) => Target::Policies,
        Question::Config => Target::Config,
        Question::Class(_) => Target::Class,
    }
}

fn look(world: &World, question: &Question, query: &str) -> Option<Value> {
    match question {
        Question::Right(spec) => {
            let allowed = is_allowed(world, spec);
            Some(json!({"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
                "spec": spec, "status": {"allowed": allowed}}))
        }
        Question::Pod(namespace, name) => {
            world.pods.get(&(namespace.clone(), name.clone())).cloned()
        }
        Question::Requests(namespace) => {
            let mut labels: Vec<String> = Vec::new();
            let stored = world.requests.iter().filter(|it| it.0 == *namespace);
            labels.extend(stored.map(|it| it.1.clone()));
            if let Some(selector) = parameter(query, "labelSelector") {
                labels.retain(|it| selector == format!("{UID_LABEL}={it}"));
            }
            Some(listed(labels.len(), query, world))
        }
        Question::Policies(namespace) => {
            let count = world.policies.get(namespace).copied().unwrap_or_default();
            Some(listed(count, query, world))
        }
        Question::Config => world.config.as_ref().map(|data| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "connectors-config"}, "data": data})
        }),
        Question::Class(name) => world.classes.contains(name).then(|| {
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {"name": name}})
        }),
    }
}

fn is_allowed(world: &World, spec: &Value) -> bool {
    let what = &spec["resourceAttributes"];
    let text = |field: &str| what[field].as_str().unwrap_or_default().to_owned();
    let resource = match text("subresource").as_str() {
        "" => text("resource"),
        below => format!("{}/{below}", text("resource")),
    };
    let deed = Deed {
        verb: text("verb"),
        group: text("group"),
        resource,
    };
    let mut user = spec.clone();
    user["username"] = spec["user"].clone();
    world.may(&user, &deed, &text("namespace"), &text("name"))
}

/// So many objects, of which every second is being deleted, in pages.
///
/// The API server keeps no limit in a list of version 0, and never says how many others a selector matches.
fn listed(count: usize, query: &str, world: &World) -> Value {
    let is_version_0 = parameter(query, "resourceVersion").as_deref() == Some("0");
    let limit = parameter(query, "limit").and_then(|it| it.parse().ok());
    let page = match limit {
        Some(limit) if !is_version_0 && !world.is_list_whole => count.min(limit),
        _ => count,
    };
    let item = |at: usize| {
        let mut metadata = json!({"name": format!("r{at}"), "uid": format!("r-uid-{at}")});
        if at % 2 == 1 {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            metadata["finalizers"] = json!(["example.com/kept"]);
        }
        json!({"metadata": metadata})
    };
    let mut metadata = json!({"resourceVersion": "7"});
    if page < count {
        metadata["continue"] = json!("more");
        if parameter(query, "labelSelector").is_none() {
            metadata["remainingItemCount"] = json!(count - page);
        }
    }
    json!({
        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": metadata,
        "items": (0..page).map(item).collect::<Vec<_>>(),
    })
}

fn parameter(query: &str, name: &str) -> Option<String> {
    let pairs = query.split('&').filter_map(|it| it.split_once('='));
    let value = pairs.filter(|it| it.0 == name).map(|it| it.1).next()?;
    let mut plain = Vec::new();
    let mut bytes = value.bytes();
    while let Some(byte) = bytes.next() {
        plain.push(if byte == b'%' {
            let hex = [bytes.next().unwrap(), bytes.next().unwrap()];
            u8::from_str_radix(str::from_utf8(&hex).unwrap(), 16).unwrap()
        } else {
            byte
        });
    }
    Some(String::from_utf8(plain).unwrap())
}

fn said(object: &Value) -> Response<Full<Bytes>> {
    Response::new(Full::from(object.to_string()))
}

fn refusal(code: StatusCode) -> Response<Full<Bytes>> {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "said the server",
        "reason": code.canonical_reason().unwrap_or_default().replace(' ', ""), "code": code.as_u16(),
    });
    let mut response = said(&body);
    *response.status_mut() = code;
    response
}
