//! Content that is stored and passed on unchanged.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An object that is stored and passed on without being interpreted: its schema keeps every field and
/// declares none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(description = "Kept as it is written.")]
pub struct Opaque(#[schemars(schema_with = "kept")] pub Map<String, Value>);

fn kept(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
