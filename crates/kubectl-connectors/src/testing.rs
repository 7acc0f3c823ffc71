//! An API server for unit tests of single calls. The tests of whole commands run on `testkit`.

use std::convert::Infallible;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
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
    let service = tower::service_fn(move |asked: Request<Body>| {
        let (code, object) = answer(&asked);
        let mut answer = Response::new(Body::from(object.to_string().into_bytes()));
        *answer.status_mut() = code.try_into().unwrap();
        async move { Ok::<_, Infallible>(answer) }
    });
    Client::new(service, "default")
}
