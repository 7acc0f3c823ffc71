//! The part of check objects that policies of other namespaces may see.
//!
//! An object belongs to the tenant of its namespace, and the policy's author learns the result of its
//! evaluation. A policy of another namespace therefore sees only the name, the labels that it selects by, and
//! the status, which holds the decision. The installation may share further fields of a kind.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::access_policy::ObjectKind;

/// The fields that every policy sees in addition to the labels that it selects by.
const ALWAYS: [&[&str]; 7] = [
    &["apiVersion"],
    &["kind"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "uid"],
    &["metadata", "resourceVersion"],
    &["status"],
];

/// Fields of each kind that policies of all namespaces may see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedFields(BTreeMap<ObjectKind, Vec<FieldPath>>);

/// A field, as the list of names that lead to it. The fields below it are shared with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath(Vec<String>);

/// The reason why shared fields cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SharedFieldsError {
    /// Not a list of kinds with their fields.
    #[error("must be a JSON list of {{apiVersion, kind, fields}}")]
    Form,
    /// Not a path.
    #[error("`{0}` is no field path; join names by dots, such as data.verdict")]
    Path(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct SharedText {
    api_version: String,
    kind: String,
    fields: Vec<String>,
}

impl FieldPath {
    /// Parses names joined by dots.
    pub fn parse(text: &str) -> Result<Self, SharedFieldsError> {
        let names: Vec<_> = text.split('.').map(str::to_owned).collect();
        if names.iter().any(String::is_empty) {
            return Err(SharedFieldsError::Path(text.to_owned()));
        }
        Ok(Self(names))
    }

    /// The names, joined by dots.
    #[must_use]
    pub fn text(&self) -> String {
        self.0.join(".")
    }
}

impl SharedFields {
    /// Parses the setting of the installation: a JSON list.
    pub fn parse(text: &str) -> Result<Self, SharedFieldsError> {
        let written: Vec<SharedText> =
            serde_json::from_str(text).map_err(|_| SharedFieldsError::Form)?;
        let mut shared: BTreeMap<ObjectKind, Vec<FieldPath>> = BTreeMap::new();
        for SharedText {
            api_version,
            kind,
            fields,
        } in written
        {
            let kind = ObjectKind { api_version, kind };
            for field in fields {
                let path = FieldPath::parse(&field)?;
                shared.entry(kind.clone()).or_default().push(path);
            }
        }
        Ok(Self(shared))
    }

    /// The fields of a kind that are shared in addition to those that every policy sees.
    #[must_use]
    pub fn of(&self, kind: &ObjectKind) -> &[FieldPath] {
        self.0.get(kind).map_or(&[], Vec::as_slice)
    }
}

/// True when a policy of another namespace may see a field.
#[must_use]
pub fn is_shared(path: &[String], shared: &[FieldPath]) -> bool {
    let begins = |start: &[&str]| {
        start.len() <= path.len() && start.iter().zip(path).all(|(a, b)| *a == b.as_str())
    };
    ALWAYS.iter().any(|it| begins(it)) || shared.iter().any(|FieldPath(it)| path.starts_with(it))
}

/// An object as a policy of another namespace sees it; `labels` are the keys of the labels that the policy
/// selects by.
#[must_use]
pub fn seen_from_elsewhere<'a>(
    object: &Value,
    labels: impl Iterator<Item = &'a str>,
    shared: &[FieldPath],
) -> Value {
    let mut view = Value::Object(Map::new());
    let labels = labels.map(|label| vec!["metadata", "labels", label]);
    let fixed = ALWAYS.iter().map(|it| it.to_vec());
    let shared = shared
        .iter()
        .map(|FieldPath(it)| it.iter().map(String::as_str).collect());
    for path in fixed.chain(labels).chain(shared) {
        copy(object, &path, &mut view);
    }
    view
}

/// Copies the value at a path, with the objects that lead to it. Lists are not searched.
fn copy(from: &Value, path: &[&str], to: &mut Value) {
    let found = path
        .iter()
        .try_fold(from, |at, name| at.as_object()?.get(*name));
    let Some(found) = found else { return };
    let mut place = to;
    for name in path {
        if !place.is_object() {
            return;
        }
        place = &mut place[*name];
        if place.is_null() {
            *place = Value::Object(Map::new());
        }
    }
    *place = found.clone();
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::testing::json_values;

    fn paths(texts: &[&str]) -> Vec<FieldPath> {
        texts
            .iter()
            .map(|it| FieldPath::parse(it).unwrap())
            .collect()
    }

    fn object() -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "n", "namespace": "apps", "uid": "u", "resourceVersion": "1",
                "labels": {"run": "r", "team": "hidden"}, "annotations": {"note": "hidden"}},
            "spec": {"title": "hidden", "type": {"name": "window"}},
            "data": {"verdict": "approved", "other": "hidden"},
            "status": {"state": "approved"},
        })
    }

    #[test]
    fn name_selected_labels_and_status_are_seen_and_nothing_else() {
        let seen = seen_from_elsewhere(&object(), ["run", "absent"].into_iter(), &[]);
        assert_eq!(
            seen,
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "n", "namespace": "apps", "uid": "u", "resourceVersion": "1", "labels": {"run": "r"}},
                "status": {"state": "approved"},
            })
        );
    }

    #[test]
    fn what_the_installation_shares_is_seen_with_all_below_it() {
        let shared = paths(&[
            "data.verdict",
            "spec.type",
            "absent.field",
            "spec.title.more",
        ]);
        let seen = seen_from_elsewhere(&object(), std::iter::empty(), &shared);
        assert_eq!(seen["data"], json!({"verdict": "approved"}));
        assert_eq!(seen["spec"], json!({"type": {"name": "window"}}));
        assert_eq!(seen.get("absent"), None);
        let all = seen_from_elsewhere(
            &object(),
            std::iter::empty(),
            &paths(&["data", "data.verdict"]),
        );
        assert_eq!(all["data"], object()["data"]);
    }

    #[test]
    fn a_field_is_shared_with_what_is_below_it() {
        let shared = paths(&["data.verdict"]);
        for (path, is) in [
            ("status", true),
            ("status.state", true),
            ("statuses", false),
            ("metadata.name", true),
            ("metadata", false),
            ("metadata.labels.run", false),
            ("data", false),
            ("data.verdict", true),
            ("data.verdict.more", true),
            ("data.verdicts", false),
            ("spec.type", false),
        ] {
            let path: Vec<_> = path.split('.').map(str::to_owned).collect();
            assert_eq!(is_shared(&path, &shared), is, "{path:?}");
        }
    }

    #[test]
    fn the_installations_list_is_read_strictly() {
        let shared = SharedFields::parse(
            r#"[{"apiVersion":"v1","kind":"ConfigMap","fields":["data.verdict","data.by"]}]"#,
        )
        .unwrap();
        let kind = |kind: &str| ObjectKind {
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
        };
        assert_eq!(
            shared.of(&kind("ConfigMap")),
            paths(&["data.verdict", "data.by"])
        );
        assert!(shared.of(&kind("Other")).is_empty());
        assert_eq!(SharedFields::parse("[]").unwrap(), SharedFields::default());
        for text in [
            "",
            "{}",
            "null",
            r#"[{"kind":"A"}]"#,
            r#"[{"apiVersion":"v1","kind":"A","fields":["a"],"more":1}]"#,
        ] {
            assert_eq!(
                SharedFields::parse(text),
                Err(SharedFieldsError::Form),
                "{text}"
            );
        }
        let path = FieldPath::parse("data.verdict").unwrap();
        assert_eq!(path.text(), "data.verdict");
        for path in ["", "a..b", ".a", "a."] {
            assert!(FieldPath::parse(path).is_err(), "{path}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_is_not_shared_is_seen(object in json_values()) {
            let view = seen_from_elsewhere(&object, ["a"].into_iter(), &[]);
            let keys = |value: &Value| -> Vec<String> {
                value.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default()
            };
            prop_assert!(keys(&view).iter().all(|it| ["apiVersion", "kind", "metadata", "status"].contains(&it.as_str())));
            prop_assert!(keys(&view["metadata"]).iter().all(|it| ["name", "namespace", "uid", "resourceVersion", "labels"].contains(&it.as_str())));
            prop_assert!(keys(&view["metadata"]["labels"]).iter().all(|it| it == "a"));
        }
    }
}
