//! Events are served by two groups: they are stored in the form of `events.k8s.io`, and the core group shows
//! the same objects with older field names.

use serde_json::{Map, Value};

use crate::{
    kind::{EVENTS, Kind},
    request::Asked,
};

/// Field names in the core group, and the stored ones.
const NAMES: [(&str, &str); 7] = [
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("involvedObject", "regarding"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
];

/// True when objects of that kind are stored as those of another.
pub(crate) fn is_view(kind: &Kind) -> bool {
    kind.group.is_empty() && kind.plural == "events"
}

/// The kind as which objects of a kind are stored.
pub(crate) fn stored(kind: &Kind) -> Kind {
    let mut stored = kind.clone();
    EVENTS.clone_into(&mut stored.group);
    stored
}

/// A body, whole or a merge patch, with the stored names.
pub(crate) fn stored_body(kind: &Kind, body: &Value) -> Value {
    let mut body = body.clone();
    let name = |name: &str| {
        let named = NAMES.iter().find(|(shown, _)| *shown == name);
        named.map_or_else(|| name.to_owned(), |(_, stored)| (*stored).to_owned())
    };
    // A body of another kind is refused later.
    let is_ours = body["apiVersion"] == kind.api_version();
    rename(&mut body, name);
    if is_ours {
        body["apiVersion"] = stored(kind).api_version().into();
    }
    body
}

/// A request with the stored names in its selectors.
pub(crate) fn stored_request(asked: &Asked) -> Asked {
    let mut asked = asked.clone();
    if let Some(selector) = asked.query.get_mut("fieldSelector") {
        *selector = selector
            .replace("involvedObject.", "regarding.")
            .replace("reportingComponent", "reportingController");
    }
    asked
}

/// An object or a list in the form in which it is shown.
pub(crate) fn shown(kind: &Kind, object: &Value) -> Value {
    let mut object = object.clone();
    let name = |name: &str| {
        let named = NAMES.iter().find(|(_, stored)| *stored == name);
        named.map_or_else(|| name.to_owned(), |(shown, _)| (*shown).to_owned())
    };
    if let Some(items) = object["items"].as_array_mut() {
        for item in items {
            rename(item, name);
        }
    } else {
        rename(&mut object, name);
    }
    if object["apiVersion"] == stored(kind).api_version() {
        object["apiVersion"] = kind.api_version().into();
    }
    object
}

fn rename(object: &mut Value, name: impl Fn(&str) -> String) {
    if let Some(fields) = object.as_object_mut() {
        let old = std::mem::take(fields);
        let new: Map<_, _> = old.into_iter().map(|(key, it)| (name(&key), it)).collect();
        *fields = new;
    }
}
