//! Selection by label.
//!
//! This is a separate type because that of Kubernetes ignores unknown fields, and a selector with an ignored
//! misspelt requirement matches more than its author meant.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{cel, schema};

/// Selects objects by their labels. All requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelSelector {
    /// Labels that must be present with exactly this value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::match_labels")]
    pub match_labels: BTreeMap<String, String>,
    /// Requirements on labels that equality cannot express.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub match_expressions: Vec<Requirement>,
}

impl LabelSelector {
    /// True when there is no requirement. In Kubernetes such a selector matches everything. It is refused
    /// where that would widen access.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// The keys of all requirements.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        let labels = self.match_labels.keys().map(String::as_str);
        labels.chain(self.match_expressions.iter().map(|it| it.key.as_str()))
    }

    /// True when a requirement names values: `matchLabels`, or the operator `In`. Other requirements also
    /// match labels that the author has never seen: `NotIn` and `DoesNotExist` nearly every object, `Exists`
    /// every value.
    #[must_use]
    pub fn names_values(&self) -> bool {
        let mut expressions = self.match_expressions.iter();
        !self.match_labels.is_empty() || expressions.any(|it| it.operator == Operator::In)
    }

    /// True when an object with these labels satisfies every requirement. Without requirements nothing
    /// matches: an empty selector is a mistake here, never "everything".
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let has_label = |(key, value)| labels.get(key) == Some(value);
        !self.is_empty()
            && self.match_labels.iter().all(has_label)
            && self.match_expressions.iter().all(|it| it.holds(labels))
    }

    /// The upper bound of comparisons of [`Self::matches`].
    #[must_use]
    pub fn weight(&self) -> usize {
        let expressions = self.match_expressions.iter();
        self.match_labels.len() + expressions.map(|it| 1 + it.values.len()).sum::<usize>()
    }
}

/// One requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    cel::required(
        "!(self.operator in ['In', 'NotIn']) || has(self.values)",
        "values: required with operator In and NotIn",
    ).field_path(".values"),
    cel::forbidden(
        "self.operator in ['In', 'NotIn'] || !has(self.values)",
        "values: not allowed with operator Exists and DoesNotExist; leave them out",
    ).field_path(".values"),
]))]
pub struct Requirement {
    /// The label's key.
    #[schemars(length(min = 1, max = 317), regex(pattern = schema::LABEL_KEY))]
    pub key: String,
    /// The comparison of the label: `In` and `NotIn` with `values`; `Exists` and `DoesNotExist` test only
    /// whether the label exists. As in all of Kubernetes, an object without the label satisfies `NotIn` and
    /// `DoesNotExist`.
    pub operator: Operator,
    /// Values to compare with. Required for `In` and `NotIn`, not allowed otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 64), inner(length(max = 63), regex(pattern = schema::LABEL_VALUE)))]
    pub values: Vec<String>,
}

impl Requirement {
    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let is_listed = value.is_some_and(|value| self.values.contains(value));
        match self.operator {
            // The schema refuses an empty list for both; without the schema it must not match everything.
            Operator::In => is_listed,
            Operator::NotIn => !self.values.is_empty() && !is_listed,
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

/// How a label is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Operator {
    /// The label has one of the values.
    In,
    /// The label is absent or has none of the values.
    NotIn,
    /// The label exists.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selector(value: serde_json::Value) -> LabelSelector {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn empty_means_no_requirement_however_it_is_written() {
        for empty in [
            json!({}),
            json!({"matchLabels": {}}),
            json!({"matchExpressions": []}),
            json!({"matchLabels": {}, "matchExpressions": []}),
        ] {
            assert!(selector(empty.clone()).is_empty(), "{empty}");
        }
        assert!(!selector(json!({"matchLabels": {"a": ""}})).is_empty());
        assert!(
            !selector(json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]})).is_empty()
        );
    }

    #[test]
    fn values_are_named_by_match_labels_and_by_in_alone() {
        let one = |operator: &str| json!({"key": "a", "operator": operator});
        let within = json!({"key": "a", "operator": "In", "values": ["b"]});
        for (wanted, named) in [
            (json!({}), false),
            (json!({"matchLabels": {}, "matchExpressions": []}), false),
            (json!({"matchLabels": {"a": "b"}}), true),
            (json!({"matchLabels": {"a": ""}}), true),
            (json!({"matchExpressions": [within]}), true),
            (json!({"matchExpressions": [one("NotIn")]}), false),
            (json!({"matchExpressions": [one("Exists")]}), false),
            (json!({"matchExpressions": [one("DoesNotExist")]}), false),
            (json!({"matchExpressions": [one("Exists"), within]}), true),
            (
                json!({"matchLabels": {"a": "b"}, "matchExpressions": [one("NotIn")]}),
                true,
            ),
        ] {
            assert_eq!(selector(wanted.clone()).names_values(), named, "{wanted}");
        }
    }

    #[test]
    fn labels_are_compared_as_kubernetes_does() {
        let expression = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        for (wanted, on_ab, on_none) in [
            (json!({"matchLabels": {"a": "b"}}), true, false),
            (json!({"matchLabels": {"a": "c"}}), false, false),
            (json!({"matchLabels": {"a": ""}}), false, false),
            (json!({"matchLabels": {"a": "b", "x": "y"}}), false, false),
            (expression("a", "In", &["c", "b"]), true, false),
            (expression("a", "In", &["c"]), false, false),
            (expression("a", "NotIn", &["c"]), true, true),
            (expression("a", "NotIn", &["b"]), false, true),
            (expression("a", "Exists", &[]), true, false),
            (expression("a", "DoesNotExist", &[]), false, true),
            (
                json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}),
                false,
                false,
            ),
        ] {
            let selector = selector(wanted.clone());
            let labels = [("a".to_owned(), "b".to_owned())].into();
            assert_eq!(selector.matches(&labels), on_ab, "{wanted}");
            assert_eq!(selector.matches(&BTreeMap::new()), on_none, "{wanted}");
        }
    }

    #[test]
    fn keys_and_values_that_are_nearly_the_same_are_others() {
        let labels = |key: &str, value: &str| [(key.to_owned(), value.to_owned())].into();
        let is = |operator: &str, values: &[&str]| {
            selector(json!({"matchExpressions": [
                {"key": "team", "operator": operator, "values": values},
            ]}))
        };
        let equal = selector(json!({"matchLabels": {"team": "sre"}}));
        let (within, exists) = (is("In", &["sre"]), is("Exists", &[]));
        let (beside, absent) = (is("NotIn", &["sre"]), is("DoesNotExist", &[]));
        for other in crate::testing::nearly("sre") {
            let labels = labels("team", &other);
            assert!(
                !equal.matches(&labels) && !within.matches(&labels),
                "{other:?}"
            );
            assert!(
                exists.matches(&labels) && beside.matches(&labels),
                "{other:?}"
            );
        }
        for other in crate::testing::nearly("team") {
            let labels = labels(&other, "sre");
            assert!(
                !equal.matches(&labels) && !within.matches(&labels),
                "{other:?}"
            );
            assert!(
                !exists.matches(&labels) && absent.matches(&labels),
                "{other:?}"
            );
        }
    }

    #[test]
    fn what_requires_nothing_selects_nothing() {
        let labels = [("a".to_owned(), "b".to_owned())].into();
        for nothing in [
            json!({}),
            json!({"matchLabels": {}, "matchExpressions": []}),
            json!({"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}),
            json!({"matchExpressions": [{"key": "a", "operator": "NotIn"}]}),
        ] {
            assert!(!selector(nothing.clone()).matches(&labels), "{nothing}");
            assert!(
                !selector(nothing.clone()).matches(&BTreeMap::new()),
                "{nothing}"
            );
        }
    }

    #[test]
    fn a_misspelt_requirement_is_an_error() {
        for wrong in [
            json!({"matchLabel": {"a": "b"}}),
            json!({"matchExpressions": [{"key": "a", "operator": "In", "value": ["b"]}]}),
            json!({"matchExpressions": [{"key": "a", "operator": "in", "values": ["b"]}]}),
        ] {
            assert!(
                serde_json::from_value::<LabelSelector>(wrong.clone()).is_err(),
                "{wrong}"
            );
        }
    }
}
