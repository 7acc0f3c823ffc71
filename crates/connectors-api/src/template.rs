//! Texts with paths in braces, filled from the context object: `{.object.metadata.name}`.
//!
//! The dialect is the one of `kubectl -o jsonpath`, read by a parser of our own and evaluated as
//! RFC 9535 (`path` translates). Wherever kubectl stops with an error and RFC 9535 skips, this
//! stops too: a template gives one text or none, never a likely one. Double quotes around a key,
//! which kubectl refuses, are read like single ones.
//!
//! Of the object's values, only its namespace and name appear in errors: it may live in another
//! namespace than the reader.

mod label;
mod parse;
mod path;
mod problem;
mod resource;
mod root;
mod select;

use std::fmt;

use serde_json::{Map, Value};

pub use label::{
    LabelTemplates, LabelTemplatesError, LabelValue, LabelValueError, RenderLabelsError,
    RenderedLabels,
};
pub use problem::{RenderError, RenderProblem, TemplateError, TemplateProblem};
pub use resource::{RenderResourceError, ResourceTemplate, ResourceTemplateError};
pub use select::Budget;

use crate::check_state::kind;
use path::Path;

/// The longest template that any field accepts.
const LONGEST: usize = 1024;

/// The most steps of all templates of one policy: 32 checks with four labels each, filled from labels of the pod.
pub const MOST_STEPS_OF_POLICY: usize = 512;

/// A text with paths in braces.
#[derive(Clone, Debug)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Path(Expression),
}

/// A path in braces.
#[derive(Clone, Debug)]
struct Expression {
    /// As its author wrote it, with the braces.
    written: String,
    /// What is evaluated, under the canonical root.
    path: Path,
    /// The root was written another way.
    respelled: bool,
}

/// What a template is filled from.
#[derive(Clone, Debug)]
pub struct TemplateData(Value);

/// A spelling that works and should not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The path as it is written.
    pub written: String,
    /// The path as it should be written.
    pub canonical: String,
}

impl TemplateData {
    /// Puts the context object where paths look for it.
    #[must_use]
    pub fn of(object: Value) -> Self {
        Self(Value::Object(Map::from_iter([(
            "object".to_owned(),
            object,
        )])))
    }

    /// The context object.
    #[must_use]
    pub fn object(&self) -> &Value {
        self.0.get("object").unwrap_or(&Value::Null)
    }
}

impl Template {
    /// Reads a template.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        Ok(Self {
            parts: parse::parts(text)?,
        })
    }

    /// True when nothing in the text depends on an object.
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        self.expressions().next().is_none()
    }

    /// How many steps its paths have, which is what filling it costs at least.
    #[must_use]
    pub fn steps(&self) -> usize {
        let paths = self.expressions().map(|it| it.path.weight());
        paths.sum()
    }

    /// What stands in the text whatever the object says, piece by piece.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::Path(_) => None,
        })
    }

    /// What should be written another way.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let respelled = self.expressions().filter(|expression| expression.respelled);
        respelled
            .map(|Expression { written, path, .. }| Warning {
                written: written.clone(),
                canonical: format!("{{{path}}}"),
            })
            .collect()
    }

    /// Fills the template. Every path must find exactly one text that is not empty.
    pub fn render(&self, data: &TemplateData, budget: &mut Budget) -> Result<String, RenderError> {
        let mut rendered = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => rendered.push_str(text),
                Part::Path(expression) => rendered.push_str(expression.find(data, budget)?),
            }
        }
        Ok(rendered)
    }

    fn expressions(&self) -> impl Iterator<Item = &Expression> {
        self.parts.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Path(expression) => Some(expression),
        })
    }
}

impl Expression {
    /// What is said of a path that finds nothing.
    fn missing(&self) -> RenderProblem {
        let label = self.path.label();
        label.map_or(RenderProblem::Nothing, |it| {
            RenderProblem::NoLabel(it.to_owned())
        })
    }

    fn find<'a>(
        &self,
        TemplateData(data): &'a TemplateData,
        budget: &mut Budget,
    ) -> Result<&'a str, RenderError> {
        let found = self
            .path
            .select(data, budget)
            .and_then(|found| match *found {
                [] => Err(self.missing()),
                [Value::String(text)] if text.is_empty() => Err(RenderProblem::Empty),
                [Value::String(text)] => Ok(text.as_str()),
                [other] => Err(RenderProblem::NotText(kind(other))),
                [..] => Err(RenderProblem::Several(found.len())),
            });
        found.map_err(|problem| RenderError {
            path: self.written.clone(),
            problem,
        })
    }
}

/// The canonical form: what kubectl reads, too.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            match part {
                // A brace of a text would begin a path.
                Part::Text(text) => f.write_str(&text.replace('{', "{'{'}"))?,
                Part::Path(Expression { path, .. }) => write!(f, "{{{path}}}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { written, canonical } = self;
        write!(f, "{written}: write {canonical}")
    }
}

#[cfg(test)]
mod tests;
