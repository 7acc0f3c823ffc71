//! Creating objects: validation, and the fields that the server sets.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    apply::Writer,
    kind::Kind,
    meta,
    refusal::{Cause, Reason, Refusal},
    rules,
    store::{Key, Store},
    write::{Place, Written, check_identity},
};

/// The limit of attempts to generate a name.
const TRIES: usize = 8;
/// Letters of generated names.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Creates an object, as a POST does.
pub(crate) fn create(
    store: &mut Store,
    place: Place<'_>,
    mut object: Value,
    writer: &Writer<'_>,
) -> Result<Written, Refusal> {
    check_identity(place, &object)?;
    check_namespace(store, place, meta::name(&object))?;
    writer.check_escalation(store, place, &object, None)?;
    if meta::version(&object) != 0 {
        let message = "resourceVersion should not be set on objects to be created";
        return Err(Refusal::new(Reason::Unknown, message));
    }
    if place.kind.status {
        meta::remove_top(&mut object, "status");
    }
    for field in ["uid", "creationTimestamp"] {
        meta::of(&mut object).remove(field);
    }
    insert(store, place, object, writer)
}

/// Creates an object as the cluster: with its status, and with its UID and creation time if it has any.
pub(crate) fn create_as_cluster(
    store: &mut Store,
    kind: &Kind,
    namespace: &str,
    object: Value,
) -> Result<Arc<Value>, Refusal> {
    let place = Place {
        kind,
        namespace,
        name: "",
        status: false,
    };
    check_identity(place, &object)?;
    check_namespace(store, place, meta::name(&object))?;
    insert(store, place, object, &Writer::cluster()).map(|it| it.object)
}

fn check_namespace(store: &Store, place: Place<'_>, name: &str) -> Result<(), Refusal> {
    let Place {
        kind, namespace, ..
    } = place;
    if !kind.namespaced {
        return Ok(());
    }
    if namespace.is_empty() {
        let message = "an empty namespace may not be set during creation";
        return Err(Refusal::bad_request(message));
    }
    let key = Key {
        group: String::new(),
        plural: "namespaces".to_owned(),
        namespace: String::new(),
        name: namespace.to_owned(),
    };
    match store.get(&key) {
        Some(found) if meta::is_being_deleted(found) => {
            Err(Refusal::terminating(kind, name, namespace))
        }
        Some(_) => Ok(()),
        None => {
            let namespaces = store.kind("", "v1", "namespaces");
            Err(namespaces.map_or_else(Refusal::no_such_resource, |it| {
                Refusal::not_found(it, namespace)
            }))
        }
    }
}

/// Sets the server's fields, and stores the object.
fn insert(
    store: &mut Store,
    place: Place<'_>,
    mut object: Value,
    writer: &Writer<'_>,
) -> Result<Written, Refusal> {
    let kind = place.kind;
    let prefix = meta::text(&object, "generateName").to_owned();
    let is_generated = meta::name(&object).is_empty();
    if is_generated && prefix.is_empty() {
        let why = "name or generateName is required";
        let field = "metadata.name";
        return Err(Refusal::invalid(kind, "", Cause::Required, field, why));
    }
    object["kind"] = kind.kind.clone().into();
    object["apiVersion"] = kind.api_version().into();
    fill_in(store, place, &mut object);
    for _ in 0..TRIES {
        if is_generated {
            let name = format!("{prefix}{}", suffix(store));
            meta::set(&mut object, "name", name.into());
        }
        let name = meta::name(&object).to_owned();
        rules::check_name(kind, &name)?;
        let key = Key::new(kind, place.namespace, &name);
        if store.get(&key).is_none() {
            rules::default(kind, &mut object);
            rules::validate(kind, &object, None)?;
            let object = writer.own(store, &key, object, None);
            let object = store.put(&key, object, writer.by);
            return Ok(Written {
                object,
                is_new: true,
            });
        }
        if !is_generated {
            return Err(Refusal::already_exists(kind, &name));
        }
    }
    Err(Refusal::already_exists(kind, &prefix))
}

/// Sets the metadata that only the server writes.
fn fill_in(store: &mut Store, place: Place<'_>, object: &mut Value) {
    for field in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "managedFields",
    ] {
        meta::of(object).remove(field);
    }
    if meta::uid(object).is_empty() {
        let uid = format!("00000000-0000-4000-8000-{:012x}", store.serial());
        meta::set(object, "uid", uid.into());
    }
    let namespace = if place.kind.namespaced {
        place.namespace.into()
    } else {
        Value::Null
    };
    meta::set(object, "namespace", namespace);
    if meta::text(object, "creationTimestamp").is_empty() {
        meta::set(object, "creationTimestamp", store.clock.stamp().into());
    }
    let generation = if place.kind.has_generation() {
        1.into()
    } else {
        Value::Null
    };
    meta::set(object, "generation", generation);
    meta::tidy(object);
}

/// Five letters that were not used before.
fn suffix(store: &mut Store) -> String {
    let mut number = store.serial();
    let base = LETTERS.len() as u64;
    let mut letters = Vec::new();
    for _ in 0..5 {
        let letter = usize::try_from(number % base).unwrap_or_default();
        letters.push(char::from(LETTERS[letter]));
        number /= base;
    }
    letters.into_iter().rev().collect()
}
