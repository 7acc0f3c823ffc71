//! YAML documents with the position of each of their fields, so that an error can name the line.

use std::collections::{BTreeMap, BTreeSet};

use connectors_api::quoted;
use granit_parser::{Event, Parser, ScalarStyle};
use serde::Deserialize as _;
use serde_json::Value;
use thiserror::Error;

use crate::yaml_weight::YamlWeight;

/// A line and a column, both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct YamlPosition {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// One document of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct YamlDocument {
    /// Its content.
    pub value: Value,
    /// Where each field stands, by its path: names joined by dots, positions of lists in brackets.
    positions: BTreeMap<String, YamlPosition>,
    start: YamlPosition,
}

/// Why a text is not YAML.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {}: {message}", position.line)]
pub struct YamlError {
    /// The position of the error.
    pub position: YamlPosition,
    /// The reason.
    pub message: String,
}

impl YamlDocument {
    /// The items of a `kind: List`, or of a list of one kind, each as a document of its own. A list in a list is
    /// unfolded too. Any other document is its only one.
    #[must_use]
    pub fn unfolded(self) -> Vec<Self> {
        let kind = self.value.get("kind").and_then(Value::as_str);
        let of = kind
            .and_then(|it| it.strip_suffix("List"))
            .map(str::to_owned);
        let items = self.value.get("items").and_then(Value::as_array);
        let (Some(of), Some(items)) = (of, items) else {
            return vec![self];
        };
        let mut positions: Vec<Positions> = vec![Positions::new(); items.len()];
        let mut starts = vec![self.start; items.len()];
        for (path, position) in &self.positions {
            let Some((at, field)) = path
                .strip_prefix("items[")
                .and_then(|it| it.split_once(']'))
            else {
                continue;
            };
            let Ok(at) = at.parse::<usize>() else {
                continue;
            };
            if let (Some(positions), Some(start)) = (positions.get_mut(at), starts.get_mut(at)) {
                match field.strip_prefix('.') {
                    Some(field) => drop(positions.insert(field.to_owned(), *position)),
                    None if field.is_empty() => *start = *position,
                    None => {}
                }
            }
        }
        let version = self.value.get("apiVersion");
        let parts = items.iter().zip(positions).zip(starts);
        parts
            .flat_map(|((item, positions), start)| {
                let mut value = item.clone();
                let fields = value
                    .as_object_mut()
                    .filter(|it| !of.is_empty() && !it.contains_key("kind"));
                // The API server leaves both out in a list of one kind.
                if let (Some(fields), Some(version)) = (fields, version) {
                    fields.insert("kind".to_owned(), Value::String(of.clone()));
                    fields
                        .entry("apiVersion")
                        .or_insert_with(|| version.clone());
                }
                let item = Self {
                    value,
                    positions,
                    start,
                };
                item.unfolded()
            })
            .collect()
    }

    /// The position of a field. If the field is not written, the position of the nearest field around it.
    #[must_use]
    pub fn position(&self, path: &str) -> YamlPosition {
        let mut path = path;
        loop {
            if let Some(found) = self.positions.get(path) {
                return *found;
            }
            match path.rfind(['.', '[']) {
                Some(end) => path = path.get(..end).unwrap_or_default(),
                None => return self.start,
            }
        }
    }
}

/// The documents of a text. Empty documents are left out.
///
/// Two parsers read the text: one for the values, one for the positions. Where they see other documents, the text is refused.
pub fn documents(text: &str) -> Result<Vec<YamlDocument>, YamlError> {
    let mut positions = positions(text)?.into_iter();
    let mut documents = Vec::new();
    let mut last = YamlPosition { line: 1, column: 1 };
    let differ = |position| YamlError {
        position,
        message: "where a document begins or ends is not clear: put each into a file of its own"
            .to_owned(),
    };
    for document in serde_yaml::Deserializer::from_str(text) {
        let place = positions.next();
        let start = place.as_ref().map_or(last, |(start, _)| *start);
        let value = Value::deserialize(document).map_err(|error| YamlError {
            position: error.location().map_or(start, |at| YamlPosition {
                line: at.line(),
                column: at.column(),
            }),
            message: error.to_string(),
        })?;
        last = start;
        match place {
            _ if value.is_null() => {}
            Some((start, positions)) => documents.push(YamlDocument {
                value,
                positions,
                start,
            }),
            None => return Err(differ(start)),
        }
    }
    match positions.next() {
        Some((start, _)) => Err(differ(start)),
        None => Ok(documents),
    }
}

type Positions = BTreeMap<String, YamlPosition>;

/// The collection that is being read.
enum Frame {
    /// A mapping at a path, the path of the key whose value comes next, and the keys so far.
    Mapping(String, Option<String>, BTreeSet<String>),
    /// A list at a path, and the position of the next item.
    Sequence(String, usize),
}

/// Where each document begins, and where its fields stand.
#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "the parser may have further events, which are no nodes"
)]
fn positions(text: &str) -> Result<Vec<(YamlPosition, Positions)>, YamlError> {
    let mut found: Vec<(YamlPosition, Positions)> = Vec::new();
    let mut frames: Vec<Frame> = Vec::new();
    let mut weight = YamlWeight::default();
    for next in Parser::new_from_str(text) {
        let (event, span) = next.map_err(|error| YamlError {
            position: YamlPosition {
                line: error.marker().line(),
                column: error.marker().col() + 1,
            },
            message: error.to_string(),
        })?;
        let at = YamlPosition {
            line: span.start.line(),
            column: span.start.col() + 1,
        };
        weight.add(&event).map_err(|message| YamlError {
            position: at,
            message,
        })?;
        let is_node = matches!(
            event,
            Event::Scalar(..)
                | Event::Alias(_)
                | Event::MappingStart(..)
                | Event::SequenceStart(..)
        );
        let mut node = String::new();
        if matches!(event, Event::DocumentStart(..)) {
            found.push((at, Positions::new()));
        } else if is_node {
            if let Some(Frame::Mapping(path, key @ None, keys)) = frames.last_mut() {
                let name = key_of(&event, keys).map_err(|message| YamlError {
                    position: at,
                    message,
                })?;
                let path = if path.is_empty() {
                    name
                } else {
                    format!("{path}.{name}")
                };
                if let Some((_, positions)) = found.last_mut() {
                    positions.insert(path.clone(), at);
                }
                *key = Some(path);
                continue;
            }
            node = node_path(&mut frames);
            if let Some((_, positions)) = found.last_mut().filter(|_| !node.is_empty()) {
                positions.entry(node.clone()).or_insert(at);
            }
        }
        match event {
            Event::MappingStart(..) => {
                frames.push(Frame::Mapping(node, None, BTreeSet::new()));
            }
            Event::SequenceStart(..) => frames.push(Frame::Sequence(node, 0)),
            Event::MappingEnd | Event::SequenceEnd => drop(frames.pop()),
            _ => {}
        }
    }
    // A document without a mark may have no node at all.
    for (start, positions) in &mut found {
        if let Some(first) = positions.values().min() {
            *start = *first;
        }
    }
    Ok(found)
}

/// The name of a key. Readers of YAML differ in what they make of a key that is written twice, of a merge, and of a key
/// that is no text: one of two values would count, and nothing would say so.
#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "the parser may have further events, which are no keys"
)]
fn key_of(event: &Event<'_>, keys: &mut BTreeSet<String>) -> Result<String, String> {
    let (name, is_plain) = match event {
        Event::Scalar(name, style, ..) => (name.to_string(), *style == ScalarStyle::Plain),
        _ => return Err("a key is no text: write it out".to_owned()),
    };
    if is_plain && name == "<<" {
        return Err("`<<` is not read: write the merged fields out".to_owned());
    }
    if !keys.insert(name.clone()) {
        return Err(format!(
            "the key `{}` is there twice: remove one",
            quoted(&name)
        ));
    }
    Ok(name)
}

/// The path of the node that begins now.
fn node_path(frames: &mut [Frame]) -> String {
    match frames.last_mut() {
        None => String::new(),
        Some(Frame::Mapping(path, key, _)) => key.take().unwrap_or_else(|| path.clone()),
        Some(Frame::Sequence(path, next)) => {
            let node = format!("{path}[{next}]");
            *next += 1;
            node
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = "\
# A comment.
a:
  b: [1, {c: x}]
  d:
  - e: 1
    f: 2
---
---
g: &anchor {h: 1}
i: *anchor
";

    #[test]
    fn each_field_has_its_line_and_column() {
        let documents = documents(TEXT).unwrap();
        let [first, second] = documents.as_slice() else {
            panic!("{documents:?}");
        };
        assert_eq!(
            first.value,
            json!({"a": {"b": [1, {"c": "x"}], "d": [{"e": 1, "f": 2}]}})
        );
        let at = |document: &YamlDocument, path: &str| {
            let YamlPosition { line, column } = document.position(path);
            (line, column)
        };
        for (path, position) in [
            ("a", (2, 1)),
            ("a.b", (3, 3)),
            ("a.b[1]", (3, 10)),
            ("a.b[1].c", (3, 11)),
            ("a.d[0].f", (6, 5)),
            // A field that is not written has the position where it would be.
            ("a.d[0].missing", (5, 5)),
            ("a.b[7].x", (3, 3)),
            ("other", (2, 1)),
            ("", (2, 1)),
        ] {
            assert_eq!(at(first, path), position, "{path}");
        }
        assert_eq!(second.value["i"], json!({"h": 1}));
        assert_eq!(at(second, "g.h"), (9, 13));
        assert_eq!(at(second, "i"), (10, 1));
    }

    #[test]
    fn a_text_that_is_no_yaml_names_the_line() {
        for text in ["a: 1\nb: [", "a: 1\n b: 2\n", "\ta: 1", "a: *unknown"] {
            let error = documents(text).unwrap_err();
            assert!(error.position.line >= 1, "{text}: {error}");
        }
        assert_eq!(documents("").unwrap(), []);
    }

    #[test]
    fn the_items_of_a_list_are_documents_with_their_own_positions() {
        let text = "kind: List\nitems:\n- kind: A\n  spec: {x: 1}\n- kind: B\n";
        let [list] = <[_; 1]>::try_from(documents(text).unwrap()).unwrap();
        let [first, second] = <[_; 2]>::try_from(list.unfolded()).unwrap();
        assert_eq!(first.value, json!({"kind": "A", "spec": {"x": 1}}));
        assert_eq!(
            first.position("spec.x"),
            YamlPosition {
                line: 4,
                column: 10
            }
        );
        assert_eq!(second.position("spec").line, 5);
    }

    #[test]
    fn lists_of_one_kind_and_lists_in_lists_are_unfolded() {
        let text = "kind: List\nitems:\n- kind: PodList\n  apiVersion: v1\n  items:\n  - spec: {x: 1}\n  - kind: A\n";
        let [list] = <[_; 1]>::try_from(documents(text).unwrap()).unwrap();
        let [first, second] = <[_; 2]>::try_from(list.unfolded()).unwrap();
        assert_eq!(
            first.value,
            json!({"apiVersion": "v1", "kind": "Pod", "spec": {"x": 1}})
        );
        assert_eq!(first.position("spec.x").line, 6);
        assert_eq!(second.value, json!({"kind": "A"}));
    }

    /// The last one would count, and the first one is what a reader sees.
    #[test]
    fn a_key_that_is_written_twice_is_refused() {
        for text in [
            "a: 1\nb: 2\na: 3\n",
            "a: {b: 1, b: 2}\n",
            "a:\n- {b: 1, \"b\": 2}\n",
            "{\"a\": 1, \"a\": 2}",
            "a: &x {b: 1, b: 2}\nc: *x\n",
            "---\na: 1\n---\nb: 1\nb: 1\n",
        ] {
            let error = documents(text).unwrap_err();
            assert!(
                error.message.ends_with("is there twice: remove one"),
                "{text}: {error}"
            );
        }
        assert!(documents("a: {b: 1}\nc: {b: 1}\na.b: 1\n").is_ok());
        assert!(documents("[{a: 1}, {a: 1}]").is_ok());
    }

    #[test]
    fn merges_and_keys_that_are_no_text_are_refused() {
        for text in [
            "a: &a {b: 1}\nc: {<<: *a}\n",
            "? [a]\n: 1\n",
            "a: &a b\nc: {*a : 1}\n",
        ] {
            assert!(documents(text).is_err(), "{text}");
        }
        assert!(documents("\"<<\": 1").is_ok());
    }

    /// The values of one document would have the positions of another.
    #[test]
    fn documents_are_as_many_as_positions() {
        for (text, number) in [
            ("", 0),
            ("# a\n", 0),
            ("---\n", 0),
            ("---\n---\na: 1\n", 1),
            ("a: 1\n...\n", 1),
            ("a: 1\n...\n---\n", 1),
            ("a: 1\n---\n", 1),
            ("a: 1\n---\n# x\n---\nb: 1\n", 2),
            ("%YAML 1.2\n---\na: 1\n", 1),
            ("--- a\n--- b\n", 2),
        ] {
            assert_eq!(documents(text).map(|it| it.len()), Ok(number), "{text:?}");
        }
    }

    /// Nine levels of ten aliases each: a billion values from half a kilobyte.
    #[test]
    fn aliases_of_aliases_are_refused_before_they_are_expanded() {
        let mut text = "a0: &a0 [x]\n".to_owned();
        for level in 1..10 {
            let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
            text = format!("{text}a{level}: &a{level} [{aliases}]\n");
        }
        let error = documents(&text).unwrap_err();
        assert!(error.message.contains("every alias expanded"), "{error}");
        let long = format!(
            "a: &a {}\nb: [{}*a]\n",
            "x".repeat(1 << 20),
            "*a, ".repeat(99)
        );
        assert!(documents(&long).is_err());
        assert!(documents("a: &a {b: c}\nd: [*a, *a, *a]\n").is_ok());
    }
}
