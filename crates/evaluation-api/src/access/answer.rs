//! One answer.

use connectors_api::access_request::Phase;
use connectors_api::reason::{AccessCheckReady, AccessPermissionSync, Ready};
use jiff::Timestamp;
use prost_types::Timestamp as WireTimestamp;
use thiserror::Error;

use crate::v1;

/// The answer of the evaluation service to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessAnswer {
    /// Yes or no.
    pub decision: Decision,
    /// The basis of the decision, as a sentence for people of the connector's namespace.
    pub reason: String,
    /// The request that decides for this subject, connector, permission and pod, if there is one.
    pub request: Option<RequestSeen>,
    /// The state of the cluster that the answer is based on is at least as recent as this time.
    pub fresh_as_of: Option<Timestamp>,
    /// Whether the installation gates mounts now. The decision does not depend on it.
    pub gating: Gating,
    /// Whether a request could be accepted. Set only in a negative answer to a pod without a request.
    pub requestable: Requestable,
}

/// Whether a policy could accept a request of the asker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Requestable {
    /// Not known, or a value of another version.
    #[default]
    Unknown,
    /// No policy could accept it at the moment.
    No,
    /// A policy could accept it.
    Yes,
}

impl From<Requestable> for v1::Requestable {
    fn from(requestable: Requestable) -> Self {
        match requestable {
            Requestable::Unknown => Self::Unspecified,
            Requestable::No => Self::No,
            Requestable::Yes => Self::Yes,
        }
    }
}

impl From<i32> for Requestable {
    fn from(number: i32) -> Self {
        match v1::Requestable::try_from(number) {
            Ok(v1::Requestable::No) => Self::No,
            Ok(v1::Requestable::Yes) => Self::Yes,
            Ok(v1::Requestable::Unspecified) | Err(_) => Self::Unknown,
        }
    }
}

/// Whether an installation gates mounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gating {
    /// Not known, or a value of another version.
    #[default]
    Unknown,
    /// Every mount is admitted, and nothing is granted.
    Off,
    /// Mounts wait for a permission.
    On,
}

impl From<Gating> for v1::Gating {
    fn from(gating: Gating) -> Self {
        match gating {
            Gating::Unknown => Self::Unspecified,
            Gating::Off => Self::Off,
            Gating::On => Self::On,
        }
    }
}

impl From<i32> for Gating {
    fn from(number: i32) -> Self {
        match v1::Gating::try_from(number) {
            Ok(v1::Gating::Off) => Self::Off,
            Ok(v1::Gating::On) => Self::On,
            Ok(v1::Gating::Unspecified) | Err(_) => Self::Unknown,
        }
    }
}

/// Yes or no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// No permission was found.
    Denied,
    /// A standing permission covers the question.
    AllowedStanding(BindingRef),
    /// A permission of this pod covers the question, and its request is granted.
    AllowedPod(BindingRef),
}

/// The binding that gives a permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingRef {
    /// `RoleBinding` or `ClusterRoleBinding`; `Authorizer` where another authorizer than RBAC allows the access.
    pub kind: String,
    /// Empty unless it is a `RoleBinding`.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// An `AccessRequest` as the service read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestSeen {
    /// Its name; it is in the connector's namespace.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The resource version that was read.
    pub resource_version: String,
    /// Its phase; none when no controller has processed it yet.
    pub phase: Option<Phase>,
    /// The result of the checks; none when it is not known, or a word of another version.
    pub check_reason: Option<AccessCheckReady>,
    /// The state of the permission; none when it is not known, or a word of another version.
    pub permission_reason: Option<AccessPermissionSync>,
    /// The reason why it waits or ended; none when it is not known, or a word of another version.
    pub ready_reason: Option<Ready>,
    /// The reason as a sentence.
    pub message: String,
}

impl RequestSeen {
    /// True when it ended because a standing permission covered its pod. It is deleted a minute later. If the
    /// permission is gone by then, a new request may be made.
    #[must_use]
    pub fn makes_way(&self) -> bool {
        self.phase == Some(Phase::Ended) && self.ready_reason == Some(Ready::StandingPermission)
    }
}

/// The reason why an answer cannot be used. It counts as no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AnswerError {
    /// The answer is empty.
    #[error("the answer is empty")]
    Empty,
    /// An unknown decision.
    #[error("the answer's decision {0} is not known here")]
    Decision(i32),
    /// A yes without the binding behind it.
    #[error("the answer is a yes without a binding")]
    NoBinding,
    /// A yes for one pod without its granted request.
    #[error("the answer is a yes for one pod without a granted request")]
    NotGranted,
    /// The number of answers, or a question that a refusal refers to, does not fit the questions.
    #[error("the answers are not those to the questions")]
    Count,
    /// The request is in an unknown phase.
    #[error("the answer's request is in phase {0}, which is not known here")]
    Phase(i32),
}

impl AccessAnswer {
    /// True when the answer is a yes.
    #[must_use]
    pub const fn is_allowed(&self) -> bool {
        match self.decision {
            Decision::AllowedStanding(_) | Decision::AllowedPod(_) => true,
            Decision::Denied => false,
        }
    }
}

impl TryFrom<v1::AccessAnswer> for AccessAnswer {
    type Error = AnswerError;

    fn try_from(answer: v1::AccessAnswer) -> Result<Self, AnswerError> {
        let v1::AccessAnswer {
            decision,
            reason,
            binding,
            request,
            fresh_as_of,
            gating,
            requestable,
        } = answer;
        let known = v1::AccessDecision::try_from(decision);
        let known = known.map_err(|_| AnswerError::Decision(decision))?;
        let request = request.map(RequestSeen::try_from).transpose()?;
        let binding = binding.map(BindingRef::from).ok_or(AnswerError::NoBinding);
        let decision = match known {
            v1::AccessDecision::Unspecified => return Err(AnswerError::Decision(decision)),
            v1::AccessDecision::Denied => Decision::Denied,
            v1::AccessDecision::AllowedStanding => Decision::AllowedStanding(binding?),
            v1::AccessDecision::AllowedPod => {
                let phase = request.as_ref().and_then(|request| request.phase);
                if phase != Some(Phase::Granted) {
                    return Err(AnswerError::NotGranted);
                }
                Decision::AllowedPod(binding?)
            }
        };
        Ok(Self {
            decision,
            reason,
            request,
            fresh_as_of: fresh_as_of.as_ref().and_then(read_time),
            gating: gating.into(),
            requestable: requestable.into(),
        })
    }
}

/// A time that was sent. None if it is no time.
#[must_use]
pub fn read_time(WireTimestamp { seconds, nanos }: &WireTimestamp) -> Option<Timestamp> {
    Timestamp::new(*seconds, *nanos).ok()
}

impl From<v1::Binding> for BindingRef {
    fn from(binding: v1::Binding) -> Self {
        let v1::Binding {
            kind,
            namespace,
            name,
            uid,
        } = binding;
        Self {
            kind,
            namespace,
            name,
            uid,
        }
    }
}

impl TryFrom<v1::Request> for RequestSeen {
    type Error = AnswerError;

    fn try_from(request: v1::Request) -> Result<Self, AnswerError> {
        let phase = v1::RequestPhase::try_from(request.phase);
        let phase = match phase.map_err(|_| AnswerError::Phase(request.phase))? {
            v1::RequestPhase::Unspecified => None,
            v1::RequestPhase::Pending => Some(Phase::Pending),
            v1::RequestPhase::Granted => Some(Phase::Granted),
            v1::RequestPhase::Rejected => Some(Phase::Rejected),
            v1::RequestPhase::Revoked => Some(Phase::Revoked),
            v1::RequestPhase::Invalid => Some(Phase::Invalid),
            v1::RequestPhase::Ended => Some(Phase::Ended),
        };
        Ok(Self {
            phase,
            check_reason: word(
                AccessCheckReady::ALL,
                &request.check_reason,
                AccessCheckReady::as_str,
            ),
            permission_reason: word(
                AccessPermissionSync::ALL,
                &request.permission_reason,
                AccessPermissionSync::as_str,
            ),
            ready_reason: word(Ready::ALL, &request.ready_reason, Ready::as_str),
            name: request.name,
            uid: request.uid,
            resource_version: request.resource_version,
            message: request.message,
        })
    }
}

/// A time in the form in which it is sent. Its nanoseconds count forward, before 1970 too.
#[must_use]
pub fn wire_time(time: Timestamp) -> WireTimestamp {
    let is_before = time.subsec_nanosecond() < 0;
    WireTimestamp {
        seconds: time.as_second() - i64::from(is_before),
        nanos: time.subsec_nanosecond() + i32::from(is_before) * 1_000_000_000,
    }
}

fn word<W: Copy>(all: &[W], text: &str, as_str: fn(W) -> &'static str) -> Option<W> {
    all.iter().copied().find(|word| as_str(*word) == text)
}

impl From<AccessAnswer> for v1::AccessAnswer {
    fn from(answer: AccessAnswer) -> Self {
        let AccessAnswer {
            decision,
            reason,
            request,
            fresh_as_of,
            gating,
            requestable,
        } = answer;
        let (decision, binding) = match decision {
            Decision::Denied => (v1::AccessDecision::Denied, None),
            Decision::AllowedStanding(binding) => {
                (v1::AccessDecision::AllowedStanding, Some(binding))
            }
            Decision::AllowedPod(binding) => (v1::AccessDecision::AllowedPod, Some(binding)),
        };
        Self {
            decision: decision.into(),
            reason,
            binding: binding.map(Into::into),
            request: request.map(Into::into),
            fresh_as_of: fresh_as_of.map(wire_time),
            gating: v1::Gating::from(gating).into(),
            requestable: v1::Requestable::from(requestable).into(),
        }
    }
}

impl From<BindingRef> for v1::Binding {
    fn from(binding: BindingRef) -> Self {
        let BindingRef {
            kind,
            namespace,
            name,
            uid,
        } = binding;
        Self {
            kind,
            namespace,
            name,
            uid,
        }
    }
}

impl From<RequestSeen> for v1::Request {
    fn from(request: RequestSeen) -> Self {
        let phase = match request.phase {
            None => v1::RequestPhase::Unspecified,
            Some(Phase::Pending) => v1::RequestPhase::Pending,
            Some(Phase::Granted) => v1::RequestPhase::Granted,
            Some(Phase::Rejected) => v1::RequestPhase::Rejected,
            Some(Phase::Revoked) => v1::RequestPhase::Revoked,
            Some(Phase::Invalid) => v1::RequestPhase::Invalid,
            Some(Phase::Ended) => v1::RequestPhase::Ended,
        };
        let text = |word: Option<&'static str>| word.unwrap_or_default().to_owned();
        Self {
            name: request.name,
            uid: request.uid,
            resource_version: request.resource_version,
            phase: phase.into(),
            check_reason: text(request.check_reason.map(AccessCheckReady::as_str)),
            permission_reason: text(request.permission_reason.map(AccessPermissionSync::as_str)),
            ready_reason: text(request.ready_reason.map(Ready::as_str)),
            message: request.message,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    mod every;

    fn binding() -> v1::Binding {
        v1::Binding {
            kind: "RoleBinding".to_owned(),
            namespace: "tools".to_owned(),
            name: "b".to_owned(),
            uid: "u".to_owned(),
        }
    }

    #[test]
    fn times_have_whole_seconds_before_them_and_come_back() {
        for (text, seconds, nanos) in [
            ("1970-01-01T00:00:00Z", 0, 0),
            ("2026-03-01T10:00:00.25Z", 1_772_359_200, 250_000_000),
            ("1969-12-31T23:59:59.75Z", -1, 750_000_000),
            ("1969-12-31T23:59:58Z", -2, 0),
        ] {
            let time: Timestamp = text.parse().unwrap();
            let wire = wire_time(time);
            assert_eq!((wire.seconds, wire.nanos), (seconds, nanos), "{text}");
            assert_eq!(read_time(&wire), Some(time), "{text}");
        }
    }

    fn answer(decision: i32) -> v1::AccessAnswer {
        v1::AccessAnswer {
            decision,
            reason: "because".to_owned(),
            binding: (decision > 1).then(binding),
            request: Some(v1::Request {
                name: "r".to_owned(),
                uid: "u".to_owned(),
                resource_version: "7".to_owned(),
                phase: v1::RequestPhase::Granted.into(),
                check_reason: "AccessCheckPassed".to_owned(),
                permission_reason: "AccessPermissionGranted".to_owned(),
                ready_reason: "Granted".to_owned(),
                message: "m".to_owned(),
            }),
            fresh_as_of: Some(WireTimestamp {
                seconds: 1,
                nanos: 2,
            }),
            gating: 2,
            requestable: 2,
        }
    }

    #[test]
    fn only_a_request_that_a_standing_permission_ended_makes_way() {
        for phase in Phase::ALL {
            for ready in Ready::ALL {
                let mut seen = RequestSeen::try_from(answer(1).request.unwrap()).unwrap();
                (seen.phase, seen.ready_reason) = (Some(*phase), Some(*ready));
                let expected = (*phase, *ready) == (Phase::Ended, Ready::StandingPermission);
                assert_eq!(seen.makes_way(), expected, "{phase} {ready}");
            }
        }
        let mut seen = RequestSeen::try_from(answer(1).request.unwrap()).unwrap();
        (seen.phase, seen.ready_reason) = (None, Some(Ready::StandingPermission));
        assert!(!seen.makes_way());
        (seen.phase, seen.ready_reason) = (Some(Phase::Ended), None);
        assert!(!seen.makes_way());
    }

    #[test]
    fn an_answer_comes_back_as_it_was_sent() {
        for decision in 1..=3 {
            let parsed = AccessAnswer::try_from(answer(decision)).unwrap();
            assert_eq!(parsed.is_allowed(), decision > 1);
            assert_eq!(v1::AccessAnswer::from(parsed), answer(decision));
        }
    }

    #[test]
    fn whether_mounts_are_gated_is_told_and_a_word_of_another_version_changes_no_decision() {
        for (number, expected) in [
            (0, Gating::Unknown),
            (1, Gating::Off),
            (2, Gating::On),
            (3, Gating::Unknown),
            (-1, Gating::Unknown),
        ] {
            for decision in 1..=3 {
                let mut wire = answer(decision);
                wire.gating = number;
                let parsed = AccessAnswer::try_from(wire).unwrap();
                assert_eq!(parsed.gating, expected);
                assert_eq!(parsed.is_allowed(), decision > 1);
            }
        }
    }

    #[test]
    fn whether_a_request_leads_anywhere_is_told_and_changes_no_decision() {
        for (number, expected) in [
            (0, Requestable::Unknown),
            (1, Requestable::No),
            (2, Requestable::Yes),
            (3, Requestable::Unknown),
            (-1, Requestable::Unknown),
        ] {
            for decision in 1..=3 {
                let mut wire = answer(decision);
                wire.requestable = number;
                let parsed = AccessAnswer::try_from(wire).unwrap();
                assert_eq!(parsed.requestable, expected);
                assert_eq!(parsed.is_allowed(), decision > 1);
            }
        }
    }

    #[test]
    fn what_is_not_understood_is_no_answer() {
        type Change = fn(&mut v1::AccessAnswer);
        let cases: [(Change, AnswerError); 6] = [
            (|a| a.decision = 0, AnswerError::Decision(0)),
            (|a| a.decision = 4, AnswerError::Decision(4)),
            (|a| a.binding = None, AnswerError::NoBinding),
            (|a| a.request = None, AnswerError::NotGranted),
            (
                |a| a.request.as_mut().unwrap().phase = 3,
                AnswerError::NotGranted,
            ),
            (
                |a| a.request.as_mut().unwrap().phase = 9,
                AnswerError::Phase(9),
            ),
        ];
        for (change, error) in cases {
            let mut wire = answer(3);
            change(&mut wire);
            assert_eq!(AccessAnswer::try_from(wire), Err(error));
        }
    }

    #[test]
    fn a_word_of_another_version_explains_nothing_and_breaks_nothing() {
        let mut wire = answer(1);
        wire.request.as_mut().unwrap().ready_reason = "Tomorrow".to_owned();
        let parsed = AccessAnswer::try_from(wire).unwrap();
        assert_eq!(parsed.request.unwrap().ready_reason, None);
    }

    proptest! {
        #[test]
        fn only_two_numbers_are_a_yes(decision in any::<i32>(), phase in any::<i32>()) {
            let mut wire = answer(decision);
            wire.request.as_mut().unwrap().phase = phase;
            if let Ok(parsed) = AccessAnswer::try_from(wire) {
                prop_assert_eq!(parsed.is_allowed(), decision == 2 || decision == 3 && phase == 2);
            }
        }
    }
}
