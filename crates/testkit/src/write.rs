//! The parts that all writes share: the target, the result, and the check that a body belongs to the target.

use std::sync::Arc;

use serde_json::Value;

use crate::{kind::Kind, meta, refusal::Refusal, store::Key};

/// The object that a call writes.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) kind: &'a Kind,
    pub(crate) namespace: &'a str,
    /// Empty in a POST.
    pub(crate) name: &'a str,
    /// True for the subresource `status`.
    pub(crate) status: bool,
}

impl Place<'_> {
    pub(crate) fn key(&self) -> Key {
        Key::new(self.kind, self.namespace, self.name)
    }
}

/// The result of a write.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) object: Arc<Value>,
    pub(crate) is_new: bool,
}

/// Refuses a body of another object than that of the path.
pub(crate) fn check_identity(place: Place<'_>, object: &Value) -> Result<(), Refusal> {
    let Place {
        kind, namespace, ..
    } = place;
    if !object.is_object() {
        return Err(Refusal::bad_request("the body is no object"));
    }
    let says = |field: &str, expected: &str| match object[field].as_str() {
        None | Some("") => !kind.is_custom(),
        Some(said) => said == expected,
    };
    if !says("kind", &kind.kind) || !says("apiVersion", &kind.api_version()) {
        let message = "the API version or the kind in the data does not match the expected one";
        return Err(Refusal::bad_request(message));
    }
    let said = meta::text(object, "namespace");
    if !said.is_empty() && said != namespace {
        let message =
            "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Refusal::bad_request(message));
    }
    let said = meta::name(object);
    if !place.name.is_empty() && said != place.name {
        let message = format!(
            "the name of the object ({said}) does not match the name on the URL ({})",
            place.name
        );
        return Err(Refusal::bad_request(message));
    }
    Ok(())
}
