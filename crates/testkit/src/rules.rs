//! The defaults that the server sets, and the validation of every object.

use serde_json::{Value, json};

use crate::{
    escalation,
    kind::{Kind, RBAC},
    meta,
    refusal::{Cause, Refusal},
    validity,
};

/// Fields of the server's own kinds that are absent when they are empty.
const OMITTED: [&str; 7] = [
    "binaryData",
    "data",
    "imagePullSecrets",
    "rules",
    "secrets",
    "stringData",
    "subjects",
];

pub(crate) fn check_name(kind: &Kind, name: &str) -> Result<(), Refusal> {
    let is_part = |part: &str| {
        let is_inner = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
        !part.is_empty()
            && part.bytes().all(is_inner)
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    let is_valid = if kind.group == RBAC {
        // RBAC accepts any name that is valid in a path.
        !matches!(name, "" | "." | "..") && !name.contains(['/', '%'])
    } else if kind.plural == "namespaces" {
        name.len() <= 63 && is_part(name)
    } else {
        name.len() <= 253 && name.split('.').all(is_part)
    };
    if is_valid {
        return Ok(());
    }
    let why = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'";
    let field = "metadata.name";
    Err(Refusal::invalid(kind, name, Cause::Invalid, field, why))
}

/// Sets the defaults of the server's own kinds.
pub(crate) fn default(kind: &Kind, object: &mut Value) {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "namespaces") => {
            object["spec"]["finalizers"] = json!(["kubernetes"]);
            if object["status"]["phase"].is_null() {
                object["status"]["phase"] = "Active".into();
            }
            let name = meta::name(object).to_owned();
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name.into();
        }
        ("", "pods") if object["status"]["phase"].is_null() => {
            object["status"]["phase"] = "Pending".into();
        }
        (RBAC, "rolebindings" | "clusterrolebindings") => default_binding(object),
        _ => {}
    }
    if let Some(fields) = object.as_object_mut().filter(|_| !kind.is_custom()) {
        let is_empty = |it: &Value| *it == json!([]) || *it == json!({}) || it.is_null();
        fields.retain(|key, value| !(OMITTED.contains(&key.as_str()) && is_empty(value)));
    }
}

fn default_binding(binding: &mut Value) {
    if binding["roleRef"]["apiGroup"]
        .as_str()
        .is_none_or(str::is_empty)
    {
        binding["roleRef"]["apiGroup"] = RBAC.into();
    }
    for subject in binding["subjects"].as_array_mut().into_iter().flatten() {
        let is_person = matches!(subject["kind"].as_str(), Some("User" | "Group"));
        if is_person && subject["apiGroup"].as_str().is_none_or(str::is_empty) {
            subject["apiGroup"] = RBAC.into();
        }
    }
}

/// Validates a new state, given the previous one.
pub(crate) fn validate(kind: &Kind, object: &Value, before: Option<&Value>) -> Result<(), Refusal> {
    let mut faults = Vec::new();
    validity::check(kind, object, before, &mut faults);
    escalation::validate(kind, object, before, &mut faults)?;
    if faults.is_empty() {
        return Ok(());
    }
    Err(Refusal::invalid_in(kind, meta::name(object), &faults))
}
