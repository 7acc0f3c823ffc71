//! Who holds a permission, and who may ask for one.

use super::connector::look_at_selector;
use super::finding::{FindingCode, Findings};
use super::shape::{Placed, Spec};
use crate::access_policy::{SubjectForm, SubjectSpec};

/// Groups that are nearly everybody.
const EVERYBODY: [&str; 3] = [
    "system:authenticated",
    "system:unauthenticated",
    "system:serviceaccounts",
];
const LONGEST_NAME: usize = 512;

pub(super) fn look(findings: &mut Findings, spec: &Spec) {
    let standing = spec.standing.iter().flat_map(|it| &it.subjects);
    let granted = spec.granted.iter().flat_map(|it| &it.requesters);
    for Placed { path, part } in standing.chain(granted) {
        look_at_subject(findings, path, part);
    }
}

fn look_at_subject(findings: &mut Findings, path: &str, subject: &SubjectSpec) {
    if subject
        .name
        .as_ref()
        .is_some_and(|name| name.len() > LONGEST_NAME)
    {
        let message = format!("is longer than {LONGEST_NAME} bytes");
        findings.invalid(
            &format!("{path}.name"),
            message,
            "give the name of a subject",
        );
    }
    for (field, selector) in [
        ("nameSelector", &subject.name_selector),
        ("namespaceSelector", &subject.namespace_selector),
    ] {
        if let Some(selector) = selector {
            look_at_selector(findings, &format!("{path}.{field}"), selector);
        }
    }
    match SubjectForm::try_from(subject) {
        Err(error) => {
            let fix = "one subject by name, or service accounts by nameSelector";
            findings.error(path, FindingCode::InvalidSubject, error.to_string(), fix);
        }
        Ok(SubjectForm::Group { name }) if EVERYBODY.contains(&name.as_str()) => {
            let message = format!("the Group {name} is nearly everybody in the cluster");
            let fix = "name a group, or select namespaces with namespaceSelector";
            findings.warning(path, FindingCode::BroadSubject, message, fix);
        }
        Ok(
            SubjectForm::Group { .. }
            | SubjectForm::User { .. }
            | SubjectForm::ServiceAccount { .. }
            | SubjectForm::ServiceAccountsByLabel { .. }
            | SubjectForm::ServiceAccountGroupsByNamespace { .. },
        ) => {}
    }
}
