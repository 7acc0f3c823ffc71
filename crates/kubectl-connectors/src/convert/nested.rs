//! Policies inside other objects: in templates that make objects, and in lists of unknown kinds.

use serde_json::Value;

use super::place::{ConvertLog, ConvertSource};
use super::words::RefusalWord;

/// True when an object has policies in it, which stand in the other product's form. They are refused.
pub(super) fn refuses(source: ConvertSource<'_>, log: &mut ConvertLog) -> bool {
    let mut found = Vec::new();
    look(source.value(), "", &mut found);
    for path in &found {
        let message = "a policy inside another object stays in the other product's form";
        let fix = "give the policy as an object of its own, and put the converted one here";
        log.refuse(source.at(path), RefusalWord::PolicyNested, message, fix);
    }
    !found.is_empty()
}

fn look(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            // A reference names a kind too, and has neither of these parts.
            let is_object = fields.contains_key("spec") || fields.contains_key("metadata");
            let kind = fields.get("kind").and_then(Value::as_str);
            if is_object && kind == Some("AccessPolicy") && !path.is_empty() {
                found.push(path.to_owned());
                return;
            }
            for (field, value) in fields {
                let path = if path.is_empty() {
                    field.clone()
                } else {
                    format!("{path}.{field}")
                };
                look(value, &path, found);
            }
        }
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                look(item, &format!("{path}[{place}]"), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
