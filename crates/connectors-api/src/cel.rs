//! Constructors of the CEL rules in this crate.
//!
//! A rule is declared at the type that it guards. Its message is its identity: each message has one meaning,
//! and the tests on a real API server find the rule's cases by it. Messages therefore begin with the field
//! and end with the remedy.

use kube::core::{Reason, Rule};

/// A value that is malformed or inconsistent with other fields.
pub(crate) fn invalid(rule: impl Into<String>, message: &str) -> Rule {
    Rule::new(rule)
        .message(message)
        .reason(Reason::FieldValueInvalid)
}

/// A value that would be well-formed elsewhere but is not permitted here.
pub(crate) fn forbidden(rule: impl Into<String>, message: &str) -> Rule {
    Rule::new(rule)
        .message(message)
        .reason(Reason::FieldValueForbidden)
}

/// A value that is missing.
pub(crate) fn required(rule: impl Into<String>, message: &str) -> Rule {
    Rule::new(rule)
        .message(message)
        .reason(Reason::FieldValueRequired)
}

/// False when the label selector in field `selector` of `self` has requirements and none of them names a value.
pub(crate) fn names_values(selector: &str) -> String {
    let selects = selects(selector);
    format!(
        "!{selects} || \
         (has(self.{selector}.matchLabels) && size(self.{selector}.matchLabels) > 0) || \
         self.{selector}.matchExpressions.exists(it, it.operator == 'In')"
    )
}

/// True when the label selector in field `selector` of `self` is given and has a requirement.
pub(crate) fn selects(selector: &str) -> String {
    format!(
        "(has(self.{selector}) && (\
         (has(self.{selector}.matchLabels) && size(self.{selector}.matchLabels) > 0) || \
         (has(self.{selector}.matchExpressions) && size(self.{selector}.matchExpressions) > 0)))"
    )
}
