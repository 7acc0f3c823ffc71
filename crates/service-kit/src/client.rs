//! The client for the Kubernetes API.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use http::{
    HeaderValue, Request, Response,
    header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER},
};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use kube::{
    Client, Config,
    client::{Body, DynBody},
    config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use serde_json::json;
use thiserror::Error;
use tokio::{runtime::Handle, sync::Semaphore, time::timeout};
use tower::{BoxError, service_fn, util::MapResponseLayer};
use tracing::{Instrument, debug, debug_span};

use crate::{process, tls, transport};

/// The API server itself gives up after a minute.
const BEGINNING: Duration = Duration::from_secs(70);

/// Why there is no client.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The kubeconfig cannot be used.
    #[error("cannot use the kubeconfig {}", path.display())]
    Kubeconfig {
        /// The file that was named.
        path: PathBuf,
        /// The problem of the file.
        #[source]
        source: KubeconfigError,
    },
    /// No kubeconfig was named and this is no pod.
    #[error("this process does not run in a cluster, and no kubeconfig was given")]
    InCluster(#[source] InClusterError),
    /// The configuration makes no client.
    #[error("cannot make a client for {server}")]
    Client {
        /// The API server.
        server: String,
        /// Why not.
        #[source]
        source: kube::Error,
    },
}

/// A client for the named cluster, or for the one that this process runs in. It sends nothing yet.
///
/// Once a response has begun, it has no time limit, because a watch may be silent for minutes. Single calls
/// get their limit from [`retry`](crate::retry).
pub async fn connect(kubeconfig: Option<&Path>) -> Result<Client, ConnectError> {
    of_config(match kubeconfig {
        Some(path) => from_file(path).await?,
        None => Config::incluster().map_err(ConnectError::InCluster)?,
    })
}

/// The same client for a configuration that was made elsewhere.
pub fn of_config(mut config: Config) -> Result<Client, ConnectError> {
    tls::install_provider();
    // The caller decides which calls are repeated, and for how long.
    config.default_retry = false;
    let server = config.cluster_url.to_string();
    let builder = transport::of_config(config, transport::IDLE)
        .map_err(|source| ConnectError::Client { server, source })?;
    let client = builder
        .with_layer(&MapResponseLayer::new(keep_retry_after))
        .build();
    Ok(bounded(client))
}

/// The same client, for which a response that does not begin is an error. Otherwise a list or watch without
/// an answer would wait for ever.
#[must_use]
pub fn bounded(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let send = move |request: Request<Body>| {
        let client = client.clone();
        let call = debug_span!("API", method = %request.method(), url = %request.uri());
        let answered = async move {
            match timeout(BEGINNING, client.send(request)).await {
                Ok(Ok(answer)) => {
                    debug!(status = %answer.status(), "answered");
                    Ok(answer)
                }
                Ok(Err(error)) => Err(BoxError::from(error)),
                Err(_) => Err(BoxError::from(format!("no answer within {BEGINNING:?}"))),
            }
        };
        answered.instrument(call)
    };
    Client::new(service_fn(send), namespace)
}

/// The same client with at most so many requests at a time whose response has not begun. The others wait in their
/// order. Each request needs a connection of its own.
#[must_use]
pub fn limited(client: Client, requests: usize) -> Client {
    let namespace = client.default_namespace().to_owned();
    let places = Arc::new(Semaphore::new(requests));
    let send = move |request: Request<Body>| {
        let (client, places) = (client.clone(), Arc::clone(&places));
        async move {
            let _place = places.acquire().await?;
            client.send(request).await.map_err(BoxError::from)
        }
    };
    Client::new(service_fn(send), namespace)
}

/// The same client for callers on other runtimes: its requests use connections of this one.
#[must_use]
pub fn on_runtime(client: Client, runtime: Handle) -> Client {
    let namespace = client.default_namespace().to_owned();
    let send = move |request: Request<Body>| {
        let (client, runtime) = (client.clone(), runtime.clone());
        async move {
            let sent = process::on(&runtime, async move { client.send(request).await });
            match sent.await {
                Ok(answer) => answer.map_err(BoxError::from),
                Err(ended) => Err(BoxError::from(ended)),
            }
        }
    };
    Client::new(service_fn(send), namespace)
}

/// Puts the time to come back into the body, for the client reads no headers of errors.
///
/// An API server that is over its limits says so in plain text, and the time in a header only.
fn keep_retry_after(response: Response<Box<DynBody>>) -> Response<Box<DynBody>> {
    let header = |name| {
        response
            .headers()
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    let is_json = header(CONTENT_TYPE).is_some_and(|media| media.starts_with("application/json"));
    let seconds = header(RETRY_AFTER).and_then(|seconds| seconds.parse::<u32>().ok());
    let (Some(seconds), false, false) = (seconds, is_json, response.status().is_success()) else {
        return response;
    };
    let (mut parts, _) = response.into_parts();
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": parts.status.as_u16(),
        "message": "the server is busy",
        "reason": "TooManyRequests",
        "details": { "retryAfterSeconds": seconds },
    });
    parts.headers.remove(CONTENT_LENGTH);
    let body = Full::<Bytes>::from(status.to_string()).map_err(BoxError::from);
    Response::from_parts(parts, Box::new(body))
}

async fn from_file(path: &Path) -> Result<Config, ConnectError> {
    let failed = |source| ConnectError::Kubeconfig {
        path: path.to_owned(),
        source,
    };
    let kubeconfig = Kubeconfig::read_from(path).map_err(failed)?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::{
        path::Path,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };

    use futures::future::join_all;
    use http::{Response, StatusCode};
    use http_body_util::{BodyExt, Full};
    use hyper::body::Bytes;
    use k8s_openapi::api::core::v1::Pod;
    use kube::{
        Api,
        client::{ClientBuilder, DynBody},
    };
    use tokio::{task::yield_now, time::timeout};
    use tower::{BoxError, service_fn, util::MapResponseLayer};

    use super::{bounded, connect, keep_retry_after, limited};
    use crate::gets;
    use crate::{
        report,
        retry::{RetryVerdict, verdict},
    };

    /// The verdict on an answer of 429 with this type and body, and ten seconds in the header.
    async fn judged(media_type: &'static str, body: &'static str) -> RetryVerdict {
        let server = service_fn(move |_| async move {
            let body = Full::<Bytes>::from(body).map_err(BoxError::from);
            let body: Box<DynBody> = Box::new(body);
            Response::builder()
                .status(StatusCode::TOO_MANY_REQUESTS)
                .header("retry-after", "10")
                .header("content-type", media_type)
                .body(body)
        });
        let client = ClientBuilder::new(server, "default")
            .with_layer(&MapResponseLayer::new(keep_retry_after))
            .build();
        verdict(
            &Api::<Pod>::default_namespaced(client)
                .get("pod")
                .await
                .unwrap_err(),
        )
    }

    #[tokio::test]
    async fn the_time_to_come_back_is_kept_though_it_is_in_a_header_only() {
        let verdict = judged("text/plain; charset=utf-8", "Too many requests").await;
        assert_eq!(verdict, RetryVerdict::After(Duration::from_secs(10)));
    }

    #[tokio::test]
    async fn an_answer_that_says_its_time_itself_is_left_alone() {
        let body = r#"{"kind":"Status","code":429,"details":{"retryAfterSeconds":3}}"#;
        let verdict = judged("application/json", body).await;
        assert_eq!(verdict, RetryVerdict::After(Duration::from_secs(3)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_does_not_begin_is_an_error_that_may_pass() {
        let silent = service_fn(|_: http::Request<kube::client::Body>| {
            std::future::pending::<Result<Response<Full<Bytes>>, BoxError>>()
        });
        let client = bounded(ClientBuilder::new(silent, "elsewhere").build());
        assert_eq!(client.default_namespace(), "elsewhere");
        let pods = Api::<Pod>::default_namespaced(client);
        let asked = timeout(Duration::from_mins(2), pods.get("pod")).await;
        let error = asked.unwrap().unwrap_err();
        assert!(report(&error).contains("no answer within 70s"), "{error}");
        assert_eq!(verdict(&error), RetryVerdict::Again);
    }

    #[tokio::test]
    async fn requests_beyond_the_limit_wait_until_a_response_begins() {
        let (at_once, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (now, seen) = (Arc::clone(&at_once), Arc::clone(&most));
        let server = service_fn(move |_: http::Request<kube::client::Body>| {
            let (now, seen) = (Arc::clone(&now), Arc::clone(&seen));
            async move {
                seen.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                yield_now().await;
                now.fetch_sub(1, Ordering::SeqCst);
                let body = r#"{"kind":"Status","code":404,"reason":"NotFound"}"#;
                let response = Response::builder().status(404);
                Ok::<_, BoxError>(response.body(Full::<Bytes>::from(body)).unwrap())
            }
        });
        let client = limited(ClientBuilder::new(server, "elsewhere").build(), 3);
        assert_eq!(client.default_namespace(), "elsewhere");
        let pods = Api::<Pod>::default_namespaced(client);
        let asked = join_all((0..20).map(|_| gets::find(&pods, "pod"))).await;
        assert!(asked.into_iter().all(|it| it.unwrap().is_none()));
        assert_eq!(most.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn what_the_client_itself_says_is_said_as_before() {
        let busy = service_fn(|_: http::Request<kube::client::Body>| async {
            let body = r#"{"kind":"Status","code":404,"reason":"NotFound"}"#;
            Ok::<_, BoxError>(
                Response::builder()
                    .status(404)
                    .body(Full::<Bytes>::from(body))
                    .unwrap(),
            )
        });
        let client = bounded(ClientBuilder::new(busy, "default").build());
        let found = gets::find(&Api::<Pod>::default_namespaced(client), "pod").await;
        assert!(found.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_kubeconfig_that_is_missing_is_an_error_that_names_it() {
        let Err(error) = connect(Some(Path::new("/no/such/file"))).await else {
            panic!("connected");
        };
        assert_eq!(error.to_string(), "cannot use the kubeconfig /no/such/file");
    }
}
