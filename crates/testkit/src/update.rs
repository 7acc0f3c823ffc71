//! Replacing objects: validation, and the fields that are kept.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    apply::Writer,
    create::create,
    kind::Kind,
    meta,
    refusal::{Cause, Reason, Refusal},
    rules,
    store::{Key, Store},
    write::{Place, Written, check_identity},
};

/// Replaces an object, as a PUT does: a UID in the new state is a precondition.
pub(crate) fn update(
    store: &mut Store,
    place: Place<'_>,
    mut object: Value,
    writer: &Writer<'_>,
) -> Result<Written, Refusal> {
    let kind = place.kind;
    check_identity(place, &object)?;
    let live = store.get(&place.key()).cloned();
    let is_created = live.is_none() && kind.is_created_by_update() && !place.status;
    if live.is_none() && !is_created {
        return Err(Refusal::not_found(kind, place.name));
    }
    let uid = meta::uid(&object);
    if !uid.is_empty() && uid != live.as_deref().map_or("", meta::uid) {
        let why = format!("Precondition failed: UID in precondition: {uid}");
        return Err(Refusal::conflict(kind, place.name, &why));
    }
    if is_created {
        meta::of(&mut object).remove("resourceVersion");
        let unnamed = Place { name: "", ..place };
        return create(store, unnamed, object, writer);
    }
    replace(store, place, object, writer)
}

/// Replaces an existing object. The version in the new state, if there is one, must be the newest.
pub(crate) fn replace(
    store: &mut Store,
    place: Place<'_>,
    mut object: Value,
    writer: &Writer<'_>,
) -> Result<Written, Refusal> {
    let kind = place.kind;
    check_identity(place, &object)?;
    let Some(live) = store.get(&place.key()).cloned() else {
        return Err(Refusal::not_found(kind, place.name));
    };
    writer.check_escalation(store, place, &object, Some(&live))?;
    let version = meta::text(&object, "resourceVersion");
    if !version.is_empty() && version.parse::<u64>().is_err() {
        let message = format!("Invalid value: {version:?}");
        return Err(Refusal::new(Reason::Unknown, message));
    }
    match meta::version(&object) {
        0 if kind.allows_unconditional_update() => {}
        0 => {
            let why = "must be specified for an update";
            let field = "metadata.resourceVersion";
            return Err(Refusal::invalid(
                kind,
                place.name,
                Cause::Invalid,
                field,
                why,
            ));
        }
        version if version == meta::version(&live) => {}
        _ => return Err(Refusal::stale(kind, place.name)),
    }
    keep(place, &live, &mut object);
    rules::validate(kind, &object, Some(&live))?;
    Ok(commit(store, place, &live, object, writer))
}

/// Stores the result of a write, if it changed the object.
pub(crate) fn commit(
    store: &mut Store,
    place: Place<'_>,
    live: &Arc<Value>,
    mut object: Value,
    writer: &Writer<'_>,
) -> Written {
    let key = place.key();
    if place.kind.has_generation() && has_new_spec(place.kind, live, &object) {
        let generation = live["metadata"]["generation"].as_u64().unwrap_or_default() + 1;
        meta::set(&mut object, "generation", generation.into());
    }
    let ends = meta::finalizers(&object).is_empty()
        && live["metadata"]["deletionGracePeriodSeconds"] == 0
        && place.kind.plural != "namespaces";
    if ends {
        store.remove(&key, writer.by);
        return Written {
            object: Arc::new(object),
            is_new: false,
        };
    }
    let object = writer.own(store, &key, object, Some(live));
    let is_same = object == **live;
    let object = if is_same {
        live.clone()
    } else {
        store.put(&key, object, writer.by)
    };
    Written {
        object,
        is_new: false,
    }
}

/// Copies the fields that this write must not change into the new state.
fn keep(place: Place<'_>, live: &Value, object: &mut Value) {
    let kind = place.kind;
    object["kind"] = kind.kind.clone().into();
    object["apiVersion"] = kind.api_version().into();
    if place.status {
        let status = object.get("status").cloned();
        let labels = (!kind.is_custom()).then(|| {
            let metadata = &object["metadata"];
            (metadata["labels"].clone(), metadata["annotations"].clone())
        });
        *object = live.clone();
        match status {
            Some(status) => object["status"] = status,
            None => meta::remove_top(object, "status"),
        }
        if let Some((labels, annotations)) = labels {
            meta::set(object, "labels", labels);
            meta::set(object, "annotations", annotations);
        }
    } else {
        if kind.status {
            meta::copy_top(live, object, "status");
        }
        for field in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
            if object["metadata"][field].is_null() {
                meta::copy(live, object, field);
            }
        }
        for field in [
            "creationTimestamp",
            "resourceVersion",
            "generation",
            "managedFields",
            "namespace",
        ] {
            meta::copy(live, object, field);
        }
        meta::of(object).remove("selfLink");
        rules::default(kind, object);
    }
    meta::tidy(object);
}

/// True when a change affects the desired state of an object of that kind.
fn has_new_spec(kind: &Kind, before: &Value, after: &Value) -> bool {
    if !kind.is_custom() && kind.plural == "pods" {
        return before["spec"] != after["spec"];
    }
    let relevant = |object: &Value| {
        let mut object = object.clone();
        meta::remove_top(&mut object, "metadata");
        if kind.status {
            meta::remove_top(&mut object, "status");
        }
        object
    };
    relevant(before) != relevant(after)
}

/// Changes an object as the cluster, except for fields that only the server writes.
pub(crate) fn change_as_cluster(
    store: &mut Store,
    kind: &Kind,
    key: &Key,
    mut object: Value,
) -> Result<(), Refusal> {
    let Some(live) = store.get(key).cloned() else {
        return Err(Refusal::not_found(kind, &key.name));
    };
    for field in ["uid", "resourceVersion", "name", "namespace", "generation"] {
        meta::copy(&live, &mut object, field);
    }
    meta::tidy(&mut object);
    let place = Place {
        kind,
        namespace: &key.namespace,
        name: &key.name,
        status: false,
    };
    commit(store, place, &live, object, &Writer::cluster());
    Ok(())
}
