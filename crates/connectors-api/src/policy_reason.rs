//! Why a condition of an `AccessPolicy` is what it is, and what is told of its standing permission.

use crate::words::words;

words! {
    /// Does the policy select a connector?
    ConnectorsMatched {
        /// It selects one at least.
        ConnectorsMatched,
        /// It selects none: nothing is granted by it.
        NoConnectorMatched,
        /// It cannot be read as a policy.
        PolicyUnreadable,
    }
}

words! {
    /// Is the standing permission in force as it is written?
    PermissionSynced {
        /// It is.
        PermissionGranted,
        /// The policy has none.
        NoStandingPermission,
        /// There is no connector for it, or nobody whom it names.
        NothingToGrant,
        /// Some subjects cannot be understood; the others hold it.
        SubjectsInvalid,
        /// Its rules hand out something that no policy may; nobody holds it.
        RulesInvalid,
        /// Its selectors find more subjects than one policy may select; nobody holds it.
        TooManySubjects,
        /// More of its subjects have selectors than one policy may have; nobody holds it.
        TooManySelectors,
        /// The policy cannot be read; nobody holds it.
        PolicyUnreadable,
        /// Something that is not ours has the name of the Role or RoleBinding.
        NameTaken,
        /// The API server refuses the Role or RoleBinding.
        WriteFailed,
        /// What the policy selects from takes too long to read; nobody holds more than before.
        ReadTooSlow,
    }
}

words! {
    /// Can the policy's checks be judged, and do they mean something?
    ChecksValid {
        /// They can, and no account of the requesters' namespaces could write an approval.
        ChecksValid,
        /// The policy has none.
        NoChecks,
        /// They can, and an account of the requesters' namespaces could write an approval.
        ChecksForgeable,
        /// They can, and such an account could delete an approval before it is withdrawn.
        ChecksDeletable,
        /// They can, and pods of every namespace may ask, with approvals from their own namespaces.
        RequestersOpen,
        /// A label, a field, a template or Rego of theirs cannot be used.
        ChecksInvalid,
        /// For a connector of the policy, only older policies count; there it grants nothing.
        TooManyPolicies,
        /// They are about a kind that the cluster does not have.
        KindMissing,
        /// They are about a kind whose objects are in no namespace.
        KindNotNamespaced,
        /// They are about a kind that the installation may not read.
        KindNotReadable,
        /// They want a proof of lineage that this version cannot give, so nothing ever passes.
        ProofUnavailable,
        /// Somebody who has to be asked does not answer.
        ChecksNotJudged,
        /// The policy cannot be read.
        PolicyUnreadable,
    }
}

words! {
    /// Is the whole policy in force? What is in force and questionable has the word of its checks.
    Ready {
        /// It is.
        Ready,
        /// What it grants always is; whether its checks can be judged is not known.
        ChecksNotJudged,
    }
}

words! {
    /// What happened to a standing permission.
    Event {
        /// Somebody holds more than before.
        PermissionGranted,
        /// Somebody holds less than before.
        PermissionRevoked,
        /// What somebody else did to a Role or RoleBinding is undone.
        PermissionRestored,
        /// The standing permission is not in force as it is written.
        PermissionNotSynced,
        /// The checks cannot be judged, or who asks could write an approval or delete one.
        ChecksQuestionable,
    }
}

impl Event {
    /// Whether somebody should look.
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
             KindNotReadable ProofUnavailable ChecksNotJudged PolicyUnreadable"
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
