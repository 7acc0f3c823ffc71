//! A text that was parsed, with the templates that it defines.

use jiff::Timestamp;
use serde_json::Value as Json;

use crate::{
    data,
    error::{TemplateParseError, TemplatePlace, TemplateRenderError},
    exec::{self, Setting},
    limits::{MissingKey, TemplateLimits},
    meter::Meter,
    parser::{self, Trees},
};

/// A parsed template.
#[derive(Debug)]
pub struct TextTemplate {
    name: String,
    text: String,
    trees: Trees,
    missing: MissingKey,
}

impl TextTemplate {
    /// Reads a text. The name is that of the text as a whole, and stands in errors.
    pub fn parse(
        name: &str,
        text: &str,
        limits: &TemplateLimits,
    ) -> Result<Self, TemplateParseError> {
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

    /// The text for some data. `now` is the result of the function of that name.
    pub fn render(
        &self,
        data: &Json,
        limits: &TemplateLimits,
        now: Timestamp,
    ) -> Result<String, TemplateRenderError> {
        let meter = Meter::new(limits);
        let data = data::value_of(&meter, data).map_err(|limit| TemplateRenderError {
            place: TemplatePlace::of(&self.name, &self.text, 0, 0),
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
