//! The client of the evaluation service: single calls with a deadline, and one shared stream of answers.
//!
//! Every call and every stream sends the token that its file holds at that time, because the kubelet renews
//! it. Every connection trusts the roots that the caller knows at that time. HTTP/2 pings detect a server
//! that disappeared silently within seconds.

mod batch;
mod channel;
mod gathered;
mod roots;
mod session;
mod token;
mod watcher;

#[cfg(test)]
mod fake_server;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::LONGEST_MESSAGE;
use crate::access::{
    AccessAnswer, AccessQuestion, AccessTarget, AnswerError, TokenAnswer, TokenQuestion, WhoCan,
};
use crate::refusal::Reason;
use crate::v1::{
    CheckAccessRequest, EvaluateChecksRequest, EvaluateChecksResponse, ExplainRequest,
    ExplainResponse, ValidatePolicyRequest, ValidatePolicyResponse,
    evaluation_client::EvaluationClient,
};
use crate::verdict::{self, UnknownVerdict};
use roots::Roots;
use token::{CallerProof, TokenFile};

pub use crate::refusal::QuestionRefusal;
pub use channel::UrlError;
pub use token::CallerTokenError;
pub use tonic::Code;
pub use watcher::{AccessWatcher, Event, Subscription};

/// The deadline of an access question.
const CHECK_ACCESS: Duration = Duration::from_secs(5);
/// The deadline of a token review: the API server is called each time.
const REVIEW_TOKEN: Duration = Duration::from_secs(10);
/// The deadline of an explanation: the API server is called, twice at most.
const EXPLAIN: Duration = Duration::from_secs(15);
/// The deadline of evaluating checks: it may run Rego, several times.
const EVALUATE_CHECKS: Duration = Duration::from_secs(15);

/// Added to the deadline that the server is told, so that our own deadline expires first.
const TOLD: Duration = Duration::from_millis(500);

/// The address of the service, and the files that a pod needs to call it. A renewed file takes effect by
/// itself: the token is checked for each call, the roots are read for each connection.
///
/// ```
/// # use evaluation_api::client::{Client, ClientFiles, UrlError};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), UrlError> {
/// let client = Client::from_files(ClientFiles {
///     url: "https://evaluation-service.connectors-system.svc:8443".to_owned(),
///     connect_to: None,
///     roots_file: "/etc/connectors/ca/ca.crt".into(),
///     token_file: "/var/run/secrets/connectors-evaluation/token".into(),
/// })?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ClientFiles {
    /// `https://host:port`. The certificate of the service must name the host.
    pub url: String,
    /// The address to connect to, if it is not that of the URL: the near end of a `kubectl port-forward`.
    pub connect_to: Option<SocketAddr>,
    /// The trusted roots, in PEM. In the installation's namespace they are in the `ConfigMap`
    /// `connectors-ca`; during the rotation of authorities it holds both.
    pub roots_file: PathBuf,
    /// The token for the audience [`crate::TOKEN_AUDIENCE`].
    pub token_file: PathBuf,
}

/// The address of the service, the trusted roots and the token: for a process that watches its TLS files
/// itself.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// `https://host:port`
    pub url: String,
    /// The roots for the next connection, as `service_kit::tls::ClientTls::config` gives them.
    pub tls: watch::Receiver<Arc<ClientConfig>>,
    /// The file with the token for the audience `connectors-evaluation`.
    pub token_file: PathBuf,
}

/// The reason why a call has no answer. No variant counts as a yes.
#[derive(Debug, Error)]
pub enum EvaluationCallError {
    /// There is no token to send.
    #[error(transparent)]
    Token(#[from] CallerTokenError),
    /// The service could not be reached, or answered with an error.
    #[error("the evaluation service did not answer {call}: {} ({:?})", status.message(), status.code())]
    Status {
        /// The name of the call.
        call: &'static str,
        /// The error.
        status: Box<Status>,
    },
    /// There was no answer in time.
    #[error("the evaluation service did not answer {call} within {limit:?}")]
    Deadline {
        /// The name of the call.
        call: &'static str,
        /// The time that was waited.
        limit: Duration,
    },
    /// The answer cannot be used.
    #[error("the evaluation service gave an answer that cannot be used")]
    Answer(#[from] AnswerError),
    /// The answer cannot be used.
    #[error("the evaluation service gave an answer that cannot be used")]
    Verdict(#[from] UnknownVerdict),
}

impl EvaluationCallError {
    /// True when the same call may succeed later. A refusal of the content, or because of missing
    /// permissions, lasts until something is changed.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Token(_) | Self::Deadline { .. } => true,
            Self::Answer(_) | Self::Verdict(_) => false,
            Self::Status { status, .. } => match status.code() {
                Code::Ok
                | Code::InvalidArgument
                | Code::NotFound
                | Code::AlreadyExists
                | Code::PermissionDenied
                | Code::FailedPrecondition
                | Code::OutOfRange
                | Code::Unimplemented
                | Code::DataLoss => false,
                Code::Cancelled
                | Code::Unknown
                | Code::DeadlineExceeded
                | Code::ResourceExhausted
                | Code::Aborted
                | Code::Internal
                | Code::Unavailable
                | Code::Unauthenticated => true,
            },
        }
    }

    /// The reason of a refusal as one word. None when the call was not refused, or was refused by a proxy on
    /// the way or with a word of another version.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        match self {
            Self::Status { status, .. } => Reason::of(status),
            Self::Token(_) | Self::Deadline { .. } | Self::Answer(_) | Self::Verdict(_) => None,
        }
    }

    /// The gRPC status code, if the service or a proxy on the way gave one.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Status { status, .. } => Some(status.code()),
            Self::Deadline { .. } => Some(Code::DeadlineExceeded),
            Self::Token(_) | Self::Answer(_) | Self::Verdict(_) => None,
        }
    }
}

/// The client of the evaluation service. Clones share one connection and one stream.
#[derive(Clone, Debug)]
pub struct Client {
    service: ClientParts,
    watcher: AccessWatcher,
}

type Stub = EvaluationClient<Channel>;

/// The parts that calls and the stream share.
#[derive(Clone, Debug)]
struct ClientParts {
    channel: Channel,
    stub: Stub,
    proof: CallerProof,
}

impl Client {
    /// Connects on first use. Must be called inside a tokio runtime: the task behind the stream is started
    /// here, and ends when the last clone and the last subscription are dropped.
    pub fn new(settings: ClientSettings) -> Result<Self, UrlError> {
        let ClientSettings {
            url,
            tls,
            token_file,
        } = settings;
        let channel = channel::open(&url, None, Roots::Followed(tls))?;
        Ok(Self::of(
            channel,
            CallerProof::Token(TokenFile::new(token_file)),
        ))
    }

    /// The same with the files of a pod. Connects on first use, so the files need not exist yet. Must be
    /// called inside a tokio runtime.
    pub fn from_files(files: ClientFiles) -> Result<Self, UrlError> {
        let ClientFiles {
            url,
            connect_to,
            roots_file,
            token_file,
        } = files;
        let channel = channel::open(&url, connect_to, Roots::File(roots_file))?;
        Ok(Self::of(
            channel,
            CallerProof::Token(TokenFile::new(token_file)),
        ))
    }

    /// The same over a Unix socket, which needs no token. Connects on first use. Must be called inside a
    /// tokio runtime.
    #[must_use]
    pub fn over_socket(path: PathBuf) -> Self {
        Self::of(channel::open_socket(path), CallerProof::Socket)
    }

    fn of(channel: Channel, proof: CallerProof) -> Self {
        let stub = EvaluationClient::new(channel.clone())
            .max_decoding_message_size(LONGEST_MESSAGE)
            .max_encoding_message_size(LONGEST_MESSAGE);
        let service = ClientParts {
            channel,
            stub,
            proof,
        };
        let table = Arc::default();
        tokio::spawn(session::run(service.clone(), Arc::clone(&table)));
        let watcher = AccessWatcher::of(table);
        Self { service, watcher }
    }

    /// May a subject use a connector now?
    pub async fn check_access(
        &self,
        question: AccessQuestion,
    ) -> Result<AccessAnswer, EvaluationCallError> {
        let request = CheckAccessRequest {
            question: Some(question.into()),
        };
        let call = self.call("CheckAccess", CHECK_ACCESS, request);
        let response = call.ask(async |mut stub, it| stub.check_access(it).await);
        let answer = response.await?.answer.ok_or(AnswerError::Empty)?;
        Ok(answer.try_into()?)
    }

    /// The subjects that may use a connector now.
    pub async fn who_can(&self, target: AccessTarget) -> Result<WhoCan, EvaluationCallError> {
        let call = self.call("WhoCan", CHECK_ACCESS, target.into());
        let response = call.ask(async |mut stub, it| stub.who_can(it).await);
        Ok(response.await?.try_into()?)
    }

    /// May the pod that shows a token use a connector now?
    pub async fn review_token(
        &self,
        question: TokenQuestion,
    ) -> Result<TokenAnswer, EvaluationCallError> {
        let call = self.call("ReviewToken", REVIEW_TOKEN, question.into());
        let response = call.ask(async |mut stub, it| stub.review_token(it).await);
        Ok(response.await?.try_into()?)
    }

    /// The results of a policy's checks. Every verdict in the answer is a known one.
    pub async fn evaluate_checks(
        &self,
        request: EvaluateChecksRequest,
    ) -> Result<EvaluateChecksResponse, EvaluationCallError> {
        let call = self.call("EvaluateChecks", EVALUATE_CHECKS, request);
        let response = call.ask(async |mut stub, it| stub.evaluate_checks(it).await);
        let response = response.await?;
        verdict::all_known(&response)?;
        Ok(response)
    }

    /// Which errors and suspicious parts does a policy have? It is given as JSON.
    pub async fn validate_policy(
        &self,
        policy: Vec<u8>,
    ) -> Result<ValidatePolicyResponse, EvaluationCallError> {
        let request = ValidatePolicyRequest { policy };
        let call = self.call("ValidatePolicy", EVALUATE_CHECKS, request);
        call.ask(async |mut stub, it| stub.validate_policy(it).await)
            .await
    }

    /// Why may a service account, or a pod of it, mount a connector or not?
    pub async fn explain(
        &self,
        request: ExplainRequest,
    ) -> Result<ExplainResponse, EvaluationCallError> {
        let call = self.call("Explain", EXPLAIN, request);
        call.ask(async |mut stub, it| stub.explain(it).await).await
    }

    fn call<M>(&self, name: &'static str, limit: Duration, message: M) -> UnsentCall<M> {
        UnsentCall {
            service: self.service.clone(),
            name,
            limit,
            message,
        }
    }

    /// The watcher: answers that follow the state of the cluster.
    #[must_use]
    pub const fn watcher(&self) -> &AccessWatcher {
        &self.watcher
    }
}

/// A call that has not been started.
struct UnsentCall<M> {
    service: ClientParts,
    name: &'static str,
    limit: Duration,
    message: M,
}

impl<M> UnsentCall<M> {
    /// The deadline also covers the steps before the server is involved: the token and the connection.
    async fn ask<A>(
        self,
        send: impl AsyncFnOnce(Stub, Request<M>) -> Result<Response<A>, Status>,
    ) -> Result<A, EvaluationCallError> {
        let Self {
            service: ClientParts { stub, proof, .. },
            name: call,
            limit,
            message,
        } = self;
        let answer = async {
            let request = proof.shown_with(message, Some(limit))?;
            answered(call, send(stub, request).await)
        };
        let answer = timeout(limit, answer).await;
        answer.unwrap_or(Err(EvaluationCallError::Deadline { call, limit }))
    }
}

fn answered<T>(
    call: &'static str,
    answer: Result<Response<T>, Status>,
) -> Result<T, EvaluationCallError> {
    match answer {
        Ok(response) => Ok(response.into_inner()),
        Err(status) => Err(EvaluationCallError::Status {
            call,
            status: Box::new(status),
        }),
    }
}

impl CallerProof {
    fn shown_with<T>(
        &self,
        message: T,
        limit: Option<Duration>,
    ) -> Result<Request<T>, CallerTokenError> {
        let mut request = Request::new(message);
        if let Some(bearer) = self.bearer()? {
            request.metadata_mut().insert("authorization", bearer);
        }
        if let Some(limit) = limit {
            // The transport ends a call at the deadline that the server is told, and reports that it was
            // cancelled. Our own deadline has the error that callers know, so it must expire first.
            request.set_timeout(limit + TOLD);
        }
        Ok(request)
    }
}
