//! Validation of a question as a whole.

use std::sync::Arc;

use serde_json::Value;
use thiserror::Error;

use super::{GatedPolicy, PolicyQuestion};
use crate::field::field;
use crate::names::{API_VERSION, is_dns_label, is_dns_subdomain};
use crate::parse::ParseError;

/// The reason why a question cannot be judged at all.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JudgeError {
    /// The policy is an object of another kind, or of an unknown version.
    #[error("policy: must be an AccessPolicy of {API_VERSION}")]
    PolicyKind,
    /// The policy cannot be read.
    #[error("policy: {0}")]
    Policy(#[from] ParseError),
    /// The policy has no namespace.
    #[error("policy: metadata.namespace is missing")]
    PolicyNamespace,
    /// The policy grants nothing under checks.
    #[error("policy: has no checkGrantedPermission")]
    NoChecks,
    /// Two checks of the policy share a name.
    #[error("policy: two checks are called `{0}`")]
    SameName(String),
    /// The context object is not a pod.
    #[error("context object: must be a Pod of v1")]
    ContextKind,
    /// The context object has no identity.
    #[error("context object: metadata.{0} is missing, or nothing that a pod can have")]
    ContextIdentity(&'static str),
    /// The connector is not a name.
    #[error("connector: must be the name of a connector in the policy's namespace")]
    Connector,
    /// Objects for a check that the policy does not have.
    #[error("candidates: the policy has no check `{0}`")]
    UnknownCheck(String),
}

/// Validates a question. Returns the namespace of the pod.
pub(super) fn check(question: &PolicyQuestion<Arc<GatedPolicy>>) -> Result<String, JudgeError> {
    let PolicyQuestion {
        policy,
        context: pod,
        connector,
        candidates,
        shared: _,
        lineage: _,
        creators_since: _,
        stage: _,
    } = question;
    let is_known = |name: &&String| policy.checks.iter().any(|it| it.check.name == **name);
    if let Some(unknown) = candidates.keys().find(|name| !is_known(name)) {
        return Err(JudgeError::UnknownCheck(unknown.clone()));
    }
    if text(pod, &["apiVersion"]) != Some("v1") || text(pod, &["kind"]) != Some("Pod") {
        return Err(JudgeError::ContextKind);
    }
    let pod_namespace = identity(pod, "namespace", is_dns_label)?;
    identity(pod, "name", is_dns_subdomain)?;
    identity(pod, "uid", |uid| !uid.is_empty())?;
    if !is_dns_subdomain(connector) {
        return Err(JudgeError::Connector);
    }
    Ok(pod_namespace.to_owned())
}

fn identity<'a>(
    pod: &'a Value,
    field: &'static str,
    valid: fn(&str) -> bool,
) -> Result<&'a str, JudgeError> {
    let found = text(pod, &["metadata", field]).filter(|text| valid(text));
    found.ok_or(JudgeError::ContextIdentity(field))
}

pub(super) fn text<'a>(value: &'a Value, path: &[&str]) -> Option<&'a str> {
    field(value, path).and_then(Value::as_str)
}
