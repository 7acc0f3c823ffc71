//! Validation of the checks.

use std::collections::BTreeSet;

use super::Module;
use super::finding::{FindingCode, Findings};
use super::shape::{Placed, PolicyParts};
use crate::access_policy::{Approvers, Check, Provenance};
use crate::access_resource::is_version;
use crate::approval_kind::{self, LineageKind, has_lineage, may_approve, records_approvers};
use crate::check_selector::CheckSelectorError;
use crate::field_selector::FieldSelector;
use crate::judge::{ProofNeeded, proof_needed, without_proof};
use crate::names::{is_dns_label, is_dns_subdomain, is_label_key};
use crate::template::{LabelValue, MOST_STEPS_OF_POLICY, Template};

const LONGEST_MODULE: usize = 16 * 1024;
const MOST_LABELS: usize = 16;
const MOST_APPROVERS: usize = 100;
const LONGEST_LABEL_VALUE: usize = 63;

/// Returns the modules, which are parsed elsewhere.
pub(super) fn look(findings: &mut Findings, spec: &PolicyParts) -> Vec<Module> {
    let checks = spec.granted.iter().flat_map(|granted| &granted.checks);
    let mut names = BTreeSet::new();
    let mut modules = Vec::new();
    let mut steps = 0;
    for Placed { path, part: check } in checks {
        let at = format!("{path}.name");
        if !is_dns_label(&check.name) {
            let fix = "at most 63 of a-z 0-9 -, beginning and ending with a letter or digit";
            findings.invalid(&at, "is no name that a check can have", fix);
        }
        if !names.insert(&check.name) {
            let message = format!("two checks are called `{}`", check.name);
            let fix = "give each check a name of its own";
            findings.error(&at, FindingCode::DuplicateName, message, fix);
        }
        // A policy with too many steps is refused for that alone. Validating the rest would only cost time.
        if steps <= MOST_STEPS_OF_POLICY {
            steps += look_at_labels(findings, path, check);
            if steps > MOST_STEPS_OF_POLICY {
                let at = format!("{path}.selector.labels");
                let message = CheckSelectorError::Steps.to_string();
                let fix = "split the policy: each policy grants on its own";
                findings.error(&at, FindingCode::InvalidTemplate, message, fix);
            }
        }
        look_at_kind(findings, path, check);
        look_at_fields(findings, path, check);
        look_at_approvers(findings, path, check);
        let rego = check.state.as_ref().map(|state| &state.rego);
        if let Some(source) = rego.filter(|source| !source.is_empty()) {
            let path = format!("{path}.state.rego");
            if source.len() > LONGEST_MODULE {
                let message = format!("is longer than {LONGEST_MODULE} bytes");
                let fix = "make the module simpler";
                findings.error(&path, FindingCode::RegoLimit, message, fix);
            } else {
                let source = source.clone();
                modules.push(Module { path, source });
            }
        }
    }
    modules
}

/// Returns the number of steps in the paths of its templates.
fn look_at_labels(findings: &mut Findings, path: &str, check: &Check) -> usize {
    let labels = &check.selector.labels;
    let at = format!("{path}.selector.labels");
    if labels.is_empty() {
        let message = "has no label: nothing would ever be selected";
        let fix = "a label that pod and approval share, such as tekton.dev/pipelineRun";
        findings.error(&at, FindingCode::EmptySelector, message, fix);
        return 0;
    }
    findings.length(&at, labels.len(), 1, MOST_LABELS);
    let mut depends = false;
    let mut steps = 0;
    for (key, text) in labels {
        let at = format!("{at}[{key:?}]");
        if !is_label_key(key) {
            let fix = "an optional DNS prefix and a slash, then at most 63 of A-Z a-z 0-9 - _ .";
            findings.invalid(&at, "is not a label key", fix);
        }
        let template = match Template::parse(text) {
            Ok(template) => template,
            Err(error) => {
                // It is not known whether the template depends on the pod, so assume that it does.
                depends = true;
                let fix = "a text, or a path such as {.object.metadata.labels['key']}";
                findings.error(&at, FindingCode::InvalidTemplate, error.to_string(), fix);
                continue;
            }
        };
        depends |= !template.is_fixed();
        steps += template.steps();
        for warning in template.warnings() {
            findings.alias(&at, &warning);
        }
        look_at_value(findings, &at, &template);
    }
    if !depends {
        let message = "selects the same objects for every pod: one approval lets all of them in";
        let fix = "fill a value from the pod, such as {.object.metadata.labels['tekton\\.dev/pipelineRun']}";
        findings.warning(&at, FindingCode::FixedSelector, message, fix);
    }
    steps
}

/// A text that cannot be a label value matches nothing, and neither does one with a part that cannot occur in
/// one.
fn look_at_value(findings: &mut Findings, at: &str, template: &Template) {
    let fix = "at most 63 of A-Z a-z 0-9 - _ . that begin and end with a letter or digit";
    if template.is_fixed() {
        let text: String = template.texts().collect();
        if let Err(error) = LabelValue::parse(&text) {
            findings.error(at, FindingCode::ImpossibleSelector, error.to_string(), fix);
        }
        return;
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let length: usize = template.texts().map(str::len).sum();
    // Each path adds at least one character.
    if length >= LONGEST_LABEL_VALUE || !template.texts().all(|text| text.bytes().all(allowed)) {
        let message = "whatever the pod says, this is no label value";
        findings.error(at, FindingCode::ImpossibleSelector, message, fix);
    }
}

fn look_at_kind(findings: &mut Findings, path: &str, check: &Check) {
    let kind = &check.selector.object_ref;
    let at = format!("{path}.selector.objectRef");
    if !is_api_version(&kind.api_version) {
        let message = "is no group and version";
        let fix = "such as openshift-pipelines.org/v1alpha1";
        findings.invalid(&format!("{at}.apiVersion"), message, fix);
    } else if !is_kind(&kind.kind) {
        findings.invalid(&format!("{at}.kind"), "is no kind", "such as ApprovalTask");
    } else if !may_approve(kind) {
        let message = format!("a {} of {} is no approval", kind.kind, kind.api_version);
        let fix = "select a kind that records approvals, or a ConfigMap";
        findings.error(&at, FindingCode::KindRefused, message, fix);
    }
    look_at_provenance(findings, path, check);
}

fn look_at_provenance(findings: &mut Findings, path: &str, check: &Check) {
    let kind = &check.selector.object_ref;
    let at = format!("{path}.provenance");
    let is_unavailable = proof_needed(check) == ProofNeeded::Unavailable;
    if check.provenance == Provenance::Required && is_unavailable {
        let message = format!("no lineage is known that proves a {}", kind.kind);
        let fix = format!(
            "{}, which asks for no proof of this kind",
            without_proof(check)
        );
        findings.error(&at, FindingCode::ProofUnavailable, message, fix);
    } else if is_unavailable {
        let message = format!(
            "no lineage is known that proves that a {} belongs to the pod's pipeline run, so the check never passes",
            kind.kind
        );
        let fix = format!(
            "{}, which trusts labels: only if the authors of pods and pipeline runs are trusted",
            without_proof(check)
        );
        findings.warning(&at, FindingCode::ProofUnavailable, message, fix);
    } else if check.provenance == Provenance::None && has_lineage(kind) {
        let message = "labels are believed, which the author of a pod or pipeline run can write";
        let fix = match approval_kind::of(kind).proof {
            LineageKind::By(_) => {
                "leave provenance out, and only an approval of the pod's own run counts"
            }
            LineageKind::Unknown | LineageKind::Unprovable => {
                "no lineage proves this kind: name requesters whose pods and pipeline runs only trusted people make"
            }
        };
        findings.warning(&at, FindingCode::LabelsBelieved, message, fix);
    }
}

fn look_at_fields(findings: &mut Findings, path: &str, check: &Check) {
    let Some(fields) = &check.selector.field_selector else {
        return;
    };
    let at = format!("{path}.selector.fieldSelector");
    if let Err(error) = FieldSelector::parse(fields) {
        let fix = "field paths and the values they must have, such as spec.type: TimeWindow";
        findings.invalid(&at, error.to_string(), fix);
    }
}

fn look_at_approvers(findings: &mut Findings, path: &str, check: &Check) {
    let kind = &check.selector.object_ref;
    let at = format!("{path}.approvers");
    let records = records_approvers(kind);
    let Some(approvers) = &check.approvers else {
        if records {
            let message = "the author of the pipeline chooses the approvers";
            let fix = "approvers: {users: […], groups: […], minimum: 1}";
            findings.warning(&at, FindingCode::ApproversOpen, message, fix);
        }
        return;
    };
    if !records {
        let message = format!("a {} does not record who approved", kind.kind);
        let fix = "leave approvers out";
        findings.error(&at, FindingCode::ApproversUnsupported, message, fix);
    }
    let Approvers {
        users,
        groups,
        minimum,
        not_requester,
    } = approvers;
    if users.is_empty() && groups.is_empty() {
        if *not_requester {
            let message = "the author of the pipeline chooses the approvers, who can be another account of the author";
            let fix = "name users, groups or both beside notRequester";
            findings.warning(&at, FindingCode::ApproversOpen, message, fix);
        } else {
            let fix = "name users, groups or both, or set notRequester";
            findings.missing(&at, fix);
        }
    }
    if *not_requester && records && proof_needed(check).lineage().is_none() {
        let message = "the creator of a pipeline run is known only from a proof of lineage";
        let fix = "leave provenance out, or leave notRequester out";
        let at = format!("{at}.notRequester");
        findings.error(&at, FindingCode::ApproversUnsupported, message, fix);
    }
    for (field, names) in [("users", users), ("groups", groups)] {
        findings.length(&format!("{at}.{field}"), names.len(), 0, MOST_APPROVERS);
        if names.iter().any(|name| name.is_empty() || name.len() > 512) {
            let message = "has a name that no user or group can have";
            findings.invalid(&format!("{at}.{field}"), message, "1 to 512 bytes each");
        }
    }
    let people: BTreeSet<_> = users.iter().collect();
    let wanted = usize::try_from(*minimum)
        .ok()
        .filter(|it| (1..=100).contains(it));
    let at = format!("{at}.minimum");
    match wanted {
        None => findings.invalid(&at, "must be between 1 and 100", "1"),
        Some(wanted) if groups.is_empty() && !users.is_empty() && wanted > people.len() => {
            let message = format!("{wanted} approvals are wanted from {} people", people.len());
            let fix = "name more users, or lower the minimum";
            findings.warning(&at, FindingCode::ApproversTooFew, message, fix);
        }
        Some(_) => {}
    }
}

fn is_api_version(text: &str) -> bool {
    let (group, version) = text
        .split_once('/')
        .map_or((None, text), |(group, version)| (Some(group), version));
    is_version(version) && group.is_none_or(is_dns_subdomain)
}

fn is_kind(text: &str) -> bool {
    text.len() <= 63
        && text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}
