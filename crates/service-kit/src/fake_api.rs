//! A Kubernetes API server that is a function, under a real client.

use std::convert::Infallible;

use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Bytes, Frame};
use kube::client::Body;

/// The answer of the function.
pub(crate) type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// A client whose requests all go to the function.
pub(crate) fn client<S, F>(serve: S) -> kube::Client
where
    S: Fn(Request<Body>) -> F + Send + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    let service = tower::service_fn(move |request| {
        let answer = serve(request);
        async { Ok::<_, Infallible>(answer.await) }
    });
    kube::Client::new(service, "default")
}

/// A body that is complete at once.
pub(crate) fn answer(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    let body = Full::new(body.into()).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

/// The error object of the API server.
pub(crate) fn refusal(status: StatusCode) -> Answer {
    let reason = status
        .canonical_reason()
        .unwrap_or_default()
        .replace(' ', "");
    let body = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": "said the server", "reason": reason, "code": status.as_u16(),
    });
    answer(status, body.to_string())
}

/// A list of these objects.
pub(crate) fn list(items: &[String]) -> Answer {
    let items = items.join(",");
    let list = format!(r#"{{"metadata":{{"resourceVersion":"1"}},"items":[{items}]}}"#);
    answer(StatusCode::OK, list)
}

/// A line of a watch.
pub(crate) fn line(kind: &str, object: &str) -> String {
    format!(r#"{{"type":"{kind}","object":{object}}}"#)
}

/// Lines of a watch that then stays open and silent.
pub(crate) fn open_watch(lines: &[String]) -> Answer {
    let text = lines.join("\n") + "\n";
    let first = futures::stream::iter([Ok(Frame::data(Bytes::from(text)))]);
    let body = futures::StreamExt::chain(first, futures::stream::pending());
    Response::new(StreamBody::new(body).boxed_unsync())
}

/// The whole body of a request.
pub(crate) async fn body(request: Request<Body>) -> Bytes {
    request.into_body().collect().await.unwrap().to_bytes()
}
