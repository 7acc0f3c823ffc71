//! A Kubernetes API server that keeps objects in a map, counts calls, and breaks down when it is told to.
//!
//! It stays beside `testkit`, because a unit test here breaks the call of a number, and acts between a call and its answer.
//! Its watches never say anything. The campaign runs the same controller on `testkit`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use http::{Method, Request, Response, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};

/// Where an object is: group and version as they stand in the path, plural, namespace, name.
type Key = (String, String, String, String);

/// When the server breaks down, as seen from the process: nothing is answered from that call on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Break {
    Never,
    /// The call with this number, from 0, is not carried out.
    Before(usize),
    /// It is carried out, and the answer is lost.
    After(usize),
}

#[derive(Clone)]
pub(crate) struct ApiServer(Arc<Mutex<Store>>);

struct Store {
    objects: BTreeMap<Key, Value>,
    next: u64,
    calls: usize,
    breaks: Break,
    log: Vec<String>,
    hooks: Vec<(String, Hook)>,
    /// Names of objects whose deletion is refused.
    kept: BTreeSet<String>,
    /// What answers writes that begin with these texts; none: nothing does.
    refused: BTreeMap<&'static str, Option<StatusCode>>,
    /// What reviews say of every account.
    allows: bool,
    /// How often the next write of a status finds that somebody has just changed the metadata.
    races: usize,
    /// Events.
    told: Vec<Value>,
    /// The questions of reviews.
    reviewed: Vec<Value>,
}

/// What happens in the cluster right after a call.
type Hook = Box<dyn FnOnce(&ApiServer) + Send>;

impl ApiServer {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Store {
            objects: BTreeMap::new(),
            next: 100,
            calls: 0,
            breaks: Break::Never,
            log: Vec::new(),
            hooks: Vec::new(),
            kept: BTreeSet::new(),
            refused: BTreeMap::new(),
            allows: false,
            races: 0,
            told: Vec::new(),
            reviewed: Vec::new(),
        })))
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.0.lock().unwrap()
    }

    pub(crate) fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { server.serve(request).await }
        });
        kube::Client::new(service, "default")
    }

    /// A client whose calls take a second each.
    pub(crate) fn slow_client(&self) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                server.serve(request).await
            }
        });
        kube::Client::new(service, "default")
    }

    /// Counts from 0 again.
    pub(crate) fn breaks(&self, breaks: Break) {
        let mut store = self.store();
        store.breaks = breaks;
        store.calls = 0;
    }

    pub(crate) fn calls(&self) -> usize {
        self.store().calls
    }

    /// The writes so far: verb, plural and name, events left out.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.store().log.clone()
    }

    /// The events so far.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.store().told.clone()
    }

    /// The questions of reviews so far.
    pub(crate) fn reviewed(&self) -> Vec<Value> {
        self.store().reviewed.clone()
    }

    pub(crate) fn forget_writes(&self) {
        self.store().log.clear();
    }

    /// Does something right after the first write that begins with this text.
    pub(crate) fn after(&self, write: &str, hook: impl FnOnce(&Self) + Send + 'static) {
        self.store().hooks.push((write.to_owned(), Box::new(hook)));
    }

    /// Refuses to delete objects of this name.
    pub(crate) fn keep(&self, name: &str) {
        self.store().kept.insert(name.to_owned());
    }

    /// Refuses every call that begins with this text: verb, plural and name. Of lists the verb is LIST.
    pub(crate) fn refuse(&self, write: &'static str, answer: StatusCode) {
        self.store().refused.insert(write, Some(answer));
    }

    /// Never answers a write that begins with this text.
    pub(crate) fn ignore(&self, write: &'static str) {
        self.store().refused.insert(write, None);
    }

    /// Reviews allow everything.
    pub(crate) fn allow(&self) {
        self.store().allows = true;
    }

    /// Refuses nothing any more.
    pub(crate) fn accept(&self) {
        self.store().refused.clear();
    }

    /// Changes the metadata right before each of the next writes of a status.
    pub(crate) fn race(&self, times: usize) {
        self.store().races = times;
    }

    /// Stores an object as somebody else would, under its own UID if it has one.
    pub(crate) fn put(&self, plural: &str, mut object: Value) {
        let group_version = object["apiVersion"].as_str().unwrap().to_owned();
        let text = |field: &str| {
            object["metadata"][field]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let key = (
            group_version,
            plural.to_owned(),
            text("namespace"),
            text("name"),
        );
        let mut store = self.store();
        store.next += 1;
        object["metadata"]["resourceVersion"] = store.next.to_string().into();
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = format!("uid-{}", store.next).into();
        }
        store.objects.insert(key, object);
    }

    pub(crate) fn change(&self, plural: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let mut object = self.named(plural, name).unwrap();
        change(&mut object);
        self.put(plural, object);
    }

    pub(crate) fn remove(&self, plural: &str, name: &str) {
        self.store()
            .objects
            .retain(|key, _| key.1 != plural || key.3 != name);
    }

    pub(crate) fn named(&self, plural: &str, name: &str) -> Option<Value> {
        self.all(plural)
            .into_iter()
            .find(|it| it["metadata"]["name"] == name)
    }

    pub(crate) fn all(&self, plural: &str) -> Vec<Value> {
        let store = self.store();
        let all = store.objects.iter().filter(|(key, _)| key.1 == plural);
        all.map(|(_, object)| object.clone()).collect()
    }

    async fn serve(&self, request: Request<Body>) -> Result<Response<Body>, std::io::Error> {
        let lost = || std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.map_err(std::io::Error::other)?;
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let call = {
            let mut store = self.store();
            store.calls += 1;
            store.calls - 1
        };
        let breaks = self.store().breaks;
        match breaks {
            Break::Before(at) if call >= at => return Err(lost()),
            Break::After(at) if call > at => return Err(lost()),
            Break::Never | Break::Before(_) | Break::After(_) => {}
        }
        let path = parts.uri.path().to_owned();
        let query: BTreeMap<String, String> = parts
            .uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(key, value)| (key.to_owned(), decoded(value)))
            .collect();
        let answer = self.store().answer(&parts.method, &path, &query, body);
        let Some((status, answer, write)) = answer else {
            return std::future::pending().await;
        };
        let hook = write.and_then(|write| {
            let mut store = self.store();
            let found = store
                .hooks
                .iter()
                .position(|(start, _)| write.starts_with(start))?;
            Some(store.hooks.remove(found).1)
        });
        if let Some(hook) = hook {
            hook(self);
        }
        if breaks == Break::After(call) {
            return Err(lost());
        }
        Ok(Response::builder()
            .status(status)
            .body(Body::from(answer.to_string().into_bytes()))
            .unwrap())
    }
}

fn decoded(text: &str) -> String {
    let mut decoded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        decoded.push_str(before);
        let code = u8::from_str_radix(&after[..2], 16).unwrap();
        decoded.push(char::from(code));
        rest = &after[2..];
    }
    decoded + rest
}

impl Store {
    fn answer(
        &mut self,
        method: &Method,
        path: &str,
        query: &BTreeMap<String, String>,
        body: Value,
    ) -> Option<(StatusCode, Value, Option<String>)> {
        if query.contains_key("watch") {
            return None;
        }
        if path == "/api/v1" {
            return Some((StatusCode::OK, discovery(), None));
        }
        let mut segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let group_version = if segments[0] == "api" {
            segments.drain(..2).nth(1).unwrap().to_owned()
        } else {
            let start: Vec<_> = segments.drain(..3).collect();
            format!("{}/{}", start[1], start[2])
        };
        let namespace = if segments[0] == "namespaces" && segments.len() > 2 {
            segments.drain(..2).nth(1).unwrap().to_owned()
        } else {
            String::new()
        };
        let plural = segments[0].to_owned();
        if plural == "events" {
            self.told.push(body.clone());
            return Some((StatusCode::CREATED, body, None));
        }
        if plural == "subjectaccessreviews" {
            if self.refused.get("POST subjectaccessreviews") == Some(&None) {
                return None;
            }
            self.reviewed.push(body["spec"].clone());
            let answer = json!({"spec": body["spec"], "status": {"allowed": self.allows}});
            return Some((StatusCode::CREATED, answer, None));
        }
        let in_body = body["metadata"]["name"].as_str().unwrap_or_default();
        let name = segments.get(1).map_or(in_body, |name| *name).to_owned();
        let key = (group_version, plural.clone(), namespace, name.clone());
        let is_status = segments.get(2) == Some(&"status");
        let verb = match *method {
            Method::GET if segments.len() == 1 => "LIST",
            _ => method.as_str(),
        };
        let write = format!(
            "{verb} {plural}{} {name}",
            if is_status { "/status" } else { "" }
        );
        let mut refused = self.refused.iter();
        let refused = refused.find(|(start, _)| write.starts_with(**start));
        if let Some((_, status)) = refused {
            return status.map(|it| (it, refusal(it), Some(write)));
        }
        let (status, answer) = match *method {
            Method::GET if segments.len() == 1 => {
                return Some((StatusCode::OK, self.list(&key, query), None));
            }
            Method::GET => {
                return Some(match self.objects.get(&key) {
                    Some(object) => (StatusCode::OK, object.clone(), None),
                    None => (StatusCode::NOT_FOUND, refusal(StatusCode::NOT_FOUND), None),
                });
            }
            Method::POST => self.create(&key, body),
            Method::PUT => self.replace_status(&key, &body, is_status),
            Method::PATCH if plural == "pods" => self.remove_gate(&key, &body),
            Method::PATCH => self.patch_status(&key, &body, is_status),
            Method::DELETE => self.delete(&key, &body),
            _ => (StatusCode::METHOD_NOT_ALLOWED, Value::Null),
        };
        if status.is_success() {
            self.log.push(write.clone());
        }
        let answer = if status.is_success() {
            answer
        } else {
            refusal(status)
        };
        Some((status, answer, Some(write)))
    }

    fn list(&self, key: &Key, query: &BTreeMap<String, String>) -> Value {
        let wanted: BTreeSet<&str> = query
            .get("labelSelector")
            .into_iter()
            .flat_map(|it| it.split(','))
            .collect();
        let fits = |object: &Value| {
            wanted.iter().all(|wanted| match wanted.split_once('=') {
                Some((key, value)) => object["metadata"]["labels"][key] == value,
                None => !object["metadata"]["labels"][*wanted].is_null(),
            })
        };
        let items: Vec<_> = self
            .objects
            .iter()
            .filter(|(it, _)| it.0 == key.0 && it.1 == key.1)
            .filter(|(it, _)| key.2.is_empty() || it.2 == key.2)
            .filter(|(_, object)| fits(object))
            .map(|(_, object)| object.clone())
            .collect();
        json!({"metadata": {"resourceVersion": self.next.to_string()}, "items": items})
    }

    fn create(&mut self, key: &Key, mut body: Value) -> (StatusCode, Value) {
        if self.objects.contains_key(key) {
            return (StatusCode::CONFLICT, Value::Null);
        }
        self.next += 1;
        body["metadata"]["resourceVersion"] = self.next.to_string().into();
        body["metadata"]["uid"] = format!("uid-{}", self.next).into();
        self.objects.insert(key.clone(), body.clone());
        (StatusCode::CREATED, body)
    }

    fn replace_status(&mut self, key: &Key, body: &Value, is_status: bool) -> (StatusCode, Value) {
        assert!(is_status, "only statuses are replaced");
        let Some(object) = self.objects.get_mut(key) else {
            return (StatusCode::NOT_FOUND, Value::Null);
        };
        if self.races > 0 {
            self.races -= 1;
            self.next += 1;
            object["metadata"]["annotations"] = json!({"race": self.races.to_string()});
            object["metadata"]["resourceVersion"] = self.next.to_string().into();
        }
        if object["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]
            || object["metadata"]["uid"] != body["metadata"]["uid"]
        {
            return (StatusCode::CONFLICT, Value::Null);
        }
        if object["status"] != body["status"] {
            self.next += 1;
            object["status"] = body["status"].clone();
            object["metadata"]["resourceVersion"] = self.next.to_string().into();
        }
        (StatusCode::OK, object.clone())
    }

    fn patch_status(&mut self, key: &Key, body: &Value, is_status: bool) -> (StatusCode, Value) {
        let Some(object) = self.objects.get(key) else {
            return (StatusCode::NOT_FOUND, Value::Null);
        };
        let mut next = object.clone();
        next["metadata"]["resourceVersion"] = body["metadata"]["resourceVersion"].clone();
        next["status"] = body["status"].clone();
        self.replace_status(key, &next, is_status)
    }

    /// A strategic merge that removes gates by their names, and has no other effect.
    fn remove_gate(&mut self, key: &Key, body: &Value) -> (StatusCode, Value) {
        let Some(object) = self.objects.get_mut(key) else {
            return (StatusCode::NOT_FOUND, Value::Null);
        };
        let gates = body["spec"]["schedulingGates"].as_array().unwrap();
        let expected = json!({
            "metadata": {"uid": body["metadata"]["uid"]}, "spec": {"schedulingGates": gates},
        });
        assert_eq!(*body, expected, "nothing else is changed");
        assert!(
            body["metadata"]["uid"].is_string(),
            "every patch names a UID"
        );
        if object["metadata"]["uid"] != body["metadata"]["uid"] {
            return (StatusCode::CONFLICT, Value::Null);
        }
        assert!(gates.iter().all(|it| it["$patch"] == "delete"));
        let removed: Vec<_> = gates.iter().map(|it| it["name"].clone()).collect();
        if let Some(left) = object["spec"]["schedulingGates"].as_array_mut() {
            left.retain(|it| !removed.contains(&it["name"]));
        }
        self.next += 1;
        object["metadata"]["resourceVersion"] = self.next.to_string().into();
        (StatusCode::OK, object.clone())
    }

    fn delete(&mut self, key: &Key, body: &Value) -> (StatusCode, Value) {
        let Some(object) = self.objects.get(key) else {
            return (StatusCode::NOT_FOUND, Value::Null);
        };
        let metadata = &object["metadata"];
        let differs = |field: &str| {
            let wanted = &body["preconditions"][field];
            !wanted.is_null() && *wanted != metadata[field]
        };
        assert!(
            !body["preconditions"]["uid"].is_null(),
            "every deletion names a UID"
        );
        if differs("uid") || differs("resourceVersion") {
            return (StatusCode::CONFLICT, Value::Null);
        }
        assert_eq!(body["propagationPolicy"], "Background");
        // As the chart's admission policies have it.
        let label = "app.kubernetes.io/managed-by";
        let managed = metadata["labels"][label] == "connectors-approval";
        if key.1.starts_with("role") && !managed || self.kept.contains(&key.3) {
            return (StatusCode::FORBIDDEN, Value::Null);
        }
        self.objects.remove(key);
        (
            StatusCode::OK,
            json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}),
        )
    }
}

/// The kinds of the core group that checks of tests read.
fn discovery() -> Value {
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": [
        {"name": "configmaps", "singularName": "configmap", "namespaced": true, "kind": "ConfigMap",
            "verbs": ["get", "list", "watch"]},
    ]})
}

fn refusal(status: StatusCode) -> Value {
    let reason = status
        .canonical_reason()
        .unwrap_or_default()
        .replace(' ', "");
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": "said the server", "reason": reason, "code": status.as_u16(),
    })
}
