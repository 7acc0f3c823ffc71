//! Questions about access and their answers, as types that need no second look.

mod answer;
mod question;

pub use answer::{AccessAnswer, AnswerError, Binding, Decision, RequestSeen};
pub use question::{AccessQuestion, ConnectorName, PodRef, QuestionError, ServiceAccountName};
