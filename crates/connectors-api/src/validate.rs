//! All errors and suspicious parts of a policy, each with its location and a remedy.
//!
//! Owns the findings that need the policy alone: its shape, the rules that the schema states in CEL, its
//! templates, and the parts that can never grant or never match. Rego modules are only returned
//! ([`Validated::modules`]): they may run only in processes that can be killed.
//!
//! One file for each part: `connector`, `rules`, `subjects`, `checks`. `shape` splits the policy, and validates `limits`,
//! for which no other rule exists.
//!
//! Knows nothing of the cluster: whether a kind exists, a subject has rights or a connector exists.
//!
//! Invariant: every service can parse a policy without a finding of [`Severity::Error`] through
//! [`crate::parse`].

mod checks;
mod connector;
mod finding;
mod rules;
mod shape;
mod subjects;

#[cfg(test)]
mod tests;

use serde_json::Value;

pub use finding::{Finding, FindingCode, Severity};

use crate::judge::RegoFailure;
use crate::names::API_VERSION;
use crate::{AccessPolicy, parse};
use finding::Findings;

/// The findings, and the modules that remain to be checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validated {
    /// In the order of the policy's fields. Limited to a few hundred.
    pub findings: Vec<Finding>,
    /// The Rego modules of the policy.
    pub modules: Vec<Module>,
}

/// A Rego module that has not been parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The path of its field.
    pub path: String,
    /// Its text.
    pub source: String,
}

/// Validates a whole policy.
#[must_use]
pub fn policy(object: &Value) -> Validated {
    let mut findings = Findings::default();
    let mut modules = Vec::new();
    let text = |field: &str| object.get(field).and_then(Value::as_str);
    if text("apiVersion") != Some(API_VERSION) || text("kind") != Some("AccessPolicy") {
        let message = format!("must be an AccessPolicy of {API_VERSION}");
        findings.error(
            "kind",
            FindingCode::NotAPolicy,
            message,
            format!("apiVersion: {API_VERSION}, kind: AccessPolicy"),
        );
        return findings.done(modules);
    }
    match object.get("spec") {
        None => findings.missing("spec", "say who may use which connectors"),
        Some(spec) => {
            // Before any other work, because it bounds the cost.
            if let Err(error) = parse::bounded(spec) {
                findings.parse(&error);
                return findings.done(modules);
            }
            if let Some(spec) = shape::spec(&mut findings, spec) {
                connector::look(&mut findings, &spec);
                rules::look(&mut findings, &spec);
                subjects::look(&mut findings, &spec);
                modules = checks::look(&mut findings, &spec);
            }
        }
    }
    // Covers anything missed above: a policy that cannot be parsed is an error.
    if !findings.has_error()
        && let Err(error) = parse::object::<AccessPolicy>(object)
    {
        findings.parse(&error);
    }
    findings.done(modules)
}

impl Module {
    /// The finding about a module that never reads the object.
    #[must_use]
    pub fn ignores_object(&self) -> Finding {
        Finding {
            path: self.path.clone(),
            code: FindingCode::ObjectIgnored,
            severity: Severity::Warning,
            message: "never looks at input, so what the approval object says changes nothing"
                .to_owned(),
            fix: "decide by fields of the object, such as input.status.state".to_owned(),
        }
    }

    /// The finding about a failure of the module.
    #[must_use]
    pub fn finding(&self, failure: &RegoFailure) -> Finding {
        let (code, message, fix) = match failure {
            RegoFailure::Limit(why) => (
                FindingCode::RegoLimit,
                why,
                "make the module simpler; what it may use is limited",
            ),
            RegoFailure::Failed(why) => (
                FindingCode::RegoInvalid,
                why,
                "package approval with output := {\"state\": …, \"message\": …}, in version 1 or 0 of the language",
            ),
        };
        Finding {
            path: self.path.clone(),
            code,
            severity: Severity::Error,
            message: message.clone(),
            fix: fix.to_owned(),
        }
    }
}
