use std::{convert::Infallible, net::Ipv4Addr};

use http_body_util::StreamBody;
use hyper::body::Frame;
use json_patch::Patch;
use k8s_openapi::ByteString;
use prometheus::Registry;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    evaluator::Evaluator,
    metrics::Metrics,
    testing::{FakeApi, NAMESPACE, config_map, list_of, pod, policies},
};

mod gates;
mod policies;
mod room;
mod runs;

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const PLUGIN: &str = "system:serviceaccount:connectors-system:csi-node";
const MUTATE: &str = "/mutate/accessrequests";
const VALIDATE: &str = "/validate/accessrequests";

fn cluster() -> FakeApi {
    let api = FakeApi::default();
    api.put(&pod("team", "build-1"), running());
    api.let_read("ada");
    api
}

fn running() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "build-1", "namespace": "team", "uid": "u1"},
        "spec": {"containers": [], "serviceAccountName": "builder", "nodeName": "n1"},
        "status": {"phase": "Running"},
    })
}

fn handler(api: &FakeApi) -> Handler {
    handler_with(api, Evaluator::Fake(None))
}

fn handler_with(api: &FakeApi, evaluator: Evaluator) -> Handler {
    let metrics = Metrics::register(&Registry::new()).unwrap();
    let limits = PeerLimits::new(metrics.peers);
    let plugin = PLUGIN.to_owned();
    Handler::new(
        Admission::new(api.client(), NAMESPACE, plugin, evaluator, &limits),
        metrics.reviews,
        limits,
    )
}

fn object(uid: Option<&str>) -> Value {
    let mut object = json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessRequest",
        "metadata": {"name": "r", "namespace": "tools"},
        "spec": {
            "subject": {"kind": "ServiceAccount", "name": "builder"},
            "connectorRef": {"name": "harbor"},
            "context": {"objectRef": {"apiVersion": "v1", "kind": "Pod", "namespace": "team", "name": "build-1"}},
        },
    });
    if let Some(uid) = uid {
        object["spec"]["context"]["objectRef"]["uid"] = json!(uid);
    }
    object
}

fn review(user: &Value, object: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "review-1", "operation": "CREATE", "namespace": "tools", "name": "r", "dryRun": false,
            "kind": {"group": "connectors.alauda.io", "version": "v1alpha1", "kind": "AccessRequest"},
            "resource": {"group": "connectors.alauda.io", "version": "v1alpha1", "resource": "accessrequests"},
            "userInfo": user, "object": object, "oldObject": null,
        },
    })
}

fn ada() -> Value {
    json!({"username": "ada", "uid": "7", "groups": ["dev", "system:authenticated"], "extra": {"scopes": ["x"]}})
}

fn mallory() -> Value {
    json!({"username": "mallory", "groups": ["system:authenticated"]})
}

fn plugin(node: &str) -> Value {
    json!({"username": PLUGIN, "extra": {"authentication.kubernetes.io/node-name": [node]}})
}

fn post(path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::post(path)
        .header("content-type", "application/json")
        .body(Full::new(body.into()))
        .unwrap()
}

async fn ask(api: &FakeApi, path: &str, review: &Value) -> Value {
    ask_of(&handler(api), path, review).await
}

async fn ask_of(handler: &Handler, path: &str, review: &Value) -> Value {
    let response = handler.answer(PEER, post(path, review.to_string())).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "application/json");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let answer: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(answer["response"]["uid"], review["request"]["uid"]);
    answer["response"].clone()
}

/// The answer to a review in which `"OBJECT"` is this text.
async fn asked_of_text(path: &str, review: &Value, object: &str) -> Value {
    let body = review.to_string().replace("\"OBJECT\"", object);
    let answer = handler(&cluster()).answer(PEER, post(path, body)).await;
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let answer: Value = serde_json::from_slice(&body).unwrap();
    answer["response"].clone()
}

async fn validated(api: &FakeApi, user: &Value, object: &Value) -> Value {
    ask(api, VALIDATE, &review(user, object)).await
}

/// The object after the mutation.
async fn mutated(api: &FakeApi, user: &Value, object: &Value) -> Value {
    let response = ask(api, MUTATE, &review(user, object)).await;
    assert_eq!(response["allowed"], true);
    let mut object = object.clone();
    if !response["patch"].is_null() {
        assert_eq!(response["patchType"], "JSONPatch");
        let patch: ByteString = serde_json::from_value(response["patch"].clone()).unwrap();
        let patch: Patch = serde_json::from_slice(&patch.0).unwrap();
        json_patch::patch(&mut object, &patch).unwrap();
    }
    object
}

fn denied(response: &Value, code: u16, message: &str) {
    assert_eq!(response["allowed"], false);
    assert_eq!(response["status"]["code"], code, "{response}");
    assert_eq!(response["status"]["message"], message);
}

const HIDDEN: &str = "spec.context.objectRef: there is no such pod, or you may not get it";
const UNANSWERED: &str = "spec.context.objectRef: the pod cannot be looked up now; try again";

#[tokio::test]
async fn a_person_who_may_get_the_pod_creates_a_request_without_a_uid() {
    let api = cluster();
    let filled = mutated(&api, &ada(), &object(None)).await;
    assert_eq!(filled["spec"]["context"]["objectRef"]["uid"], "u1");
    assert_eq!(filled["spec"]["permission"], "apis");
    assert_eq!(filled["metadata"]["labels"].as_object().unwrap().len(), 5);
    let response = validated(&api, &ada(), &filled).await;
    assert_eq!(response, json!({"uid": "review-1", "allowed": true}));
    let asked = json!({
        "user": "ada", "uid": "7", "groups": ["dev", "system:authenticated"], "extra": {"scopes": ["x"]},
        "resourceAttributes": {
            "verb": "get", "version": "v1", "resource": "pods", "namespace": "team", "name": "build-1",
        },
    });
    assert_eq!(api.reviews(), [asked.clone(), asked]);
}

#[tokio::test]
async fn a_node_plugin_creates_requests_for_pods_of_its_node_only() {
    let api = cluster();
    let object = mutated(&api, &plugin("n1"), &object(Some("u1"))).await;
    assert_eq!(
        validated(&api, &plugin("n1"), &object).await["allowed"],
        true
    );
    let elsewhere = validated(&api, &plugin("n2"), &object).await;
    denied(
        &elsewhere,
        403,
        "the pod team/build-1 is not on the node of this node plugin",
    );
    let unproved = validated(&api, &json!({"username": PLUGIN}), &object).await;
    denied(
        &unproved,
        403,
        "the node plugin does not prove which node it is on",
    );
    assert_eq!(
        api.reviews(),
        Vec::<Value>::new(),
        "its rights are not what counts"
    );
}

#[tokio::test]
async fn whoever_may_not_get_the_pod_learns_nothing_and_causes_no_look_at_it() {
    let mut ended = running();
    ended["status"]["phase"] = json!("Failed");
    let mut other = running();
    other["metadata"]["uid"] = json!("u2");
    for stored in [
        Some(running()),
        Some(ended),
        Some(other),
        Some(json!([])),
        None,
    ] {
        let api = cluster();
        api.delete(&pod("team", "build-1"));
        if let Some(stored) = stored.filter(Value::is_object) {
            api.put(&pod("team", "build-1"), stored);
        }
        for uid in [None, Some("u1"), Some("u3")] {
            let filled = mutated(&api, &mallory(), &object(uid)).await;
            let given = &object(uid)["spec"]["context"];
            assert_eq!(
                &filled["spec"]["context"], given,
                "nothing is filled in for him"
            );
            denied(&validated(&api, &mallory(), &filled).await, 403, HIDDEN);
        }
        assert!(api.calls().iter().all(|(method, _)| method == Method::POST));
    }
}

#[tokio::test]
async fn who_may_get_the_pod_is_told_what_is_wrong() {
    let api = cluster();
    api.delete(&pod("team", "build-1"));
    let missing = validated(&api, &ada(), &object(Some("u1"))).await;
    denied(
        &missing,
        403,
        "spec.context.objectRef: there is no pod team/build-1",
    );
    let mut changed = running();
    changed["metadata"]["uid"] = json!("u2");
    changed["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    changed["spec"]["serviceAccountName"] = json!("default");
    changed["status"]["phase"] = json!("Succeeded");
    api.put(&pod("team", "build-1"), changed);
    let all = "spec.context.objectRef.uid: the pod team/build-1 has another UID; \
        spec.subject.name: the pod team/build-1 runs as \"default\"; \
        spec.context.objectRef: the pod team/build-1 has finished; \
        spec.context.objectRef: the pod team/build-1 is being deleted";
    denied(
        &validated(&api, &ada(), &object(Some("u1"))).await,
        403,
        all,
    );
}

#[tokio::test]
async fn an_unknown_field_is_refused_with_the_likely_word() {
    let api = cluster();
    let mut object = object(Some("u1"));
    object["spec"]["conectorRef"] = json!({"name": "x"});
    let response = validated(&api, &ada(), &object).await;
    denied(
        &response,
        422,
        "spec.conectorRef: unknown field; did you mean `connectorRef`?",
    );
    assert_eq!(
        mutated(&api, &ada(), &object).await,
        object,
        "left to the validation"
    );
    let nothing = validated(&api, &ada(), &json!({"metadata": {}})).await;
    denied(&nothing, 422, "spec: required");
    assert_eq!(api.calls(), [], "nothing was asked");
}

#[tokio::test]
async fn problems_of_the_request_and_of_the_pod_are_told_together() {
    let api = cluster();
    let mut object = object(Some("u2"));
    object["spec"]["connectorRef"]["namespace"] = json!("other");
    let both = "spec.connectorRef.namespace: must be \"tools\", the request's own namespace, or left out; \
        spec.context.objectRef.uid: the pod team/build-1 has another UID";
    denied(&validated(&api, &ada(), &object).await, 422, both);
    object["spec"]["context"]["objectRef"]["name"] = json!("../../secrets/x");
    api.calls();
    validated(&api, &ada(), &object).await;
    assert_eq!(api.calls(), [], "no path is made of what is no name");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_judged_is_refused_and_may_be_tried_again() {
    for failing in [Method::GET, Method::POST] {
        let api = cluster();
        let method = failing.clone();
        api.fail(move |called, _| (*called == method).then_some(StatusCode::INTERNAL_SERVER_ERROR));
        denied(
            &validated(&api, &ada(), &object(Some("u1"))).await,
            503,
            UNANSWERED,
        );
        let response = ask(&api, MUTATE, &review(&ada(), &object(None))).await;
        denied(&response, 503, UNANSWERED);
    }
    let api = cluster();
    api.fail(|called, _| (called == Method::POST).then_some(StatusCode::FORBIDDEN));
    denied(
        &validated(&api, &ada(), &object(Some("u1"))).await,
        503,
        UNANSWERED,
    );
    let api = cluster();
    let mut odd = running();
    odd["spec"]["nodeName"] = json!(1);
    api.put(&pod("team", "build-1"), odd);
    denied(
        &validated(&api, &ada(), &object(Some("u1"))).await,
        503,
        UNANSWERED,
    );
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_is_not_waited_for_longer_than_we_are() {
    for reviews_take in [None, Some(Duration::from_millis(1400))] {
        let api = cluster();
        api.hang();
        if let Some(takes) = reviews_take {
            api.delay(Method::POST, takes);
        }
        for path in [MUTATE, VALIDATE] {
            let object = object((path == VALIDATE).then_some("u1"));
            let start = Instant::now();
            denied(
                &ask(&api, path, &review(&ada(), &object)).await,
                503,
                UNANSWERED,
            );
            let took = start.elapsed();
            let limit = Duration::from_millis(4100);
            assert!(took > Duration::from_secs(3) && took < limit, "{took:?}");
        }
    }
}

#[tokio::test]
async fn nothing_but_a_creation_is_looked_at() {
    let api = FakeApi::default();
    for operation in ["UPDATE", "DELETE", "CONNECT"] {
        let mut review = review(&mallory(), &json!({"spec": {"nonsense": 1}}));
        review["request"]["operation"] = json!(operation);
        for path in [MUTATE, VALIDATE] {
            let response = ask(&api, path, &review).await;
            assert_eq!(
                response,
                json!({"uid": "review-1", "allowed": true}),
                "{operation}"
            );
        }
    }
    let mut review = review(&mallory(), &Value::Null);
    review["request"]["subResource"] = json!("status");
    assert_eq!(ask(&api, VALIDATE, &review).await["allowed"], true);
    assert_eq!(api.calls(), []);
}

#[tokio::test]
async fn what_was_sent_to_the_wrong_place_is_refused() {
    let api = cluster();
    let cases = [
        (
            "/request/resource/group",
            json!("apps"),
            "only access requests are admitted here",
        ),
        (
            "/request/resource/version",
            json!("v2"),
            "only access requests are admitted here",
        ),
        (
            "/request/resource/resource",
            json!("accesspolicies"),
            "only access requests are admitted here",
        ),
        (
            "/request/object",
            Value::Null,
            "a creation without an object",
        ),
        (
            "/request/namespace",
            Value::Null,
            "a creation without a namespace",
        ),
        (
            "/request/namespace",
            json!(""),
            "a creation without a namespace",
        ),
    ];
    for (pointer, value, message) in cases {
        let mut review = review(&ada(), &object(Some("u1")));
        *review.pointer_mut(pointer).unwrap() = value;
        for path in [MUTATE, VALIDATE] {
            denied(&ask(&api, path, &review).await, 400, message);
        }
    }
}

#[tokio::test]
async fn an_object_that_is_too_deep_is_refused_in_our_own_words() {
    let deep = format!("{{\"spec\":{}1{}}}", "[".repeat(500), "]".repeat(500));
    let response = asked_of_text(VALIDATE, &review(&ada(), &json!("OBJECT")), &deep).await;
    denied(&response, 422, "the object is nested too deeply to be read");
}

#[tokio::test]
async fn what_is_no_review_gets_a_status_that_says_so() {
    let api = cluster();
    let good = review(&ada(), &object(Some("u1"))).to_string();
    let request = |method: Method, path: &str, media: Option<&str>, body: &str| {
        let mut builder = Request::builder().method(method).uri(path);
        if let Some(media) = media {
            builder = builder.header("content-type", media);
        }
        builder
            .body(Full::new(Bytes::from(body.to_owned())))
            .unwrap()
    };
    let json = Some("application/json");
    let large = " ".repeat((2 << 20) + 1);
    let cases = [
        (request(Method::POST, VALIDATE, json, &good), 200),
        (
            request(
                Method::POST,
                VALIDATE,
                Some("application/json; charset=utf-8"),
                &good,
            ),
            200,
        ),
        (request(Method::POST, "/", json, &good), 404),
        (
            request(Method::POST, "/validate/accessrequests/", json, &good),
            404,
        ),
        (request(Method::GET, VALIDATE, json, ""), 405),
        (request(Method::POST, VALIDATE, None, &good), 415),
        (
            request(Method::POST, VALIDATE, Some("application/jsonx"), &good),
            415,
        ),
        (request(Method::POST, VALIDATE, json, &large), 413),
        (request(Method::POST, VALIDATE, json, ""), 400),
        (request(Method::POST, VALIDATE, json, "{}"), 400),
        (
            request(
                Method::POST,
                VALIDATE,
                json,
                &good.replace("admission.k8s.io/v1", "admission.k8s.io/v1beta1"),
            ),
            400,
        ),
    ];
    let handler = handler(&api);
    for (request, expected) in cases {
        let what = format!("{} {}", request.method(), request.uri());
        let response = handler.answer(PEER, request).await;
        assert_eq!(response.status(), expected, "{what}");
        if expected == 405 {
            assert_eq!(response.headers()["allow"], "POST");
        }
    }
    let counted = |outcome| {
        handler
            .metrics
            .counted(Page::ValidateAccessRequests, outcome)
    };
    assert_eq!(counted(Answered::Allowed), 2);
    assert_eq!(counted(Answered::Malformed), 6);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let body = StreamBody::new(Silent);
    let request = Request::post(VALIDATE)
        .header("content-type", "application/json")
        .body(body)
        .unwrap();
    let response = handler(&cluster()).answer(PEER, request).await;
    assert_eq!(response.status(), StatusCode::REQUEST_TIMEOUT);
}

struct Silent;

impl futures::Stream for Silent {
    type Item = Result<Frame<Bytes>, Infallible>;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Pending
    }
}

/// JSON of any shape, with the words that matter in it.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        "(ServiceAccount|Pod|v1|apis|team|build-1|u1|builder)".prop_map(Value::from),
    ];
    let key = prop_oneof![
        "(spec|metadata|labels|subject|connectorRef|context|objectRef|uid|name|namespace|kind|permission)",
        "\\PC{0,6}",
    ];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec((key.clone(), inner), 0..5).prop_map(|fields| Value::from(
                fields.into_iter().collect::<serde_json::Map<_, _>>()
            )),
        ]
    })
}

/// Puts a value in the place of any part of an object.
fn damaged() -> impl Strategy<Value = Value> {
    let places = prop_oneof![
        Just("/spec"),
        Just("/metadata"),
        Just("/spec/context"),
        Just("/spec/context/objectRef"),
        Just("/spec/context/objectRef/name"),
        Just("/spec/subject"),
        Just("/spec/connectorRef"),
        Just("/spec/context/objectRef/uid"),
        Just(""),
    ];
    (places, any_json()).prop_map(|(place, value)| {
        let mut object = object(Some("u1"));
        *object.pointer_mut(place).unwrap() = value;
        object
    })
}

fn answered(path: &str, body: String) -> (StatusCode, Bytes) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let response = handler(&cluster()).answer(PEER, post(path, body)).await;
        let status = response.status();
        (
            status,
            response.into_body().collect().await.unwrap().to_bytes(),
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn no_object_is_admitted_that_differs_and_none_makes_it_panic(object in damaged()) {
        for path in [MUTATE, VALIDATE] {
            let body = review(&ada(), &object).to_string();
            let (status, body) = answered(path, body);
            prop_assert_eq!(status, StatusCode::OK);
            let answer: Value = serde_json::from_slice(&body).unwrap();
            let admitted = path == VALIDATE && answer["response"]["allowed"] == true;
            // The names in it are those of the pod that there is, however the rest looks.
            let asked = object.pointer("/spec/context/objectRef/name");
            prop_assert!(!admitted || asked == Some(&json!("build-1")), "{}", object);
        }
    }

    #[test]
    fn no_body_makes_it_panic(body in any_json(), text in "\\PC{0,64}") {
        for path in [MUTATE, VALIDATE] {
            for body in [body.to_string(), text.clone(), review(&body, &body).to_string()] {
                let (status, _) = answered(path, body);
                prop_assert!(status == StatusCode::BAD_REQUEST || status == StatusCode::OK);
            }
        }
    }
}
