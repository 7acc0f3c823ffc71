//! One object by its name.

use std::fmt::Debug;

use kube::api::{GetParams, PartialObjectMeta};
use kube::{Api, Error, Resource, Result};
use serde::de::DeserializeOwned;

/// The reason of the API server for an object that is not there.
const NOT_FOUND: &str = "NotFound";

/// The object. None only where the API server says that there is none.
///
/// A path that is not served, or a proxy that knows no path, has the same status and another body. It says nothing about
/// the object: access would end for good with a kind of ours that is missing for a moment. Whether a kind of check objects
/// is served is asked before its objects (`kinds`).
pub async fn find<K>(api: &Api<K>, name: &str) -> Result<Option<K>>
where
    K: Clone + DeserializeOwned + Debug,
{
    if_there(api.get(name).await)
}

/// The same, no older than a version that the caller has seen. The API server answers from its memory, without etcd.
pub async fn find_since<K>(api: &Api<K>, name: &str, version: &str) -> Result<Option<K>>
where
    K: Clone + DeserializeOwned + Debug,
{
    if_there(api.get_with(name, &GetParams::at(version)).await)
}

/// The same for the metadata alone.
pub async fn find_metadata<K>(api: &Api<K>, name: &str) -> Result<Option<PartialObjectMeta<K>>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    if_there(api.get_metadata(name).await)
}

fn if_there<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(object) => Ok(Some(object)),
        Err(Error::Api(status)) if status.reason == NOT_FOUND => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use http::Response;
    use k8s_openapi::api::core::v1::Pod;
    use kube::Client;
    use kube::client::Body;

    use super::*;

    async fn found(status: u16, body: &'static str) -> [Result<bool>; 3] {
        let answer = tower::service_fn(move |_: http::Request<Body>| async move {
            let response = Response::builder().status(status);
            Ok::<_, tower::BoxError>(response.body(Body::from(body.as_bytes().to_vec())).unwrap())
        });
        let pods: Api<Pod> = Api::namespaced(Client::new(answer, "default"), "default");
        let object = find(&pods, "pod").await.map(|it| it.is_some());
        let metadata = find_metadata(&pods, "pod").await.map(|it| it.is_some());
        let since = find_since(&pods, "pod", "7").await.map(|it| it.is_some());
        [object, metadata, since]
    }

    #[tokio::test]
    async fn an_object_is_missing_only_where_the_api_server_says_so() {
        let there = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"pod"}}"#;
        for found in found(200, there).await {
            assert!(found.unwrap());
        }
        let missing = r#"{"kind":"Status","status":"Failure","code":404,"reason":"NotFound"}"#;
        for found in found(404, missing).await {
            assert!(!found.unwrap());
        }
        for (status, body) in [
            (404, "404 page not found\n"),
            (404, ""),
            (404, "<html>"),
            (404, r#"{"kind":"Status","status":"Failure","code":404}"#),
            (
                410,
                r#"{"kind":"Status","status":"Failure","code":410,"reason":"Gone"}"#,
            ),
            (503, "not now"),
        ] {
            for found in found(status, body).await {
                assert!(found.is_err(), "{status} {body}");
            }
        }
    }
}
