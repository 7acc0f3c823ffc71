//! Why a call is not answered, and the one table of the gRPC codes.

use std::collections::HashMap;
use std::time::Duration;

use connectors_api::judge::JudgeError;
use connectors_api::shared_fields::SharedFieldsError;
use evaluation_api::access::QuestionError;
use evaluation_api::refusal::{self, FIELD, NAMESPACE, Reason};
use evaluation_api::v1::Refusal;
use evaluation_api::{MOST_QUESTIONS, POD_TOKEN_AUDIENCE};
use service_kit::{report, retry};
use thiserror::Error;
use tonic::{Code, Status};
use tracing::warn;

/// Why a call, a stream or a question is not answered.
#[derive(Debug, Error)]
pub enum Refused {
    /// The caches are not complete yet, or the process is about to end.
    #[error("the service is not ready; try again")]
    NotReady,
    /// A cache has not heard from the API server for too long. Its content may be outdated.
    #[error("the service has not heard from the API server for too long; try again")]
    Stale,
    /// There is no token in the metadata.
    #[error("authorization: a bearer token of audience connectors-evaluation is needed")]
    NoToken,
    /// The API server does not know the token, or the token is for another audience.
    #[error("authorization: the token is not valid for audience connectors-evaluation")]
    BadToken,
    /// The API server cannot answer a necessary question.
    #[error("the API server cannot be asked now; try again")]
    NoReview(#[source] retry::CallError),
    /// Too many questions to the API server are open.
    #[error("too much is being asked of the API server; try again")]
    TooManyReviews,
    /// The caller may not ask about the namespace.
    #[error(
        "the caller may not create evaluations.connectors.alauda.io in namespace {0}, which is needed to ask about its connectors"
    )]
    Forbidden(String),
    /// The question is invalid.
    #[error(transparent)]
    Question(#[from] QuestionError),
    /// A policy that no API server would store.
    #[error("policy: is longer than 1 MiB")]
    PolicyTooLong,
    /// There are too many objects, or they have too many parts, to be read.
    #[error(
        "the policy and the objects take too much memory to be read; ask about fewer at a time"
    )]
    TooMuchMemory,
    /// The bytes of the message cannot be read.
    #[error("the message cannot be read")]
    NoMessage,
    /// More questions than one call may ask.
    #[error("questions: at most {MOST_QUESTIONS} in one call")]
    TooManyAtOnce,
    /// The token in the question is not valid.
    #[error("token: is not a valid service account token")]
    SubjectToken,
    /// The token is for another audience.
    #[error("token: is not for audience {POD_TOKEN_AUDIENCE}")]
    SubjectAudience,
    /// It belongs to no pod.
    #[error("token: is not bound to a pod")]
    SubjectNoPod,
    /// A part of the request is not JSON.
    #[error("{0}: is not JSON")]
    Json(String),
    /// The stage, before or after the grant, is missing.
    #[error("stage: must be before or after the grant")]
    Stage,
    /// A shared field has no path.
    #[error("candidates: shared_fields: {0}")]
    SharedFields(SharedFieldsError),
    /// The time since which creators are protected cannot be read.
    #[error("creators_since: is no time")]
    CreatorsSince,
    /// The candidates of one check are given twice.
    #[error("candidates: check {0:?} is named twice")]
    CheckTwice(String),
    /// The request is inconsistent as a whole.
    #[error(transparent)]
    Judge(#[from] JudgeError),
    /// More Rego than one call may ask for.
    #[error("the checks need {0} Rego evaluations, more than one call may ask for")]
    TooMuchRego(usize),
    /// Other callers' checks, or other checks of the same namespace, are being evaluated.
    #[error("too many checks are being evaluated; try again")]
    TooBusy,
    /// A message of a stream is empty.
    #[error("the message has no action")]
    NoAction,
    /// An id stands for two questions.
    #[error("the id {0} was used before on this stream")]
    IdTwice(u64),
    /// More questions than one stream may carry.
    #[error("a stream carries no more questions; end some of them")]
    TooManyQuestions,
    /// More ids than the service remembers.
    #[error("the stream has carried enough questions; begin another")]
    TooManyIds,
    /// The caller has to prove its identity again.
    #[error("the stream has lasted long enough; begin another")]
    TooOld,
    /// The caller does not read its answers.
    #[error("the stream is not being read")]
    Unread,
    /// The caller has as many calls in progress as it may.
    #[error("the caller has too many calls in progress; wait for some of them")]
    TooManyCalls,
    /// The caller has as many streams open as it may.
    #[error("the caller has too many streams open; end some of them")]
    TooManyStreams,
    /// The call exceeded the time limit.
    #[error("the call took too long")]
    TooLate,
    /// A part of the service failed.
    #[error("the service failed")]
    Internal,
}

/// Soon enough for a short wait, late enough for the obstacle to be gone.
const SOON: Duration = Duration::from_secs(1);
/// Stale caches stay so for a while.
const LATER: Duration = Duration::from_secs(5);

impl Refused {
    /// The table: the gRPC status code, the word for programs, and when another try can help.
    const fn row(&self) -> (Code, Reason, Option<Duration>) {
        match self {
            Self::NotReady => (Code::Unavailable, Reason::NotReady, Some(SOON)),
            Self::Stale => (Code::Unavailable, Reason::CacheStale, Some(LATER)),
            Self::NoReview(_) => (Code::Unavailable, Reason::ApiServerUnavailable, Some(SOON)),
            Self::TooManyReviews => (Code::Unavailable, Reason::TooManyReviews, Some(SOON)),
            Self::TooBusy => (Code::Unavailable, Reason::TooBusy, Some(SOON)),
            Self::TooManyIds => (Code::Unavailable, Reason::TooManyIds, Some(SOON)),
            Self::TooOld => (Code::Unavailable, Reason::StreamTooOld, Some(SOON)),
            Self::Unread => (Code::Unavailable, Reason::StreamUnread, Some(SOON)),
            Self::NoToken => (Code::Unauthenticated, Reason::TokenMissing, None),
            Self::BadToken => (Code::Unauthenticated, Reason::TokenInvalid, None),
            Self::Forbidden(_) => (Code::PermissionDenied, Reason::NamespaceForbidden, None),
            Self::Question(QuestionError::Missing(_)) => {
                (Code::InvalidArgument, Reason::FieldMissing, None)
            }
            Self::Question(_) | Self::Stage | Self::SharedFields(_) | Self::CreatorsSince => {
                (Code::InvalidArgument, Reason::FieldInvalid, None)
            }
            Self::NoMessage => (Code::InvalidArgument, Reason::MessageInvalid, None),
            Self::TooManyAtOnce | Self::PolicyTooLong | Self::TooMuchMemory => {
                (Code::InvalidArgument, Reason::TooLong, None)
            }
            Self::SubjectToken => (Code::InvalidArgument, Reason::SubjectTokenInvalid, None),
            Self::SubjectAudience => (
                Code::InvalidArgument,
                Reason::SubjectTokenWrongAudience,
                None,
            ),
            Self::SubjectNoPod => (Code::InvalidArgument, Reason::SubjectTokenWithoutPod, None),
            Self::Json(_) => (Code::InvalidArgument, Reason::JsonInvalid, None),
            Self::CheckTwice(_) => (Code::InvalidArgument, Reason::CheckTwice, None),
            Self::Judge(_) => (Code::InvalidArgument, Reason::EvaluationInvalid, None),
            Self::NoAction => (Code::InvalidArgument, Reason::ActionMissing, None),
            Self::IdTwice(_) => (Code::InvalidArgument, Reason::IdTwice, None),
            Self::TooMuchRego(_) => (Code::ResourceExhausted, Reason::TooMuchRego, None),
            Self::TooManyQuestions => (Code::ResourceExhausted, Reason::TooManyQuestions, None),
            Self::TooManyCalls => (Code::ResourceExhausted, Reason::TooManyCalls, Some(SOON)),
            Self::TooManyStreams => (Code::ResourceExhausted, Reason::TooManyStreams, Some(LATER)),
            Self::TooLate => (Code::DeadlineExceeded, Reason::CallTooLong, Some(SOON)),
            Self::Internal => (Code::Internal, Reason::Internal, None),
        }
    }

    /// The gRPC status code.
    #[must_use]
    pub const fn code(&self) -> Code {
        self.row().0
    }

    /// The word for programs.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        self.row().1
    }

    /// The field or namespace of the refusal, if it has one.
    #[must_use]
    pub fn metadata(&self) -> HashMap<String, String> {
        let about = match self {
            Self::Forbidden(namespace) => Some((NAMESPACE, namespace.as_str())),
            Self::Question(error) => Some((FIELD, error.field())),
            Self::Json(field) => Some((FIELD, field.as_str())),
            Self::Stage => Some((FIELD, "stage")),
            Self::CreatorsSince => Some((FIELD, "creators_since")),
            Self::CheckTwice(_) | Self::SharedFields(_) => Some((FIELD, "candidates")),
            Self::TooManyAtOnce => Some((FIELD, "questions")),
            Self::PolicyTooLong => Some((FIELD, "policy")),
            Self::SubjectToken | Self::SubjectAudience | Self::SubjectNoPod => {
                Some((FIELD, "token"))
            }
            Self::NotReady
            | Self::Stale
            | Self::NoToken
            | Self::BadToken
            | Self::NoReview(_)
            | Self::TooManyReviews
            | Self::Judge(_)
            | Self::TooMuchRego(_)
            | Self::TooBusy
            | Self::TooMuchMemory
            | Self::NoMessage
            | Self::NoAction
            | Self::IdTwice(_)
            | Self::TooManyQuestions
            | Self::TooManyIds
            | Self::TooOld
            | Self::Unread
            | Self::TooManyCalls
            | Self::TooManyStreams
            | Self::TooLate
            | Self::Internal => None,
        };
        let pair = about.map(|(key, value)| (key.to_owned(), value.to_owned()));
        pair.into_iter().collect()
    }

    /// Logs the API server's answer, which is not for the caller.
    fn log(&self) {
        if let Self::NoReview(source) = self {
            warn!(error = report(source), "the API server cannot be asked");
        }
    }
}

impl From<Refused> for Status {
    fn from(refused: Refused) -> Self {
        refused.log();
        let (code, reason, again) = refused.row();
        refusal::status(code, refused.to_string(), reason, refused.metadata(), again)
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        Self::from(&refused)
    }
}

impl From<&Refused> for Refusal {
    fn from(refused: &Refused) -> Self {
        refused.log();
        let (code, reason, _) = refused.row();
        Self {
            code: code.into(),
            message: refused.to_string(),
            reason: reason.as_str().to_owned(),
            metadata: refused.metadata(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tonic_types::StatusExt;

    use super::*;

    #[test]
    fn a_refusal_says_in_one_word_why_and_what_about() {
        let status = Status::from(Refused::Forbidden("tools".to_owned()));
        assert_eq!(status.code(), Code::PermissionDenied);
        assert_eq!(Reason::of(&status), Some(Reason::NamespaceForbidden));
        let details = status.get_error_details();
        assert_eq!(details.error_info().unwrap().metadata["namespace"], "tools");
        assert!(details.retry_info().is_none());

        let missing = Refused::Question(QuestionError::Missing("subject"));
        let refusal = Refusal::from(missing);
        assert_eq!(refusal.reason, "FIELD_MISSING");
        assert_eq!(refusal.metadata["field"], "subject");
    }

    #[test]
    fn what_may_pass_by_itself_says_when_to_try_again() {
        for (refused, again) in [
            (Refused::NotReady, Some(SOON)),
            (Refused::Stale, Some(LATER)),
            (Refused::TooBusy, Some(SOON)),
            (Refused::TooLate, Some(SOON)),
            (Refused::TooManyCalls, Some(SOON)),
            (Refused::TooManyStreams, Some(LATER)),
            (Refused::BadToken, None),
            (Refused::Stage, None),
            (Refused::Internal, None),
        ] {
            let name = refused.to_string();
            let code = refused.code();
            let status = Status::from(refused);
            let details = status.get_error_details();
            let said = details.retry_info().and_then(|info| info.retry_delay);
            assert_eq!(said, again, "{name}");
            assert!(code != Code::Unavailable || said.is_some(), "{name}");
        }
    }
}
