//! An API server for unit tests of single calls. The tests of whole commands run on `testkit`.

use std::convert::Infallible;

use http::{Request, Response};
use kube::Client;
use kube::client::{AuthError, Body};
use serde_json::{Value, json};

/// A request of the name, about the connector `tools/harbor` for the pod `p` of a namespace.
pub(crate) fn request(name: &str, of_pods: &str) -> Value {
    json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessRequest",
        "metadata": {"namespace": "tools", "name": name, "uid": name},
        "spec": {
            "subject": {"kind": "ServiceAccount", "namespace": of_pods, "name": "a"},
            "connectorRef": {"name": "harbor"}, "permission": "apis",
            "context": {"objectRef": {
                "apiVersion": "v1", "kind": "Pod", "namespace": of_pods, "name": "p", "uid": "u",
            }},
        },
    })
}

/// A client of an API server that gives this code and this object for each call.
pub(crate) fn client(answer: impl Fn(&Request<Body>) -> (u16, Value) + Send + 'static) -> Client {
    client_of_texts(move |asked| {
        let (code, object) = answer(asked);
        (code, object.to_string())
    })
}

/// The same of texts.
pub(crate) fn client_of_texts(
    answer: impl Fn(&Request<Body>) -> (u16, String) + Send + 'static,
) -> Client {
    let service = tower::service_fn(move |asked: Request<Body>| {
        let (code, text) = answer(&asked);
        let mut answer = Response::new(Body::from(text.into_bytes()));
        *answer.status_mut() = code.try_into().unwrap();
        async move { Ok::<_, Infallible>(answer) }
    });
    Client::new(service, "default")
}

/// A client of an API server that never answers.
pub(crate) fn silent_client() -> Client {
    let service = tower::service_fn(|_: Request<Body>| {
        std::future::pending::<Result<Response<Body>, Infallible>>()
    });
    Client::new(service, "default")
}

/// A client whose plugin for credentials fails, and prints this.
pub(crate) fn client_without_credentials(printed: &'static str) -> Client {
    let service = tower::service_fn(move |_: Request<Body>| async move {
        let error = AuthError::AuthExec(printed.to_owned());
        Err::<Response<Body>, _>(kube::Error::Auth(error))
    });
    Client::new(service, "default")
}
