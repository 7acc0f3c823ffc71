//! A question that makes sense as a whole.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use thiserror::Error;

use super::{Question, Stage};
use crate::access_policy::CheckGrantedSpec;
use crate::names::{API_VERSION, is_dns_label, is_dns_subdomain};
use crate::parse::{self, ParseError};
use crate::{AccessPolicy, Permission};

/// Why a question cannot be judged at all.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JudgeError {
    /// The policy is an object of another kind, or of a version that is not known here.
    #[error("policy: must be an AccessPolicy of {API_VERSION}")]
    PolicyKind,
    /// The policy cannot be read.
    #[error("policy: {0}")]
    Policy(#[from] ParseError),
    /// The policy is in no namespace.
    #[error("policy: metadata.namespace is missing")]
    PolicyNamespace,
    /// The policy grants nothing under checks.
    #[error("policy: has no checkGrantedPermission")]
    NoChecks,
    /// Two checks of the policy share a name.
    #[error("policy: two checks are called `{0}`")]
    SameName(String),
    /// What asks is not a pod.
    #[error("context object: must be a Pod of v1")]
    ContextKind,
    /// What asks has no identity.
    #[error("context object: metadata.{0} is missing, or nothing that a pod can have")]
    ContextIdentity(&'static str),
    /// The connector is not a name.
    #[error("connector: must be the name of a connector in the policy's namespace")]
    Connector,
    /// Objects for a check that the policy does not have.
    #[error("candidates: the policy has no check `{0}`")]
    UnknownCheck(String),
}

/// A question that makes sense.
pub(super) struct Checked {
    pub(super) spec: CheckGrantedSpec,
    pub(super) permission: Permission,
    pub(super) policy_namespace: String,
    pub(super) pod: Value,
    pub(super) pod_namespace: String,
    pub(super) candidates: BTreeMap<String, Vec<Value>>,
    pub(super) stage: Stage,
}

pub(super) fn check(question: Question) -> Result<Checked, JudgeError> {
    let Question {
        policy,
        context: pod,
        connector,
        candidates,
        stage,
    } = question;
    if text(&policy, "/apiVersion") != Some(API_VERSION)
        || text(&policy, "/kind") != Some("AccessPolicy")
    {
        return Err(JudgeError::PolicyKind);
    }
    let policy: AccessPolicy = parse::object(&policy)?;
    let policy_namespace = policy.metadata.namespace.filter(|text| is_dns_label(text));
    let policy_namespace = policy_namespace.ok_or(JudgeError::PolicyNamespace)?;
    let granted = policy.spec.check_granted_permission;
    let spec = granted.ok_or(JudgeError::NoChecks)?.spec;

    let mut names = BTreeSet::new();
    if let Some(check) = spec.checks.iter().find(|check| !names.insert(&check.name)) {
        return Err(JudgeError::SameName(check.name.clone()));
    }
    if let Some(unknown) = candidates.keys().find(|name| !names.contains(name)) {
        return Err(JudgeError::UnknownCheck(unknown.clone()));
    }
    if text(&pod, "/apiVersion") != Some("v1") || text(&pod, "/kind") != Some("Pod") {
        return Err(JudgeError::ContextKind);
    }
    let pod_namespace = identity(&pod, "namespace", "/metadata/namespace", is_dns_label)?;
    identity(&pod, "name", "/metadata/name", is_dns_subdomain)?;
    identity(&pod, "uid", "/metadata/uid", |uid| !uid.is_empty())?;
    if !is_dns_subdomain(&connector) {
        return Err(JudgeError::Connector);
    }
    Ok(Checked {
        permission: policy.spec.permission,
        spec,
        policy_namespace,
        pod,
        pod_namespace,
        candidates,
        stage,
    })
}

fn identity(
    pod: &Value,
    field: &'static str,
    pointer: &str,
    valid: fn(&str) -> bool,
) -> Result<String, JudgeError> {
    let found = text(pod, pointer).filter(|text| valid(text));
    let found = found.ok_or(JudgeError::ContextIdentity(field))?;
    Ok(found.to_owned())
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}
