//! The templates of a class that no pod can get a file from, known without a pod.

use std::fmt;

use connectors_api::{ConnectorClassSpec, quoted};
use text_template::{TemplateParseError, TextTemplate};

use crate::limits::{MOST_STEPS_OF_ONE, template_limits};

/// The templates that are told in words.
const MOST_TOLD: usize = 3;

/// The templates of one class that cannot be parsed: the first of them, and their number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnreadableTemplates {
    /// Configuration and error of the first ones. The error names file, line and word.
    first: Vec<(String, TemplateParseError)>,
    /// All of them.
    count: usize,
}

impl UnreadableTemplates {
    /// Parses every template of a class.
    #[must_use]
    pub fn of(class: &ConnectorClassSpec) -> Self {
        let limits = template_limits(MOST_STEPS_OF_ONE);
        let mut found = Self::default();
        for configuration in &class.configurations {
            for (file, text) in &configuration.data {
                let Err(error) = TextTemplate::parse(&quoted(file), text, &limits) else {
                    continue;
                };
                found.count += 1;
                if found.first.len() < MOST_TOLD {
                    found.first.push((quoted(&configuration.name), error));
                }
            }
        }
        found
    }

    /// True if every template can be parsed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl fmt::Display for UnreadableTemplates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The number comes first: an event takes a limited text.
        let (count, noun) = (
            self.count,
            if self.count == 1 {
                "template"
            } else {
                "templates"
            },
        );
        write!(f, "{count} {noun} cannot be parsed: ")?;
        for (number, (configuration, error)) in self.first.iter().enumerate() {
            let separator = if number == 0 { "" } else { "; " };
            write!(f, "{separator}configuration `{configuration}`: {error}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
