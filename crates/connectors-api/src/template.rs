//! Texts with paths in braces, rendered from the context object: `{.object.metadata.name}`.
//!
//! The dialect is that of `kubectl -o jsonpath`. It is parsed by our own parser and evaluated as RFC 9535
//! (`path` translates). Where kubectl reports an error and RFC 9535 skips, rendering fails too: a template
//! gives one text or none, never a guess. Double quotes around a key, which kubectl refuses, are treated like
//! single ones.
//!
//! Errors contain no values of the object except its namespace and name, because the object may be in another
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

/// The maximum length of a template in any field.
const LONGEST: usize = 1024;

/// The name of the context object in all paths.
const ROOT: &str = "object";

/// The limit of steps in all templates of one policy: 32 checks with four labels each, rendered from labels
/// of the pod.
pub const MOST_STEPS_OF_POLICY: usize = 512;

/// A text with paths in braces.
#[derive(Clone, Debug)]
pub struct Template {
    parts: Vec<TemplatePart>,
}

#[derive(Clone, Debug)]
enum TemplatePart {
    Text(String),
    Path(Expression),
}

/// A path in braces.
#[derive(Clone, Debug)]
struct Expression {
    /// The author's spelling, with the braces.
    written: String,
    /// The path to evaluate, under the canonical root.
    path: Path,
    /// True when the author spelled the root differently.
    respelled: bool,
}

/// The data from which a template is rendered.
#[derive(Clone, Debug)]
pub struct TemplateData(Value);

/// A spelling that works but should be avoided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The author's spelling.
    pub written: String,
    /// The recommended spelling.
    pub canonical: String,
}

impl TemplateData {
    /// Places the context object under the root of all paths.
    #[must_use]
    pub fn of(object: Value) -> Self {
        Self(Value::Object(Map::from_iter([(ROOT.to_owned(), object)])))
    }

    /// The context object.
    #[must_use]
    pub fn object(&self) -> &Value {
        self.0.get(ROOT).unwrap_or(&Value::Null)
    }
}

impl Template {
    /// Parses a template.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        Ok(Self {
            parts: parse::parts(text)?,
        })
    }

    /// True when the text does not depend on an object.
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        self.expressions().next().is_none()
    }

    /// The number of steps in its paths, a lower bound of the cost of rendering.
    #[must_use]
    pub fn steps(&self) -> usize {
        let paths = self.expressions().map(|it| it.path.weight());
        paths.sum()
    }

    /// The fields of the object that its paths begin with: each path reads nothing outside of them.
    pub(crate) fn fields(&self) -> impl Iterator<Item = impl Iterator<Item = &str>> {
        self.expressions().map(|it| it.path.fields())
    }

    /// The fixed pieces of the text, in order.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            TemplatePart::Text(text) => Some(text.as_str()),
            TemplatePart::Path(_) => None,
        })
    }

    /// The spellings that should be avoided.
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

    /// Renders the template. Every path must find exactly one text that is not empty.
    pub fn render(&self, data: &TemplateData, budget: &mut Budget) -> Result<String, RenderError> {
        let mut rendered = String::new();
        for part in &self.parts {
            match part {
                TemplatePart::Text(text) => rendered.push_str(text),
                TemplatePart::Path(expression) => rendered.push_str(expression.find(data, budget)?),
            }
        }
        Ok(rendered)
    }

    fn expressions(&self) -> impl Iterator<Item = &Expression> {
        self.parts.iter().filter_map(|part| match part {
            TemplatePart::Text(_) => None,
            TemplatePart::Path(expression) => Some(expression),
        })
    }
}

impl Expression {
    /// The error for a path that finds nothing.
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

/// The canonical form, which kubectl reads too.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            match part {
                // A brace in a text would begin a path.
                TemplatePart::Text(text) => f.write_str(&text.replace('{', "{'{'}"))?,
                TemplatePart::Path(Expression { path, .. }) => write!(f, "{{{path}}}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
