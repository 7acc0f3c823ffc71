//! `approve` and `reject`: the user's answer to an approval, with its effects shown before it is written.
//!
//! It writes one approval object, once, and nothing else. An object is written only if a check of a policy finds it,
//! or a policy counts objects of its kind by their state.

mod carry_out;
mod effects;
mod find;
mod prepare;
mod requests;
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
use crate::terms::{NamespacedName, is_false};
use crate::unread::MissedRead;

/// Why no answer is shown.
#[derive(Debug, PartialEq)]
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
    Already(Box<AnswerShown>),
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
    /// How many more requests of the namespace it could change, and were not looked at.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: usize,
    /// The failed reads for which it may open or end more than is shown, each as a sentence.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// The effect beside those on accesses, as a sentence: on the run that waits at the approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
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
    /// The UID of the pod, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
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
    /// Only Rego modules of the policies look at the object, and the state means to them what they say.
    #[serde(skip_serializing_if = "is_false")]
    pub is_by_module: bool,
    /// The grants that it opens, one of each policy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<OpenedGrant>,
}

/// A grant of one policy that an answer opens.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenedGrant {
    /// The policy.
    pub policy: String,
    /// The UID of the policy.
    pub uid: String,
    /// The generation of the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Whether the rules allow the pod's mount.
    pub covers_mount: bool,
    /// The rules of the Role that the pod gets.
    pub rules: Vec<RuleShown>,
    /// The ends of the access.
    pub until: Vec<EndShown>,
}

/// The effect of an answer on an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum EffectWord {
    /// The pod gets access.
    Opens,
    /// The pod has access, and gets more.
    Adds,
    /// It is not known whether the pod gets access or is refused, because something could not be read.
    NotKnown,
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
    /// It was, and a request came to another end than the effects say.
    OtherEnd,
    /// It was, and there is no request to wait for.
    NothingAwaited,
    /// The answer is there already.
    Already,
    /// The user said no.
    Declined,
    /// There is no terminal to ask the user on.
    NotAsked,
    /// Not all effects are known, and the user was not to be asked.
    EffectsUnknown,
    /// The API server refused it.
    Refused,
    /// The object or its effects changed after they were shown.
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
        AnswerWord::Written | AnswerWord::Already => ExitWord::Yes,
        AnswerWord::StillAwaited
        | AnswerWord::OtherEnd
        | AnswerWord::NothingAwaited
        | AnswerWord::Declined
        | AnswerWord::Refused => ExitWord::No,
        AnswerWord::NotAsked => ExitWord::Usage,
        AnswerWord::EffectsUnknown | AnswerWord::Changed | AnswerWord::Unknown => ExitWord::Unknown,
    }
}

impl AnswerShown {
    /// True when everything was read that the effects depend on.
    #[must_use]
    pub fn knows_effects(&self) -> bool {
        let is_known = |it: &AnswerEffect| it.effect != EffectWord::NotKnown;
        self.doubts.is_empty() && self.left_out == 0 && self.effects.iter().all(is_known)
    }

    /// True when another look found the same effects on the same pods by the same policies.
    #[must_use]
    pub fn has_effects_of(&self, other: &Self) -> bool {
        let key = |it: &AnswerEffect| {
            (
                (it.effect, it.pod.clone(), it.pod_uid.clone()),
                (it.account.clone(), it.connector.clone(), it.permission),
                it.policies.clone(),
                it.grants.clone(),
            )
        };
        let object = |it: &AnsweredObject| (it.kind.clone(), it.name.clone());
        object(&self.object) == object(&other.object)
            && (&self.doubts, self.left_out) == (&other.doubts, other.left_out)
            && self
                .effects
                .iter()
                .map(key)
                .eq(other.effects.iter().map(key))
    }
}

#[cfg(test)]
mod tests;
