//! Questions about access and their answers, as types that need no further validation.

mod answer;
mod asked;
mod batch;
mod question;
mod who_can;

pub use answer::{
    AccessAnswer, AnswerError, BindingRef, Decision, Gating, RequestSeen, Requestable, read_time,
    wire_time,
};
pub(crate) use asked::written;
pub use asked::{AskedAtOnce, ReadError};
pub use batch::Permitted;
pub(crate) use batch::{decisions, details};
pub use question::{
    AccessQuestion, AccessTarget, ConnectorName, PodRef, QuestionError, ServiceAccountName,
    TokenQuestion,
};
// Callers need these words and nothing else of that crate.
pub use connectors_api::Permission;
pub use connectors_api::access_request::Phase;
pub use who_can::{BindingSubject, PodAccess, StandingAccess, TokenAnswer, WhoCan};
