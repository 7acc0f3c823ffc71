//! One call: its request, its way through the runtime, its answer.

use std::{
    fmt,
    future::Future,
    io,
    path::PathBuf,
    sync::{OnceLock, mpsc},
    time::Duration,
};

use futures::{StreamExt as _, stream};
use http::{
    HeaderMap, HeaderValue, Method, Request,
    header::{CONTENT_TYPE, WARNING},
};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::{runtime::Runtime, time::timeout};

use super::user::ApiUser;
use crate::wait::TimedOut;

/// Bounds a call to an API server that does not answer.
const ANSWER: Duration = Duration::from_secs(30);

/// Calls of one test at the same time.
const AT_ONCE: usize = 16;

/// Why a call did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// There is no runtime to call from.
    #[error("cannot start a runtime for calls to the API server: {0}")]
    Runtime(#[source] &'static io::Error),
    /// The kubeconfig leads nowhere.
    #[error("cannot connect with the kubeconfig {file}: {source}", file = file.display())]
    Kubeconfig {
        /// The kubeconfig.
        file: PathBuf,
        /// The problem of the kubeconfig.
        #[source]
        source: Box<kube::Error>,
    },
    /// There is no client for another runtime.
    #[error("cannot make a client for the API server: {0}")]
    NoClient(#[source] Box<kube::Error>),
    /// The kind is not one that tests use.
    #[error("{api_version} {kind} is not in the table of e2e/src/api/kinds.rs: add it")]
    UnknownKind {
        /// The object's `apiVersion`.
        api_version: String,
        /// The object's `kind`.
        kind: String,
    },
    /// The object has no name, and its path would be that of all objects.
    #[error("an object below {0} has no name: give it one")]
    Unnamed(String),
    /// The call cannot be written as a request.
    #[error("{call} is no request: {source}")]
    Request {
        /// The call.
        call: String,
        /// The problem of the request.
        #[source]
        source: http::Error,
    },
    /// The API server did not answer.
    #[error("{call} has no answer: {source}")]
    Unanswered {
        /// The call.
        call: String,
        /// The failure.
        #[source]
        source: Box<kube::Error>,
    },
    /// The API server took too long.
    #[error("{call} has no answer in {ANSWER:?}")]
    Silent {
        /// The call.
        call: String,
    },
    /// The API server said no.
    #[error("{call} is refused ({reason}): {message}")]
    Refused {
        /// The call.
        call: String,
        /// The status code.
        code: u16,
        /// The word for the refusal.
        reason: String,
        /// The message of the API server, or that of a webhook behind it.
        message: String,
    },
    /// The answer is no object.
    #[error("the answer to {call} is not JSON: {source}")]
    Answer {
        /// The call.
        call: String,
        /// The problem of the answer.
        #[source]
        source: serde_json::Error,
    },
    /// The call was dropped before it was over.
    #[error("a call to the API server was given up")]
    GivenUp,
    /// The awaited state did not come.
    #[error(transparent)]
    TimedOut(#[from] TimedOut),
}

impl ApiError {
    /// Whether there is no such object.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { code: 404, .. })
    }
}

/// A request before it is sent.
#[derive(Debug)]
pub(super) struct ApiCall {
    method: Method,
    /// With the query.
    path: String,
    /// The form of the body, and the body.
    body: Option<(&'static str, Vec<u8>)>,
}

impl fmt::Display for ApiCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

impl ApiCall {
    pub(super) fn get(path: String) -> Self {
        Self {
            method: Method::GET,
            path,
            body: None,
        }
    }

    pub(super) fn post(path: String, object: &Value) -> Self {
        Self::with(Method::POST, path, "application/json", object)
    }

    pub(super) fn apply(path: String, object: &Value) -> Self {
        Self::with(Method::PATCH, path, "application/apply-patch+yaml", object)
    }

    pub(super) fn merge(path: String, fields: &Value) -> Self {
        Self::with(Method::PATCH, path, "application/merge-patch+json", fields)
    }

    pub(super) fn delete(path: String) -> Self {
        Self {
            method: Method::DELETE,
            path,
            body: None,
        }
    }

    /// A deletion that gives no time to end.
    pub(super) fn delete_now(path: String) -> Self {
        let options = json!({"gracePeriodSeconds": 0});
        Self::with(Method::DELETE, path, "application/json", &options)
    }

    fn with(method: Method, path: String, form: &'static str, body: &Value) -> Self {
        Self {
            method,
            path,
            body: Some((form, body.to_string().into_bytes())),
        }
    }

    fn request(&self, user: Option<&ApiUser>) -> Result<Request<Body>, http::Error> {
        let mut request = Request::builder()
            .method(&self.method)
            .uri(&self.path)
            .body(Body::empty())?;
        if let Some(user) = user {
            request.headers_mut().extend(user.headers()?);
        }
        if let Some((form, body)) = &self.body {
            let form = HeaderValue::from_static(form);
            request.headers_mut().insert(CONTENT_TYPE, form);
            *request.body_mut() = Body::from(body.clone());
        }
        Ok(request)
    }
}

/// The API server's answer to a successful call.
pub(super) struct ApiAnswer {
    call: ApiCall,
    /// Its warnings.
    pub(super) warnings: Vec<String>,
    /// Its body.
    pub(super) body: Vec<u8>,
}

impl ApiAnswer {
    /// The answer as an object.
    pub(super) fn object(&self) -> Result<Value, ApiError> {
        serde_json::from_slice(&self.body).map_err(|source| ApiError::Answer {
            call: self.call.to_string(),
            source,
        })
    }
}

/// Carries a call out.
pub(super) async fn exchange(
    client: Client,
    user: Option<ApiUser>,
    call: ApiCall,
) -> Result<ApiAnswer, ApiError> {
    let request = call.request(user.as_ref());
    let request = request.map_err(|source| ApiError::Request {
        call: call.to_string(),
        source,
    })?;
    let answer = async {
        let (head, body) = client.send(request).await?.into_parts();
        Ok((head, body.collect_bytes().await?.to_vec()))
    };
    let answer = timeout(ANSWER, answer).await;
    let answer = answer.map_err(|_| ApiError::Silent {
        call: call.to_string(),
    })?;
    let (head, body) = answer.map_err(|source| ApiError::Unanswered {
        call: call.to_string(),
        source: Box::new(source),
    })?;
    if head.status.is_success() {
        let warnings = warnings(&head.headers);
        Ok(ApiAnswer {
            call,
            warnings,
            body,
        })
    } else {
        Err(refusal(&call, head.status.as_u16(), &body))
    }
}

/// Carries calls out side by side; answers come in the order of the calls.
pub(super) async fn exchange_all(
    client: Client,
    user: Option<ApiUser>,
    calls: Vec<ApiCall>,
) -> Vec<Result<ApiAnswer, ApiError>> {
    let running = calls
        .into_iter()
        .map(|call| exchange(client.clone(), user.clone(), call));
    stream::iter(running).buffered(AT_ONCE).collect().await
}

/// Runs asynchronous work and waits for it, on any thread: those of other runtimes must not enter this one.
pub(super) fn blocking<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, ApiError> {
    static RUNTIME: OnceLock<io::Result<Runtime>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(Runtime::new);
    let runtime = runtime.as_ref().map_err(ApiError::Runtime)?;
    let (sender, receiver) = mpsc::sync_channel(1);
    runtime.spawn(async move {
        // It is waited for below until it comes.
        let _ = sender.send(work.await);
    });
    receiver.recv().map_err(|_| ApiError::GivenUp)
}

fn refusal(call: &ApiCall, code: u16, body: &[u8]) -> ApiError {
    let status: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = String::from_utf8_lossy(body);
    ApiError::Refused {
        call: call.to_string(),
        code,
        reason: status["reason"].as_str().unwrap_or("unknown").to_owned(),
        message: status["message"].as_str().unwrap_or(&text).to_owned(),
    }
}

/// The texts of the warnings, each of which is `299 - "text"`.
fn warnings(headers: &HeaderMap) -> Vec<String> {
    let text = |header: &HeaderValue| {
        let header = String::from_utf8_lossy(header.as_bytes());
        let quoted = header.splitn(3, ' ').nth(2).unwrap_or_default();
        let text = quoted.trim_start_matches('"').trim_end_matches('"');
        text.replace("\\\"", "\"").replace("\\\\", "\\")
    };
    headers.get_all(WARNING).iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> ApiCall {
        ApiCall::post("/api/v1/pods".to_owned(), &json!({}))
    }

    #[test]
    fn a_refusal_names_the_call_the_reason_and_the_servers_words() {
        let status = json!({"kind": "Status", "reason": "Forbidden", "message": "not you"});
        let refused = refusal(&call(), 403, status.to_string().as_bytes());
        assert_eq!(
            refused.to_string(),
            "POST /api/v1/pods is refused (Forbidden): not you"
        );
        assert!(!refused.is_not_found());
    }

    #[test]
    fn a_refusal_that_is_no_status_is_shown_as_it_is() {
        let refused = refusal(&call(), 404, b"404 page not found");
        assert!(
            refused
                .to_string()
                .ends_with("(unknown): 404 page not found")
        );
        assert!(refused.is_not_found());
    }

    #[test]
    fn warnings_are_read_out_of_their_quotes() {
        let mut headers = HeaderMap::new();
        assert_eq!(warnings(&headers), Vec::<String>::new());
        headers.append(
            WARNING,
            HeaderValue::from_static("299 - \"one \\\"quoted\\\" word\""),
        );
        headers.append(WARNING, HeaderValue::from_static("299 - \"another\""));
        assert_eq!(warnings(&headers), ["one \"quoted\" word", "another"]);
    }

    #[test]
    fn work_is_waited_for_inside_another_runtime_too() {
        let other = Runtime::new().unwrap();
        let answer = other.block_on(async { blocking(async { 7 }) });
        assert_eq!(answer.unwrap(), 7);
    }

    #[test]
    fn work_that_panics_is_an_error() {
        let answer = blocking(async { panic!("on purpose") });
        assert!(matches!(answer, Err::<(), _>(ApiError::GivenUp)));
    }
}
