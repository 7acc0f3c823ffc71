//! Labels with templates as values, and the rendered selector.

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

use super::{Budget, RenderError, Template, TemplateData, TemplateError, Warning};
use crate::names::{is_label_key, is_label_value};

/// A valid label value that is not empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LabelValue(Box<str>);

/// The text is not a valid label value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "not a label value: at most 63 of A-Z a-z 0-9 - _ . that begin and end with a letter or digit"
)]
pub struct LabelValueError;

/// Labels of check objects, as a policy spells them. At least one.
#[derive(Clone, Debug)]
pub struct LabelTemplates(BTreeMap<String, Template>);

/// The reason why labels of a policy cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LabelTemplatesError {
    /// Without labels every object would be selected.
    #[error("at least one label is needed; without one, every object would be selected")]
    NoLabels,
    /// Not a key.
    #[error("`{0}` is not a label key")]
    Key(String),
    /// Not a template.
    #[error("{key}: {error}")]
    Template {
        /// The label.
        key: String,
        /// The problem with its value.
        error: TemplateError,
    },
    /// A fixed text that is not a valid label value.
    #[error("{key}: {error}")]
    Value {
        /// The label.
        key: String,
        /// The problem with its value.
        error: LabelValueError,
    },
}

/// The reason why labels cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RenderLabelsError {
    /// A path does not find a value.
    #[error("{key}: {error}")]
    Render {
        /// The label.
        key: String,
        /// The error.
        error: RenderError,
    },
    /// The rendered text is not a valid label value.
    #[error("{key}: {template}: {error}")]
    Value {
        /// The label.
        key: String,
        /// The template instead of the value, because not every reader may see the value.
        template: String,
        /// The problem with the value.
        error: LabelValueError,
    },
}

/// Labels that an object must have, each with exactly this value. At least one: an empty selector would match
/// everything, so it cannot be constructed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
// In the order of the keys, which are few: a tree would take half a kilobyte for each selection.
pub struct RenderedLabels(Box<[(Box<str>, LabelValue)]>);

impl LabelValue {
    /// Parses a value.
    pub fn parse(text: &str) -> Result<Self, LabelValueError> {
        if is_label_value(text) {
            Ok(Self(text.into()))
        } else {
            Err(LabelValueError)
        }
    }

    /// The value.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl LabelTemplates {
    /// Parses the labels of a selector.
    pub fn parse(labels: &BTreeMap<String, String>) -> Result<Self, LabelTemplatesError> {
        if labels.is_empty() {
            return Err(LabelTemplatesError::NoLabels);
        }
        let parse = |(key, text): (&String, &String)| {
            // The key is inserted into list queries unchanged: a comma in it would begin another label.
            if !is_label_key(key) {
                return Err(LabelTemplatesError::Key(key.clone()));
            }
            let template =
                Template::parse(text).map_err(|error| LabelTemplatesError::Template {
                    key: key.clone(),
                    error,
                })?;
            match LabelValue::parse(text) {
                Err(error) if template.is_fixed() => Err(LabelTemplatesError::Value {
                    key: key.clone(),
                    error,
                }),
                Ok(_) | Err(_) => Ok((key.clone(), template)),
            }
        };
        labels.iter().map(parse).collect::<Result<_, _>>().map(Self)
    }

    /// The number of steps in the paths of all values.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.0.values().map(Template::steps).sum()
    }

    /// The spellings that should be avoided, by label.
    #[must_use]
    pub fn warnings(&self) -> Vec<(&str, Warning)> {
        self.0
            .iter()
            .flat_map(|(key, template)| {
                template
                    .warnings()
                    .into_iter()
                    .map(|warning| (key.as_str(), warning))
            })
            .collect()
    }

    /// The values, by label.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Template)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Renders every value. If one fails, there is no selector at all.
    pub fn render(
        &self,
        data: &TemplateData,
        budget: &mut Budget,
    ) -> Result<RenderedLabels, RenderLabelsError> {
        let render = |(key, template): (&String, &Template)| {
            let text =
                template
                    .render(data, budget)
                    .map_err(|error| RenderLabelsError::Render {
                        key: key.clone(),
                        error,
                    })?;
            let value = LabelValue::parse(&text).map_err(|error| RenderLabelsError::Value {
                key: key.clone(),
                template: template.to_string(),
                error,
            })?;
            Ok((key.as_str().into(), value))
        };
        self.0
            .iter()
            .map(render)
            .collect::<Result<_, _>>()
            .map(RenderedLabels)
    }
}

impl RenderedLabels {
    /// True if the labels that are looked up by key have every value.
    #[must_use]
    pub fn match_found<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        let has = |(key, value): &(Box<str>, LabelValue)| label(key) == Some(value.as_str());
        !self.0.is_empty() && self.0.iter().all(has)
    }

    /// The labels, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &LabelValue)> {
        self.0.iter().map(|(key, value)| (key.as_ref(), value))
    }
}

/// In the API server's notation: `key=value,key=value`.
impl fmt::Display for RenderedLabels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (key, LabelValue(value))) in self.0.iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            write!(f, "{comma}{key}={value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
