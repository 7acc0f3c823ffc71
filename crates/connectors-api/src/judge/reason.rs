//! Why a check, an object or a set of rules is what it is.

use crate::words::words;

words! {
    /// Why a check or an object says what it says.
    JudgeReason {
        /// Somebody approved, or a test passed.
        Approved,
        /// Nobody has decided yet.
        Pending,
        /// Somebody said no.
        Rejected,
        /// The state is a word that does not let through.
        NotHolding,
        /// Nothing that the check selects exists yet.
        NoObjects,
        /// The object is being deleted, which counts as deleted.
        BeingDeleted,
        /// The labels that the check looks for cannot be made out of the pod.
        TemplateFailed,
        /// The fields that the check looks for cannot be looked for.
        SelectorInvalid,
        /// The Rego module gives no answer.
        RegoFailed,
        /// The Rego module went beyond a limit.
        RegoLimit,
        /// The object's state cannot be read.
        StateUnreadable,
        /// The object is not what the check selects.
        NotSelected,
        /// It cannot be proven that the object and the pod belong to one pipeline run.
        ProofUnavailable,
        /// Too few of the people whom the policy names have approved.
        QuorumNotMet,
        /// The policy names approvers for a kind that does not record any.
        ApproversUnsupported,
        /// Objects of the kind that the check selects are no approvals.
        KindRefused,
    }
}

words! {
    /// Why nothing can be granted although every check passes.
    RulesReason {
        /// The policy has no rule.
        NoRules,
        /// A rule is about something other than connectors.
        WrongApiGroup,
        /// A resource is not one of this policy's permission.
        WrongPermission,
        /// A resource is none, or not about the pod that asks.
        WrongResource,
        /// A rule allows no verb.
        NoVerbs,
    }
}
