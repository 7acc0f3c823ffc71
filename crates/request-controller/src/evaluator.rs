//! The questions to the evaluation service: the results of a policy's checks, and the standing permissions of pods.

use std::time::Duration;

use evaluation_api::{
    access::{AccessAnswer, AccessQuestion, Decision, Permitted, Requestable},
    client::{Client, EvaluationCallError},
    v1::{EvaluateChecksRequest, EvaluateChecksResponse},
};
use futures::future::BoxFuture;
use service_kit::process;
use thiserror::Error;
use tokio::runtime::Handle;
use tonic::Code;
use tracing::warn;

use crate::seen::{MountAccess, StandingSeen};

/// The reason for a missing answer. Without an answer nothing is granted and nothing is revoked.
#[derive(Debug, Error)]
pub enum Unanswered {
    /// The call failed.
    #[error(transparent)]
    Call(#[from] EvaluationCallError),
    /// The process is stopping.
    #[error("the process ends, and asks nothing more")]
    Ended,
    /// The answer did not arrive in time.
    #[error("the evaluation service did not answer within {0:?}")]
    Late(Duration),
}

impl Unanswered {
    /// True when the same question will be refused each time, because of its size or content. An overloaded,
    /// unavailable or slow service is not a refusal.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        let code = match self {
            Self::Call(EvaluationCallError::Status { status, .. }) => status.code(),
            Self::Call(
                EvaluationCallError::Token(_)
                | EvaluationCallError::Deadline { .. }
                | EvaluationCallError::Answer(_)
                | EvaluationCallError::Verdict(_),
            )
            | Self::Late(_)
            | Self::Ended => return false,
        };
        matches!(code, Code::InvalidArgument | Code::OutOfRange)
    }
}

/// The evaluation service, or its stand-in in tests.
pub trait Evaluator: Send + Sync {
    /// Evaluates the checks of a policy. The caller limits the waiting time.
    fn evaluate(
        &self,
        question: EvaluateChecksRequest,
    ) -> BoxFuture<'_, Result<EvaluateChecksResponse, Unanswered>>;

    /// Asks whether standing permissions cover these questions. There is one answer for each, in their order. The
    /// caller limits the waiting time, and asks at most [`evaluation_api::MOST_QUESTIONS`] at a time.
    fn standing(
        &self,
        questions: Vec<AccessQuestion>,
    ) -> BoxFuture<'_, Result<Vec<StandingSeen>, Unanswered>>;

    /// Asks whether pods may mount connectors now, and where they may not, whether a request could be accepted. There is
    /// one answer for each question, in their order. The caller limits the waiting time, and asks at most
    /// [`evaluation_api::MOST_QUESTIONS`] at a time.
    fn mounts(
        &self,
        questions: Vec<AccessQuestion>,
    ) -> BoxFuture<'_, Result<Vec<MountAccess>, Unanswered>>;
}

/// The client of the evaluation service. Its connections belong to one runtime, whichever runtime the caller uses.
pub struct EvaluationService {
    /// The client.
    pub client: Client,
    /// The runtime of its connections.
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

    fn mounts(
        &self,
        questions: Vec<AccessQuestion>,
    ) -> BoxFuture<'_, Result<Vec<MountAccess>, Unanswered>> {
        let client = self.client.clone();
        Box::pin(async move {
            let asked = async move { client.batch_check_access_in_detail(&questions).await };
            let Ok(answers) = process::on(&self.runtime, asked).await else {
                return Err(Unanswered::Ended);
            };
            let answers = answers?;
            let seen = answers.into_iter().map(|answer| match answer {
                Ok(answer) => mount_access(&answer),
                Err(refusal) => {
                    warn!(code = ?refusal.code, message = refusal.message, "a question about access is refused");
                    MountAccess::Unknown
                }
            });
            Ok(seen.collect())
        })
    }
}

/// The meaning of an answer for the gate of a pod.
pub(crate) fn mount_access(answer: &AccessAnswer) -> MountAccess {
    match answer.decision {
        Decision::AllowedStanding(_) | Decision::AllowedPod(_) => MountAccess::Allowed,
        Decision::Denied if answer.request.is_some() => MountAccess::Requested,
        Decision::Denied => match answer.requestable {
            Requestable::No => MountAccess::Unaccepted,
            Requestable::Yes | Requestable::Unknown => MountAccess::Denied,
        },
    }
}

#[cfg(test)]
mod tests {
    use evaluation_api::access::{BindingRef, Gating, RequestSeen};

    use super::*;

    #[test]
    fn an_answer_about_a_mount_has_one_meaning_for_the_gate() {
        let binding = || BindingRef {
            kind: "RoleBinding".to_owned(),
            namespace: String::new(),
            name: String::new(),
            uid: String::new(),
        };
        let request = || RequestSeen {
            name: "r".to_owned(),
            uid: String::new(),
            resource_version: String::new(),
            phase: None,
            check_reason: None,
            permission_reason: None,
            ready_reason: None,
            message: String::new(),
        };
        let (no, yes, unknown) = (Requestable::No, Requestable::Yes, Requestable::Unknown);
        for (decision, request, requestable, expected) in [
            (
                Decision::AllowedStanding(binding()),
                None,
                unknown,
                MountAccess::Allowed,
            ),
            (
                Decision::AllowedPod(binding()),
                Some(request()),
                unknown,
                MountAccess::Allowed,
            ),
            (
                Decision::Denied,
                Some(request()),
                unknown,
                MountAccess::Requested,
            ),
            (Decision::Denied, None, no, MountAccess::Unaccepted),
            (Decision::Denied, None, yes, MountAccess::Denied),
            (Decision::Denied, None, unknown, MountAccess::Denied),
        ] {
            let answer = AccessAnswer {
                decision,
                reason: String::new(),
                request,
                fresh_as_of: None,
                gating: Gating::On,
                requestable,
            };
            assert_eq!(mount_access(&answer), expected, "{answer:?}");
        }
    }
}
