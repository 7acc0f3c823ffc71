//! Parts of schemas that several types share, and transformations of the derived schemas.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::core::Rule;
use schemars::{Schema, SchemaGenerator, json_schema};

use crate::cel;

/// Name of a namespace, or of anything else that becomes one part of a host name.
pub(crate) const DNS_LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// Name of most objects.
pub(crate) const DNS_SUBDOMAIN: &str =
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// Key of a label: an optional DNS name as prefix, then up to 63 characters.
pub(crate) const LABEL_KEY: &str =
    r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?$";

/// Value of a label; it may be empty.
pub(crate) const LABEL_VALUE: &str = "^([A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?)?$";

/// Path to a field: names joined by dots.
pub(crate) const FIELD_PATH: &str = r"^[A-Za-z_][-A-Za-z0-9_]*(\.[A-Za-z_][-A-Za-z0-9_]*)*$";

/// Labels to compare with: `matchLabels` of a selector.
pub(crate) fn match_labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {"type": "string", "maxLength": 63, "pattern": LABEL_VALUE},
        "maxProperties": 16,
        "x-kubernetes-validations": [label_keys()],
    })
}

/// Labels with templates as values.
pub(crate) fn label_templates(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {"type": "string", "minLength": 1, "maxLength": 1024},
        "minProperties": 1,
        "maxProperties": 16,
        "x-kubernetes-validations": [label_keys()],
    })
}

/// Field paths and the values they must have.
pub(crate) fn field_values(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {"type": "string", "minLength": 1, "maxLength": 1024},
        "minProperties": 1,
        "maxProperties": 16,
        "x-kubernetes-validations": [cel::invalid(
            format!("self.all(path, path.matches(r'{FIELD_PATH}'))"),
            "every key must be a field path: names joined by dots, such as spec.type",
        )],
    })
}

fn label_keys() -> Rule {
    cel::invalid(
        format!("self.all(key, key.matches(r'{LABEL_KEY}'))"),
        "every key must be a label key: an optional DNS prefix and a slash, then at most 63 of A-Z a-z 0-9 - _ .",
    )
}

/// Lets the CEL rules of an object decide which fields are required together, so that `{}` is accepted.
pub(crate) fn make_all_optional(schema: &mut Schema) {
    schema.remove("required");
}

/// Keeps undeclared fields and `null`s under this schema, so that they can be refused with a hint. Otherwise
/// the API server drops both silently: `name:` for `names:`, or `names:` without a value, would turn "this
/// connector" into "every connector".
pub(crate) fn keep_what_cannot_be_read(schema: &mut JSONSchemaProps) {
    let required = schema.required.clone().unwrap_or_default();
    if let Some(properties) = &mut schema.properties {
        schema.x_kubernetes_preserve_unknown_fields = Some(true);
        for (name, property) in properties {
            // Required and defaulted fields do not need it: without the null the object is refused, or the
            // default applies.
            if !required.contains(name) && property.default.is_none() {
                property.nullable = Some(true);
            }
        }
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        values.nullable = Some(true);
    }
    for_each_child(schema, keep_what_cannot_be_read);
}

/// Removes the line breaks of the source code from descriptions, because `kubectl explain` wraps lines
/// itself.
pub(crate) fn unwrap_descriptions(schema: &mut JSONSchemaProps) {
    if let Some(description) = &mut schema.description {
        let paragraphs = description
            .split("\n\n")
            .map(|paragraph| paragraph.replace('\n', " "));
        *description = paragraphs.collect::<Vec<_>>().join("\n\n");
    }
    for_each_child(schema, unwrap_descriptions);
}

fn for_each_child(schema: &mut JSONSchemaProps, change: fn(&mut JSONSchemaProps)) {
    schema
        .properties
        .iter_mut()
        .flat_map(|properties| properties.values_mut())
        .for_each(change);
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        change(values);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        change(items);
    }
}
