//! The functions that a module may call.
//!
//! The engine reports a missing function only when it calls it. A module that never works should be refused
//! when it is written, so its calls are checked in advance.

use serde_json::Value;

use super::{ModuleError, PACKAGE};

/// The functions that exist and are deterministic. `rand.intn` is not.
#[rustfmt::skip]
const AVAILABLE: &[&str] = &[
    "abs", "array.concat", "array.reverse", "array.slice", "base64.decode", "base64.encode",
    "base64.is_valid", "bits.and", "bits.lsh", "bits.negate", "bits.or", "bits.rsh", "bits.xor", "ceil",
    "concat", "contains", "count", "endswith", "floor", "format_int", "glob.match", "glob.quote_meta",
    "indexof", "indexof_n", "intersection", "is_array", "is_boolean", "is_null", "is_number", "is_object",
    "is_set", "is_string", "json.filter", "json.is_valid", "json.marshal", "json.marshal_with_options",
    "json.remove", "json.unmarshal", "lower", "max", "min", "numbers.range", "numbers.range_step",
    "object.filter", "object.get", "object.keys", "object.remove", "object.subset", "object.union",
    "object.union_n", "print", "product", "regex.find_all_string_submatch_n", "regex.find_n",
    "regex.is_valid", "regex.match", "regex.replace", "regex.split", "regex.template_match", "replace",
    "round", "semver.compare", "semver.is_valid", "sort", "split", "sprintf", "startswith",
    "strings.any_prefix_match", "strings.any_suffix_match", "strings.count", "strings.replace_n",
    "strings.reverse", "substring", "sum", "to_number", "trim", "trim_left", "trim_prefix", "trim_right",
    "trim_space", "trim_suffix", "type_name", "union", "units.parse", "units.parse_bytes", "upper",
];

/// Every call must be to an available function, or to one that the module defines.
pub(super) fn check(tree: &Value) -> Result<(), ModuleError> {
    let mut defined = Vec::new();
    each(tree, "Func", &mut |head| {
        defined.extend(head.get("refr").and_then(name));
    });
    let mut unknown = None;
    each(tree, "Call", &mut |call| {
        let called = call
            .get("fcn")
            .and_then(name)
            .unwrap_or_else(|| "?".to_owned());
        let own = called
            .strip_prefix("data.")
            .and_then(|name| name.strip_prefix(PACKAGE)?.strip_prefix('.'));
        let own = own.unwrap_or(&called);
        if !AVAILABLE.contains(&called.as_str()) && !defined.iter().any(|name| name == own) {
            unknown.get_or_insert(called);
        }
    });
    unknown.map_or(Ok(()), |name| Err(ModuleError::Function(name)))
}

/// Visits every node of one kind.
fn each<'a>(tree: &'a Value, kind: &str, visit: &mut impl FnMut(&'a Value)) {
    match tree {
        Value::Array(items) => items.iter().for_each(|item| each(item, kind, visit)),
        Value::Object(fields) => {
            for (field, value) in fields {
                if field == kind {
                    visit(value);
                }
                each(value, kind, visit);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The dotted name of a variable or a reference.
fn name(node: &Value) -> Option<String> {
    if let Some(variable) = node.get("Var") {
        return variable.get("value")?.as_str().map(str::to_owned);
    }
    let reference = node.get("RefDot")?;
    let field = reference.get("field")?.get(1)?.as_str()?;
    Some(format!("{}.{field}", name(reference.get("refr")?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The engine's own list is not part of its stable interface, so only this test uses it.
    #[test]
    fn everything_that_is_available_exists() {
        for name in AVAILABLE.iter().filter(|name| **name != "print") {
            assert!(regorus::unstable::BUILTINS.contains_key(name), "{name}");
        }
        assert!(AVAILABLE.is_sorted());
    }

    #[test]
    fn nothing_that_gives_two_answers_is_available() {
        for name in [
            "rand.intn",
            "time.now_ns",
            "uuid.rfc4122",
            "opa.runtime",
            "http.send",
            "net.lookup_ip_addr",
            "trace",
        ] {
            assert!(!AVAILABLE.contains(&name), "{name}");
        }
    }
}
