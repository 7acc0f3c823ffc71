//! The fields of its input that a module can read.
//!
//! Most of the time of a check would go into parsing an object of which the module reads one field. The
//! module's text shows which fields it can read: `input.status` and `input["status"]` name a field, and any
//! other use counts as all fields.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use regorus::Value as Rego;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Fields of one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    /// Unknown, so every field.
    All,
    /// At most these.
    Fields(BTreeSet<String>),
}

impl Reads {
    /// The fields of `root`, which is `input` or `data`, that a parsed module can read.
    pub(super) fn of(tree: &Value, root: &str) -> Self {
        let mut fields = BTreeSet::new();
        if collect(tree, root, &mut fields) {
            Self::Fields(fields)
        } else {
            Self::All
        }
    }

    /// True when the module can read the field.
    pub(super) fn reaches(&self, field: &str) -> bool {
        match self {
            Self::All => true,
            Self::Fields(fields) => fields.contains(field),
        }
    }

    /// True when the module can read anything.
    pub(super) fn is_something(&self) -> bool {
        match self {
            Self::All => true,
            Self::Fields(fields) => !fields.is_empty(),
        }
    }

    /// Parses an object, limited to the fields that the module can read.
    pub(super) fn parse(&self, object: &str) -> serde_json::Result<Rego> {
        match self {
            Self::Fields(fields) if object.trim_start().starts_with('{') => {
                let mut reader = serde_json::Deserializer::from_str(object);
                let taken = TakenFields(fields).deserialize(&mut reader)?;
                reader.end()?;
                Ok(taken)
            }
            // A value other than an object is parsed as a whole.
            Self::Fields(_) | Self::All => serde_json::from_str(object),
        }
    }

    /// The same for an object that is already parsed.
    pub(super) fn take(&self, object: &Value) -> serde_json::Result<Rego> {
        match self {
            Self::Fields(fields) if object.is_object() => TakenFields(fields).deserialize(object),
            Self::Fields(_) | Self::All => Rego::deserialize(object),
        }
    }
}

/// Adds the fields of the root that a part of a module names; false when it uses the root in another way.
fn collect(tree: &Value, root: &str, fields: &mut BTreeSet<String>) -> bool {
    match tree {
        Value::Array(items) => items.iter().all(|item| collect(item, root, fields)),
        Value::Object(node) => {
            match step(tree, root) {
                Some(ReadStep::Field(field)) => {
                    fields.insert(field.to_owned());
                    return true;
                }
                Some(ReadStep::Computed) => return false,
                None => {}
            }
            !is_variable(tree, root) && node.values().all(|part| collect(part, root, fields))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// The target of one step from the root.
enum ReadStep<'a> {
    /// A field with a literal name.
    Field(&'a str),
    /// A field with a computed name.
    Computed,
}

impl<'a> ReadStep<'a> {
    fn to(field: Option<&'a Value>) -> Self {
        let name = field.and_then(Value::as_str);
        name.map_or(Self::Computed, Self::Field)
    }
}

/// The step, if the node is a reference of one step from the root.
fn step<'a>(node: &'a Value, root: &str) -> Option<ReadStep<'a>> {
    if let Some(dot) = node.get("RefDot")
        && is_variable(dot.get("refr")?, root)
    {
        return Some(ReadStep::to(dot.pointer("/field/1")));
    }
    if let Some(bracket) = node.get("RefBrack")
        && is_variable(bracket.get("refr")?, root)
    {
        let index = bracket.get("index")?;
        let text = index.get("String").or_else(|| index.get("RawString"));
        return Some(ReadStep::to(text.and_then(|text| text.get("value"))));
    }
    None
}

fn is_variable(node: &Value, name: &str) -> bool {
    let variable = node.pointer("/Var/value");
    variable.and_then(Value::as_str) == Some(name)
}

/// Parses an object and skips unused fields.
struct TakenFields<'a>(&'a BTreeSet<String>);

impl<'de> DeserializeSeed<'de> for TakenFields<'_> {
    type Value = Rego;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Rego, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for TakenFields<'_> {
    type Value = Rego;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Rego, A::Error> {
        let mut taken = BTreeMap::new();
        while let Some(wanted) = map.next_key_seed(WantedField(self.0))? {
            match wanted {
                // Of two fields with the same name the last one counts, as usual in JSON.
                Some(field) => {
                    taken.insert(Rego::from(field), map.next_value()?);
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Rego::from(taken))
    }
}

/// Parses the name of a field, and returns it if it is among the wanted ones.
struct WantedField<'a>(&'a BTreeSet<String>);

impl<'de, 'a> DeserializeSeed<'de> for WantedField<'a> {
    type Value = Option<&'a str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'_> for WantedField<'a> {
    type Value = Option<&'a str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.get(name).map(String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{load, tree};
    use super::*;

    fn reads(body: &str, root: &str) -> Reads {
        let source = format!("package approval\n{body}");
        let engine = load(&source, Duration::from_secs(20)).unwrap();
        Reads::of(&tree(&engine).unwrap(), root)
    }

    fn fields(names: &[&str]) -> Reads {
        Reads::Fields(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn a_field_that_is_written_out_is_looked_at() {
        for (body, names) in [
            ("output := {\"state\": input.status.state}", &["status"][..]),
            (
                "output := {\"state\": input[\"status\"].state}",
                &["status"],
            ),
            ("output := {\"state\": input[`status`].state}", &["status"]),
            ("output := {\"state\": input.a[input.b.c]}", &["a", "b"]),
            (
                "output := {\"state\": \"x\"} if every i in input.list { i == input.x }",
                &["list", "x"],
            ),
            (
                "f(x) := input.y if x\noutput := {\"state\": f(input.x)}",
                &["x", "y"],
            ),
            ("import input.a as b\noutput := {\"state\": b.c}", &["a"]),
            (
                "output := {\"state\": y} if { y := data.approval.z with input.z as 1 }\nz := input.y",
                &["y", "z"],
            ),
            ("output := {\"state\": \"input.x\"}", &[]),
            ("output := {\"input\": \"x\"}", &[]),
            ("output := {}", &[]),
        ] {
            assert_eq!(reads(body, "input"), fields(names), "{body}");
        }
    }

    #[test]
    fn whatever_else_is_done_with_an_object_is_done_with_all_of_it() {
        for body in [
            "output := input",
            "output := {\"state\": input[x]} if { x := \"status\" }",
            "output := {\"state\": input[_]}",
            "output := {\"state\": object.get(input, \"state\", \"\")}",
            "output := {\"state\": x.state} if { x := input }",
            "import input as i\noutput := {\"state\": i.state}",
            "output := {\"state\": \"x\"} if { some k, v in input }",
            "output := {\"state\": z} if { z := data.approval.y with input as {\"a\": 1} }\ny := input.a",
            "output := {\"state\": input[concat(\"\", [\"a\"])]}",
        ] {
            assert_eq!(reads(body, "input"), Reads::All, "{body}");
        }
    }

    #[test]
    fn own_rules_are_no_context() {
        let of_data = |body: &str| reads(body, "data").reaches("context");
        for body in [
            "output := {\"state\": data.context.metadata.name}",
            "import data.context\noutput := {\"state\": context.x}",
            "output := {\"state\": data[_].x}",
            "output := {\"state\": x} if { d := data; x := d.context }",
        ] {
            assert!(of_data(body), "{body}");
        }
        for body in [
            "f(x) := x\noutput := {\"state\": data.approval.f(\"x\")}",
            "output := {\"state\": input.data.context}",
        ] {
            assert!(!of_data(body), "{body}");
        }
    }

    #[test]
    fn what_is_taken_is_what_was_there() {
        let reads = fields(&["a", "b"]);
        for (text, expected) in [
            (
                r#" {"x": [1, {}], "a": {"y": 1.5}, "c": "d"}"#,
                r#"{"a": {"y": 1.5}}"#,
            ),
            (r#"{"a": 1, "x": 0, "a": 2}"#, r#"{"a": 2}"#),
            (r#"{"\u0061": null}"#, r#"{"a": null}"#),
            ("{}", "{}"),
            ("[1]", "[1]"),
            ("null", "null"),
            ("\"a\"", "\"a\""),
        ] {
            let expected = Rego::from_json_str(expected).unwrap();
            assert_eq!(reads.parse(text).unwrap(), expected, "{text}");
            let parsed = serde_json::from_str(text).unwrap();
            assert_eq!(reads.take(&parsed).unwrap(), expected, "{text}");
        }
        for broken in [
            "",
            "{",
            "{\"a\": 1} x",
            "{\"x\": }",
            "{\"x\": 1,}",
            "{'a': 1}",
        ] {
            assert!(reads.parse(broken).is_err(), "{broken}");
            assert!(Reads::All.parse(broken).is_err(), "{broken}");
        }
    }
}
