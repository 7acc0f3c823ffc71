//! `chart-values.md`: the values of the chart, and the keys of the `ConfigMap` that it makes of some of them.

mod examples;

use std::{collections::BTreeSet, fs};

use connectors_api::config::{CONFIG_MAP, DefaultRequesters, KEYS, OnEnable, SchedulingGate};
use examples::{examples, parted};
use serde_json::Value;

use super::{
    Table, all_described,
    cells::{code, codes, prose},
    fields, hold, page,
    reasons::{WordSet, set},
};

pub(super) const PAGE: &str = "chart-values.md";

const CHART: &str = "charts/connectors-approval";

const INTRO: &str = "This page is for operators who install or upgrade: every value of the chart, with its default. No other value exists: the
chart's schema refuses it. [install.md](../install.md) says which of them to set. Begin there.

Give the values with `--set PATH=VALUE`, or in a file with `--values FILE`. The services follow the values of
[the ConfigMap](#keys-of-the-configmap) without a restart.";

/// A value of the chart.
#[derive(Debug, PartialEq)]
struct ChartValue {
    path: String,
    /// The lines of its comment, without their marks.
    comment: Vec<String>,
}

/// A group of values, or a value, below its comment.
#[derive(Debug, PartialEq)]
enum Entry {
    Group(ChartValue),
    Leaf(ChartValue),
}

/// Reads the keys of block style, each with the comment above it. A key in flow style belongs to the value above it.
fn entries(text: &str) -> Vec<Entry> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let mut above: Vec<(usize, &str)> = Vec::new();
    let mut comment: Vec<String> = Vec::new();
    // How far the key of the list is indented that was begun.
    let mut list: Option<usize> = None;
    for (at, line) in lines.iter().enumerate() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        if let Some(text) = trimmed.strip_prefix('#') {
            comment.push(text.to_owned());
            continue;
        }
        let key = trimmed
            .split_once(':')
            .filter(|_| !trimmed.starts_with("- "));
        let Some((key, rest)) = key.filter(|(key, _)| !key.contains(['{', '[', ' '])) else {
            comment.clear();
            continue;
        };
        // The keys of the objects of a list are no values of the chart.
        if list.is_some_and(|it| indent > it) {
            comment.clear();
            continue;
        }
        list = None;
        above.retain(|(outer, _)| *outer < indent);
        let path = above
            .iter()
            .map(|(_, key)| *key)
            .chain([key])
            .collect::<Vec<_>>()
            .join(".");
        let value = ChartValue {
            path,
            comment: std::mem::take(&mut comment),
        };
        let next = lines[at + 1..]
            .iter()
            .find(|it| !it.trim_start().starts_with('#'));
        let is_list =
            rest.trim().is_empty() && next.is_some_and(|it| it.trim_start().starts_with("- "));
        if !rest.trim().is_empty() || is_list {
            list = is_list.then_some(indent);
            found.push(Entry::Leaf(value));
        } else {
            found.push(Entry::Group(value));
            above.push((indent, key));
        }
    }
    joined(found)
}

/// A group with a comment that is about all of its values is one value.
fn joined(entries: Vec<Entry>) -> Vec<Entry> {
    let comment_below = |group: &str| {
        let below = format!("{group}.");
        entries.iter().any(|it| {
            let (Entry::Leaf(value) | Entry::Group(value)) = it;
            value.path.starts_with(&below) && !value.comment.is_empty()
        })
    };
    let is_one = entries.iter().map(|it| match it {
        Entry::Group(value) => !value.comment.is_empty() && !comment_below(&value.path),
        Entry::Leaf(_) => false,
    });
    let is_one: Vec<bool> = is_one.collect();
    let mut found = Vec::new();
    let mut within: Option<String> = None;
    for (entry, is_one) in entries.into_iter().zip(is_one) {
        let (Entry::Leaf(value) | Entry::Group(value)) = &entry;
        if within.as_ref().is_some_and(|it| value.path.starts_with(it)) {
            continue;
        }
        within = is_one.then(|| format!("{}.", value.path));
        found.push(if is_one {
            let (Entry::Leaf(value) | Entry::Group(value)) = entry;
            Entry::Leaf(value)
        } else {
            entry
        });
    }
    found
}

/// The sentences of the comment as one cell: a word with a colon on a deeper line begins a line of its own.
fn told(comment: &[String]) -> String {
    let mut parts: Vec<String> = vec![String::new()];
    for line in parted(comment).0 {
        let depth = line.len() - line.trim_start().len();
        let line = line.trim();
        let is_word = line.split_once(": ").is_some_and(|(words, _)| {
            words
                .split(", ")
                .all(|it| it.chars().all(char::is_alphanumeric))
        });
        if depth > 1 && is_word {
            parts.push(String::new());
        }
        let part = parts.last_mut().unwrap();
        part.extend((!part.is_empty()).then_some(' '));
        part.push_str(line);
    }
    let cells = parts.iter().enumerate().filter(|(_, it)| !it.is_empty());
    let cells = cells.map(
        |(place, part)| match part.split_once(": ").filter(|_| place > 0) {
            Some((words, text)) => format!("{}: {}", codes(words.split(", ")), prose(text)),
            None => prose(part),
        },
    );
    cells.collect::<Vec<_>>().join("<br>")
}

fn values() -> (Vec<Entry>, Value) {
    let text = fs::read_to_string(e2e::repository().join(CHART).join("values.yaml")).unwrap();
    let parsed = serde_yaml::from_str(&text).unwrap();
    (entries(&text), parsed)
}

/// The schema without references.
fn schema() -> Value {
    fn resolved(value: &Value, all: &Value) -> Value {
        if let Some(fields) = value.as_object() {
            return match fields.get("$ref").and_then(Value::as_str) {
                Some(place) => resolved(all.pointer(place.trim_start_matches('#')).unwrap(), all),
                None => fields
                    .iter()
                    .map(|(key, value)| (key.clone(), resolved(value, all)))
                    .collect(),
            };
        }
        match value.as_array() {
            Some(items) => items.iter().map(|it| resolved(it, all)).collect(),
            None => value.clone(),
        }
    }
    let text =
        fs::read_to_string(e2e::repository().join(CHART).join("values.schema.json")).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    resolved(&all, &all)
}

/// The part of the schema, or of the values, below a path.
fn at<'a>(root: &'a Value, path: &str, between: Option<&str>) -> &'a Value {
    path.split('.').fold(root, |value, key| match between {
        Some(between) => &value[between][key],
        None => &value[key],
    })
}

/// The type, with the limits of the schema.
fn limits(schema: &Value) -> String {
    // A list of words needs no other type.
    let name = if schema["enum"].is_array() {
        String::new()
    } else {
        fields::type_of(schema)
    };
    // The parts of an object are told by the comment.
    let limits = if schema["type"] == "object" {
        String::new()
    } else {
        fields::limits(schema)
    };
    let parts = [name, limits].into_iter().filter(|it| !it.is_empty());
    parts.collect::<Vec<_>>().join("; ")
}

/// The tables of the page: one for the values without a group, and one for each group.
fn tables() -> Vec<(String, Table)> {
    let (entries, parsed) = values();
    let schema = schema();
    let mut tables = vec![("The whole installation".to_owned(), columns())];
    for entry in &entries {
        let (Entry::Leaf(value) | Entry::Group(value)) = entry;
        let (path, about) = (value.path.as_str(), told(&value.comment));
        let group = path.split('.').next().unwrap_or_default();
        let is_group = matches!(entry, Entry::Group(_));
        if is_group && path == group {
            tables.push((group.to_owned(), columns()));
        }
        if is_group && about.is_empty() {
            continue;
        }
        all_described([(path, about.as_str())]);
        let default = at(&parsed, path, None);
        let (default, limits) = if is_group {
            (String::new(), String::new())
        } else {
            let text = default.as_str().filter(|it| !it.is_empty());
            let default = text.map_or_else(|| default.to_string(), ToOwned::to_owned);
            (default, limits(at(&schema, path, Some("properties"))))
        };
        let of_group = tables.iter_mut().find(|(it, _)| it == group);
        let table = match of_group {
            Some((_, table)) => table,
            None => &mut tables[0].1,
        };
        table.row(&[code(path), code(&default), limits, about]);
    }
    tables
}

fn columns() -> Table {
    Table::new(&["value", "default", "limits", "meaning"])
}

/// The sets of words that are values of the `ConfigMap`.
pub(super) fn sets() -> [WordSet; 3] {
    set![OnEnable, SchedulingGate, DefaultRequesters]
}

fn keys() -> Table {
    all_described(KEYS.iter().map(|it| (it.name, it.about)));
    let mut table = Table::new(&["key", "values", "without it", "chart value", "meaning"]);
    for key in KEYS {
        table.row(&[
            code(key.name),
            prose(key.values),
            prose(key.without),
            code(key.chart_value),
            prose(key.about),
        ]);
    }
    table
}

#[test]
fn the_page_of_values_is_that_of_the_chart() {
    let mut text = page("Values of the chart", INTRO);
    let (entries, _) = values();
    for (group, table) in tables() {
        text += &table.below(&format!("## {group}"), "");
        text += &examples(&entries, &group);
    }
    text += &keys().below(
        "## Keys of the ConfigMap",
        &format!(
            "The chart writes them into ConfigMap `{CONFIG_MAP}` of its namespace. While the ConfigMap is missing, or a value cannot be\n\
             read, the last known value holds."
        ),
    );
    let headings = ["on-enable", "scheduling-gate", "default-requesters"];
    for (set, key) in sets().iter().zip(headings) {
        let subject = prose(set.subject);
        text += &set
            .table("value")
            .below(&format!("### Values of {key}"), &subject);
    }
    hold(PAGE, &text);
}

/// The paths of a schema's values: those without parts, and those of whose parts any may be named.
fn paths(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    let parts = schema["properties"].as_object();
    for (name, part) in parts.into_iter().flatten() {
        let path = format!("{path}{}{name}", if path.is_empty() { "" } else { "." });
        paths(part, &path, found);
    }
    if parts.is_none() {
        found.insert(path.to_owned());
    }
}

/// `global` is Helm's own.
#[test]
fn every_value_of_the_schema_and_of_the_chart_has_its_row() {
    let (entries, parsed) = values();
    let rows = entries.iter().filter_map(|it| match it {
        Entry::Leaf(value) => Some(value.path.as_str()),
        Entry::Group(_) => None,
    });
    let rows: BTreeSet<&str> = rows.collect();
    let shown: usize = tables().iter().map(|(_, table)| table.rows).sum();
    assert!(shown >= rows.len(), "{shown}");
    let covered = |path: &str| {
        let mut ends = path
            .match_indices('.')
            .map(|(at, _)| at)
            .chain([path.len()]);
        ends.any(|end| rows.contains(&path[..end]))
    };
    let mut of_schema = BTreeSet::new();
    paths(&schema(), "", &mut of_schema);
    let lacking: Vec<_> = of_schema
        .iter()
        .filter(|it| *it != "global" && !covered(it))
        .collect();
    assert!(of_schema.len() > 60 && lacking.is_empty(), "{lacking:?}");
    for row in &rows {
        assert!(
            !at(&schema(), row, Some("properties")).is_null(),
            "the schema has no {row}"
        );
        assert!(
            !at(&parsed, row, None).is_null(),
            "the values have no {row}"
        );
    }
    let groups = entries.iter().filter(|it| matches!(it, Entry::Group(_)));
    assert_eq!(groups.count() + rows.len(), entries.len());
    let mut top = parsed.as_object().unwrap().keys();
    assert!(top.all(|it| entries.iter().any(|entry| match entry {
        Entry::Leaf(value) | Entry::Group(value) => value.path == *it,
    })));
}

#[test]
fn every_key_of_the_config_map_has_its_row_and_comes_from_its_value() {
    let template =
        fs::read_to_string(e2e::repository().join(CHART).join("templates/config.yaml")).unwrap();
    let (_, data) = template.split_once("\ndata:\n").unwrap();
    let written = data.lines().map(|it| it.trim().split_once(": ").unwrap());
    let written: BTreeSet<(&str, &str)> = written.collect();
    let known: BTreeSet<&str> = KEYS.iter().map(|it| it.name).collect();
    assert_eq!(
        written.iter().map(|(key, _)| *key).collect::<BTreeSet<_>>(),
        known
    );
    for key in KEYS {
        let (_, from) = written.iter().find(|(it, _)| *it == key.name).unwrap();
        let is_from =
            from.contains(&format!(".Values.{}", key.chart_value)) || from.contains("$gate");
        assert!(is_from, "{}: {from}", key.name);
    }
    // A key that the code reads beside these would have no row.
    let code =
        fs::read_to_string(e2e::repository().join("crates/connectors-api/src/config.rs")).unwrap();
    let (_, learn) = code.split_once("pub fn learn(").unwrap();
    let (learn, _) = learn.split_once("\n    }\n").unwrap();
    assert_eq!(learn.matches(".get(").count(), KEYS.len());
}

#[test]
fn values_are_read_with_the_comments_above_them() {
    let text = "# Of the file.\n\n# Of a.\na: 1\n\nb:\n  # Of c,\n  # two lines.\n  c: {x: 1, y: 2}\n  # Of d.\n  d:\n  - e: 1\n    f: 2\n  # Of g.\n  g: []\n  # - {x: 1}\n\nh:\n  i:\n    j: 1\n# Of all.\nk:\n  l: 1\n  m: 2\n";
    let told = entries(text).into_iter().map(|it| match it {
        Entry::Leaf(it) => (it.path, it.comment.join("")),
        Entry::Group(it) => (format!("{}:", it.path), it.comment.join("")),
    });
    let expected = [
        ("a", " Of a."),
        ("b:", ""),
        ("b.c", " Of c, two lines."),
        ("b.d", " Of d."),
        ("b.g", " Of g."),
        ("h:", ""),
        ("h.i:", ""),
        ("h.i.j", ""),
        ("k", " Of all."),
    ];
    assert_eq!(
        told.collect::<Vec<_>>(),
        expected.map(|(path, comment)| (path.to_owned(), comment.to_owned()))
    );
}

#[test]
fn a_comment_becomes_a_cell() {
    let lines = |text: &str| text.lines().map(ToOwned::to_owned).collect::<Vec<_>>();
    let comment = lines(
        " Whether it waits: always.\n   Keep: it stays\n     until later.\n   A, B: both.\n   - {x: 1}\n     y: 2",
    );
    assert_eq!(
        told(&comment),
        "Whether it waits: always.<br>`Keep`: it stays until later.<br>`A`, `B`: both."
    );
    assert_eq!(told(&[]), "");
}
