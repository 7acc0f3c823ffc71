//! `approve` and `reject`: the user's answer to an approval, with its effects shown before it is written.
//!
//! It writes one approval object, once, and nothing else. An object is written only if a check of a policy finds it,
//! or a policy counts objects of its kind by their state.

mod carry_out;
mod effects;
mod find;
mod prepare;
pub mod text;

use connectors_api::Permission;
use connectors_api::access_request::Phase;
use schemars::JsonSchema;
use serde::Serialize;

pub use carry_out::{AnswerClients, Consent, answer};

use crate::approval_write::ApprovalAnswer;
use crate::exit::ExitWord;
use crate::explain::ExplainError;
use crate::explain::report::{EndShown, RuleShown};
use crate::terms::NamespacedName;
use crate::unread::MissedRead;

/// Why no answer is shown.
#[derive(Debug, PartialEq, Eq)]
pub enum AnswerProblem {
    /// The target cannot be explained.
    Explain(ExplainError),
    /// A read that everything depends on failed.
    Missed(MissedRead),
    /// Another command line would be accepted.
    Usage(String),
    /// There is nothing that an answer would change.
    No(String),
    /// The answer is there already.
    Already(String),
}

impl From<MissedRead> for AnswerProblem {
    fn from(missed: MissedRead) -> Self {
        Self::Missed(missed)
    }
}

/// An answer to an approval, and its effects.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnswerShown {
    /// Yes or no.
    pub answer: ApprovalAnswer,
    /// The approval object.
    pub object: AnsweredObject,
    /// The field that is written, and its value.
    pub writes: String,
    /// The accesses that it changes, or does not change yet. The opened ones come first.
    pub effects: Vec<AnswerEffect>,
    /// How many more requests of the namespace wait, and were not looked at.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: usize,
    /// The checks of policies that count objects of the kind.
    pub policies: Vec<CountingCheck>,
    /// Whether it was written.
    pub outcome: AnswerWord,
    /// Why, as a sentence. Empty after a write.
    pub because: String,
    /// Whether the user saw the effects before the write.
    pub asked: bool,
    /// The state of the object after the write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_after: Option<String>,
    /// The requests after the write.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<RequestAfter>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// An approval object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnsweredObject {
    /// Group and version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// Namespace and name.
    #[serde(flatten)]
    pub name: NamespacedName,
    /// Its state before the write; empty if it has none.
    pub state: String,
}

/// The effect of an answer on the access of one pod.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnswerEffect {
    /// The effect.
    pub effect: EffectWord,
    /// The pod.
    pub pod: NamespacedName,
    /// The service account of the pod.
    pub account: NamespacedName,
    /// The connector.
    pub connector: NamespacedName,
    /// The permission.
    pub permission: Permission,
    /// The request, in the namespace of the connector. Absent if the pod has none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The phase of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The policies whose checks find the object.
    pub policies: Vec<String>,
    /// Why, as a sentence.
    pub because: String,
    /// The rules of the Role that the pod gets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleShown>,
    /// The ends of the access.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub until: Vec<EndShown>,
}

/// The effect of an answer on an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum EffectWord {
    /// The pod gets access.
    Opens,
    /// The request is refused, for the pod for good.
    Refuses,
    /// The access of the pod is taken back.
    TakesBack,
    /// The access is taken back unless another approval of the same check still passes.
    MayTakeBack,
    /// The pod waits as before.
    Waits,
    /// The pod keeps its access by another policy.
    Keeps,
}

/// A check of a policy that counts objects of the kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CountingCheck {
    /// The policy.
    pub policy: NamespacedName,
    /// The check.
    pub check: String,
}

/// Whether an answer was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum AnswerWord {
    /// It was.
    Written,
    /// It was, and not every request whose phase it changes had another phase in time.
    StillAwaited,
    /// The user said no.
    Declined,
    /// There is no terminal to ask the user on.
    NotAsked,
    /// The API server refused it.
    Refused,
    /// The object changed after it was shown.
    Changed,
    /// There was no answer that says whether it was written.
    Unknown,
}

/// A request after the write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestAfter {
    /// The request.
    #[serde(flatten)]
    pub name: NamespacedName,
    /// The phase before the write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Phase>,
    /// The phase when it was last read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Phase>,
}

/// How a program should interpret an answer.
#[must_use]
pub const fn exit(shown: &AnswerShown) -> ExitWord {
    match shown.outcome {
        AnswerWord::Written => ExitWord::Yes,
        AnswerWord::StillAwaited | AnswerWord::Declined | AnswerWord::Refused => ExitWord::No,
        AnswerWord::NotAsked => ExitWord::Usage,
        AnswerWord::Changed | AnswerWord::Unknown => ExitWord::Unknown,
    }
}
