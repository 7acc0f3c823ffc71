//! The reasons of the conditions of an `AccessPolicy`, and the events about its standing permission.

use crate::words::words;

words! {
    /// Does the policy select a connector?
    ConnectorsMatched {
        /// It selects one at least.
        ConnectorsMatched,
        /// It selects none, so it grants nothing.
        NoConnectorMatched,
        /// It cannot be read as a policy.
        PolicyUnreadable,
    }
}

words! {
    /// Is the standing permission in force as it is written?
    PermissionSynced {
        /// The standing permission is in force as it is written.
        PermissionGranted,
        /// The policy has no standing permission.
        NoStandingPermission,
        /// There is no connector for it, or no subject.
        NothingToGrant,
        /// Some subjects cannot be parsed; the others hold it.
        SubjectsInvalid,
        /// Its rules grant something that no policy may; no subject holds it.
        RulesInvalid,
        /// Its selectors find more subjects than one policy may select; no subject holds it.
        TooManySubjects,
        /// More of its subjects have selectors than one policy may have; no subject holds it.
        TooManySelectors,
        /// The policy cannot be parsed; no subject holds it.
        PolicyUnreadable,
        /// A foreign object has the name of the Role or RoleBinding.
        NameTaken,
        /// The API server refuses the Role or RoleBinding.
        WriteFailed,
        /// The objects that the policy selects from take too long to read; no subject holds more than before.
        ReadTooSlow,
    }
}

words! {
    /// Can the policy's checks be judged, and are they effective?
    ChecksValid {
        /// The checks can be judged, and no account of the requesters' namespaces could write an approval.
        ChecksValid,
        /// The policy has no checks.
        NoChecks,
        /// The checks can be judged, and an account of the requesters' namespaces could write an approval.
        ChecksForgeable,
        /// The checks can be judged, and such an account could delete an approval before it is withdrawn.
        ChecksDeletable,
        /// The checks can be judged, and pods of every namespace may ask, with approvals from their own namespaces.
        RequestersOpen,
        /// A label, a field, a template or a Rego module of the checks cannot be used.
        ChecksInvalid,
        /// For a connector of the policy, only older policies count; there this policy grants nothing.
        TooManyPolicies,
        /// The checks select a kind that the cluster does not have.
        KindMissing,
        /// The checks select a cluster-scoped kind.
        KindNotNamespaced,
        /// The checks select a kind that the installation may not read.
        KindNotReadable,
        /// The checks need a proof of lineage that this version cannot give, so nothing ever passes.
        ProofUnavailable,
        /// A check excludes the creators of pipeline runs, and no admission rule records them, so it never
        /// passes.
        CreatorsUnknown,
        /// A service that is needed to judge them does not answer.
        ChecksNotJudged,
        /// The policy cannot be read.
        PolicyUnreadable,
    }
}

words! {
    /// Is the whole policy in force? A policy that is in force but questionable has the reason of its checks.
    Ready {
        /// The whole policy is in force.
        Ready,
        /// Its standing permission is in force; it is not known whether its checks can be judged.
        ChecksNotJudged,
    }
}

words! {
    /// Events about a standing permission.
    Event {
        /// A subject holds more than before.
        PermissionGranted,
        /// A subject holds less than before.
        PermissionRevoked,
        /// A change to a Role or RoleBinding by another client was undone.
        PermissionRestored,
        /// The standing permission is not in force as it is written.
        PermissionNotSynced,
        /// The checks cannot be judged, or a requester could write an approval or delete one.
        ChecksQuestionable,
    }
}

impl Event {
    /// True for events that need attention.
    #[must_use]
    pub const fn is_warning(self) -> bool {
        matches!(
            self,
            Self::PermissionRestored | Self::PermissionNotSynced | Self::ChecksQuestionable
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_as_its_author_wrote_it_needs_attention() {
        let warnings = Event::ALL.iter().filter(|it| it.is_warning());
        let expected = [
            &Event::PermissionRestored,
            &Event::PermissionNotSynced,
            &Event::ChecksQuestionable,
        ];
        assert_eq!(warnings.collect::<Vec<_>>(), expected);
    }

    /// Alerts and people's scripts rely on these words: changing one is a breaking change.
    #[test]
    fn the_words_stay() {
        let words = |all: Vec<&'static str>| all.join(" ");
        assert_eq!(
            words(
                ConnectorsMatched::ALL
                    .iter()
                    .map(|it| it.as_str())
                    .collect()
            ),
            "ConnectorsMatched NoConnectorMatched PolicyUnreadable"
        );
        assert_eq!(
            words(PermissionSynced::ALL.iter().map(|it| it.as_str()).collect()),
            "PermissionGranted NoStandingPermission NothingToGrant SubjectsInvalid RulesInvalid \
             TooManySubjects TooManySelectors PolicyUnreadable NameTaken WriteFailed ReadTooSlow"
        );
        assert_eq!(
            words(ChecksValid::ALL.iter().map(|it| it.as_str()).collect()),
            "ChecksValid NoChecks ChecksForgeable ChecksDeletable RequestersOpen ChecksInvalid TooManyPolicies KindMissing KindNotNamespaced \
             KindNotReadable ProofUnavailable CreatorsUnknown ChecksNotJudged PolicyUnreadable"
        );
        assert_eq!(
            words(Ready::ALL.iter().map(|it| it.as_str()).collect()),
            "Ready ChecksNotJudged"
        );
        assert_eq!(
            words(Event::ALL.iter().map(|it| it.as_str()).collect()),
            "PermissionGranted PermissionRevoked PermissionRestored PermissionNotSynced ChecksQuestionable"
        );
    }
}
