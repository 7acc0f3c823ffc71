//! The promises of the schemas to people and to the API server, and the objects that the types refuse.

#![allow(
    clippy::doc_markdown,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests fail by panicking, and kinds of Kubernetes are plain words in them"
)]

mod examples;
mod parsing;
mod schema;
mod templates;
mod walk;

use serde_json::Value;

/// An object in which every field has a value.
fn full(kind: &str) -> Value {
    let text = match kind {
        "AccessPolicy" => include_str!("../full/access-policy.yaml"),
        "AccessRequest" => include_str!("../full/access-request.yaml"),
        other => panic!("there is no full {other}"),
    };
    serde_yaml::from_str(text).unwrap()
}
