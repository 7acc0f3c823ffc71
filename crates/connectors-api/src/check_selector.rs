//! The selectors of a policy's checks and its rules, parsed once for all asking pods.
//!
//! The work is bounded in advance: a policy with too many steps in its templates selects nothing.

use std::sync::Arc;

use thiserror::Error;

use crate::access_policy::Check;
use crate::access_request::GrantedRule;
use crate::field_selector::{FieldSelector, FieldSelectorError};
use crate::judge::rules::RuleTemplates;
use crate::parse::MOST_SPEC_BYTES;
use crate::template::{LabelTemplates, LabelTemplatesError, MOST_STEPS_OF_POLICY};
use crate::{AccessPolicy, AccessPolicySpec};

/// The selector of one check, independent of the asking pod.
#[derive(Clone, Debug)]
pub struct SelectorTemplate {
    /// The labels, as templates.
    pub labels: Result<LabelTemplates, CheckSelectorError>,
    /// The fields, if the check names any.
    pub fields: Result<Option<FieldSelector>, FieldSelectorError>,
}

/// The reason why a check selects nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CheckSelectorError {
    /// Its own labels are invalid.
    #[error(transparent)]
    Labels(#[from] LabelTemplatesError),
    /// The policy as a whole is too expensive.
    #[error(
        "the templates of the policy's checks have more than {MOST_STEPS_OF_POLICY} steps in all; \
         use fewer checks, fewer labels or shorter paths"
    )]
    Steps,
}

/// A policy, the parsed selectors of its checks and its parsed rules.
#[derive(Debug)]
pub struct CompiledPolicy {
    /// The policy.
    pub policy: AccessPolicy,
    /// In the order of its checks.
    selectors: Arc<[SelectorTemplate]>,
    /// The rules that are granted once the checks pass, if it has checks.
    rules: Option<Arc<RuleTemplates>>,
    /// The size of its spec as JSON.
    bytes: usize,
}

/// Parses the selectors of a policy's checks, in their order.
#[must_use]
pub fn selectors<'a>(checks: impl Iterator<Item = &'a Check> + Clone) -> Arc<[SelectorTemplate]> {
    let mut steps = 0;
    let mut selectors = Vec::new();
    for check in checks.clone() {
        let labels = LabelTemplates::parse(&check.selector.labels);
        steps += labels.as_ref().map_or(0, LabelTemplates::steps);
        if steps > MOST_STEPS_OF_POLICY {
            let none = |_: &Check| SelectorTemplate {
                labels: Err(CheckSelectorError::Steps),
                fields: Ok(None),
            };
            return checks.map(none).collect();
        }
        let fields = check.selector.field_selector.as_ref();
        selectors.push(SelectorTemplate {
            labels: labels.map_err(CheckSelectorError::from),
            fields: fields.map(FieldSelector::parse).transpose(),
        });
    }
    selectors.into()
}

impl CompiledPolicy {
    /// Parses a policy. Reuses the earlier result if its spec is the same.
    #[must_use]
    pub fn of(policy: AccessPolicy, before: Option<&Self>) -> Self {
        let same = before.filter(|it| it.policy.spec == policy.spec);
        let selectors = same.map_or_else(
            || selectors(checks(&policy)),
            |it| Arc::clone(&it.selectors),
        );
        let rules = same.map_or_else(|| rules(&policy), |it| it.rules.clone());
        let bytes = same.map_or_else(|| json_bytes(&policy.spec), |it| it.bytes);
        Self {
            policy,
            selectors,
            rules,
            bytes,
        }
    }

    /// The approximate size of its spec as JSON, by which caches are bounded.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The rules that it grants to a pod once its checks pass, if it has any.
    #[must_use]
    pub fn rules_of_pod(&self, namespace: &str, name: &str) -> Option<Vec<GrantedRule>> {
        let rules = self.rules.as_ref()?;
        rules.of_pod(self.policy.spec.permission, namespace, name)
    }

    /// The checks, each with its selector.
    pub fn checks(&self) -> impl Iterator<Item = (&Check, &SelectorTemplate)> {
        checks(&self.policy).zip(self.selectors.iter())
    }
}

fn rules(policy: &AccessPolicy) -> Option<Arc<RuleTemplates>> {
    let granted = policy.spec.check_granted_permission.as_ref()?;
    let rules = RuleTemplates::of(granted.spec.permissions.clone());
    Some(Arc::new(rules))
}

/// The approximate size of a policy's spec as JSON.
#[must_use]
pub fn json_bytes(spec: &AccessPolicySpec) -> usize {
    serde_json::to_vec(spec).map_or(MOST_SPEC_BYTES, |json| json.len())
}

fn checks(policy: &AccessPolicy) -> impl Iterator<Item = &Check> + Clone {
    let granted = policy.spec.check_granted_permission.iter();
    granted.flat_map(|it| &it.spec.checks)
}

#[cfg(test)]
mod tests {
    use allocation_counter::measure;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::parse;

    fn policy(checks: &[Value]) -> AccessPolicy {
        let policy = json!({
            "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
            "metadata": {"name": "p", "namespace": "tools"},
            "spec": {"checkGrantedPermission": {"spec": {
                "checks": checks, "permissions": {"roleTemplate": {"rules": []}},
            }}},
        });
        parse::object(&policy).unwrap()
    }

    /// A check with one label, the template of which has this many steps.
    fn check(number: usize, steps: usize) -> Value {
        let path = ".a".repeat(steps.saturating_sub(1));
        json!({"name": format!("c{number}"), "selector": {
            "labels": {"run": format!("{{.object{path}}}")},
            "objectRef": {"apiVersion": "v1", "kind": "ConfigMap"},
        }})
    }

    fn all_select(policy: &CompiledPolicy) -> bool {
        policy.checks().all(|(_, it)| it.labels.is_ok())
    }

    /// A template of a few paths, possibly with too many steps, or a text that is not a template.
    fn templates() -> impl Strategy<Value = String> {
        let step = r#"(\.[a-c]{1,3}|\[\*\]|\[-?[0-9]\]|\['[a-z.]{1,8}'\]|\[\?\(@\.a=="b"\)\]|\[1:3\]|\.\.a)"#;
        let path =
            prop::collection::vec(step, 0..40).prop_map(|it| format!("{{.object{}}}", it.concat()));
        prop_oneof![
            9 => prop::collection::vec(path, 1..4).prop_map(|it| it.concat()),
            1 => "\\PC{0,200}",
        ]
    }

    fn checks() -> impl Strategy<Value = Vec<Value>> {
        let labels = prop::collection::btree_map("[a-z]{1,8}", templates(), 1..16);
        let check = (labels, "[a-z ]{0,400}").prop_map(|(labels, rego)| {
            json!({"name": "c", "state": {"rego": rego}, "selector": {
                "labels": labels, "objectRef": {"apiVersion": "v1", "kind": "ConfigMap"},
            }})
        });
        prop::collection::vec(check, 1..12)
    }

    /// The upper bound of memory for parsing one policy, in multiples of its text size.
    const BYTES_OF_ONE: u64 = 64;
    /// The memory for parsing the shortest policy, most of it for the objects around its checks.
    const BYTES_OF_NONE: u64 = 48 << 10;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_policy_takes_more_steps_or_bytes_than_it_may(checks in checks()) {
            let text = serde_json::to_string(&checks).unwrap();
            // A longer policy is not parsed.
            prop_assume!(text.len() < parse::MOST_SPEC_BYTES - 1024);
            let mut kept = None;
            let cost = measure(|| kept = Some(CompiledPolicy::of(policy(&checks), None)));
            let compiled = kept.unwrap();
            let labels = compiled.checks().map(|(_, it)| it.labels.as_ref());
            let steps: usize = labels.flatten().map(LabelTemplates::steps).sum();
            prop_assert!(steps <= MOST_STEPS_OF_POLICY, "{steps} steps");
            let bytes = u64::try_from(text.len()).unwrap();
            let most = BYTES_OF_NONE + BYTES_OF_ONE * bytes;
            prop_assert!(cost.bytes_max <= most, "{} for {bytes}: {text}", cost.bytes_max);
        }
    }

    #[test]
    fn a_policy_with_too_many_steps_selects_nothing() {
        let most: Vec<_> = (0..16).map(|number| check(number, 32)).collect();
        let compiled = CompiledPolicy::of(policy(&most), None);
        assert_eq!(compiled.checks().count(), 16);
        assert!(all_select(&compiled));
        let more = [most, vec![check(16, 1), check(17, 4)]].concat();
        let compiled = CompiledPolicy::of(policy(&more), None);
        assert_eq!(compiled.checks().count(), 18);
        for (_, selector) in compiled.checks() {
            assert_eq!(
                selector.labels.as_ref().unwrap_err(),
                &CheckSelectorError::Steps
            );
        }
    }

    #[test]
    fn a_check_without_labels_does_not_stop_the_others() {
        let mut empty = check(0, 2);
        empty["selector"]["labels"] = json!({});
        let compiled = CompiledPolicy::of(policy(&[empty, check(1, 2)]), None);
        let found: Vec<_> = compiled.checks().map(|(_, it)| it.labels.is_ok()).collect();
        assert_eq!(found, [false, true]);
        assert_eq!(CompiledPolicy::of(policy(&[]), None).checks().count(), 0);
    }

    #[test]
    fn a_policy_that_says_the_same_is_not_parsed_again() {
        let first = CompiledPolicy::of(policy(&[check(0, 4)]), None);
        let mut same = policy(&[check(0, 4)]);
        same.metadata.resource_version = Some("2".to_owned());
        let again = CompiledPolicy::of(same, Some(&first));
        let same_rules = first.rules.as_ref().zip(again.rules.as_ref());
        assert!(same_rules.is_some_and(|(one, two)| Arc::ptr_eq(one, two)));
        assert!(Arc::ptr_eq(&first.selectors, &again.selectors));
        let other = CompiledPolicy::of(policy(&[check(0, 5)]), Some(&first));
        assert!(!Arc::ptr_eq(&first.selectors, &other.selectors));
    }

    #[test]
    fn the_size_of_a_policy_grows_with_its_spec() {
        let check = |name: &str| {
            json!({"name": name, "selector": {
                "labels": {"a": "b"}, "objectRef": {"apiVersion": "v1", "kind": "ConfigMap"},
            }})
        };
        let bytes = |name: &str| CompiledPolicy::of(policy(&[check(name)]), None).bytes();
        let short = bytes("a");
        assert!(short > 100, "{short}");
        assert_eq!(bytes(&"a".repeat(51)), short + 50);
    }
}
