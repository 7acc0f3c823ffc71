//! The information about a policy's checks that each namespace may see.
//!
//! The check objects are in the pod's namespace. If the policy is in another one, its author sees one outcome for
//! each policy. Details of the objects are shown only at the pod.

use connectors_api::{AccessRequest, reason::AccessCheckReady};

use crate::{
    evidence::Listed,
    seen::{CheckSeen, LeftOut, PolicyAnswer},
    selection,
};

/// The state of one policy's checks, as it may be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Disclosure {
    /// For the policy's namespace.
    pub(super) message: String,
    /// For the pod, if it is in another namespace.
    pub(super) at_pod: Option<String>,
}

impl Disclosure {
    /// The information about a pod in the policy's namespace, or about one that `is_foreign` to it.
    pub(super) fn of(answer: &PolicyAnswer, is_foreign: bool) -> Self {
        if is_foreign {
            Self {
                message: outcome(answer),
                at_pod: Some(of_objects(answer)),
            }
        } else {
            Self::here(in_full(answer))
        }
    }

    /// The reason why a grant ends. It concerns objects that the grant lists, so both namespaces know them.
    pub(super) fn of_lapse(check: Option<&str>, why: &str) -> Self {
        let message = match check {
            Some(check) => format!("check {check}: {why}"),
            None => why.to_owned(),
        };
        Self {
            message,
            at_pod: Some(why.to_owned()),
        }
    }

    /// A message without information about objects.
    pub(super) fn here(message: String) -> Self {
        Self {
            message,
            at_pod: None,
        }
    }
}

/// The objects as far as the policy's namespace may see them.
pub(super) fn listed(is_foreign: bool, listed: impl FnOnce() -> Listed) -> Listed {
    if is_foreign {
        Listed::default()
    } else {
        listed()
    }
}

/// The sentence about the checks that do not pass, in the policy's order.
fn in_full(answer: &PolicyAnswer) -> String {
    if let Some(refusal) = &answer.refusal {
        return refusal.clone();
    }
    let told: Vec<_> = in_the_way(answer).map(of_check).collect();
    told.join("; ")
}

/// The same without anything that depends on the existing objects. Errors of the policy itself are included.
fn outcome(answer: &PolicyAnswer) -> String {
    if let Some(refusal) = &answer.refusal {
        return refusal.clone();
    }
    let faults: Vec<_> = in_the_way(answer)
        .filter(|check| is_of_policy(check))
        .map(of_check)
        .collect();
    if !faults.is_empty() {
        return faults.join("; ");
    }
    let outcome = match answer.verdict {
        AccessCheckReady::AccessCheckPassed => "its checks pass",
        AccessCheckReady::AccessCheckPending => "its checks do not pass yet",
        AccessCheckReady::AccessCheckRejected => "its checks were rejected",
        AccessCheckReady::AccessCheckFailed => "its checks cannot be judged",
    };
    format!("{outcome}; what they found is told at the pod, in its namespace")
}

/// The text for the pod's own namespace: its objects, and nothing of the policy.
fn of_objects(answer: &PolicyAnswer) -> String {
    let mut told: Vec<&str> = Vec::new();
    let messages = in_the_way(answer).map(|check| check.message.as_str());
    for message in messages.filter(|it| !it.is_empty()) {
        if !told.contains(&message) {
            told.push(message);
        }
    }
    told.join("; ")
}

fn in_the_way(answer: &PolicyAnswer) -> impl Iterator<Item = &CheckSeen> {
    let checks = answer.checks.iter();
    checks.filter(|it| it.verdict == answer.verdict)
}

fn of_check(check: &CheckSeen) -> String {
    match check.message.as_str() {
        "" => format!("check {}", check.name),
        message => format!("check {}: {message}", check.name),
    }
}

/// True when the state of a check does not depend on the objects.
fn is_of_policy(check: &CheckSeen) -> bool {
    let has_none = check.objects.is_empty() && check.left_out == LeftOut::default();
    has_none && selection::is_trouble_of_policy(&check.reason)
}

/// True when the pod and the connector are in different namespaces.
pub(super) fn is_foreign(request: &AccessRequest) -> bool {
    let namespace = request.metadata.namespace.as_deref().unwrap_or_default();
    request.spec.context.object_ref.namespace != namespace
}
