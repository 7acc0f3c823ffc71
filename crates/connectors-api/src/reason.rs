//! The reasons of the conditions of an `AccessRequest`.
//!
//! Each condition has one enum, and its words are defined nowhere else. Conditions and gRPC details are rendered from
//! it; docs/troubleshooting.md explains each word. The words of Ready are also the `action` of events, a log field and a
//! metric label, so an operator can search for one word in all of them. The reasons of events (`AccessGranted` …) are
//! not here: they are in `plan/tell.rs` of each controller and in csi-node `kubernetes.rs`.

use crate::{AccessRequestCondition, words::words};

/// The reason of every condition that is Unknown: its subject was not checked, or is not checked any more.
pub const NOT_JUDGED: &str = "NotJudged";

/// A set of reasons that belongs to one condition.
pub trait ConditionReason: Copy {
    /// The condition that has these words as its `reason`.
    const CONDITION: AccessRequestCondition;

    /// The word as spelled in the condition.
    fn as_str(self) -> &'static str;
}

words! {
    /// Is the pod that asked still there and still running?
    ContextObjectValid {
        /// The pod has not finished.
        UnCompleted,
        /// The pod ran to its end, so it needs no access any more.
        Completed,
        /// The pod is gone, or another pod took its name.
        NotFound,
    }
}

words! {
    /// Does the connector exist?
    ConnectorResolved {
        /// The connector was found.
        Resolved,
        /// There is no connector of that name, or another one took its name.
        NotFound,
    }
}

words! {
    /// Does a policy with checks select the connector and accept the asker?
    AccessPolicyMatched {
        /// At least one policy selects the connector and accepts the asker.
        AccessPolicyMatched,
        /// No policy does so yet; one that is created later joins.
        NoAccessPolicyMatched,
    }
}

words! {
    /// The result of the checks.
    AccessCheckReady {
        /// A check cannot be judged, or its proof does not hold.
        AccessCheckFailed,
        /// Every check of a policy passes.
        AccessCheckPassed,
        /// No check object exists yet, or none has decided.
        AccessCheckPending,
        /// No policy can pass any more.
        AccessCheckRejected,
    }
}

words! {
    /// Does the permission exist as it should?
    AccessPermissionSync {
        /// Writing the Role or the RoleBinding failed.
        AccessPermissionSyncFailed,
        /// The permission is in force.
        AccessPermissionGranted,
        /// The permission was taken back, for good.
        AccessPermissionRevoked,
    }
}

words! {
    /// Whether the pod may mount, and if not: the awaited event, or the end of the request.
    Ready {
        /// The pod may mount.
        Granted,
        /// The connector does not exist yet.
        ConnectorNotFound,
        /// No policy selects the connector and accepts the asker yet.
        NoAccessPolicy,
        /// An approval is awaited.
        ChecksPending,
        /// A check cannot be judged, or its proof does not hold.
        ChecksFailed,
        /// The evaluation service gave no answer about the checks. The call is tried again.
        EvaluatorUnavailable,
        /// The checks pass, and writing the Role or the RoleBinding failed; it is tried again.
        GrantNotWritten,
        /// A decision is due, and the API server takes too long for the reads that it rests on; they are tried again.
        ReadTooSlow,
        /// The feature is switched off: nothing new is granted.
        ApprovalsDisabled,
        /// The pod is being deleted: nothing new is granted to it.
        PodTerminating,
        /// Too many requests of the pod's namespace are waiting already.
        TooManyRequests,
        /// A check said no. Final.
        CheckRejected,
        /// The wait was longer than the policy allows. Final.
        PendingTimeout,
        /// The pod ran to its end. Final.
        PodFinished,
        /// The pod is gone, or another pod took its name. Final.
        PodGone,
        /// A standing permission covers the pod, which waits for nothing any more. Final; the request is deleted
        /// one minute later.
        StandingPermission,
        /// A check stopped holding after the grant. Final.
        CheckLapsed,
        /// The grant reached the end of its time. Final.
        Expired,
        /// The policy behind the grant is gone. Final.
        PolicyDeleted,
        /// The connector is gone, or another one took its name. Final.
        ConnectorDeleted,
        /// The pod runs as another service account than the request says. Final.
        WrongSubject,
        /// Another request for the same subject, connector, permission and pod decides. Final.
        DuplicateRequest,
        /// The request cannot be read as one. Final.
        Unreadable,
    }
}

macro_rules! reasons_of {
    ($($set:ident)+) => {$(
        impl ConditionReason for $set {
            const CONDITION: AccessRequestCondition = AccessRequestCondition::$set;

            fn as_str(self) -> &'static str {
                self.as_str()
            }
        }
    )+};
}

reasons_of! { ContextObjectValid ConnectorResolved AccessPolicyMatched AccessCheckReady AccessPermissionSync Ready }

#[cfg(test)]
mod tests {
    use super::*;

    fn words<R: ConditionReason>(all: &[R]) -> (AccessRequestCondition, Vec<&'static str>) {
        (
            R::CONDITION,
            all.iter().map(|reason| reason.as_str()).collect(),
        )
    }

    /// Dashboards, alerts and people's scripts rely on these words: changing one is a breaking change.
    #[test]
    fn the_words_are_those_of_the_source_document() {
        use AccessRequestCondition as Is;
        assert_eq!(
            words(ContextObjectValid::ALL),
            (
                Is::ContextObjectValid,
                vec!["UnCompleted", "Completed", "NotFound"]
            )
        );
        assert_eq!(
            words(ConnectorResolved::ALL),
            (Is::ConnectorResolved, vec!["Resolved", "NotFound"])
        );
        assert_eq!(
            words(AccessPolicyMatched::ALL),
            (
                Is::AccessPolicyMatched,
                vec!["AccessPolicyMatched", "NoAccessPolicyMatched"]
            )
        );
        assert_eq!(
            words(AccessCheckReady::ALL),
            (
                Is::AccessCheckReady,
                vec![
                    "AccessCheckFailed",
                    "AccessCheckPassed",
                    "AccessCheckPending",
                    "AccessCheckRejected"
                ]
            )
        );
        assert_eq!(
            words(AccessPermissionSync::ALL),
            (
                Is::AccessPermissionSync,
                vec![
                    "AccessPermissionSyncFailed",
                    "AccessPermissionGranted",
                    "AccessPermissionRevoked"
                ]
            )
        );
    }

    #[test]
    fn a_word_is_written_the_same_by_serde_and_display() {
        for reason in AccessCheckReady::ALL {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.to_string());
        }
    }
}
