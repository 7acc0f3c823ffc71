//! Who is asked what the checks of a policy say.

use std::time::Duration;

use evaluation_api::{
    client::{CallError, Client},
    v1::{EvaluateChecksRequest, EvaluateChecksResponse},
};
use futures::future::BoxFuture;
use thiserror::Error;
use tokio::time::timeout;

/// An answer that comes later is too old to grant on anyway.
const LIMIT: Duration = Duration::from_secs(4);

/// Nobody said anything. Nothing is granted on that, and nothing taken back.
#[derive(Debug, Error)]
pub enum Unanswered {
    /// The call failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// There was no answer in time to act on it.
    #[error("the evaluation service did not answer within {LIMIT:?}")]
    Late,
}

/// Who is asked. Tests ask somebody simpler than the evaluation service.
pub trait Evaluator: Send + Sync {
    /// What do the checks say?
    fn evaluate(
        &self,
        question: EvaluateChecksRequest,
    ) -> BoxFuture<'_, Result<EvaluateChecksResponse, Unanswered>>;
}

impl Evaluator for Client {
    fn evaluate(
        &self,
        question: EvaluateChecksRequest,
    ) -> BoxFuture<'_, Result<EvaluateChecksResponse, Unanswered>> {
        Box::pin(async move {
            let answer = timeout(LIMIT, self.evaluate_checks(question)).await;
            Ok(answer.map_err(|_| Unanswered::Late)??)
        })
    }
}
