//! Reading and writing the metadata of objects that are plain JSON.

use serde_json::{Map, Value};

/// A field of the metadata as text; empty when there is none.
pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "name")
}

pub(crate) fn uid(object: &Value) -> &str {
    text(object, "uid")
}

/// The version; 0 when there is none.
pub(crate) fn version(object: &Value) -> u64 {
    text(object, "resourceVersion").parse().unwrap_or_default()
}

pub(crate) fn is_being_deleted(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    let all = object["metadata"]["finalizers"].as_array();
    all.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// The owners: UID, and whether they must not be gone before it.
pub(crate) fn owners(object: &Value) -> Vec<(&str, bool)> {
    let all = object["metadata"]["ownerReferences"].as_array();
    let all = all.into_iter().flatten();
    all.map(|it| {
        let blocks = it["blockOwnerDeletion"].as_bool().unwrap_or_default();
        (it["uid"].as_str().unwrap_or_default(), blocks)
    })
    .collect()
}

/// The metadata, made when it is not there.
pub(crate) fn of(object: &mut Value) -> &mut Map<String, Value> {
    let metadata = &mut object["metadata"];
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    metadata.as_object_mut().expect("it was just made one")
}

/// Sets a field of the metadata, or takes it away.
pub(crate) fn set(object: &mut Value, field: &str, value: Value) {
    let metadata = of(object);
    if value.is_null() {
        metadata.remove(field);
    } else {
        metadata.insert(field.to_owned(), value);
    }
}

/// Gives a field of one object to another, also when it is not there.
pub(crate) fn copy(from: &Value, to: &mut Value, field: &str) {
    set(to, field, from["metadata"][field].clone());
}

/// Gives a field beside the metadata to another object, also when it is not there.
pub(crate) fn copy_top(from: &Value, to: &mut Value, field: &str) {
    let Some(to) = to.as_object_mut() else { return };
    match from.get(field) {
        Some(value) => to.insert(field.to_owned(), value.clone()),
        None => to.remove(field),
    };
}

/// Takes a finalizer away.
pub(crate) fn remove_finalizer(object: &mut Value, finalizer: &str) {
    let left: Vec<Value> = finalizers(object)
        .into_iter()
        .filter(|it| *it != finalizer)
        .map(Value::from)
        .collect();
    let left = if left.is_empty() {
        Value::Null
    } else {
        left.into()
    };
    set(object, "finalizers", left);
}

pub(crate) fn add_finalizer(object: &mut Value, finalizer: &str) {
    let mut all: Vec<Value> = finalizers(object).into_iter().map(Value::from).collect();
    if all.iter().all(|it| it != finalizer) {
        all.push(finalizer.into());
    }
    set(object, "finalizers", all.into());
}

/// Empty collections and nulls of the metadata are absent, as the server stores them.
pub(crate) fn tidy(object: &mut Value) {
    of(object).retain(|_, value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::String(text) => !text.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    });
}

/// Takes a field beside the metadata away.
pub(crate) fn remove_top(object: &mut Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
}
