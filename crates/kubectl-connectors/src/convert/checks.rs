//! The checks of a policy.

use std::collections::BTreeMap;

use connectors_api::access_policy::{
    Approvers, Check, CheckSelector, CheckState, Latch, Match, ObjectKind, Provenance,
};
use connectors_api::approval_kind::{self, LineageKind};
use connectors_api::quoted;
use connectors_api::selector::Operator;
use serde_json::Value;

use super::facts::ShippedFacts;
use super::module::{self, AdaptedModule, ModuleInput, ModuleProblem};
use super::place::{ConvertLog, ConvertSource, Origins};
use super::shipped::{
    ConfigMapReference, ShippedCheck, ShippedCheckSelector, ShippedCheckSpec, ShippedParam,
    TemplateReference,
};
use super::templates::Templates;
use super::words::{NoteWord, RefusalWord};

/// The template of the other product for ApprovalTasks.
const BUILT_IN: &str = "connectors-approvals-in-pipeline";
/// The prefix of a group among the approvers.
const GROUP: &str = "group:";

/// The text of one check: in the policy, or in a ConfigMap.
struct CheckText<'a> {
    spec: &'a ShippedCheckSpec,
    source: ConvertSource<'a>,
    /// The path of the text.
    at: String,
    is_built_in: bool,
    facts: ShippedFacts,
}

/// A check in this product's form. None if it was refused.
pub(super) fn check(
    source: ConvertSource<'_>,
    place: usize,
    shipped: &ShippedCheck,
    facts: ShippedFacts,
    templates: &Templates<'_>,
    origins: &mut Origins,
    log: &mut ConvertLog,
) -> Option<Check> {
    let at = format!("spec.checkGrantedPermission.spec.checks[{place}]");
    origins.add(at.clone(), source.at(&at));
    let template;
    let text = match (&shipped.reference, &shipped.spec) {
        (None, Some(spec)) => CheckText {
            spec,
            source,
            at: format!("{at}.spec"),
            is_built_in: false,
            facts,
        },
        (Some(reference), None) => {
            let from = source.at(&format!("{at}.ref.configMap.name"));
            template = templates.check(reference, from, log)?;
            CheckText {
                spec: &template.content,
                source: template.source,
                at: template.path,
                is_built_in: is_built_in(reference),
                facts,
            }
        }
        (Some(_), Some(_)) | (None, None) => {
            let message = "needs either ref or spec";
            let word = RefusalWord::ReferenceOrSpec;
            log.refuse(source.at(&at), word, message, "give one of them");
            return None;
        }
    };
    let from = |path: &str| text.source.at(&format!("{}{path}", text.at));
    for (converted, path) in [
        ("selector", ".selector"),
        ("selector.labels", ".selector.matchLabels"),
        ("selector.objectRef", ".selector.objectRef"),
        ("state", ".state"),
        ("state.rego", ".state.rego"),
    ] {
        origins.add(format!("{at}.{converted}"), from(path));
    }
    let kind = &text.spec.selector.object_ref;
    let labels = labels(&text, &text.spec.selector, log);
    let approvers = approvers(source, &at, shipped.params.as_deref(), log);
    let is_provable = look_at_kind(&text, kind, log);
    let keys = labels.clone().unwrap_or_default();
    let state = state(&text, kind, &keys, log);
    let message = "while one object is rejected and another one undecided, the pod waits";
    log.note(from(".selector"), NoteWord::RejectionWaits, message);
    let check = Check {
        name: shipped.name.clone(),
        selector: CheckSelector {
            labels: labels?,
            object_ref: kind.clone(),
            field_selector: None,
        },
        match_: Match::Any,
        latch: Latch::Auto,
        provenance: Provenance::Auto,
        approvers: approvers?,
        state: state?,
    };
    if check
        .approvers
        .as_ref()
        .is_some_and(|it| !it.groups.is_empty())
    {
        let message = "a group counts where the ApprovalTask lists it: its members who approved do";
        let place = source.at(&format!("{at}.params"));
        log.note(place, NoteWord::GroupMembersCount, message);
    }
    origins.add(
        format!("{at}.approvers"),
        source.at(&format!("{at}.params")),
    );
    is_provable.then_some(check)
}

fn is_built_in(reference: &TemplateReference) -> bool {
    let TemplateReference {
        config_map: ConfigMapReference { name },
    } = reference;
    name == BUILT_IN
}

/// Labels with the values that they must have. A requirement that is no equality is refused: without it, more objects
/// would count.
fn labels(
    text: &CheckText<'_>,
    selector: &ShippedCheckSelector,
    log: &mut ConvertLog,
) -> Option<BTreeMap<String, String>> {
    let mut labels = selector.match_labels.clone().unwrap_or_default();
    let mut are_said = true;
    let expressions = selector.match_expressions.iter().flatten();
    for (place, requirement) in expressions.enumerate() {
        let value = match (requirement.operator, requirement.values.as_slice()) {
            (Operator::In, [value]) => Some(value),
            (Operator::In | Operator::NotIn | Operator::Exists | Operator::DoesNotExist, _) => None,
        };
        let before = labels.get(&requirement.key);
        match value {
            Some(value) if before.is_none_or(|it| it == value) => {
                labels.insert(requirement.key.clone(), value.clone());
            }
            Some(_) | None => {
                let path = format!("{}.selector.matchExpressions[{place}]", text.at);
                let message = "checks here find objects by labels with one value each";
                let fix = "say it by matchLabels; a field of the object can decide too, in fieldSelector or in Rego";
                let word = RefusalWord::ExpressionUnsayable;
                log.refuse(text.source.at(&path), word, message, fix);
                are_said = false;
            }
        }
    }
    are_said.then_some(labels)
}

/// False when the kind is refused.
fn look_at_kind(text: &CheckText<'_>, kind: &ObjectKind, log: &mut ConvertLog) -> bool {
    let place = text.source.at(&format!("{}.selector.objectRef", text.at));
    let needs = approval_kind::of(kind);
    let name = quoted(&kind.kind);
    match needs.proof {
        LineageKind::By(_) => {
            let message =
                format!("objects of kind {name} count for pods of their own pipeline run alone");
            log.note(place.clone(), NoteWord::ProofAdded, message);
        }
        LineageKind::Unprovable => {
            let message = format!(
                "labels of kind {name} are written by the authors of pods and runs, and no proof is known for it"
            );
            let fix = "if those authors are trusted, write the check by hand with provenance: None";
            log.refuse(place, RefusalWord::ProofUnavailable, message, fix);
            return false;
        }
        LineageKind::Unknown => {}
    }
    if needs.may_approve && !needs.read_by_default {
        let message = format!(
            "list {} of {} in the chart value checks.kinds, or label a ClusterRole for it",
            name,
            quoted(&kind.api_version)
        );
        log.note(place, NoteWord::KindNeedsRights, message);
    }
    true
}

/// How the state is read. The outer None: it cannot be said.
#[allow(
    clippy::option_option,
    reason = "the inner one is the field of the check, the outer one a refusal"
)]
fn state(
    text: &CheckText<'_>,
    kind: &ObjectKind,
    labels: &BTreeMap<String, String>,
    log: &mut ConvertLog,
) -> Option<Option<CheckState>> {
    let place = || text.source.at(&format!("{}.state.rego", text.at));
    let rego = text.spec.state.as_ref().and_then(|it| it.rego.as_deref());
    let records_approvers = approval_kind::records_approvers(kind);
    let Some(rego) = rego.filter(|it| !it.trim().is_empty()) else {
        if records_approvers {
            let message = format!(
                "without Rego, conditions decide, and kind {} has none: the check never passes there",
                kind.kind
            );
            let fix = format!(
                "refer to ConfigMap {BUILT_IN}, if the state of kind {} is meant",
                kind.kind
            );
            log.refuse(place(), RefusalWord::NeverPassed, message, fix);
            return None;
        }
        let message = "the conditions Ready and Succeeded decide, as before, by a module";
        log.note(place(), NoteWord::StateByConditions, message);
        let rego = module::CONDITIONS.to_owned();
        return Some(Some(CheckState { rego }));
    };
    match module::adapted(rego, text.facts.from) {
        Ok(AdaptedModule { rego, input, reads }) => {
            let message = "package approval, and a rule that turns result into output";
            log.note(place(), NoteWord::ModuleAdapted, message);
            if let (Some(message), None) = (of_one_version(input), text.facts.from) {
                log.note(place(), NoteWord::ModuleOfOneVersion, message);
            }
            let hidden: Vec<_> = reads.hidden(labels).iter().map(|it| quoted(it)).collect();
            if !hidden.is_empty() {
                let message = format!(
                    "reads {}: if requesters name other namespaces, list it in checks.sharedFields of the chart first",
                    hidden.join(", ")
                );
                log.note(place(), NoteWord::FieldsNotShared, message);
            }
            Some(Some(CheckState { rego }))
        }
        Err(ModuleProblem::ReadsCheck) if text.is_built_in && records_approvers => {
            if text.facts.template_is_unchanged {
                let message = format!(
                    "left out: state and approvals of kind {} decide, and params say whose",
                    kind.kind
                );
                log.note(place(), NoteWord::ModuleReplaced, message);
                return Some(None);
            }
            let message =
                "reads input.check, which modules here do not get, and may have been changed";
            let fix = "compare the ConfigMap with the one of a new installation; if they are equal, say --template-is-unchanged";
            log.refuse(place(), RefusalWord::ModuleUnsayable, message, fix);
            None
        }
        Err(problem @ ModuleProblem::OtherVersion(_)) => {
            let fix = "give the version that it is written for with --from, or correct it";
            log.refuse(place(), RefusalWord::NeverPassed, problem.message(), fix);
            None
        }
        Err(problem) => {
            let fix = "write a module of package approval by hand: docs/approvals.md";
            let word = RefusalWord::ModuleUnsayable;
            log.refuse(place(), word, problem.message(), fix);
            None
        }
    }
}

/// The unknown about the input of a module. None if it reads nothing.
const fn of_one_version(input: ModuleInput) -> Option<&'static str> {
    match input {
        ModuleInput::Nothing => None,
        ModuleInput::Object => Some(
            "reads the fields of the object behind input, which are there up to version 1.12 alone: say --from",
        ),
        ModuleInput::Wrapped => {
            Some("reads input.object, which is there from version 1.14 on: say --from")
        }
    }
}

/// The approvers that the parameters name. The outer None: they cannot be said.
#[allow(
    clippy::option_option,
    reason = "the inner one is the field of the check, the outer one a refusal"
)]
fn approvers(
    source: ConvertSource<'_>,
    at: &str,
    params: Option<&[ShippedParam]>,
    log: &mut ConvertLog,
) -> Option<Option<Approvers>> {
    let (mut names, mut minimum) = (None, None);
    let mut are_said = true;
    for (place, ShippedParam { name, value }) in params.unwrap_or_default().iter().enumerate() {
        let path = format!("{at}.params[{place}]");
        let (word, message, fix) = match name.as_str() {
            "approvers" if names.is_none() => match texts(value) {
                Some(found) => {
                    names = Some(found);
                    continue;
                }
                None => (
                    RefusalWord::ApproversUnsayable,
                    "is no list of names: approvers of nobody would be approvers of everybody"
                        .to_owned(),
                    "give at least one user, or group:NAME; leave the parameter out to let the pipeline choose",
                ),
            },
            "numberOfApprovalsRequired" if minimum.is_none() => match number(value) {
                Some(found) => {
                    minimum = Some(found);
                    continue;
                }
                None => (
                    RefusalWord::ApproversUnsayable,
                    "is no number".to_owned(),
                    "give a number from 1 to 100",
                ),
            },
            "approvers" | "numberOfApprovalsRequired" => (
                RefusalWord::ApproversUnsayable,
                format!("{} is given twice", quoted(name)),
                "remove one of them",
            ),
            _ => (
                RefusalWord::ParameterUnknown,
                format!(
                    "no parameter {} is known, so it restricts nothing",
                    quoted(name)
                ),
                "approvers or numberOfApprovalsRequired",
            ),
        };
        log.refuse(source.at(&path), word, message, fix);
        are_said = false;
    }
    if !are_said {
        return None;
    }
    let minimum = minimum.unwrap_or(1).max(1);
    match names {
        None if minimum == 1 => Some(None),
        None => {
            let message =
                "asks for several approvals and names no approvers, which a policy here must";
            let fix = "name the approvers; or let the pipeline ask for as many approvals";
            let place = source.at(&format!("{at}.params"));
            log.refuse(place, RefusalWord::ApproversUnsayable, message, fix);
            None
        }
        Some(names) => {
            let (groups, users): (Vec<_>, Vec<_>) =
                names.into_iter().partition(|it| it.starts_with(GROUP));
            let bare = |it: &String| it.strip_prefix(GROUP).unwrap_or(it).to_owned();
            Some(Some(Approvers {
                users,
                groups: groups.iter().map(bare).collect(),
                minimum,
                not_requester: false,
            }))
        }
    }
}

/// A list of texts, none of them empty.
fn texts(value: &Value) -> Option<Vec<String>> {
    let list = value.as_array().filter(|it| !it.is_empty())?;
    let texts = list
        .iter()
        .map(|it| it.as_str().filter(|it| !it.is_empty()));
    texts.map(|it| it.map(str::to_owned)).collect()
}

/// Parameters of Tekton's form are texts, also numbers.
fn number(value: &Value) -> Option<i32> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        Value::Number(number) => number.as_i64().and_then(|it| it.try_into().ok()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}
