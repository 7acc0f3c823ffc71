//! A Kubernetes API server in memory, as far as this service uses one.
//!
//! It stays beside `testkit`, because a review here is slow, hangs or fails by its path, and a test counts those that wait.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use k8s_openapi::ByteString;
use kube::client::Body;
use serde_json::{Value, json};

pub(crate) const NAMESPACE: &str = "connectors-system";
pub(crate) const MUTATING: &str =
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/connectors-approval";
pub(crate) const VALIDATING: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/connectors-approval";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

type Fault = Box<dyn Fn(&Method, &str) -> Option<StatusCode> + Send>;

#[derive(Clone, Default)]
pub(crate) struct FakeApi(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    managers: BTreeMap<String, String>,
    versions: u64,
    calls: Vec<(Method, String)>,
    /// The queries of all calls.
    queries: Vec<String>,
    reviews: Vec<Value>,
    /// Users that may get pods.
    readers: Vec<String>,
    /// Objects that everybody may do anything with.
    open: std::collections::BTreeSet<String>,
    fault: Option<Fault>,
    hangs: bool,
    /// How long the answers to calls of a method take.
    slow: Option<(Method, Duration)>,
    waiting: usize,
}

pub(crate) fn secret(name: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/secrets/{name}")
}

pub(crate) fn config_map(name: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{name}")
}

pub(crate) fn pod(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods/{name}")
}

/// The requests of a namespace.
pub(crate) fn requests(namespace: &str) -> String {
    format!("/apis/connectors.alauda.io/v1alpha1/namespaces/{namespace}/accessrequests")
}

/// The policies of a namespace.
pub(crate) fn policies(namespace: &str) -> String {
    format!("/apis/connectors.alauda.io/v1alpha1/namespaces/{namespace}/accesspolicies")
}

/// A list of so many objects, as it is counted.
pub(crate) fn list_of(count: usize) -> Value {
    let item = |number| json!({"metadata": {"name": format!("r{number}")}});
    json!({
        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {},
        "items": (0..count).map(item).collect::<Vec<_>>(),
    })
}

fn hook(name: &str, namespace: &str, service: &str) -> Value {
    json!({
        "name": name, "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": namespace, "name": service, "path": "/x"}},
    })
}

impl FakeApi {
    /// With both webhook configurations, each with a webhook of ours and one of somebody else.
    pub(crate) fn installed() -> Self {
        let api = Self::default();
        for (path, kind) in [
            (MUTATING, "MutatingWebhookConfiguration"),
            (VALIDATING, "ValidatingWebhookConfiguration"),
        ] {
            api.put(
                path,
                json!({
                    "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
                    "metadata": {"name": "connectors-approval", "labels": {"by": "helm"}},
                    "webhooks": [
                        hook("others.example.com", "elsewhere", "webhook"),
                        hook("accessrequests.connectors.alauda.io", NAMESPACE, "webhook"),
                    ],
                }),
            );
        }
        api
    }

    pub(crate) fn client(&self) -> kube::Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move { Ok::<_, Infallible>(api.serve(request).await) }
        });
        kube::Client::new(service, "default")
    }

    pub(crate) fn put(&self, path: &str, object: Value) {
        let state = &mut *self.0.lock().unwrap();
        state.store(path, object);
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.0.lock().unwrap().objects.get(path).cloned()
    }

    pub(crate) fn delete(&self, path: &str) {
        self.0.lock().unwrap().objects.remove(path);
    }

    /// Lets everybody do anything with objects of this name.
    pub(crate) fn open(&self, name: &str) {
        self.0.lock().unwrap().open.insert(name.to_owned());
    }

    pub(crate) fn let_read(&self, user: &str) {
        self.0.lock().unwrap().readers.push(user.to_owned());
    }

    pub(crate) fn fail(
        &self,
        fault: impl Fn(&Method, &str) -> Option<StatusCode> + Send + 'static,
    ) {
        self.0.lock().unwrap().fault = Some(Box::new(fault));
    }

    pub(crate) fn heal(&self) {
        self.0.lock().unwrap().fault = None;
    }

    /// From now on nothing is answered.
    pub(crate) fn hang(&self) {
        self.0.lock().unwrap().hangs = true;
    }

    /// From now on the answers to calls of a method arrive so long after they were found.
    pub(crate) fn delay(&self, method: Method, takes: Duration) {
        self.0.lock().unwrap().slow = Some((method, takes));
    }

    /// Calls that are not answered.
    pub(crate) fn waiting(&self) -> usize {
        self.0.lock().unwrap().waiting
    }

    pub(crate) fn reviews(&self) -> Vec<Value> {
        self.0.lock().unwrap().reviews.clone()
    }

    /// The queries of all calls, in their order.
    pub(crate) fn queries(&self) -> Vec<String> {
        self.0.lock().unwrap().queries.clone()
    }

    /// What was written since the last time this was asked.
    pub(crate) fn writes(&self) -> Vec<String> {
        let calls = std::mem::take(&mut self.0.lock().unwrap().calls);
        let writes = calls
            .into_iter()
            .filter(|(method, _)| method == Method::PATCH);
        writes.map(|(_, path)| path).collect()
    }

    pub(crate) fn calls(&self) -> Vec<(Method, String)> {
        std::mem::take(&mut self.0.lock().unwrap().calls)
    }

    /// A field of a Secret or `ConfigMap`, as text.
    pub(crate) fn text(&self, path: &str, key: &str) -> String {
        let object = self.get(path).unwrap();
        let value = object["data"][key].clone();
        if object["kind"] == "Secret" {
            let bytes: ByteString = serde_json::from_value(value).unwrap();
            String::from_utf8(bytes.0).unwrap()
        } else {
            value.as_str().unwrap().to_owned()
        }
    }

    /// What a webhook of a configuration trusts.
    pub(crate) fn announced(&self, path: &str, hook: usize) -> Option<String> {
        let value = self.get(path).unwrap()["webhooks"][hook]["clientConfig"]["caBundle"].clone();
        let bytes: Option<ByteString> = serde_json::from_value(value).unwrap();
        bytes.map(|bytes| String::from_utf8(bytes.0).unwrap())
    }

    async fn serve(&self, request: Request<Body>) -> Response<Full<Bytes>> {
        // Calls of several clients mix in every order.
        for _ in 0..rand::random::<u8>() % 4 {
            tokio::task::yield_now().await;
        }
        let (slow, hangs) = {
            let state = self.0.lock().unwrap();
            let slow = state.slow.as_ref();
            let slow = slow.filter(|(method, _)| method == request.method());
            (slow.map(|(_, takes)| *takes), state.hangs)
        };
        if hangs && slow.is_none() {
            self.0.lock().unwrap().waiting += 1;
            std::future::pending::<()>().await;
        }
        let answer = self.answer(request).await;
        if let Some(slow) = slow {
            tokio::time::sleep(slow).await;
        }
        answer
    }

    async fn answer(&self, request: Request<Body>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let path = parts.uri.path();
        let query = parts.uri.query().unwrap_or_default();
        let state = &mut *self.0.lock().unwrap();
        state.calls.push((parts.method.clone(), path.to_owned()));
        state.queries.push(query.to_owned());
        if let Some(code) = state
            .fault
            .as_ref()
            .and_then(|fault| fault(&parts.method, path))
        {
            return refusal(code);
        }
        let answer = match (&parts.method, path) {
            // Metadata alone, of what is counted.
            (&Method::GET, _) if query.contains("limit=") => Ok(state
                .objects
                .get(path)
                .cloned()
                .unwrap_or_else(|| list_of(0))),
            (&Method::GET, _) => state
                .objects
                .get(path)
                .cloned()
                .ok_or(StatusCode::NOT_FOUND),
            (&Method::POST, REVIEWS) => Ok(state.review(&body)),
            (&Method::PATCH, _) => {
                let media_type = parts.headers["content-type"].to_str().unwrap();
                let wanted: Value = serde_json::from_slice(&body).unwrap();
                if media_type == "application/apply-patch+yaml" {
                    state.apply(path, query, wanted)
                } else {
                    assert_eq!(media_type, "application/strategic-merge-patch+json");
                    state.merge(path, &wanted)
                }
            }
            _ => Err(StatusCode::METHOD_NOT_ALLOWED),
        };
        match answer {
            Ok(object) => Response::new(Full::from(object.to_string())),
            Err(code) => refusal(code),
        }
    }
}

impl State {
    fn store(&mut self, path: &str, mut object: Value) -> Value {
        self.versions += 1;
        let version = self.versions.to_string();
        let uid = self.objects.get(path).map_or_else(
            || json!(format!("uid-{version}")),
            |old| old["metadata"]["uid"].clone(),
        );
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = uid;
        }
        object["metadata"]["resourceVersion"] = json!(version);
        self.objects.insert(path.to_owned(), object.clone());
        object
    }

    /// The object, if it is the one that the write is bound to. Where there is none, a version alone
    /// keeps an apply from nothing; a UID does.
    fn current(&self, path: &str, wanted: &Value) -> Result<Option<Value>, StatusCode> {
        let bound = &wanted["metadata"];
        let Some(stored) = self.objects.get(path) else {
            return if bound["uid"].is_null() {
                Ok(None)
            } else {
                Err(StatusCode::CONFLICT)
            };
        };
        let differs = |field| !bound[field].is_null() && bound[field] != stored["metadata"][field];
        if differs("uid") || differs("resourceVersion") {
            return Err(StatusCode::CONFLICT);
        }
        Ok(Some(stored.clone()))
    }

    /// Server-side apply: creates, or merges if the manager owns what is there or forces it.
    fn apply(&mut self, path: &str, query: &str, wanted: Value) -> Result<Value, StatusCode> {
        let manager = query
            .split('&')
            .find_map(|pair| pair.strip_prefix("fieldManager="))
            .unwrap()
            .to_owned();
        let forced = query.contains("force=true");
        let object = match self.current(path, &wanted)? {
            None => wanted,
            Some(mut stored) => {
                if !forced && self.managers.get(path) != Some(&manager) {
                    return Err(StatusCode::CONFLICT);
                }
                merge(&mut stored, &wanted);
                stored
            }
        };
        self.managers.insert(path.to_owned(), manager);
        Ok(self.store(path, object))
    }

    fn merge(&mut self, path: &str, wanted: &Value) -> Result<Value, StatusCode> {
        let mut stored = self.current(path, wanted)?.ok_or(StatusCode::NOT_FOUND)?;
        merge(&mut stored, wanted);
        Ok(self.store(path, stored))
    }

    fn review(&mut self, body: &[u8]) -> Value {
        let mut review: Value = serde_json::from_slice(body).unwrap();
        let allowed = self
            .readers
            .iter()
            .any(|user| review["spec"]["user"] == json!(user))
            || review["spec"]["resourceAttributes"]["name"]
                .as_str()
                .is_some_and(|name| self.open.contains(name));
        self.reviews.push(review["spec"].clone());
        review["status"] = json!({ "allowed": allowed });
        review
    }
}

/// Objects field by field, lists of named things by name, everything else as a whole.
fn merge(into: &mut Value, wanted: &Value) {
    match (into, wanted) {
        (Value::Object(into), Value::Object(wanted)) => {
            for (key, value) in wanted {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(into), Value::Array(wanted))
            if wanted.iter().all(|item| item["name"].is_string()) =>
        {
            for item in wanted {
                match into.iter_mut().find(|old| old["name"] == item["name"]) {
                    Some(old) => merge(old, item),
                    None => into.push(item.clone()),
                }
            }
        }
        (into, wanted) => *into = wanted.clone(),
    }
}

fn refusal(code: StatusCode) -> Response<Full<Bytes>> {
    let reason = code.canonical_reason().unwrap_or_default().replace(' ', "");
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": "said the server", "reason": reason, "code": code.as_u16(),
    });
    let mut response = Response::new(Full::from(body.to_string()));
    *response.status_mut() = code;
    response
}
