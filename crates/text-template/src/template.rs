//! A text that was parsed, with the templates that it defines.

use jiff::Timestamp;
use serde_json::Value as Json;

use crate::{
    data,
    error::{ParseError, Place, RenderError},
    exec::{self, Setting},
    limits::{Limits, MissingKey},
    meter::Meter,
    parser::{self, Trees},
};

/// A parsed template.
#[derive(Debug)]
pub struct Template {
    name: String,
    text: String,
    trees: Trees,
    missing: MissingKey,
}

impl Template {
    /// Reads a text. The name is that of the text as a whole, and stands in errors.
    pub fn parse(name: &str, text: &str, limits: &Limits) -> Result<Self, ParseError> {
        Ok(Self {
            name: name.to_owned(),
            text: text.to_owned(),
            trees: parser::parse(name, text, limits)?,
            missing: MissingKey::default(),
        })
    }

    /// The same template with another meaning of missing keys.
    #[must_use]
    pub fn with_missing_key(self, missing: MissingKey) -> Self {
        Self { missing, ..self }
    }

    /// The text for some data. `now` is what the function of that name gives.
    pub fn render(
        &self,
        data: &Json,
        limits: &Limits,
        now: Timestamp,
    ) -> Result<String, RenderError> {
        let meter = Meter::new(limits);
        let data = data::value_of(&meter, data).map_err(|limit| RenderError {
            place: Place::of(&self.name, &self.text, 0, 0),
            problem: limit.into(),
        })?;
        let setting = Setting {
            name: &self.name,
            text: &self.text,
            trees: &self.trees,
            missing: self.missing,
            now,
        };
        exec::render(&setting, &meter, &data)
    }
}
