//! An API server for unit tests of single calls. The tests of whole commands run on `testkit`.

use std::convert::Infallible;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::Value;

/// A client of an API server that gives this code and this object for each call.
pub(crate) fn client(answer: impl Fn(&Request<Body>) -> (u16, Value) + Send + 'static) -> Client {
    let service = tower::service_fn(move |asked: Request<Body>| {
        let (code, object) = answer(&asked);
        let mut answer = Response::new(Body::from(object.to_string().into_bytes()));
        *answer.status_mut() = code.try_into().unwrap();
        async move { Ok::<_, Infallible>(answer) }
    });
    Client::new(service, "default")
}
