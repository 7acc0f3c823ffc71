//! Validation of the connector selector, and of label selectors in general.

use std::collections::BTreeSet;

use super::finding::{FindingCode, Findings};
use super::shape::PolicyParts;
use crate::LabelSelector;
use crate::access_policy::ConnectorSelector;
use crate::names::{is_dns_subdomain, is_label_key, is_label_value};
use crate::selector::Operator;

const MOST_NAMES: usize = 256;
const MOST_REQUIREMENTS: usize = 16;
const MOST_VALUES: usize = 64;

pub(super) fn look(findings: &mut Findings, spec: &PolicyParts) {
    let Some(ConnectorSelector { names, selector }) = &spec.connector else {
        return;
    };
    if let Some(names) = names {
        let at = "spec.connector.names";
        findings.length(at, names.len(), 1, MOST_NAMES);
        // The list may be longer than the limit here, so only the first names are checked.
        let mut before = BTreeSet::new();
        for (place, name) in names.iter().enumerate().take(MOST_NAMES) {
            let path = format!("{at}[{place}]");
            if !is_dns_subdomain(name) {
                let message = "is no name that a connector can have";
                findings.invalid(&path, message, "give the metadata.name of a connector");
            }
            if !before.insert(name) {
                let message = format!("`{name}` is listed before");
                findings.error(&path, FindingCode::DuplicateName, message, "remove it");
            }
        }
    }
    if let Some(selector) = selector {
        let at = "spec.connector.selector";
        if selector.is_empty() {
            let message = "has no requirement";
            let fix = "leave it out to select every connector of the namespace";
            findings.error(at, FindingCode::EmptySelector, message, fix);
        }
        look_at_selector(findings, at, selector);
    }
}

/// The errors of a selector, independent of its place.
pub(super) fn look_at_selector(findings: &mut Findings, at: &str, selector: &LabelSelector) {
    let LabelSelector {
        match_labels,
        match_expressions,
    } = selector;
    let value_fix = "at most 63 of A-Z a-z 0-9 - _ . that begin and end with a letter or digit";
    let key_fix = "an optional DNS prefix and a slash, then at most 63 of A-Z a-z 0-9 - _ .";
    let path = format!("{at}.matchLabels");
    findings.length(&path, match_labels.len(), 0, MOST_REQUIREMENTS);
    for (key, value) in match_labels {
        if !is_label_key(key) {
            findings.invalid(&path, format!("`{key}` is not a label key"), key_fix);
        }
        if !value.is_empty() && !is_label_value(value) {
            findings.invalid(&path, format!("{key}: is not a label value"), value_fix);
        }
    }
    let path = format!("{at}.matchExpressions");
    findings.length(&path, match_expressions.len(), 0, MOST_REQUIREMENTS);
    for (place, requirement) in match_expressions.iter().enumerate() {
        let path = format!("{path}[{place}]");
        if !is_label_key(&requirement.key) {
            findings.invalid(&format!("{path}.key"), "is not a label key", key_fix);
        }
        let path = format!("{path}.values");
        let values = &requirement.values;
        match requirement.operator {
            Operator::In | Operator::NotIn => {
                findings.length(&path, values.len(), 1, MOST_VALUES);
            }
            Operator::Exists | Operator::DoesNotExist => {
                if !values.is_empty() {
                    let message = "is not allowed with operator Exists and DoesNotExist";
                    findings.invalid(&path, message, "leave it out");
                }
            }
        }
        let is_odd = |value: &&String| !value.is_empty() && !is_label_value(value);
        if values.iter().any(|value| is_odd(&value)) {
            findings.invalid(&path, "holds what is not a label value", value_fix);
        }
        let fixed = match_labels.get(&requirement.key);
        if fixed.is_some() && requirement.operator == Operator::DoesNotExist {
            let message = format!(
                "{}: matchLabels wants it to be there, matchExpressions not to",
                requirement.key
            );
            let fix = "remove one of them";
            findings.warning(at, FindingCode::ImpossibleSelector, message, fix);
        }
    }
}
