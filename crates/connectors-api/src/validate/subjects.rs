//! Validation of the subjects that hold a permission, and of the requesters that may ask for one.

use super::connector::look_at_selector;
use super::finding::{FindingCode, Findings};
use super::shape::{Placed, PolicyParts};
use crate::access_policy::{MOST_SELECTORS, SubjectError, SubjectForm, SubjectKind, SubjectSpec};
use crate::policy_match::can_be_a_pod;

/// Groups that include nearly every user.
const EVERYBODY: [&str; 3] = [
    "system:authenticated",
    "system:unauthenticated",
    "system:serviceaccounts",
];
const LONGEST_NAME: usize = 512;

pub(super) fn look(findings: &mut Findings, spec: &PolicyParts) {
    let standing = spec.standing.iter().flat_map(|it| &it.subjects);
    let granted = spec.granted.iter().flat_map(|it| &it.requesters);
    for Placed { path, part } in standing.chain(granted) {
        look_at_subject(findings, path, part);
    }
    if let Some(standing) = &spec.standing {
        look_at_selectors(findings, &standing.subjects);
    }
    if let Some(granted) = &spec.granted {
        look_at_requesters(findings, &granted.requesters, granted.has_all_requesters);
    }
}

/// Selectors of requesters are compared with one asking pod only, and so are not counted.
fn look_at_selectors(findings: &mut Findings, subjects: &[Placed<SubjectSpec>]) {
    let forms = subjects
        .iter()
        .flat_map(|it| SubjectForm::try_from(&it.part));
    let count = forms.filter(SubjectForm::is_selector).count();
    if count > MOST_SELECTORS {
        let at = "spec.defaultPermission.bindingTemplate.subjects";
        let message = format!("{count} of them have selectors, and at most {MOST_SELECTORS} may");
        let fix = "name the others, or split the policy";
        findings.error(at, FindingCode::InvalidLength, message, fix);
    }
}

/// Requests are made for pods, and a pod runs as a service account.
fn look_at_requesters(findings: &mut Findings, requesters: &[Placed<SubjectSpec>], has_all: bool) {
    let fix = "name ServiceAccounts, or the Group system:serviceaccounts:<namespace>";
    let is_no_pod = |subject: &SubjectSpec| {
        let understood = SubjectForm::try_from(subject);
        understood.is_ok_and(|form| !can_be_a_pod(&form))
    };
    let no_pods = requesters.iter().filter(|it| is_no_pod(&it.part));
    let no_pods: Vec<_> = no_pods.collect();
    if has_all && !requesters.is_empty() && no_pods.len() == requesters.len() {
        let at = "spec.checkGrantedPermission.requesters";
        let message = "none of them can be the ServiceAccount of a pod, so no pod may ever ask";
        findings.error(at, FindingCode::NoPod, message, fix);
        return;
    }
    for Placed { path, part } in no_pods {
        let name = part.name.as_deref().unwrap_or_default();
        let kind = match part.kind {
            SubjectKind::ServiceAccount => "ServiceAccount",
            SubjectKind::User => "User",
            SubjectKind::Group => "Group",
        };
        let message = format!("no pod runs as the {kind} {name}, so it lets nothing ask");
        findings.warning(path, FindingCode::NoPod, message, fix);
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
        Err(error @ (SubjectError::NameSelectorOpen | SubjectError::NamespaceSelectorOpen)) => {
            let fix = "say which values the labels of those have that are meant; NotIn, Exists and DoesNotExist may only narrow that";
            findings.error(path, FindingCode::InvalidSubject, error.to_string(), fix);
        }
        Err(error) => {
            let fix = "one subject by name, or service accounts by nameSelector";
            findings.error(path, FindingCode::InvalidSubject, error.to_string(), fix);
        }
        Ok(SubjectForm::Group { name }) if EVERYBODY.contains(&name.as_str()) => {
            let message = format!("the Group {name} includes nearly every user of the cluster");
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
