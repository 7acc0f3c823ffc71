//! Short forms for the tests.

use http::{Method, Request};
use jiff::Timestamp;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use testkit::{ApiServer, Caller};

/// 2026-01-01T00:00:00Z.
const START: i64 = 1_767_225_600;

pub(crate) fn server() -> ApiServer {
    ApiServer::new(Timestamp::from_second(START).unwrap())
}

pub(crate) fn admin(server: &ApiServer) -> Client {
    server.client(&Caller::admin())
}

pub(crate) fn map(name: &str, data: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": { "namespace": "default", "name": name },
    })
}

pub(crate) fn access_request(name: &str) -> Value {
    json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessRequest",
        "metadata": { "namespace": "default", "name": name }, "spec": { "permission": "apis" },
    })
}

pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const REQUESTS: &str =
    "/apis/connectors.alauda.io/v1alpha1/namespaces/default/accessrequests";

/// One call: `what` holds method and path; returns status and answer.
pub(crate) async fn call(client: &Client, what: &str, body: Value) -> (u16, Value) {
    typed_call(client, what, "application/json", body).await
}

pub(crate) async fn get(client: &Client, path: &str) -> (u16, Value) {
    typed_call(client, &format!("GET {path}"), "", Value::Null).await
}

/// A merge patch.
pub(crate) async fn merge(client: &Client, path: &str, body: Value) -> (u16, Value) {
    let what = format!("PATCH {path}");
    typed_call(client, &what, "application/merge-patch+json", body).await
}

pub(crate) async fn typed_call(
    client: &Client,
    what: &str,
    content_type: &str,
    body: Value,
) -> (u16, Value) {
    let (method, path) = what.split_once(' ').unwrap();
    let body = if body.is_null() {
        Body::empty()
    } else {
        Body::from(body.to_string().into_bytes())
    };
    let request = Request::builder()
        .method(Method::from_bytes(method.as_bytes()).unwrap())
        .uri(path)
        .header("content-type", content_type)
        .body(body)
        .unwrap();
    let response = client.send(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect_bytes().await.unwrap();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

/// Status and reason of a refusal.
pub(crate) fn refusal((code, answer): (u16, Value)) -> (u16, String) {
    assert_eq!(answer["kind"], "Status", "{answer}");
    let reason = answer["reason"].as_str().unwrap_or_default();
    (code, reason.to_owned())
}
