//! The refusals by the chart's admission policies, read from its templates.

use std::collections::BTreeMap;

use super::{
    Table,
    cells::{code, prose},
};
use crate::docs::tree;

const TEMPLATES: &str = "charts/connectors-approval/templates/admission/";

/// A policy of a template: its name, and the messages of its rules.
#[derive(Debug, PartialEq)]
struct AdmissionRules {
    name: String,
    messages: Vec<String>,
}

pub(super) fn table() -> Table {
    let mut table = Table::new(&["admission policy", "the API server answers"]);
    for rules in all(&tree::files(&e2e::repository())) {
        for message in rules.messages {
            table.row(&[code(&rules.name), prose(&message)]);
        }
    }
    table
}

fn all(files: &BTreeMap<String, String>) -> Vec<AdmissionRules> {
    let templates = files.iter().filter(|(path, _)| path.starts_with(TEMPLATES));
    templates.flat_map(|(_, text)| in_template(text)).collect()
}

fn in_template(text: &str) -> Vec<AdmissionRules> {
    let mut found: Vec<AdmissionRules> = Vec::new();
    // The last name that the template gives to a policy.
    let mut name = "";
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("{{- $name ") {
            name = rest.split('"').nth(1).unwrap();
        } else if let Some(written) = line
            .strip_prefix("name: ")
            .filter(|it| it.contains(".connectors."))
        {
            name = written;
        } else if line == "spec:" {
            found.push(AdmissionRules {
                name: name.to_owned(),
                messages: Vec::new(),
            });
        } else if let Some(message) = line.strip_prefix("message: ") {
            let message = serde_yaml::from_str(message).unwrap();
            found.last_mut().unwrap().messages.push(message);
        }
    }
    // A binding has a `spec`, too.
    found.retain(|it| !it.messages.is_empty());
    found
}

#[test]
fn every_rule_of_an_admission_policy_has_its_row() {
    let files = tree::files(&e2e::repository());
    let templates = files.iter().filter(|(path, _)| path.starts_with(TEMPLATES));
    let (mut policies, mut validations) = (0, 0);
    for (_, text) in templates {
        policies += text.matches("kind: ValidatingAdmissionPolicy\n").count();
        for part in text.split("  validations:\n").skip(1) {
            let part = part.split("---").next().unwrap();
            validations += part.matches("  - expression:").count();
        }
    }
    let all = all(&files);
    assert!(policies > 10, "{policies}");
    assert_eq!(all.len(), policies);
    assert_eq!(table().rows, validations);
    let mut names: Vec<_> = all.iter().map(|it| &it.name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), policies);
}
