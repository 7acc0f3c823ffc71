use allocation_counter::measure;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::json_values;

fn needed(paths: &[&'static str]) -> NeededFields<'static> {
    let mut needed = NeededFields::NONE;
    for path in paths {
        needed.add(path.split('.'));
    }
    needed
}

fn read(needed: &NeededFields<'_>, text: &str) -> Option<Value> {
    needed.read(text.as_bytes())
}

#[test]
fn only_the_needed_fields_of_objects_are_read() {
    let needed = needed(&["kind", "metadata.labels.run", "status", "status.state"]);
    for (text, part) in [
        (
            r#"{"kind": "A", "spec": {"a": [1, {}]}}"#,
            r#"{"kind": "A"}"#,
        ),
        (
            r#"{"metadata": {"name": "n", "labels": {"run": "r", "b": "c"}}}"#,
            r#"{"metadata": {"labels": {"run": "r"}}}"#,
        ),
        (
            r#"{"status": {"state": "s", "other": [null, 1.5, -1]}}"#,
            r#"{"status": {"state": "s", "other": [null, 1.5, -1]}}"#,
        ),
        // Other values than objects are read as they are.
        (
            r#"{"metadata": [{"labels": 1}, "a", true]}"#,
            r#"{"metadata": [{"labels": 1}, "a", true]}"#,
        ),
        (
            r#"{"metadata": {"labels": "text"}}"#,
            r#"{"metadata": {"labels": "text"}}"#,
        ),
        (
            r#"{"metadata": -7, "kind": null}"#,
            r#"{"metadata": -7, "kind": null}"#,
        ),
        (r#"{"metadata": 1.5}"#, r#"{"metadata": 1.5}"#),
        (r#"{"metadata": true}"#, r#"{"metadata": true}"#),
        // The last one counts.
        (
            r#"{"metadata": {"labels": {"run": 1}}, "metadata": {"labels": {}}}"#,
            r#"{"metadata": {"labels": {}}}"#,
        ),
        (r#"{"k\u0069nd": "A"}"#, r#"{"kind": "A"}"#),
        ("[1]", "[1]"),
        ("null", "null"),
    ] {
        let expected: Value = serde_json::from_str(part).unwrap();
        assert_eq!(read(&needed, text), Some(expected), "{text}");
    }
}

#[test]
fn of_other_fields_the_names_are_read_where_they_are_needed() {
    let mut needed = needed(&["spec.approvers"]);
    needed.add_names([]);
    needed.add_names(["spec"]);
    let text = r#"{"Spec": {"a": 1}, "spec": {"b": {"c": 1}, "approvers": [{"d": 1}]}}"#;
    let part = json!({"Spec": null, "spec": {"b": null, "approvers": [{"d": 1}]}});
    assert_eq!(read(&needed, text), Some(part));
    needed.add(["spec"]);
    needed.add_names(["spec", "approvers"]);
    let whole = json!({"Spec": null, "spec": {"b": {"c": 1}, "approvers": [{"d": 1}]}});
    assert_eq!(read(&needed, text), Some(whole));
}

#[test]
fn a_text_that_cannot_be_read_whole_is_not_read_in_part() {
    for broken in [
        &b""[..],
        b"{",
        b"{} {}",
        b"{\"a\": }",
        b"{\"a\": 1,}",
        b"{\"a\": 1e999}",
        b"{\"a\": 01}",
        b"{\"a\": \"\xff\"}",
        b"{\"\xff\": 1}",
        b"{\"a\": \"\\ud800\"}",
        b"{\"a\": \"\\x\"}",
        b"{\"a\": \"\n\"}",
        b"{\"a\": [1}",
        b"{1: 2}",
    ] {
        assert!(serde_json::from_slice::<Value>(broken).is_err());
        assert_eq!(NeededFields::NONE.read(broken), None, "{broken:?}");
    }
}

#[test]
fn a_text_with_a_meaning_of_its_own_or_many_levels_is_not_read_in_part() {
    let needed = needed(&["b.c"]);
    for kind in ["Number", "RawValue"] {
        let odd = format!(r#"{{"{PRIVATE}{kind}": "1"}}"#);
        for text in [
            odd.clone(),
            format!(r#"{{"a": {odd}}}"#),
            format!(r#"{{"a": [[{odd}]]}}"#),
            format!(r#"{{"b": {odd}}}"#),
            format!(r#"{{"b": {{"d": {odd}}}}}"#),
        ] {
            assert_eq!(read(&needed, &text), None, "{text}");
        }
    }
    let deep = |levels: usize| format!("{{\"a\": {}{}}}", "[".repeat(levels), "]".repeat(levels));
    assert_eq!(read(&needed, &deep(MOST_LEVELS - 1)), Some(json!({})));
    assert_eq!(read(&needed, &deep(MOST_LEVELS)), None);
    let deep = |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
    assert_eq!(read(&needed, &deep(MOST_LEVELS)), Some(json!({})));
    assert_eq!(read(&needed, &deep(MOST_LEVELS + 1)), None);
}

#[test]
fn what_is_not_needed_takes_no_memory() {
    let field = |number: usize| format!(r#""field-{number}": {{"a": ["text", 1.5, null, true]}}"#);
    let fields: Vec<_> = (0..1000).map(field).collect();
    let text = format!(r#"{{{}, "kind": "A"}}"#, fields.join(","));
    let needed = needed(&["kind"]);
    let cost = measure(|| assert!(read(&needed, &text).is_some()));
    // The object, the name and the value.
    assert!(cost.count_total <= 3, "{cost:?}");
    assert!(cost.bytes_max < 1024, "{cost:?}");
}

fn paths() -> impl Strategy<Value = Vec<Vec<String>>> {
    let name = "(object|metadata|name|namespace|labels|status|state|spec|items|a|b)";
    prop::collection::vec(prop::collection::vec(name, 1..4), 0..5)
}

/// The value at a path, through objects.
fn at<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    let step = |at: &'a Value, name: &String| at.as_object()?.get(name);
    path.iter().try_fold(value, step)
}

proptest! {
    #[test]
    fn each_needed_path_leads_to_the_same_value(value in json_values(), paths in paths()) {
        let mut needed = NeededFields::NONE;
        for path in &paths {
            needed.add(path.iter().map(String::as_str));
        }
        let text = value.to_string();
        let whole: Value = serde_json::from_str(&text).unwrap();
        let part = read(&needed, &text).unwrap();
        for path in &paths {
            prop_assert_eq!(at(&part, path), at(&whole, path), "{:?}", path);
            // And what is on the way is of the same kind.
            for length in 0..path.len() {
                let kind = |value| at(value, &path[..length]).map(crate::check_state::kind);
                prop_assert_eq!(kind(&part), kind(&whole));
            }
        }
        prop_assert_eq!(read(&NeededFields::ALL, &text), Some(whole));
    }

    #[test]
    fn a_text_is_read_in_part_only_if_it_can_be_read_whole(
        value in json_values(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut text = value.to_string().into_bytes();
        let at = at.index(text.len());
        text[at] = byte;
        let part = needed(&["metadata.name"]).read(&text);
        prop_assert!(part.is_none() || serde_json::from_slice::<Value>(&text).is_ok());
    }
}
