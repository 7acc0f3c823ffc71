//! Walks over schemas and over objects.

use connectors_api::crd;
use serde_json::Value;

/// The schema of a kind.
pub(crate) fn schema_of(kind: &str) -> Value {
    let crd = crd::all()
        .into_iter()
        .find(|crd| crd.spec.names.kind == kind)
        .unwrap();
    let validation = crd.spec.versions[0].schema.clone().unwrap();
    serde_json::to_value(validation.open_api_v3_schema.unwrap()).unwrap()
}

/// Calls `visit` with every schema from `schema` down and its path: `.field`, `[]` for items, `{}`
/// for the values of a map.
pub(crate) fn schemas(path: &str, schema: &Value, visit: &mut impl FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, property) in fields(&schema["properties"]) {
        schemas(&format!("{path}.{name}"), property, visit);
    }
    if schema["items"].is_object() {
        schemas(&format!("{path}[]"), &schema["items"], visit);
    }
    if schema["additionalProperties"].is_object() {
        schemas(
            &format!("{path}{{}}"),
            &schema["additionalProperties"],
            visit,
        );
    }
}

/// Calls `visit` with the JSON pointer, the printed path and the schema of every object in `value`
/// that has declared fields.
pub(crate) fn objects(value: &Value, schema: &Value, visit: &mut impl FnMut(&str, &str, &Value)) {
    descend(value, schema, "/spec", "spec", visit);
}

fn descend(
    value: &Value,
    schema: &Value,
    pointer: &str,
    path: &str,
    visit: &mut impl FnMut(&str, &str, &Value),
) {
    if schema["properties"].is_object() {
        visit(pointer, path, schema);
    }
    for (name, field) in fields(value) {
        let declared = &schema["properties"][name];
        descend(
            field,
            declared,
            &format!("{pointer}/{name}"),
            &format!("{path}.{name}"),
            visit,
        );
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        let (pointer, path) = (format!("{pointer}/{index}"), format!("{path}[{index}]"));
        descend(item, &schema["items"], &pointer, &path, visit);
    }
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}
