//! A Kubernetes API server that is as much of one as the service asks for.
//!
//! It stays beside `testkit`, because a test here withholds single lists and reviews, and sends objects that no API server
//! stores.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::channel::mpsc;
use futures::{StreamExt, stream};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Bytes, Frame};
use kube::client::Body;
use serde_json::{Value, json};
use service_kit::clock;
use tokio::sync::watch;

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// The namespace of the installation.
pub(crate) const INSTALLATION: &str = "connectors-system";

/// The `ConfigMap` of the installation.
pub(crate) fn configuration(data: &Value) -> Value {
    let metadata =
        json!({"name": "connectors-config", "namespace": INSTALLATION, "resourceVersion": "1"});
    json!({"metadata": metadata, "data": data})
}

/// The server. Clones are the same one.
#[derive(Clone)]
pub(crate) struct FakeApi(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    /// Lists are answered when this is true.
    open: watch::Sender<bool>,
    /// The list of this plural is not answered.
    withheld: watch::Sender<Option<String>>,
    /// Reviews that are being answered, and the most that ever were.
    reviewing: watch::Sender<(usize, usize)>,
}

#[derive(Default)]
struct State {
    /// By plural: objects by namespace and name.
    objects: HashMap<String, HashMap<String, Value>>,
    watches: HashMap<String, Vec<mpsc::UnboundedSender<String>>>,
    /// What a watch of each was ever told: one that begins late is told what it missed.
    told: HashMap<String, Vec<String>>,
    /// Namespaces that callers may ask about.
    allowed: Vec<String>,
    /// Reviews are answered with an error.
    broken: bool,
    /// Says nothing of itself.
    muted: Option<String>,
    reads: Vec<String>,
    token_reviews: usize,
    access_reviews: Vec<Value>,
}

fn name(object: &Value) -> String {
    format!(
        "{}/{}",
        object["metadata"]["namespace"], object["metadata"]["name"]
    )
}

impl FakeApi {
    pub(crate) fn new() -> Self {
        let state = State {
            allowed: vec!["tools".to_owned()],
            ..State::default()
        };
        let api = Self(Arc::new(Inner {
            state: Mutex::new(state),
            open: watch::Sender::new(true),
            withheld: watch::Sender::default(),
            reviewing: watch::Sender::default(),
        }));
        api.configure(&json!({"enable-connectors-approval": "true"}));
        api
    }

    /// The `ConfigMap` of the installation holds this.
    pub(crate) fn configure(&self, data: &Value) {
        self.put("configmaps", &configuration(data));
    }

    pub(crate) fn client(&self) -> kube::Client {
        let api = self.clone();
        let service = tower::service_fn(move |request| {
            let api = api.clone();
            async move { Ok::<_, Infallible>(api.serve(request).await) }
        });
        kube::Client::new(service, "default")
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap()
    }

    pub(crate) fn open(&self, open: bool) {
        self.0.open.send_replace(open);
    }

    pub(crate) fn allow(&self, namespaces: &[&str]) {
        self.state().allowed = namespaces.iter().map(|it| (*it).to_owned()).collect();
    }

    /// No list of this plural from now on.
    pub(crate) fn withhold(&self, plural: Option<&str>) {
        self.0.withheld.send_replace(plural.map(str::to_owned));
    }

    /// Everything that is watched, in order.
    pub(crate) fn watched(&self) -> Vec<String> {
        let state = self.state();
        let watched = state
            .watches
            .iter()
            .filter(|(_, watches)| !watches.is_empty());
        let mut plurals: Vec<_> = watched.map(|(plural, _)| plural.clone()).collect();
        plurals.sort();
        plurals
    }

    /// No bookmarks any more on the watch of this plural.
    pub(crate) fn mute(&self, plural: &str) {
        self.state().muted = Some(plural.to_owned());
    }

    pub(crate) fn break_reviews(&self) {
        self.state().broken = true;
    }

    pub(crate) fn token_reviews(&self) -> usize {
        self.state().token_reviews
    }

    /// The most reviews that were there at one time.
    pub(crate) fn most_reviews(&self) -> usize {
        self.0.reviewing.borrow().1
    }

    pub(crate) fn access_reviews(&self) -> Vec<Value> {
        self.state().access_reviews.clone()
    }

    pub(crate) fn put(&self, plural: &str, object: &Value) {
        let mut state = self.state();
        let objects = state.objects.entry(plural.to_owned()).or_default();
        objects.insert(name(object), object.clone());
        state.tell(plural, "MODIFIED", object);
    }

    pub(crate) fn remove(&self, plural: &str, object: &Value) {
        let mut state = self.state();
        let objects = state.objects.entry(plural.to_owned()).or_default();
        objects.remove(&name(object));
        state.tell(plural, "DELETED", object);
    }

    /// Says on every watch that nothing else is new.
    pub(crate) fn bookmark(&self) {
        let mut state = self.state();
        let speaking = state
            .watches
            .keys()
            .filter(|it| state.muted.as_ref() != Some(it));
        let plurals: Vec<String> = speaking.cloned().collect();
        for plural in plurals {
            let version = state.version(&plural);
            let line = json!({"resourceVersion": version});
            let line = format!(
                "{{\"type\":\"BOOKMARK\",\"object\":{{\"kind\":\"X\",\"apiVersion\":\"v1\",\"metadata\":{line}}}}}\n"
            );
            state.send(&plural, &line);
        }
    }

    async fn serve(&self, request: Request<Body>) -> Answer {
        let path = request.uri().path().to_owned();
        let plural = path.rsplit('/').next().unwrap().to_owned();
        let is_watch = request
            .uri()
            .query()
            .unwrap_or_default()
            .contains("watch=true");
        if *request.method() == Method::POST {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            self.0.reviewing.send_modify(|now| {
                now.0 += 1;
                now.1 = now.1.max(now.0);
            });
            // Those that come together are there together.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            self.0.reviewing.send_modify(|now| now.0 -= 1);
            return self.review(&plural, serde_json::from_slice(&body).unwrap());
        }
        if let Some(object) = self.object(&path) {
            return object;
        }
        let mut open = self.0.open.subscribe();
        open.wait_for(|open| *open).await.unwrap();
        if is_watch {
            return self.watch(plural, version(request.uri().query().unwrap_or_default()));
        }
        let mut withheld = self.0.withheld.subscribe();
        let is_given = |withheld: &Option<String>| withheld.as_ref() != Some(&plural);
        withheld.wait_for(is_given).await.unwrap();
        let state = self.state();
        let items: Vec<_> = state.objects.get(&plural).into_iter().flatten().collect();
        let items: Vec<_> = items.into_iter().map(|(_, object)| object).collect();
        answer(
            StatusCode::OK,
            &json!({"metadata": {"resourceVersion": state.version(&plural)}, "items": items}),
        )
    }

    /// One object, if the path is one's.
    fn object(&self, path: &str) -> Option<Answer> {
        let segments: Vec<&str> = path.split('/').collect();
        let [.., "namespaces", namespace, plural, name] = segments[..] else {
            return None;
        };
        let mut state = self.state();
        state.reads.push(format!("{plural}/{name}"));
        let key = format!("{namespace:?}/{name:?}");
        let object = state.objects.get(plural).and_then(|all| all.get(&key));
        let missing = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound", "message": "not found"});
        Some(match object {
            Some(object) => answer(StatusCode::OK, object),
            None => answer(StatusCode::NOT_FOUND, &missing),
        })
    }

    /// Single objects that were read.
    pub(crate) fn reads(&self) -> Vec<String> {
        self.state().reads.clone()
    }

    fn watch(&self, plural: String, since: usize) -> Answer {
        let (sender, lines) = mpsc::unbounded();
        let mut state = self.state();
        for line in state.told.get(&plural).into_iter().flatten().skip(since) {
            sender.unbounded_send(line.clone()).unwrap();
        }
        state.watches.entry(plural).or_default().push(sender);
        let frames = lines.map(|line: String| Ok(Frame::data(Bytes::from(line))));
        // It stays open, like a real one.
        let body = StreamBody::new(frames.chain(stream::pending()));
        Response::new(BodyExt::boxed_unsync(body))
    }

    fn review(&self, plural: &str, mut review: Value) -> Answer {
        let mut state = self.state();
        if state.broken {
            let error = json!({"kind": "Status", "status": "Failure", "code": 500, "reason": "InternalError", "message": "broken"});
            return answer(StatusCode::INTERNAL_SERVER_ERROR, &error);
        }
        review["status"] = match plural {
            "tokenreviews" => {
                state.token_reviews += 1;
                let token = review["spec"]["token"].as_str().unwrap();
                let audiences = &review["spec"]["audiences"];
                match audiences[0].as_str().unwrap() {
                    "connectors-evaluation" => token_status(token),
                    "connectors.alauda.io" => pod_token_status(token),
                    other => panic!("{other}"),
                }
            }
            "subjectaccessreviews" => {
                state.access_reviews.push(review["spec"].clone());
                let namespace = &review["spec"]["resourceAttributes"]["namespace"];
                let is_allowed = state.allowed.iter().any(|it| namespace == it.as_str());
                json!({"allowed": is_allowed})
            }
            other => panic!("{other}"),
        };
        answer(StatusCode::CREATED, &review)
    }
}

/// A token that says that it is for the service and holds for some time yet.
pub(crate) fn token(subject: &str) -> String {
    token_for("connectors-evaluation", subject)
}

/// The same for another audience.
pub(crate) fn token_for(audience: &str, subject: &str) -> String {
    let exp = clock::now().as_second() + 600;
    let claims = json!({"aud": [audience], "exp": exp, "sub": subject});
    format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()))
}

fn subject(token: &str) -> String {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap());
    let claims: Value = serde_json::from_slice(&claims.unwrap()).unwrap();
    claims["sub"].as_str().unwrap().to_owned()
}

/// The token of subject `pod-<uid>` belongs to that pod, the one of `loose` to no pod.
fn pod_token_status(token: &str) -> Value {
    let subject = subject(token);
    let extra = match subject.strip_prefix("pod-") {
        Some(uid) => json!({
            "authentication.kubernetes.io/pod-name": ["deploy"],
            "authentication.kubernetes.io/pod-uid": [uid],
        }),
        None if subject == "loose" => json!({}),
        None => return json!({"authenticated": false, "error": "not known"}),
    };
    json!({
        "authenticated": true, "audiences": ["connectors.alauda.io"],
        "user": {"username": "system:serviceaccount:devops:builder", "extra": extra},
    })
}

/// The token of subject `good-<name>` belongs to the service account of that name.
fn token_status(token: &str) -> Value {
    match subject(token).strip_prefix("good-") {
        Some(name) => json!({
            "authenticated": true, "audiences": ["connectors-evaluation"],
            "user": {"username": format!("system:serviceaccount:tools:{name}"), "groups": ["system:serviceaccounts"], "extra": {"a": ["b"]}},
        }),
        None => json!({"authenticated": false, "error": "not known"}),
    }
}

/// Versions of lists begin here.
const FIRST: usize = 100;

fn version(query: &str) -> usize {
    let version = query
        .split('&')
        .find_map(|it| it.strip_prefix("resourceVersion="));
    version.unwrap().parse::<usize>().unwrap() - FIRST
}

impl State {
    fn version(&self, plural: &str) -> String {
        (FIRST + self.told.get(plural).map_or(0, Vec::len)).to_string()
    }

    fn send(&mut self, plural: &str, line: &str) {
        let watches = self.watches.entry(plural.to_owned()).or_default();
        watches.retain(|watch| watch.unbounded_send(line.to_owned()).is_ok());
    }

    fn tell(&mut self, plural: &str, kind: &str, object: &Value) {
        // The type first, as the API server writes it.
        let line = format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n");
        self.send(plural, &line);
        self.told.entry(plural.to_owned()).or_default().push(line);
    }
}

fn answer(status: StatusCode, body: &Value) -> Answer {
    let body = Full::new(Bytes::from(body.to_string())).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}
