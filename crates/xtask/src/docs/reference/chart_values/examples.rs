//! The examples in the comments of values. A cell of a table has no room for their lines.

use serde_json::Value;

use super::{ChartValue, Entry, at, code, schema, told, values};

/// The sentences of a comment, and the lines of its example, which is a list.
pub(super) fn parted(comment: &[String]) -> (&[String], &[String]) {
    let begins = |line: &String| line.trim_start().starts_with("- ");
    comment.split_at(comment.iter().position(begins).unwrap_or(comment.len()))
}

/// The example of a value as a file of values, if its comment has one.
fn example(value: &ChartValue) -> Option<String> {
    let (_, lines) = parted(&value.comment);
    let first = lines.first()?;
    let depth = first.len() - first.trim_start().len();
    let mut text = String::new();
    for (indent, key) in value.path.split('.').enumerate() {
        text.extend([&"  ".repeat(indent), key, ":\n"]);
    }
    let indent = "  ".repeat(value.path.matches('.').count());
    for line in lines {
        text.extend([&indent, line.get(depth..).unwrap_or_default(), "\n"]);
    }
    Some(text)
}

/// The examples of a group, which a table has no room for.
pub(super) fn examples(entries: &[Entry], group: &str) -> String {
    let mut text = String::new();
    for entry in entries {
        let (Entry::Leaf(value) | Entry::Group(value)) = entry;
        if value.path.split('.').next() == Some(group)
            && let Some(example) = example(value)
        {
            let path = code(&value.path);
            text.extend([
                "\nAn example of ",
                &path,
                ":\n\n```yaml\n",
                &example,
                "```\n",
            ]);
        }
    }
    text
}

#[test]
fn every_example_can_be_pasted_as_a_file_of_values() {
    let (entries, _) = values();
    let mut seen = 0;
    for entry in &entries {
        let (Entry::Leaf(value) | Entry::Group(value)) = entry;
        let Some(text) = example(value) else {
            continue;
        };
        let parsed: Value = serde_yaml::from_str(&text).unwrap();
        let items = at(&parsed, &value.path, None).as_array();
        let items = items.unwrap_or_else(|| panic!("{text}"));
        let schema = schema();
        let item = &at(&schema, &value.path, Some("properties"))["items"];
        for given in items {
            let given = given.as_object().unwrap_or_else(|| panic!("{text}"));
            assert!(!given.is_empty(), "{text}");
            if let Some(known) = item["properties"].as_object() {
                assert!(given.keys().all(|it| known.contains_key(it)), "{text}");
            }
        }
        seen += 1;
    }
    assert!(seen >= 2, "{seen}");
}

#[test]
fn an_example_keeps_its_lines_and_a_comment_without_one_has_none() {
    let value = |comment: &[&str]| ChartValue {
        path: "a.b".to_owned(),
        comment: comment.iter().map(|it| (*it).to_owned()).collect(),
    };
    let with_example = value(&[" Peers.", "   - x: 1", "     y: 2"]);
    assert_eq!(
        example(&with_example).as_deref(),
        Some("a:\n  b:\n  - x: 1\n    y: 2\n")
    );
    assert_eq!(told(&with_example.comment), "Peers.");
    assert_eq!(example(&value(&[" Peers."])), None);
    assert_eq!(example(&value(&[])), None);
}
