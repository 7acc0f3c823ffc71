//! The value at a path through objects.

use serde_json::Value;

/// The value that these names lead to. Unlike `Value::pointer`, it makes no text of each name.
pub(crate) fn field<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |at, name| at.get(*name))
}
