//! Policies, by what the policy-controller says of them.

use connectors_api::conditions::ConditionStatus;
use connectors_api::policy_reason::{ChecksValid, ConnectorsMatched, PermissionSynced};
use connectors_api::{AccessPolicy, AccessPolicyCondition, Condition};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use service_kit::watches::Unreadable;

use super::commands::logs;
use super::{DoctorFinding, DoctorRead, DoctorSeverity, DoctorWord};
use crate::terms::shell;

/// The time that a controller may take.
pub(super) const PATIENCE: SignedDuration = SignedDuration::from_mins(2);

/// Namespace and name.
pub(super) fn key(it: &Unreadable) -> (&str, &str) {
    let namespace = it.metadata.namespace.as_deref().unwrap_or_default();
    let name = it.metadata.name.as_deref().unwrap_or_default();
    (namespace, name)
}

pub(super) fn unreadable(it: &Unreadable) -> DoctorFinding {
    let (namespace, name) = key(it);
    DoctorFinding::new(
        DoctorSeverity::Error,
        DoctorWord::PolicyUnreadable,
        format!("AccessPolicy {namespace}/{name}"),
        format!("{}: it grants nothing", it.problem),
        "correct the field",
    )
    .with_command(format!(
        "kubectl -n {} edit accesspolicy {}",
        shell(namespace),
        shell(name)
    ))
}

/// A condition of the policy's current form. None if it is out of date or missing.
fn condition(
    policy: &AccessPolicy,
    type_: AccessPolicyCondition,
) -> Option<&Condition<AccessPolicyCondition>> {
    let mut all = policy.status.iter().flat_map(|it| &it.conditions);
    let found = all.find(|it| it.type_ == type_)?;
    let judged = found.observed_generation;
    (judged.is_none() || judged >= policy.metadata.generation).then_some(found)
}

pub(super) fn of_policy(
    read: &DoctorRead,
    policy: &AccessPolicy,
    now: Timestamp,
) -> Vec<DoctorFinding> {
    let namespace = policy.namespace().unwrap_or_default();
    let name = policy.name_any();
    let object = format!("AccessPolicy {namespace}/{name}");
    if condition(policy, AccessPolicyCondition::Ready).is_none() {
        let created = policy.metadata.creation_timestamp.as_ref();
        if created.is_some_and(|it| now.duration_since(it.0) < PATIENCE) {
            return Vec::new();
        }
        let finding = DoctorFinding::new(
            DoctorSeverity::Warning,
            DoctorWord::PolicyNotLookedAt,
            object,
            "the policy-controller has not looked at its current form",
            "look at the Deployment policy-controller",
        );
        return vec![finding.with_command(logs(read, "policy-controller"))];
    }
    let edit = format!(
        "kubectl -n {} edit accesspolicy {}",
        shell(&namespace),
        shell(&name)
    );
    let found = |severity, word, it: &Condition<AccessPolicyCondition>, fix: &str| {
        let message = format!("{} {}: {}", it.type_, it.reason, it.message);
        let finding = DoctorFinding::new(severity, word, object.clone(), message, fix);
        finding.with_command(edit.clone())
    };
    let mut findings = Vec::new();
    for type_ in [
        AccessPolicyCondition::ConnectorsMatched,
        AccessPolicyCondition::PermissionSynced,
        AccessPolicyCondition::ChecksValid,
    ] {
        let Some(it) = condition(policy, type_) else {
            continue;
        };
        let reason = it.reason.as_str();
        let fix = fix_of(reason);
        match it.status {
            ConditionStatus::True if is_questionable(reason) => findings.push(found(
                DoctorSeverity::Warning,
                DoctorWord::PolicyQuestionable,
                it,
                fix,
            )),
            ConditionStatus::True => {}
            ConditionStatus::Unknown => findings.push(found(
                DoctorSeverity::Warning,
                DoctorWord::PolicyNotInForce,
                it,
                fix,
            )),
            ConditionStatus::False => {
                // A policy that selects nothing yet is often written before its connectors.
                let is_mild = reason == ConnectorsMatched::NoConnectorMatched.as_str()
                    || reason == PermissionSynced::NothingToGrant.as_str();
                let severity = if is_mild {
                    DoctorSeverity::Warning
                } else {
                    DoctorSeverity::Error
                };
                findings.push(found(severity, DoctorWord::PolicyNotInForce, it, fix));
            }
        }
    }
    findings
}

fn is_questionable(reason: &str) -> bool {
    [
        ChecksValid::ChecksForgeable,
        ChecksValid::ChecksDeletable,
        ChecksValid::RequestersOpen,
    ]
    .iter()
    .any(|it| it.as_str() == reason)
}

/// The remedy for a condition.
fn fix_of(reason: &str) -> &'static str {
    let is = |it: ChecksValid| it.as_str() == reason;
    let synced = |it: PermissionSynced| it.as_str() == reason;
    let checks = ChecksValid::ALL.iter().copied().find(|it| is(*it));
    let permission = PermissionSynced::ALL.iter().copied().find(|it| synced(*it));
    match (checks, permission) {
        (Some(ChecksValid::ChecksForgeable), _) => {
            "take the right from the accounts that are named, or use a kind that only approvers write"
        }
        (Some(ChecksValid::ChecksDeletable), _) => {
            "use latch: WhileHolds, or take the right from the accounts that are named"
        }
        (Some(ChecksValid::RequestersOpen), _) => {
            "name who may ask in spec.checkGrantedPermission.requesters"
        }
        (Some(ChecksValid::TooManyPolicies), _) => {
            "delete policies that are not needed, or select other connectors"
        }
        (Some(ChecksValid::KindMissing), _) => {
            "install the software that defines the kind, or correct selector.objectRef"
        }
        (Some(ChecksValid::KindNotNamespaced), _) => {
            "name a kind whose objects are in namespaces in selector.objectRef"
        }
        (Some(ChecksValid::KindNotReadable), _) => {
            "add the kind to the chart's checks.kinds, as the message says"
        }
        (Some(ChecksValid::ProofUnavailable), _) => {
            "check an ApprovalTask, or set provenance: None to believe labels"
        }
        (Some(ChecksValid::CreatorsUnknown), _) => {
            "set the chart's tekton.creators.enabled, or leave out approvers.notRequester"
        }
        (Some(ChecksValid::ChecksNotJudged), _) => {
            "look at the Deployments evaluation-service and policy-controller"
        }
        (_, Some(PermissionSynced::NothingToGrant)) => {
            "correct spec.connector or the subjects, or create them"
        }
        (_, Some(PermissionSynced::NameTaken)) => {
            "delete the Role or RoleBinding of another owner that has the name"
        }
        (_, Some(PermissionSynced::WriteFailed | PermissionSynced::ReadTooSlow)) => {
            "look at what the API server answers; the policy-controller tries again"
        }
        (_, Some(PermissionSynced::TooManySubjects | PermissionSynced::TooManySelectors)) => {
            "name a group instead of selecting subjects, or split the policy"
        }
        _ if reason == ConnectorsMatched::NoConnectorMatched.as_str() => {
            "compare spec.connector with `kubectl get connectors --show-labels`"
        }
        _ => {
            "correct what the message names; `kubectl connectors policy lint` names line and column"
        }
    }
}
