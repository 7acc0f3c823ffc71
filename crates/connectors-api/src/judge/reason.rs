//! The reasons for the result of a check, an object or a set of rules.

use crate::lineage::LineageReason;
use crate::words::words;

/// The reason for the result of a check or an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultReason {
    /// The judge's own.
    Judge(JudgeReason),
    /// The lineage contradicts.
    Lineage(LineageReason),
}

impl ResultReason {
    /// The reason as one word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Judge(reason) => reason.as_str(),
            Self::Lineage(reason) => reason.as_str(),
        }
    }
}

impl From<JudgeReason> for ResultReason {
    fn from(reason: JudgeReason) -> Self {
        Self::Judge(reason)
    }
}

words! {
    /// The reason for the result of a check or an object, apart from those of the lineage.
    JudgeReason {
        /// An approver approved, or a test passed.
        Approved,
        /// No decision yet.
        Pending,
        /// An approver rejected.
        Rejected,
        /// The state is a word that does not pass.
        NotHolding,
        /// No object that the check selects exists yet.
        NoObjects,
        /// The object is being deleted, which counts as deleted.
        BeingDeleted,
        /// The labels of the check's selector cannot be rendered from the pod.
        TemplateFailed,
        /// The fields of the check's selector cannot be used.
        SelectorInvalid,
        /// The Rego module gives no answer.
        RegoFailed,
        /// The Rego module exceeded a limit.
        RegoLimit,
        /// The object's state cannot be read.
        StateUnreadable,
        /// The object does not match the check's selector.
        NotSelected,
        /// No lineage is known that proves that the object and the pod belong to one pipeline run.
        ProofUnavailable,
        /// Objects between pod and approval are missing, so nothing is proven yet.
        LineageIncomplete,
        /// The run asked for another approval too, and the check does not find it.
        OtherApprovalMissing,
        /// Too few of the users that the policy names have approved.
        QuorumNotMet,
        /// The creator of the run must not approve, and no admission rule guarantees the creator's name.
        CreatorUnknown,
        /// The policy names approvers for a kind that does not record any.
        ApproversUnsupported,
        /// Objects of the selected kind cannot be approvals.
        KindRefused,
    }
}

words! {
    /// The reason why nothing can be granted although every check passes.
    RulesReason {
        /// The policy has no rule.
        NoRules,
        /// A rule is about something other than connectors.
        WrongApiGroup,
        /// A resource belongs to another permission than the policy's.
        WrongPermission,
        /// A resource is malformed, or is not about the asking pod.
        WrongResource,
        /// A rule allows no verb.
        NoVerbs,
    }
}
