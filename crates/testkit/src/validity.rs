//! Validation of the metadata of every object.

use serde_json::Value;

use crate::{
    kind::Kind,
    meta,
    refusal::{Cause, Faults},
};

/// Finalizers that need no domain.
const STANDARD: [&str; 3] = ["foregroundDeletion", "kubernetes", "orphan"];
/// The longest name without its prefix.
const NAME: usize = 63;
/// The longest prefix.
const PREFIX: usize = 253;

/// Collects the errors in the metadata of a new state, given the previous one.
pub(crate) fn check(kind: &Kind, object: &Value, before: Option<&Value>, faults: &mut Faults) {
    let metadata = &object["metadata"];
    let labels = metadata["labels"].as_object().into_iter().flatten();
    for (key, value) in labels {
        if !is_qualified(key) || !value.as_str().is_some_and(is_label_value) {
            let why = "a qualified name and a label value";
            faults.push((Cause::Invalid, "metadata.labels".to_owned(), why));
        }
    }
    let annotations = metadata["annotations"].as_object().into_iter().flatten();
    for (key, _) in annotations {
        if !is_qualified(&key.to_lowercase()) {
            let why = "a qualified name";
            faults.push((Cause::Invalid, "metadata.annotations".to_owned(), why));
        }
    }
    for (at, finalizer) in meta::finalizers(object).iter().enumerate() {
        let has_domain = finalizer.contains('/') || STANDARD.contains(finalizer);
        if !is_qualified(finalizer) {
            let why = "a qualified name";
            faults.push((Cause::Invalid, "metadata.finalizers".to_owned(), why));
        } else if !kind.is_custom() && !has_domain {
            let field = format!("metadata.finalizers[{at}]");
            let why = "neither a standard finalizer name nor fully qualified";
            faults.push((Cause::Invalid, field, why));
        }
    }
    check_owners(object, faults);
    if let Some(before) = before {
        check_change(object, before, faults);
    }
}

fn check_owners(object: &Value, faults: &mut Faults) {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let mut controllers = 0;
    for owner in owners.into_iter().flatten() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner[field].as_str().is_none_or(str::is_empty) {
                let field = format!("metadata.ownerReferences.{field}");
                faults.push((Cause::Invalid, field, "must not be empty"));
            }
        }
        controllers += u32::from(owner["controller"] == true);
    }
    if controllers > 1 {
        let why = "Only one reference can have Controller set to true";
        let field = "metadata.ownerReferences".to_owned();
        faults.push((Cause::Invalid, field, why));
    }
}

/// The server checks these twice, once for all kinds and once for each, and reports them twice.
fn check_change(object: &Value, before: &Value, faults: &mut Faults) {
    let known = meta::finalizers(before);
    let mut added = meta::finalizers(object);
    added.retain(|it| !known.contains(it));
    for _ in 0..2 {
        for field in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
            if object["metadata"][field] != before["metadata"][field] {
                let field = format!("metadata.{field}");
                faults.push((Cause::Invalid, field, "field is immutable"));
            }
        }
        if meta::is_being_deleted(before) && !added.is_empty() {
            let why = "no new finalizers can be added if the object is being deleted";
            let field = "metadata.finalizers".to_owned();
            faults.push((Cause::Forbidden, field, why));
        }
    }
}

fn is_qualified(key: &str) -> bool {
    let (prefix, name) = key
        .split_once('/')
        .map_or((None, key), |(a, b)| (Some(a), b));
    let prefix = prefix.is_none_or(|it| {
        let is_part = |it: &str| {
            is_framed(it)
                && it
                    .bytes()
                    .all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-')
        };
        it.len() <= PREFIX && it.split('.').all(is_part)
    });
    prefix && is_name(name)
}

fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_name(value)
}

fn is_name(name: &str) -> bool {
    let is_inner = |it: u8| it.is_ascii_alphanumeric() || b"-_.".contains(&it);
    name.len() <= NAME && is_framed(name) && name.bytes().all(is_inner)
}

/// True when the first and the last character are letters or digits.
fn is_framed(text: &str) -> bool {
    let is_outer = |it: Option<u8>| it.is_some_and(|it| it.is_ascii_alphanumeric());
    is_outer(text.bytes().next()) && is_outer(text.bytes().last())
}
