//! Why a call is not answered, and the one table from that to gRPC.

use connectors_api::judge::JudgeError;
use evaluation_api::access::QuestionError;
use service_kit::{report, retry};
use thiserror::Error;
use tonic::{Code, Status};
use tracing::warn;

/// Why a call, a stream or a question on a stream is not answered.
#[derive(Debug, Error)]
pub enum Refused {
    /// The caches are not complete yet, or the process is about to end.
    #[error("the service is not ready; try again")]
    NotReady,
    /// There is no token in the metadata.
    #[error("authorization: a bearer token of audience connectors-evaluation is needed")]
    NoToken,
    /// The API server does not know the token, or it is for somebody else.
    #[error("authorization: the token is not valid for audience connectors-evaluation")]
    BadToken,
    /// The API server cannot be asked about the caller.
    #[error("the caller cannot be reviewed now; try again")]
    NoReview(#[source] retry::CallError),
    /// Too many callers are being reviewed.
    #[error("too many callers are being reviewed; try again")]
    TooManyReviews,
    /// The caller may not ask about the namespace.
    #[error(
        "the caller may not create evaluations.connectors.alauda.io in namespace {0}, which is needed to ask about its connectors"
    )]
    Forbidden(String),
    /// The question is none.
    #[error(transparent)]
    Question(#[from] QuestionError),
    /// A part of the request is not JSON.
    #[error("{0}: is not JSON")]
    Json(String),
    /// Before or after the grant is not said.
    #[error("stage: must be before or after the grant")]
    Stage,
    /// The candidates of one check are given twice.
    #[error("candidates: check {0:?} is named twice")]
    CheckTwice(String),
    /// The request makes no sense as a whole.
    #[error(transparent)]
    Judge(#[from] JudgeError),
    /// More Rego than one call may ask for.
    #[error("the checks need {0} Rego evaluations, more than one call may ask for")]
    TooMuchRego(usize),
    /// Others, or other checks of the same namespace, are being evaluated.
    #[error("too many checks are being evaluated; try again")]
    TooBusy,
    /// There is nothing in a message of a stream.
    #[error("the message has no action")]
    NoAction,
    /// An id stands for two questions.
    #[error("the id {0} was used before on this stream")]
    IdTwice(u64),
    /// More questions than one stream may carry.
    #[error("a stream carries no more questions; end some of them")]
    TooManyQuestions,
    /// More ids than anybody keeps track of.
    #[error("the stream has carried enough questions; begin another")]
    TooManyIds,
    /// The caller has to prove again who it is.
    #[error("the stream has lasted long enough; begin another")]
    TooOld,
    /// The caller does not read what it is told.
    #[error("the stream is not being read")]
    Unread,
    /// A part of the service failed.
    #[error("the service failed")]
    Internal,
}

impl Refused {
    /// The gRPC status code.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::NotReady
            | Self::NoReview(_)
            | Self::TooManyReviews
            | Self::TooBusy
            | Self::TooManyIds
            | Self::TooOld
            | Self::Unread => Code::Unavailable,
            Self::NoToken | Self::BadToken => Code::Unauthenticated,
            Self::Forbidden(_) => Code::PermissionDenied,
            Self::Question(_)
            | Self::Json(_)
            | Self::Stage
            | Self::CheckTwice(_)
            | Self::Judge(_)
            | Self::NoAction
            | Self::IdTwice(_) => Code::InvalidArgument,
            Self::TooMuchRego(_) | Self::TooManyQuestions => Code::ResourceExhausted,
            Self::Internal => Code::Internal,
        }
    }
}

impl From<Refused> for Status {
    fn from(refused: Refused) -> Self {
        // What the API server said is for the log, not for the caller.
        if let Refused::NoReview(source) = &refused {
            warn!(error = report(source), "a caller cannot be reviewed");
        }
        Self::new(refused.code(), refused.to_string())
    }
}
