//! What the evaluation service is asked: what the checks of a policy say, and which pods need no request.

use std::time::Duration;

use evaluation_api::{
    access::{AccessQuestion, Permitted},
    client::{CallError, Client},
    v1::{EvaluateChecksRequest, EvaluateChecksResponse},
};
use futures::future::BoxFuture;
use service_kit::process;
use thiserror::Error;
use tokio::runtime::Handle;
use tonic::Code;
use tracing::warn;

use crate::seen::StandingSeen;

/// Nobody said anything. Nothing is granted on that, and nothing taken back.
#[derive(Debug, Error)]
pub enum Unanswered {
    /// The call failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The process ends.
    #[error("the process ends, and asks nothing more")]
    Ended,
    /// There was no answer in time to act on it.
    #[error("the evaluation service did not answer within {0:?}")]
    Late(Duration),
}

impl Unanswered {
    /// Whether the same question is refused whenever it is asked: for its size, or for what it says. That
    /// somebody is busy, away or slow is no refusal.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        let code = match self {
            Self::Call(CallError::Status { status, .. }) => status.code(),
            Self::Call(
                CallError::Token(_)
                | CallError::Deadline { .. }
                | CallError::Answer(_)
                | CallError::Verdict(_),
            )
            | Self::Late(_)
            | Self::Ended => return false,
        };
        matches!(code, Code::InvalidArgument | Code::OutOfRange)
    }
}

/// Who is asked. Tests ask somebody simpler than the evaluation service.
pub trait Evaluator: Send + Sync {
    /// What do the checks say? Whoever asks waits no longer than he likes.
    fn evaluate(
        &self,
        question: EvaluateChecksRequest,
    ) -> BoxFuture<'_, Result<EvaluateChecksResponse, Unanswered>>;

    /// Does a permission that holds at any time cover these questions? One answer each, in their order. The caller
    /// waits no longer than it likes, and asks no more than [`evaluation_api::MOST_QUESTIONS`] at a time.
    fn standing(
        &self,
        questions: Vec<AccessQuestion>,
    ) -> BoxFuture<'_, Result<Vec<StandingSeen>, Unanswered>>;
}

/// The evaluation service, asked over connections of the process's own runtime whatever runtime asks.
pub struct EvaluationService {
    /// How it is asked.
    pub client: Client,
    /// Where its connections are.
    pub runtime: Handle,
}

impl Evaluator for EvaluationService {
    fn evaluate(
        &self,
        question: EvaluateChecksRequest,
    ) -> BoxFuture<'_, Result<EvaluateChecksResponse, Unanswered>> {
        let client = self.client.clone();
        Box::pin(async move {
            let asked = async move { client.evaluate_checks(question).await };
            match process::on(&self.runtime, asked).await {
                Ok(said) => Ok(said?),
                Err(_) => Err(Unanswered::Ended),
            }
        })
    }

    fn standing(
        &self,
        questions: Vec<AccessQuestion>,
    ) -> BoxFuture<'_, Result<Vec<StandingSeen>, Unanswered>> {
        let client = self.client.clone();
        Box::pin(async move {
            let asked = async move { client.batch_check_access(&questions).await };
            let Ok(answers) = process::on(&self.runtime, asked).await else {
                return Err(Unanswered::Ended);
            };
            let answers = answers?;
            let seen = answers.into_iter().map(|answer| match answer {
                Ok(Permitted::Standing) => StandingSeen::There,
                Ok(Permitted::No | Permitted::Pod) => StandingSeen::Absent,
                Err(refusal) => {
                    warn!(code = ?refusal.code, message = refusal.message, "a question about access is refused");
                    StandingSeen::Unknown
                }
            });
            Ok(seen.collect())
        })
    }
}
