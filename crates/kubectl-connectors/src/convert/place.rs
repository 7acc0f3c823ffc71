//! Where something stands in the files that are converted.

use connectors_api::quoted;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::yaml::{YamlDocument, YamlPosition};

use super::words::{NoteEffect, NoteWord, RefusalWord};

/// A field of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldPlace {
    /// The file.
    pub file: String,
    /// The line of the file.
    pub line: usize,
    /// The column.
    pub column: usize,
    /// The field.
    pub path: String,
}

/// A change in meaning.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConvertNote {
    /// The field that changes.
    #[serde(flatten)]
    pub place: FieldPlace,
    /// The change as one word.
    pub word: NoteWord,
    /// The effect on access.
    pub effect: NoteEffect,
    /// The change as a sentence.
    pub message: String,
}

/// The reason why an object is not converted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConvertRefusal {
    /// The object that is left out: kind, namespace and name.
    pub object: String,
    /// The field that cannot be converted.
    #[serde(flatten)]
    pub place: FieldPlace,
    /// The reason as one word.
    pub word: RefusalWord,
    /// The reason as a sentence.
    pub message: String,
    /// The remedy.
    pub fix: String,
}

/// A document of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConvertSource<'a> {
    pub(super) file: &'a str,
    pub(super) document: &'a YamlDocument,
}

impl<'a> ConvertSource<'a> {
    /// The place of a field. A path into a text, such as `data.spec.selector`, has the position of the text.
    pub(super) fn at(&self, path: &str) -> FieldPlace {
        let YamlPosition { line, column } = self.document.position(path);
        FieldPlace {
            file: self.file.to_owned(),
            line,
            column,
            path: path.to_owned(),
        }
    }

    pub(super) const fn value(&self) -> &'a Value {
        &self.document.value
    }

    /// Kind, namespace and name.
    pub(super) fn name(&self) -> String {
        let text = |pointer| quoted(self.text(pointer).unwrap_or("?"));
        let namespace = self.text("/metadata/namespace");
        let namespace = namespace.map_or(String::new(), |it| format!("{}/", quoted(it)));
        format!("{} {namespace}{}", text("/kind"), text("/metadata/name"))
    }

    /// A text of the object.
    pub(super) fn text(&self, pointer: &str) -> Option<&'a str> {
        self.document.value.pointer(pointer)?.as_str()
    }
}

/// The notes and refusals so far.
#[derive(Debug, Default)]
pub(super) struct ConvertLog {
    /// The object that is converted now.
    pub(super) object: String,
    pub(super) notes: Vec<ConvertNote>,
    pub(super) refusals: Vec<ConvertRefusal>,
}

impl ConvertLog {
    pub(super) fn note(&mut self, place: FieldPlace, word: NoteWord, message: impl Into<String>) {
        self.notes.push(ConvertNote {
            place,
            word,
            effect: word.effect(),
            message: message.into(),
        });
    }

    pub(super) fn refuse(
        &mut self,
        place: FieldPlace,
        word: RefusalWord,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.refusals.push(ConvertRefusal {
            object: self.object.clone(),
            place,
            word,
            message: message.into(),
            fix: fix.into(),
        });
    }
}

/// Which field of the input a field of the converted policy comes from.
#[derive(Debug, Default)]
pub(super) struct Origins(Vec<(String, FieldPlace)>);

impl Origins {
    pub(super) fn add(&mut self, converted: impl Into<String>, place: FieldPlace) {
        self.0.push((converted.into(), place));
    }

    /// The origin of a converted field, or of the nearest field around it.
    pub(super) fn of(&self, path: &str) -> Option<&FieldPlace> {
        let is_around = |field: &str| {
            let rest = path.strip_prefix(field);
            rest.is_some_and(|it| it.is_empty() || it.starts_with(['.', '[']))
        };
        let around = self.0.iter().filter(|(field, _)| is_around(field));
        let nearest = around.max_by_key(|(field, _)| field.len());
        nearest.map(|(_, place)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_origin_around_a_field_is_named() {
        let place = |path: &str| FieldPlace {
            file: "a.yaml".to_owned(),
            line: 1,
            column: 1,
            path: path.to_owned(),
        };
        let mut origins = Origins::default();
        origins.add("spec", place("spec"));
        origins.add("spec.a.rules", place("data.rules"));
        origins.add("spec.a", place("spec.b"));
        for (path, origin) in [
            ("spec.a.rules[0].verbs", "data.rules"),
            ("spec.a.rulesets", "spec.b"),
            ("spec.a", "spec.b"),
            ("spec.ab", "spec"),
        ] {
            assert_eq!(origins.of(path).unwrap().path, origin, "{path}");
        }
        assert_eq!(origins.of("metadata"), None);
    }
}
