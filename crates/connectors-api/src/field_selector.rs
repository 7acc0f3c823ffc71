//! Selection by field: every path must lead to a scalar with the given value.

use std::collections::BTreeMap;

use serde_json::Value;
use thiserror::Error;

use crate::shared_fields::{FieldPath, is_shared};

/// Field paths and the values that they must lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldSelector(Vec<(Vec<String>, String)>);

/// The reason why a field selector is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FieldSelectorError {
    /// It would select everything.
    #[error("fieldSelector: has no field; leave it out to select by labels alone")]
    Empty,
    /// A key that is not a field path.
    #[error("fieldSelector: `{0}` is no field path; join names by dots, such as spec.type")]
    Path(String),
}

impl FieldSelector {
    /// Parses a `fieldSelector`.
    pub fn parse(fields: &BTreeMap<String, String>) -> Result<Self, FieldSelectorError> {
        if fields.is_empty() {
            return Err(FieldSelectorError::Empty);
        }
        let parse = |(path, value): (&String, &String)| {
            let names: Vec<String> = path.split('.').map(str::to_owned).collect();
            if names.iter().any(String::is_empty) {
                return Err(FieldSelectorError::Path(path.clone()));
            }
            Ok((names, value.clone()))
        };
        fields.iter().map(parse).collect::<Result<_, _>>().map(Self)
    }

    /// The path of each field, as a list of names.
    pub fn paths(&self) -> impl Iterator<Item = &[String]> {
        self.0.iter().map(|(path, _)| path.as_slice())
    }

    /// A field that a policy of another namespace may not see, if there is one: selecting by it would
    /// disclose its value.
    #[must_use]
    pub fn hidden(&self, shared: &[FieldPath]) -> Option<String> {
        let hidden = self.paths().find(|path| !is_shared(path, shared));
        hidden.map(|path| path.join("."))
    }

    /// True when an object has all the values. Numbers and booleans are compared in their JSON spelling; an
    /// absent field, null, a list or an object never matches.
    #[must_use]
    pub fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|(path, wanted)| {
            let start = Some(object);
            let found = path.iter().fold(start, |at, name| at?.get(name));
            match found {
                Some(Value::String(text)) => text == wanted,
                Some(Value::Bool(flag)) => flag.to_string() == *wanted,
                Some(Value::Number(number)) => number.to_string() == *wanted,
                Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => false,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selector(fields: &[(&str, &str)]) -> Result<FieldSelector, FieldSelectorError> {
        let owned = |(path, value): &(&str, &str)| ((*path).to_owned(), (*value).to_owned());
        FieldSelector::parse(&fields.iter().map(owned).collect())
    }

    #[test]
    fn every_field_must_be_there_with_its_value() {
        let object = json!({
            "spec": {"type": "TimeWindow", "open": true, "days": 5, "empty": "", "none": null, "list": ["a"], "map": {"a": "b"}},
        });
        for (fields, matches) in [
            (&[("spec.type", "TimeWindow")][..], true),
            (&[("spec.type", "timewindow")], false),
            (&[("spec.type", "TimeWindow"), ("spec.open", "true")], true),
            (
                &[("spec.type", "TimeWindow"), ("spec.open", "false")],
                false,
            ),
            (&[("spec.days", "5")], true),
            (&[("spec.days", "5.0")], false),
            (&[("spec.empty", "")], true),
            (&[("spec.none", "null")], false),
            (&[("spec.none", "")], false),
            (&[("spec.list", "a")], false),
            (&[("spec.list.0", "a")], false),
            (&[("spec.map", "b")], false),
            (&[("spec.map.a", "b")], true),
            (&[("spec.absent", "")], false),
            (&[("spec.type.deeper", "TimeWindow")], false),
            (&[("absent.type", "TimeWindow")], false),
        ] {
            let selector = selector(fields).unwrap();
            assert_eq!(selector.matches(&object), matches, "{fields:?}");
            assert!(!selector.matches(&json!(null)) && !selector.matches(&json!({})));
        }
    }

    #[test]
    fn what_would_select_everything_is_refused() {
        assert_eq!(selector(&[]), Err(FieldSelectorError::Empty));
        for path in ["", ".", "spec.", ".spec", "spec..type"] {
            let error = FieldSelectorError::Path(path.to_owned());
            assert_eq!(selector(&[(path, "x")]), Err(error));
        }
    }
}
