//! The accounts that may use a connector, and the owner of a token.

use connectors_api::access_request::Phase;
use jiff::Timestamp;

use super::answer::{read_time, wire_time};
use super::{AccessAnswer, AnswerError, BindingRef, PodRef, RequestSeen, ServiceAccountName};
use crate::v1::{self, standing_access};

/// The subjects and pods that may use a connector now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhoCan {
    /// The holders of standing permissions, once for each binding that gives one.
    pub standing: Vec<StandingAccess>,
    /// Pods that are admitted by their granted request, without a standing permission of their own.
    pub pods: Vec<PodAccess>,
    /// True when the answer does not list all of them.
    pub is_cut: bool,
    /// The objects that could not be looked up.
    pub errors: Vec<String>,
    /// The state of the cluster that the answer is based on is at least as recent as this time.
    pub fresh_as_of: Option<Timestamp>,
}

/// A subject with a standing permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandingAccess {
    /// The subject.
    pub holder: BindingSubject,
    /// The binding that gives it.
    pub binding: BindingRef,
}

/// The subject of a binding.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BindingSubject {
    /// A service account.
    ServiceAccount(ServiceAccountName),
    /// A user.
    User(String),
    /// All members of a group.
    Group(String),
}

/// A pod that may use a connector now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodAccess {
    /// The service account that it runs as.
    pub subject: ServiceAccountName,
    /// The pod.
    pub pod: PodRef,
    /// The binding that gives it.
    pub binding: BindingRef,
    /// The granted request behind it.
    pub request: RequestSeen,
}

/// The owner of a token, and the answer about its access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenAnswer {
    /// The service account.
    pub subject: ServiceAccountName,
    /// The pod that the token is bound to.
    pub pod: PodRef,
    /// The answer.
    pub answer: AccessAnswer,
}

impl TryFrom<v1::WhoCanResponse> for WhoCan {
    type Error = AnswerError;

    fn try_from(response: v1::WhoCanResponse) -> Result<Self, AnswerError> {
        let v1::WhoCanResponse {
            standing,
            pods,
            is_cut,
            errors,
            fresh_as_of,
        } = response;
        let standing = standing.into_iter().map(StandingAccess::try_from);
        let pods = pods.into_iter().map(PodAccess::try_from);
        Ok(Self {
            standing: standing.collect::<Result<_, _>>()?,
            pods: pods.collect::<Result<_, _>>()?,
            is_cut,
            errors,
            fresh_as_of: fresh_as_of.as_ref().and_then(read_time),
        })
    }
}

impl From<WhoCan> for v1::WhoCanResponse {
    fn from(who: WhoCan) -> Self {
        let WhoCan {
            standing,
            pods,
            is_cut,
            errors,
            fresh_as_of,
        } = who;
        Self {
            standing: standing.into_iter().map(Into::into).collect(),
            pods: pods.into_iter().map(Into::into).collect(),
            is_cut,
            errors,
            fresh_as_of: fresh_as_of.map(wire_time),
        }
    }
}

impl TryFrom<v1::StandingAccess> for StandingAccess {
    type Error = AnswerError;

    fn try_from(access: v1::StandingAccess) -> Result<Self, AnswerError> {
        let v1::StandingAccess { binding, subject } = access;
        let holder = match subject.ok_or(AnswerError::Empty)? {
            standing_access::Subject::ServiceAccount(account) => {
                BindingSubject::ServiceAccount(account.into())
            }
            standing_access::Subject::User(name) => BindingSubject::User(name),
            standing_access::Subject::Group(name) => BindingSubject::Group(name),
        };
        let binding = binding.ok_or(AnswerError::NoBinding)?.into();
        Ok(Self { holder, binding })
    }
}

impl From<StandingAccess> for v1::StandingAccess {
    fn from(StandingAccess { holder, binding }: StandingAccess) -> Self {
        let subject = match holder {
            BindingSubject::ServiceAccount(account) => {
                standing_access::Subject::ServiceAccount(account.into())
            }
            BindingSubject::User(name) => standing_access::Subject::User(name),
            BindingSubject::Group(name) => standing_access::Subject::Group(name),
        };
        Self {
            binding: Some(binding.into()),
            subject: Some(subject),
        }
    }
}

impl TryFrom<v1::PodAccess> for PodAccess {
    type Error = AnswerError;

    fn try_from(access: v1::PodAccess) -> Result<Self, AnswerError> {
        let v1::PodAccess {
            subject,
            pod,
            binding,
            request,
        } = access;
        let request = RequestSeen::try_from(request.ok_or(AnswerError::NotGranted)?)?;
        if request.phase != Some(Phase::Granted) {
            return Err(AnswerError::NotGranted);
        }
        Ok(Self {
            subject: subject.ok_or(AnswerError::Empty)?.into(),
            pod: pod.ok_or(AnswerError::Empty)?.into(),
            binding: binding.ok_or(AnswerError::NoBinding)?.into(),
            request,
        })
    }
}

impl From<PodAccess> for v1::PodAccess {
    fn from(access: PodAccess) -> Self {
        let PodAccess {
            subject,
            pod,
            binding,
            request,
        } = access;
        Self {
            subject: Some(subject.into()),
            pod: Some(pod.into()),
            binding: Some(binding.into()),
            request: Some(request.into()),
        }
    }
}

impl TryFrom<v1::ReviewTokenResponse> for TokenAnswer {
    type Error = AnswerError;

    fn try_from(response: v1::ReviewTokenResponse) -> Result<Self, AnswerError> {
        let v1::ReviewTokenResponse {
            subject,
            pod,
            answer,
        } = response;
        Ok(Self {
            subject: subject.ok_or(AnswerError::Empty)?.into(),
            pod: pod.ok_or(AnswerError::Empty)?.into(),
            answer: answer.ok_or(AnswerError::Empty)?.try_into()?,
        })
    }
}

impl From<TokenAnswer> for v1::ReviewTokenResponse {
    fn from(answer: TokenAnswer) -> Self {
        let TokenAnswer {
            subject,
            pod,
            answer,
        } = answer;
        Self {
            subject: Some(subject.into()),
            pod: Some(pod.into()),
            answer: Some(answer.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    mod whole;

    fn binding() -> BindingRef {
        BindingRef {
            kind: "RoleBinding".to_owned(),
            namespace: "tools".to_owned(),
            name: "b".to_owned(),
            uid: "u".to_owned(),
        }
    }

    #[test]
    fn those_who_may_come_back_as_they_were_sent() {
        let account = ServiceAccountName {
            namespace: "devops".to_owned(),
            name: "builder".to_owned(),
        };
        for holder in [
            BindingSubject::ServiceAccount(account),
            BindingSubject::User("u".to_owned()),
            BindingSubject::Group("g".to_owned()),
        ] {
            let binding = binding();
            let access = StandingAccess { holder, binding };
            let wire = v1::StandingAccess::from(access.clone());
            assert_eq!(StandingAccess::try_from(wire), Ok(access));
        }
    }

    #[test]
    fn somebody_without_a_name_or_a_binding_is_nobody() {
        let nobody = v1::StandingAccess {
            subject: None,
            binding: Some(binding().into()),
        };
        assert_eq!(StandingAccess::try_from(nobody), Err(AnswerError::Empty));
        let unbound = v1::StandingAccess {
            subject: Some(standing_access::Subject::User("u".to_owned())),
            binding: None,
        };
        let error = StandingAccess::try_from(unbound);
        assert_eq!(error, Err(AnswerError::NoBinding));
        let error = TokenAnswer::try_from(v1::ReviewTokenResponse::default());
        assert_eq!(error, Err(AnswerError::Empty));
    }

    #[test]
    fn a_pod_without_a_granted_request_is_not_listed() {
        let listed = |phase: v1::RequestPhase| v1::PodAccess {
            subject: Some(v1::ServiceAccount::default()),
            pod: Some(v1::Pod::default()),
            binding: Some(binding().into()),
            request: Some(v1::Request {
                phase: phase.into(),
                ..v1::Request::default()
            }),
        };
        let granted = listed(v1::RequestPhase::Granted);
        assert!(PodAccess::try_from(granted.clone()).is_ok());
        for phase in [
            v1::RequestPhase::Unspecified,
            v1::RequestPhase::Pending,
            v1::RequestPhase::Rejected,
            v1::RequestPhase::Revoked,
            v1::RequestPhase::Ended,
        ] {
            let error = PodAccess::try_from(listed(phase));
            assert_eq!(error, Err(AnswerError::NotGranted), "{phase:?}");
        }
        for (lacking, error) in [
            (
                v1::PodAccess {
                    request: None,
                    ..granted.clone()
                },
                AnswerError::NotGranted,
            ),
            (
                v1::PodAccess {
                    binding: None,
                    ..granted.clone()
                },
                AnswerError::NoBinding,
            ),
            (
                v1::PodAccess {
                    pod: None,
                    ..granted.clone()
                },
                AnswerError::Empty,
            ),
            (
                v1::PodAccess {
                    subject: None,
                    ..granted
                },
                AnswerError::Empty,
            ),
        ] {
            assert_eq!(PodAccess::try_from(lacking), Err(error));
        }
    }
}
