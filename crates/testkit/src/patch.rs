//! Patches: merge, JSON, and apply. A strategic merge is treated as a merge: lists are replaced as a whole.

use serde_json::Value;

use crate::{
    apply::{self, Writer},
    refusal::{Cause, Reason, Refusal},
    request::Asked,
    store::Store,
    update,
    write::{Place, Written},
};

/// Changes an object by a patch of the type that the content type names.
pub(crate) fn patch(
    store: &mut Store,
    place: Place<'_>,
    asked: &Asked,
    body: &Value,
    writer: &Writer<'_>,
) -> Result<Written, Refusal> {
    let language = asked.content_type.split(';').next().unwrap_or_default();
    let is_forced = asked.is_set("force");
    if language != "application/apply-patch+yaml" && is_forced {
        let why = "may not be specified for non-apply patch";
        return Err(options(Cause::Forbidden, "force", why));
    }
    if language == "application/apply-patch+yaml" {
        if asked.text("fieldManager").is_empty() {
            let why = "is required for apply patch";
            return Err(options(Cause::Required, "fieldManager", why));
        }
        return apply::apply(store, place, body, is_forced, writer);
    }
    let strategic = language == "application/strategic-merge-patch+json";
    let known = matches!(
        language,
        "application/merge-patch+json" | "application/json-patch+json"
    );
    if !known && (!strategic || place.kind.is_custom()) {
        let message = "the body of the request was in an unknown format";
        return Err(Refusal::new(Reason::UnsupportedMediaType, message));
    }
    let Some(live) = store.get(&place.key()) else {
        return Err(Refusal::not_found(place.kind, place.name));
    };
    let mut object = live.as_ref().clone();
    if language == "application/json-patch+json" {
        let Some(operations) = body.as_array() else {
            return Err(Refusal::bad_request("the patch is no list"));
        };
        for operation in operations {
            carry_out(&mut object, operation)?;
        }
    } else {
        if !body.is_object() {
            return Err(Refusal::bad_request("the patch is no object"));
        }
        json_patch::merge(&mut object, body);
    }
    check_type(place, live, &object)?;
    update::replace(store, place, object, writer)
}

/// Executes one operation of a JSON patch. As on the server, a missing field can be replaced.
fn carry_out(object: &mut Value, operation: &Value) -> Result<(), Refusal> {
    let failed = |error: String| {
        let message = format!("the server rejected our request: {error}");
        Refusal::new(Reason::Invalid, message)
    };
    let mut operation = operation.clone();
    let path = operation["path"].as_str().unwrap_or_default();
    let parent = path.rsplit_once('/').and_then(|(it, _)| object.pointer(it));
    if operation["op"] == "replace" && parent.is_some_and(Value::is_object) {
        operation["op"] = "add".into();
    }
    let operation: json_patch::PatchOperation =
        serde_json::from_value(operation).map_err(|it| failed(it.to_string()))?;
    json_patch::patch(object, &[operation]).map_err(|it| failed(it.to_string()))
}

/// A patch cannot change the kind of an object.
fn check_type(place: Place<'_>, live: &Value, object: &Value) -> Result<(), Refusal> {
    for field in ["apiVersion", "kind"] {
        if live[field] != object[field] {
            let told = if place.kind.is_custom() {
                field
            } else {
                "patch"
            };
            let why = "must not change";
            return Err(Refusal::invalid(
                place.kind,
                place.name,
                Cause::Invalid,
                told,
                why,
            ));
        }
    }
    Ok(())
}

fn options(cause: Cause, field: &str, why: &str) -> Refusal {
    Refusal::invalid_options("PatchOptions", &[cause], field, why)
}
