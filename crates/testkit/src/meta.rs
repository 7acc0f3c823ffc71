//! Reading and writing the metadata of objects in plain JSON.

use serde_json::{Map, Value};

/// A field of the metadata as text; empty when it is absent.
pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "name")
}

pub(crate) fn uid(object: &Value) -> &str {
    text(object, "uid")
}

/// The version; 0 when it is absent.
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

/// The owners: UID, and whether their deletion waits for this object.
pub(crate) fn owners(object: &Value) -> Vec<(&str, bool)> {
    let all = object["metadata"]["ownerReferences"].as_array();
    let all = all.into_iter().flatten();
    all.map(|it| {
        let blocks = it["blockOwnerDeletion"].as_bool().unwrap_or_default();
        (it["uid"].as_str().unwrap_or_default(), blocks)
    })
    .collect()
}

/// The metadata, which is created if it is absent.
pub(crate) fn of(object: &mut Value) -> &mut Map<String, Value> {
    let metadata = &mut object["metadata"];
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    metadata.as_object_mut().expect("it was just made one")
}

/// Sets a field of the metadata, or removes it.
pub(crate) fn set(object: &mut Value, field: &str, value: Value) {
    let metadata = of(object);
    if value.is_null() {
        metadata.remove(field);
    } else {
        metadata.insert(field.to_owned(), value);
    }
}

/// Copies a field of the metadata to another object, even if it is absent.
pub(crate) fn copy(from: &Value, to: &mut Value, field: &str) {
    set(to, field, from["metadata"][field].clone());
}

/// Copies a field outside of the metadata to another object, even if it is absent.
pub(crate) fn copy_top(from: &Value, to: &mut Value, field: &str) {
    let Some(to) = to.as_object_mut() else { return };
    match from.get(field) {
        Some(value) => to.insert(field.to_owned(), value.clone()),
        None => to.remove(field),
    };
}

/// Removes a finalizer.
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

/// Removes empty collections and nulls from the metadata, as the server stores them.
pub(crate) fn tidy(object: &mut Value) {
    of(object).retain(|_, value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::String(text) => !text.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    });
}

/// Removes a field outside of the metadata.
pub(crate) fn remove_top(object: &mut Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
}
