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
mod tests {
    use serde_json::json;

    use super::*;

    fn of(configurations: &serde_json::Value) -> UnreadableTemplates {
        let spec = json!({"configurations": configurations});
        UnreadableTemplates::of(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn says_configuration_file_line_and_function() {
        let found = of(&json!([
            {"name": "good", "data": {"a": "{{ .connector.metadata.name | upper }}", "b": ""}},
            {"name": "docker", "data": {"config.json": "{\n{{ nosuch 1 }}\n}"}},
            {"name": "git", "data": {".netrc": "{{ if .x }}"}},
        ]));
        assert!(!found.is_empty());
        let text = found.to_string();
        let first = "2 templates cannot be parsed: configuration `docker`: config.json:2:4: at <nosuch>: \
            function \"nosuch\" not defined; ";
        assert!(text.starts_with(first), "{text}");
        assert!(text.contains("; configuration `git`: .netrc:1:"), "{text}");
    }

    #[test]
    fn a_mistake_that_was_copied_is_counted_and_told_in_each_place() {
        let broken = json!({"a": "{{ nosuch }}", "b": "{{ nosuch }}"});
        let found = of(&json!([
            {"name": "docker", "data": broken},
            {"name": "podman", "data": {"a": "{{ nosuch }}"}},
        ]));
        let text = found.to_string();
        assert!(text.starts_with("3 templates cannot be parsed: "), "{text}");
        assert_eq!(text.matches("configuration `docker`: ").count(), 2);
        assert_eq!(text.matches("configuration `podman`: a:1").count(), 1);
    }

    #[test]
    fn a_class_without_problems_is_empty() {
        let found = of(&json!([{"name": "a", "data": {"x": "{{ now }}"}}, {"name": "b"}]));
        assert!(found.is_empty());
    }

    #[test]
    fn a_thousand_broken_templates_are_a_few_words_and_a_number() {
        let files = (0..1_000).map(|it| (format!("{it:04}"), json!("{{ nosuch }}")));
        let files: serde_json::Map<_, _> = files.collect();
        let text = of(&json!([{"name": "many", "data": files}])).to_string();
        assert!(
            text.starts_with("1000 templates cannot be parsed: "),
            "{text}"
        );
        assert_eq!(text.matches("configuration `many`").count(), MOST_TOLD);
        assert!(text.len() < 400, "{text}");
    }

    #[test]
    fn long_names_and_line_ends_do_not_reach_the_text() {
        let name = "n\n".repeat(1_000);
        let text = of(&json!([{"name": name, "data": {name.as_str(): "{{"}}])).to_string();
        assert!(text.len() < 1_024 && !text.contains('\n'), "{text}");
    }
}
