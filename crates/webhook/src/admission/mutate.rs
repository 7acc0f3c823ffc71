//! The fields that are filled in before a request is judged: pure.

use connectors_api::{AccessRequestSpec, labels, names, parse};
use json_patch::Patch;
use serde_json::{Map, Value};

/// The labels that say what a request is about. They are ours alone.
const LABELS: [&str; 5] = [
    labels::CONTEXT_OBJECT_KIND,
    labels::CONTEXT_OBJECT_NAME,
    labels::CONTEXT_OBJECT_NAMESPACE,
    labels::CONTEXT_OBJECT_UID,
    labels::CONNECTOR,
];

/// The spec of an object, if it can be read. One that cannot is left to the validation, which says why.
pub(crate) fn spec(object: &Value) -> Option<AccessRequestSpec> {
    parse::spec(object.get("spec")?).ok()
}

/// The namespace and name of the pod whose UID is missing.
pub(crate) fn without_uid(spec: &AccessRequestSpec) -> Option<(&str, &str)> {
    let pod = &spec.context.object_ref;
    let asked = names::is_dns_label(&pod.namespace) && names::is_dns_subdomain(&pod.name);
    (asked && pod.uid.is_none()).then_some((&pod.namespace, &pod.name))
}

/// The patch of a request in this namespace whose pod has this UID; none if all fields are there already.
pub(crate) fn fill(
    object: &Value,
    mut spec: AccessRequestSpec,
    namespace: &str,
    uid: Option<String>,
) -> Option<Patch> {
    let mut filled = object.clone();
    if spec.context.object_ref.uid.is_none()
        && let Some(uid) = uid
    {
        let pod = filled.pointer_mut("/spec/context/objectRef")?;
        pod.as_object_mut()?
            .insert("uid".to_owned(), uid.clone().into());
        spec.context.object_ref.uid = Some(uid);
    }
    let fields = filled.get_mut("spec")?.as_object_mut()?;
    fields
        .entry("permission")
        .or_insert_with(|| spec.permission.as_str().into());
    let connector = fields.get_mut("connectorRef")?.as_object_mut()?;
    connector
        .entry("namespace")
        .or_insert_with(|| namespace.into());
    let known = labels_of(&mut filled)?;
    // A value that does not fit has no label, and another's in its place would mislead.
    known.retain(|key, _| !LABELS.contains(&key.as_str()));
    for (key, value) in labels::of_request(&spec) {
        known.insert(key, value.into());
    }
    let patch = json_patch::diff(object, &filled);
    (!patch.0.is_empty()).then_some(patch)
}

/// The labels of an object, empty where it has none.
pub(super) fn labels_of(object: &mut Value) -> Option<&mut Map<String, Value>> {
    let metadata = object
        .as_object_mut()?
        .entry("metadata")
        .or_insert_with(|| Map::new().into());
    let labels = metadata
        .as_object_mut()?
        .entry("labels")
        .or_insert_with(|| Map::new().into());
    if labels.is_null() {
        *labels = Map::new().into();
    }
    labels.as_object_mut()
}

#[cfg(test)]
mod tests;
