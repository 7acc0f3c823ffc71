//! The schema of `-o json` only grows: what the first version has is there in every later one. What came after it is held
//! when the schema is written anew.

use std::fs;

use serde_json::{Map, Value};

use crate::documents::plugin;

/// The schema as it was first documented. A file that is never generated: programs rely on it.
const FIRST: &str = "schema/v1.first.json";

/// The parts of a schema that hold other schemas by name.
const NAMED: [&str; 2] = ["properties", "$defs"];
/// Those that hold alternatives: others may be added.
const ALTERNATIVES: [&str; 4] = ["oneOf", "anyOf", "enum", "required"];
/// What people read.
const WORDS: [&str; 2] = ["description", "title"];

/// What an older schema promises and a newer one does not keep, by its place.
fn broken(older: &Value, newer: &Value, at: &str, problems: &mut Vec<String>) {
    match (older, newer) {
        (Value::Object(older), Value::Object(newer)) => broken_fields(older, newer, at, problems),
        _ if older == newer => {}
        _ => problems.push(format!("{at}: {older} became {newer}")),
    }
}

fn broken_fields(
    older: &Map<String, Value>,
    newer: &Map<String, Value>,
    at: &str,
    problems: &mut Vec<String>,
) {
    for (key, older) in older
        .iter()
        .filter(|(key, _)| !WORDS.contains(&key.as_str()))
    {
        let at = format!("{at}/{key}");
        let Some(newer) = newer.get(key) else {
            problems.push(format!("{at}: is gone"));
            continue;
        };
        if NAMED.contains(&key.as_str()) {
            let (older, newer) = (older.as_object().unwrap(), newer.as_object().unwrap());
            for (name, older) in older {
                match newer.get(name) {
                    Some(newer) => broken(older, newer, &format!("{at}/{name}"), problems),
                    None => problems.push(format!("{at}/{name}: is gone")),
                }
            }
        } else if ALTERNATIVES.contains(&key.as_str()) {
            let newer = newer.as_array().unwrap();
            for alternative in older.as_array().unwrap() {
                if !newer.iter().any(|it| is_kept(alternative, it)) {
                    problems.push(format!("{at}: {alternative} is gone"));
                }
            }
        } else {
            broken(older, newer, &at, problems);
        }
    }
}

fn is_kept(older: &Value, newer: &Value) -> bool {
    let mut problems = Vec::new();
    broken(older, newer, "", &mut problems);
    problems.is_empty()
}

/// What a newer schema does not keep of an older one.
pub(crate) fn problems(older: &Value, newer: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    broken(older, newer, "", &mut problems);
    problems
}

fn first() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/");
    let text = fs::read_to_string(format!("{path}{FIRST}")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn the_schema_keeps_every_field_value_and_promise_of_its_first_version() {
    let now = serde_json::from_str(&plugin(&["schema"]).0).unwrap();
    assert_eq!(problems(&first(), &now), Vec::<String>::new());
}

/// Each change of the first schema, in place of what is there: where, and whether programs still work.
#[test]
fn what_programs_rely_on_may_not_go_and_more_may_come() {
    type Change = fn(&mut Value);
    let first = first();
    let changes: [(&str, Change, bool); 8] = [
        ("nothing", |_| {}, true),
        (
            "a field is added",
            |it| it["properties"]["more"] = serde_json::json!({"type": "string"}),
            true,
        ),
        (
            "a kind of report is added",
            |it| {
                let kind = serde_json::json!({"properties": {"kind": {"const": "More"}}});
                it["oneOf"].as_array_mut().unwrap().push(kind);
            },
            true,
        ),
        (
            "a description changes",
            |it| it["properties"]["apiVersion"]["description"] = "other words".into(),
            true,
        ),
        (
            "a field goes",
            |it| {
                it["properties"].as_object_mut().unwrap().remove("unread");
            },
            false,
        ),
        (
            "the type of a field changes",
            |it| it["properties"]["apiVersion"]["type"] = "integer".into(),
            false,
        ),
        (
            "a kind of report goes",
            |it| {
                it["oneOf"].as_array_mut().unwrap().remove(0);
            },
            false,
        ),
        (
            "a field that was always there may be missing",
            |it| {
                let required = &mut it["$defs"]["Explanation"]["required"];
                required.as_array_mut().unwrap().remove(0);
            },
            false,
        ),
    ];
    for (what, change, works) in changes {
        let mut newer = first.clone();
        change(&mut newer);
        assert_eq!(problems(&first, &newer).is_empty(), works, "{what}");
    }
}
