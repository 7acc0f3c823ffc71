//! Nothing under the spec of a request ever changes.

use serde_json::{Value, json};

use crate::cases::attempt;
use crate::schemas::schema_of;
use crate::support::{Scene, scene};

/// A declared field of a request's spec.
struct Field {
    pointer: String,
    schema: Value,
    required: bool,
}

/// Every field below `schema`, which is found at `pointer`.
fn fields(schema: &Value, pointer: &str) -> Vec<Field> {
    let mut found = Vec::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let required = schema["required"]
            .as_array()
            .is_some_and(|names| names.contains(&json!(name)));
        let pointer = format!("{pointer}/{name}");
        found.extend(fields(property, &pointer));
        found.push(Field {
            pointer,
            schema: property.clone(),
            required,
        });
    }
    found
}

impl Field {
    /// The object without the field.
    fn removed(&self, object: &Value) -> Value {
        let mut object = object.clone();
        let (parent, field) = self.pointer.rsplit_once('/').unwrap();
        object
            .pointer_mut(parent)
            .unwrap()
            .as_object_mut()
            .unwrap()
            .remove(field);
        object
    }

    /// The object with another value of the field, if there is one that is valid by itself.
    fn changed(&self, object: &Value) -> Option<Value> {
        let value = object.pointer(&self.pointer).unwrap();
        let other = match (self.schema["enum"].as_array(), value.as_str()) {
            (Some(words), _) => words.iter().find(|word| *word != value).cloned(),
            (None, Some(text)) => Some(json!(format!("{text}x"))),
            (None, None) => None,
        };
        let mut object = object.clone();
        *object.pointer_mut(&self.pointer).unwrap() = other?;
        Some(object)
    }
}

/// Creates `before` and asserts that it cannot become `after`.
async fn assert_immutable(scene: &Scene, what: &str, before: &Value, after: &Value) {
    let refusal = attempt(scene, Some(before), after).await.expect_err(what);
    assert!(
        refusal.message.contains("spec: immutable"),
        "{what}: {}",
        refusal.message
    );
}

#[tokio::test]
async fn no_field_of_a_request_can_be_changed_added_or_removed() {
    let scene = scene("updates").await;
    let full = scene.full("AccessRequest");
    let fields = fields(&schema_of("AccessRequest")["properties"]["spec"], "/spec");
    for field in &fields {
        let pointer = &field.pointer;
        if let Some(other) = field.changed(&full) {
            assert_immutable(&scene, &format!("{pointer} changed"), &full, &other).await;
        }
        if !field.required {
            let without = field.removed(&full);
            assert_immutable(&scene, &format!("{pointer} removed"), &full, &without).await;
            assert_immutable(&scene, &format!("{pointer} added"), &without, &full).await;
        }
    }
    assert!(fields.len() > 12, "only {} fields", fields.len());
}

/// Undeclared fields are part of the spec too.
#[tokio::test]
async fn no_unknown_field_can_be_added_to_a_request_later() {
    let scene = scene("updates").await;
    let full = scene.full("AccessRequest");
    for level in [
        "/spec",
        "/spec/subject",
        "/spec/connectorRef",
        "/spec/context",
        "/spec/context/objectRef",
    ] {
        let mut surprised = full.clone();
        surprised.pointer_mut(level).unwrap()["surprise"] = json!("x");
        assert_immutable(&scene, level, &full, &surprised).await;
    }
}

/// A trade that a comparison in one direction lets pass.
#[tokio::test]
async fn no_field_of_a_request_can_be_traded_for_an_unknown_one() {
    let scene = scene("updates").await;
    let full = scene.full("AccessRequest");
    for field in fields(&schema_of("AccessRequest")["properties"]["spec"], "/spec") {
        if field.required || field.pointer == "/spec/permission" {
            continue; // Required and defaulted fields cannot be traded away.
        }
        let mut traded = field.removed(&full);
        let (level, _) = field.pointer.rsplit_once('/').unwrap();
        traded.pointer_mut(level).unwrap()["surprise"] = json!("x");
        assert_immutable(&scene, &format!("{} away", field.pointer), &full, &traded).await;
        assert_immutable(&scene, &format!("{} back", field.pointer), &traded, &full).await;
    }
}
