//! The status of a policy.

use connectors_api::{
    AccessPolicyCondition, AccessPolicyStatus, Condition, ConditionStatus,
    access_policy::{MOST_SELECTORS, MatchedConnector},
    policy_reason::{ChecksValid, ConnectorsMatched, PermissionSynced, Ready},
};
use jiff::Timestamp;

use super::wanted::{StandingPermission, WantedPermissions};
use crate::checks::{Checks, verdict::ChecksVerdict};
use crate::seen::MostSelected;

/// The known state of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The connectors that it selects.
    pub connectors: Vec<String>,
    /// How many hold its standing permission; none when that is not known.
    pub holders: Option<usize>,
    /// Whether it selects anything.
    pub matched: ConnectorsMatched,
    /// Whether its standing permission is in force.
    pub synced: PermissionSynced,
    /// The same for people.
    pub message: String,
    /// The state of its checks.
    pub checks: Checks,
}

impl Summary {
    /// Of a policy that wants this, when all writes have succeeded.
    #[must_use]
    pub fn of(wanted: &WantedPermissions, checks: Checks) -> Self {
        let is_matched = !wanted.connectors.is_empty();
        let count = wanted.connectors.len();
        let (holders, synced, message) = match &wanted.standing {
            StandingPermission::None => (
                Some(0),
                PermissionSynced::NoStandingPermission,
                String::new(),
            ),
            StandingPermission::Invalid(wrong) => {
                let message = format!("spec.defaultPermission.{wrong}; nobody holds it");
                (Some(0), PermissionSynced::RulesInvalid, message)
            }
            StandingPermission::TooMany {
                found,
                most: MostSelected(most),
            } => {
                let message = format!(
                    "the selectors of spec.defaultPermission find {found} subjects, and one policy may select {most}; \
                     nobody holds it: select fewer, name a group, or split the policy"
                );
                (Some(0), PermissionSynced::TooManySubjects, message)
            }
            StandingPermission::TooManySelectors { found } => {
                let message = format!(
                    "spec.defaultPermission.bindingTemplate.subjects: {found} of them have selectors, and one policy may \
                     have {MOST_SELECTORS}; nobody holds it: name the others, or split the policy"
                );
                (Some(0), PermissionSynced::TooManySelectors, message)
            }
            StandingPermission::Given {
                holders, unclear, ..
            } => {
                let holders = if is_matched { holders.len() } else { 0 };
                let (synced, message) = if let Some((place, error)) = unclear.first() {
                    let others = match unclear.len() {
                        1 => String::new(),
                        many => format!(", and {} more", many - 1),
                    };
                    let message = format!(
                        "spec.defaultPermission.bindingTemplate.subjects[{place}]: {error}{others}"
                    );
                    (PermissionSynced::SubjectsInvalid, message)
                } else if !is_matched {
                    let message = "there is no connector to grant it on".to_owned();
                    (PermissionSynced::NothingToGrant, message)
                } else if holders == 0 {
                    let message = "the subjects' selectors find nobody".to_owned();
                    (PermissionSynced::NothingToGrant, message)
                } else {
                    let message = format!("{holders} subjects hold it on {count} connectors");
                    (PermissionSynced::PermissionGranted, message)
                };
                (Some(holders), synced, message)
            }
        };
        Self {
            connectors: wanted.connectors.iter().cloned().collect(),
            holders,
            matched: if is_matched {
                ConnectorsMatched::ConnectorsMatched
            } else {
                ConnectorsMatched::NoConnectorMatched
            },
            synced,
            message,
            checks,
        }
    }

    /// Of a policy that cannot be read.
    #[must_use]
    pub fn unreadable(problem: &str) -> Self {
        Self {
            connectors: Vec::new(),
            holders: Some(0),
            matched: ConnectorsMatched::PolicyUnreadable,
            synced: PermissionSynced::PolicyUnreadable,
            message: format!(
                "the policy cannot be read, and nobody holds anything by it: {problem}"
            ),
            checks: Checks::Judged(ChecksVerdict {
                reason: ChecksValid::PolicyUnreadable,
                message: String::new(),
            }),
        }
    }

    /// The same after a write that failed for good: the holders are not known then.
    #[must_use]
    pub fn failed(self, why: PermissionSynced, message: String) -> Self {
        Self {
            holders: None,
            synced: why,
            message,
            ..self
        }
    }

    /// The status to write; none if the last one is equal.
    #[must_use]
    pub fn status(
        &self,
        generation: Option<i64>,
        last: Option<&AccessPolicyStatus>,
        now: Timestamp,
    ) -> Option<AccessPolicyStatus> {
        let name = |name: &String| MatchedConnector { name: name.clone() };
        let holders = self.holders.map(|it| i32::try_from(it).unwrap_or(i32::MAX));
        let condition = |(type_, status, reason, message): StatusRow<'_>| {
            let before = last.iter().flat_map(|it| &it.conditions);
            let mut before = before.filter(|it| it.type_ == type_ && it.status == status);
            Condition {
                type_,
                status,
                reason: reason.to_owned(),
                message: message.to_owned(),
                observed_generation: generation,
                last_transition_time: before.next().map_or(now, |it| it.last_transition_time),
            }
        };
        let status = AccessPolicyStatus {
            observed_generation: generation,
            matched_connector_count: i32::try_from(self.connectors.len()).ok(),
            matched_connectors: self.connectors.iter().map(name).collect(),
            granted_subjects: holders,
            conditions: self
                .rows(generation, last)
                .into_iter()
                .map(condition)
                .collect(),
        };
        (last != Some(&status)).then_some(status)
    }

    fn rows<'a>(
        &'a self,
        generation: Option<i64>,
        last: Option<&'a AccessPolicyStatus>,
    ) -> [StatusRow<'a>; 4] {
        use AccessPolicyCondition as Type;
        use ConditionStatus::{False, True, Unknown};
        let matched = match self.matched {
            ConnectorsMatched::ConnectorsMatched => (True, ""),
            ConnectorsMatched::NoConnectorMatched => (
                False,
                "no connector of the namespace has these names and labels",
            ),
            ConnectorsMatched::PolicyUnreadable => (False, ""),
        };
        let synced = match self.synced {
            PermissionSynced::PermissionGranted
            | PermissionSynced::NoStandingPermission
            | PermissionSynced::NothingToGrant => True,
            PermissionSynced::SubjectsInvalid
            | PermissionSynced::RulesInvalid
            | PermissionSynced::TooManySubjects
            | PermissionSynced::TooManySelectors
            | PermissionSynced::PolicyUnreadable
            | PermissionSynced::NameTaken
            | PermissionSynced::WriteFailed
            | PermissionSynced::ReadTooSlow => False,
        };
        let checks = self.checks_row(generation, last);
        let ready = if synced == False {
            (False, self.synced.as_str(), self.message.as_str())
        } else if matched.0 == False {
            (False, self.matched.as_str(), matched.1)
        } else {
            let (_, status, reason, message) = checks;
            match status {
                // In force, but questionable: the reason appears in the condition that users see first.
                True if is_questionable(reason) => (True, reason, message),
                True => (True, Ready::Ready.as_str(), ""),
                Unknown => (Unknown, Ready::ChecksNotJudged.as_str(), message),
                False => (False, reason, message),
            }
        };
        [
            (
                Type::ConnectorsMatched,
                matched.0,
                self.matched.as_str(),
                matched.1,
            ),
            (
                Type::PermissionSynced,
                synced,
                self.synced.as_str(),
                &self.message,
            ),
            checks,
            (Type::Ready, ready.0, ready.1, ready.2),
        ]
    }

    fn checks_row<'a>(
        &'a self,
        generation: Option<i64>,
        last: Option<&'a AccessPolicyStatus>,
    ) -> StatusRow<'a> {
        use ConditionStatus::{False, True, Unknown};
        const TYPE: AccessPolicyCondition = AccessPolicyCondition::ChecksValid;
        let ChecksVerdict { reason, message } = match &self.checks {
            Checks::None => return (TYPE, True, ChecksValid::NoChecks.as_str(), ""),
            Checks::AsTold => {
                let told = last.iter().flat_map(|it| &it.conditions);
                let mut told =
                    told.filter(|it| it.type_ == TYPE && it.observed_generation == generation);
                let unknown = (TYPE, Unknown, ChecksValid::ChecksNotJudged.as_str(), "");
                return told.next().map_or(unknown, |it| {
                    (TYPE, it.status, it.reason.as_str(), it.message.as_str())
                });
            }
            Checks::Judged(verdict) => verdict,
        };
        let status = match reason {
            ChecksValid::ChecksValid
            | ChecksValid::NoChecks
            | ChecksValid::ChecksForgeable
            | ChecksValid::ChecksDeletable
            | ChecksValid::RequestersOpen => True,
            ChecksValid::ChecksNotJudged => Unknown,
            ChecksValid::ChecksInvalid
            | ChecksValid::TooManyPolicies
            | ChecksValid::KindMissing
            | ChecksValid::KindNotNamespaced
            | ChecksValid::KindNotReadable
            | ChecksValid::ProofUnavailable
            | ChecksValid::CreatorsUnknown
            | ChecksValid::PolicyUnreadable => False,
        };
        (TYPE, status, reason.as_str(), message)
    }
}

/// Whether checks that can be judged protect less than they seem to.
fn is_questionable(reason: &str) -> bool {
    [
        ChecksValid::ChecksForgeable,
        ChecksValid::ChecksDeletable,
        ChecksValid::RequestersOpen,
    ]
    .iter()
    .any(|it| it.as_str() == reason)
}

type StatusRow<'a> = (AccessPolicyCondition, ConditionStatus, &'a str, &'a str);

#[cfg(test)]
mod tests;
