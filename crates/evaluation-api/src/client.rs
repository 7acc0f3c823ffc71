//! The client of the evaluation service: single calls with a deadline, and one shared stream of answers.
//!
//! Every call and every stream shows the token that its file holds at that moment, because the kubelet
//! renews it; every connection trusts the roots that the caller knows at that moment. A server that went
//! away without a word is noticed by HTTP/2 pings within seconds.

mod channel;
mod session;
mod token;
mod watcher;

#[cfg(test)]
mod fake_server;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

use crate::LONGEST_MESSAGE;
use crate::access::{AccessAnswer, AccessQuestion, AnswerError};
use crate::v1::{
    CheckAccessRequest, EvaluateChecksRequest, EvaluateChecksResponse,
    evaluation_client::EvaluationClient,
};
use crate::verdict::{self, UnknownVerdict};
use token::TokenFile;

pub use channel::UrlError;
pub use token::TokenError;
pub use watcher::{AccessWatcher, Event, Refusal, Subscription};

/// How long an access question may take.
const CHECK_ACCESS: Duration = Duration::from_secs(5);
/// How long the evaluation of checks may take: it may run Rego, several times.
const EVALUATE_CHECKS: Duration = Duration::from_secs(15);

/// Where the service is, whom to trust there, and what to show it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `https://host:port`
    pub url: String,
    /// The roots for the next connection, as `service_kit::tls::ClientTls::config` gives them.
    pub tls: watch::Receiver<Arc<ClientConfig>>,
    /// The file with the token for the audience `connectors-evaluation`.
    pub token_file: PathBuf,
}

/// Why a call has no answer. Whatever it is, it is no yes.
#[derive(Debug, Error)]
pub enum CallError {
    /// There is no token to show.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The service was not reached, or answered with an error.
    #[error("the evaluation service did not answer {call}: {} ({:?})", status.message(), status.code())]
    Status {
        /// What was asked.
        call: &'static str,
        /// The error.
        status: Box<Status>,
    },
    /// There was no answer in time.
    #[error("the evaluation service did not answer {call} within {limit:?}")]
    Deadline {
        /// What was asked.
        call: &'static str,
        /// For how long it was waited.
        limit: Duration,
    },
    /// The answer cannot be used.
    #[error("the evaluation service gave an answer that cannot be used")]
    Answer(#[from] AnswerError),
    /// The answer cannot be used.
    #[error("the evaluation service gave an answer that cannot be used")]
    Verdict(#[from] UnknownVerdict),
}

impl CallError {
    /// Whether the same call may have an answer a little later. What is refused for what it says, or
    /// for who says it, needs somebody to change something.
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

    /// The gRPC status code, if the service or the way to it gave one.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Status { status, .. } => Some(status.code()),
            Self::Deadline { .. } => Some(Code::DeadlineExceeded),
            Self::Token(_) | Self::Answer(_) | Self::Verdict(_) => None,
        }
    }
}

/// The evaluation service, as its callers know it. Clones share one connection and one stream.
#[derive(Clone, Debug)]
pub struct Client {
    service: Service,
    watcher: AccessWatcher,
}

/// What calls and the stream have in common.
#[derive(Clone, Debug)]
struct Service {
    stub: EvaluationClient<Channel>,
    token: TokenFile,
}

impl Client {
    /// Connects when it is first needed. To be called inside a tokio runtime: the task behind the
    /// stream is started here, and ends when the last clone and the last subscription are gone.
    pub fn new(settings: Settings) -> Result<Self, UrlError> {
        let Settings {
            url,
            tls,
            token_file,
        } = settings;
        let stub = EvaluationClient::new(channel::open(&url, tls)?)
            .max_decoding_message_size(LONGEST_MESSAGE)
            .max_encoding_message_size(LONGEST_MESSAGE);
        let service = Service {
            stub,
            token: TokenFile(token_file),
        };
        let watcher = AccessWatcher::start(service.clone());
        Ok(Self { service, watcher })
    }

    /// May a subject use a connector now?
    pub async fn check_access(&self, question: AccessQuestion) -> Result<AccessAnswer, CallError> {
        let request = CheckAccessRequest {
            question: Some(question.into()),
        };
        let Service { mut stub, token } = self.service.clone();
        let response = call("CheckAccess", CHECK_ACCESS, async {
            let request = token.shown_with(request, Some(CHECK_ACCESS)).await?;
            answered("CheckAccess", stub.check_access(request).await)
        });
        let answer = response.await?.answer.ok_or(AnswerError::Empty)?;
        Ok(answer.try_into()?)
    }

    /// What do the checks of a policy say? Every verdict in the answer is a known one.
    pub async fn evaluate_checks(
        &self,
        request: EvaluateChecksRequest,
    ) -> Result<EvaluateChecksResponse, CallError> {
        let Service { mut stub, token } = self.service.clone();
        let response = call("EvaluateChecks", EVALUATE_CHECKS, async {
            let request = token.shown_with(request, Some(EVALUATE_CHECKS)).await?;
            answered("EvaluateChecks", stub.evaluate_checks(request).await)
        });
        let response = response.await?;
        verdict::all_known(&response)?;
        Ok(response)
    }

    /// Answers that follow the cluster.
    #[must_use]
    pub const fn watcher(&self) -> &AccessWatcher {
        &self.watcher
    }
}

/// The deadline also covers what the server never hears of: the token, the connection.
async fn call<T>(
    call: &'static str,
    limit: Duration,
    answer: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
    timeout(limit, answer)
        .await
        .unwrap_or(Err(CallError::Deadline { call, limit }))
}

fn answered<T>(call: &'static str, answer: Result<Response<T>, Status>) -> Result<T, CallError> {
    match answer {
        Ok(response) => Ok(response.into_inner()),
        Err(status) => Err(CallError::Status {
            call,
            status: Box::new(status),
        }),
    }
}

impl TokenFile {
    async fn shown_with<T>(
        &self,
        message: T,
        limit: Option<Duration>,
    ) -> Result<Request<T>, TokenError> {
        let mut request = Request::new(message);
        request
            .metadata_mut()
            .insert("authorization", self.bearer().await?);
        if let Some(limit) = limit {
            request.set_timeout(limit);
        }
        Ok(request)
    }
}
