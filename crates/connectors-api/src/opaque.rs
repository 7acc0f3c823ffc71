//! Content that is stored and passed on unchanged.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An object that is stored and passed on without being interpreted: its schema keeps every field and
/// declares none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Opaque(pub Map<String, Value>);

impl JsonSchema for Opaque {
    fn schema_name() -> Cow<'static, str> {
        "Opaque".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Kept as it is written.",
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
        })
    }
}
