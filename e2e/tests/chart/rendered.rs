//! The output of the chart, without a cluster.

use serde_json::{Value, json};

/// The Kubernetes release that is rendered for, unless a test says another.
pub(crate) const KUBERNETES: &str = "--kube-version=1.35";

/// The chart's objects with these values beside the only one that has no default.
pub(crate) fn with(mut values: Value) -> Vec<Value> {
    values["image"]["registry"] = json!("registry.example.com/connectors");
    e2e::install::render(&values, &[KUBERNETES]).unwrap()
}

/// The chart's objects with its default values.
pub(crate) fn defaults() -> Vec<Value> {
    with(json!({}))
}

/// The objects of a kind.
pub(crate) fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let of_kind = objects.iter().filter(|object| object["kind"] == kind);
    of_kind.collect()
}

/// An object's name.
pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// The texts of a list, none for one that is absent.
pub(crate) fn texts(list: &Value) -> Vec<&str> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).collect()
}

/// The items of a list, none for one that is absent.
pub(crate) fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}
