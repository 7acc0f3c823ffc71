//! A parsed policy: the parts that are the same for every pod are parsed once.

use std::collections::BTreeSet;

use serde_json::Value;

use super::JudgeError;
use super::candidate::CheckSelectors;
use super::input::text;
use super::rules::RuleTemplates;
use crate::access_policy::Check;
use crate::check_selector::{self, SelectorTemplate};
use crate::names::{API_VERSION, is_dns_label};
use crate::parse;
use crate::{AccessPolicy, Permission};

/// A policy that grants something under checks.
#[derive(Debug)]
pub struct GatedPolicy {
    pub(super) namespace: String,
    pub(super) permission: Permission,
    /// In the policy's order.
    pub(super) checks: Vec<PolicyCheck>,
    pub(super) rules: RuleTemplates,
}

/// One of its checks.
#[derive(Debug)]
pub(super) struct PolicyCheck {
    pub(super) check: Check,
    pub(super) selector: CheckSelectors,
}

impl GatedPolicy {
    /// Parses an `AccessPolicy`, or the copy of it that was kept when access was granted.
    pub fn read(policy: &Value) -> Result<Self, JudgeError> {
        if text(policy, &["apiVersion"]) != Some(API_VERSION)
            || text(policy, &["kind"]) != Some("AccessPolicy")
        {
            return Err(JudgeError::PolicyKind);
        }
        let policy: AccessPolicy = parse::object(policy)?;
        let namespace = policy.metadata.namespace.filter(|text| is_dns_label(text));
        let namespace = namespace.ok_or(JudgeError::PolicyNamespace)?;
        let granted = policy.spec.check_granted_permission;
        let spec = granted.ok_or(JudgeError::NoChecks)?.spec;
        let mut names = BTreeSet::new();
        if let Some(check) = spec.checks.iter().find(|check| !names.insert(&check.name)) {
            return Err(JudgeError::SameName(check.name.clone()));
        }
        let selectors = check_selector::selectors(spec.checks.iter());
        let checks = spec.checks.into_iter().zip(selectors.iter());
        let understood = |(check, selector): (Check, &SelectorTemplate)| PolicyCheck {
            selector: CheckSelectors::of(&check, selector.clone()),
            check,
        };
        Ok(Self {
            namespace,
            permission: policy.spec.permission,
            checks: checks.map(understood).collect(),
            rules: RuleTemplates::of(spec.permissions),
        })
    }

    /// The namespace of the policy.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The modules of its checks, as the questions to them name them.
    pub fn modules(&self) -> impl Iterator<Item = &str> {
        self.checks.iter().filter_map(PolicyCheck::module)
    }
}

impl PolicyCheck {
    /// The module that evaluates the objects, if there is one.
    pub(super) fn module(&self) -> Option<&str> {
        let rego = self.check.state.as_ref().map(|state| state.rego.as_str());
        rego.filter(|module| !module.is_empty())
    }
}
