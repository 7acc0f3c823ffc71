//! A policy in parts, so that an error in one part hides none in another.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::finding::{FindingCode, Findings};
use crate::access_policy::{Check, ConnectorSelector, Limits, RoleRule, SubjectSpec};
use crate::{Permission, parse};

/// A part and its path.
pub(super) struct Placed<T> {
    pub(super) path: String,
    pub(super) part: T,
}

/// The parts of a policy that could be parsed.
pub(super) struct PolicyParts {
    pub(super) connector: Option<ConnectorSelector>,
    /// None when it cannot be parsed.
    pub(super) permission: Option<Permission>,
    pub(super) standing: Option<StandingFields>,
    pub(super) granted: Option<Granted>,
}

/// The standing permission.
pub(super) struct StandingFields {
    pub(super) rules: Vec<Placed<RoleRule>>,
    pub(super) subjects: Vec<Placed<SubjectSpec>>,
    /// True when every rule could be parsed.
    pub(super) has_all_rules: bool,
}

/// The permission under checks.
pub(super) struct Granted {
    pub(super) requesters: Vec<Placed<SubjectSpec>>,
    /// True when every requester could be parsed.
    pub(super) has_all_requesters: bool,
    pub(super) checks: Vec<Placed<Check>>,
    pub(super) rules: Vec<Placed<RoleRule>>,
    pub(super) has_all_rules: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SpecShape {
    connector: Option<Value>,
    permission: Option<Value>,
    default_permission: Option<Value>,
    check_granted_permission: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StandingShape {
    role_template: Option<Value>,
    binding_template: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GrantedShape {
    requesters: Option<Vec<Value>>,
    spec: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GrantedSpecShape {
    checks: Option<Vec<Value>>,
    permissions: Option<Value>,
    limits: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PermissionsShape {
    role_template: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesShape {
    rules: Option<Vec<Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SubjectsShape {
    subjects: Option<Vec<Value>>,
}

/// The limit of reported unknown fields in one part.
const MOST_UNKNOWN: usize = 32;
/// The most entries of each list.
const MOST_SUBJECTS: usize = 1000;
const MOST_CHECKS: usize = 32;
const MOST_RULES: usize = 16;

pub(super) fn spec(findings: &mut Findings, spec: &Value) -> Option<PolicyParts> {
    let at = "spec";
    let SpecShape {
        connector,
        permission,
        default_permission,
        check_granted_permission,
    } = part(findings, spec, at)?;
    let given =
        |value: Option<Value>| value.filter(|value| *value != Value::Object(<_>::default()));
    let standing = given(default_permission);
    let granted = given(check_granted_permission);
    if standing.is_none() && granted.is_none() {
        let message =
            "has neither defaultPermission nor checkGrantedPermission; {} counts as absent";
        findings.error(
            at,
            FindingCode::GrantsNothing,
            message,
            "give one of them, or both",
        );
    }
    let permission = match permission {
        None => Some(Permission::default()),
        Some(word) => part(findings, &word, "spec.permission"),
    };
    Some(PolicyParts {
        connector: connector.and_then(|it| part(findings, &it, "spec.connector")),
        permission,
        standing: standing.and_then(|it| read_standing(findings, &it)),
        granted: granted.and_then(|it| read_granted(findings, &it)),
    })
}

fn read_standing(findings: &mut Findings, value: &Value) -> Option<StandingFields> {
    let at = "spec.defaultPermission";
    let StandingShape {
        role_template,
        binding_template,
    } = part(findings, value, at)?;
    let (rules, has_all_rules) = read_rules(findings, role_template, at);
    let at = format!("{at}.bindingTemplate");
    let subjects = match binding_template {
        None => {
            findings.missing(&at, "say who holds the permission");
            Vec::new()
        }
        Some(template) => {
            let shape = part(findings, &template, &at);
            let subjects = shape.map(|SubjectsShape { subjects }| subjects);
            subjects.map_or_else(Vec::new, |subjects| {
                let at = format!("{at}.subjects");
                required(findings, subjects, &at, MOST_SUBJECTS).0
            })
        }
    };
    Some(StandingFields {
        rules,
        subjects,
        has_all_rules,
    })
}

fn read_granted(findings: &mut Findings, value: &Value) -> Option<Granted> {
    let at = "spec.checkGrantedPermission";
    let GrantedShape { requesters, spec } = part(findings, value, at)?;
    let requesters = requesters.map(|requesters| {
        let at = format!("{at}.requesters");
        required(findings, Some(requesters), &at, MOST_SUBJECTS)
    });
    let (requesters, has_all_requesters) = requesters.unwrap_or_default();
    let at = format!("{at}.spec");
    let mut granted = Granted {
        requesters,
        has_all_requesters,
        checks: Vec::new(),
        rules: Vec::new(),
        has_all_rules: false,
    };
    let Some(spec) = spec else {
        findings.missing(&at, "say what is checked and granted");
        return Some(granted);
    };
    let Some(shape) = part(findings, &spec, &at) else {
        return Some(granted);
    };
    let GrantedSpecShape {
        checks,
        permissions,
        limits,
    } = shape;
    granted.checks = required(findings, checks, &format!("{at}.checks"), MOST_CHECKS).0;
    if let Some(limits) = limits {
        let _: Option<Limits> = part(findings, &limits, &format!("{at}.limits"));
    }
    let at = format!("{at}.permissions");
    match permissions {
        None => findings.missing(&at, "say what the pod may do once the checks pass"),
        Some(permissions) => {
            if let Some(PermissionsShape { role_template }) = part(findings, &permissions, &at) {
                (granted.rules, granted.has_all_rules) = read_rules(findings, role_template, &at);
            }
        }
    }
    Some(granted)
}

/// The rules that can be parsed, and whether all can.
fn read_rules(
    findings: &mut Findings,
    template: Option<Value>,
    at: &str,
) -> (Vec<Placed<RoleRule>>, bool) {
    let at = format!("{at}.roleTemplate");
    let Some(template) = template else {
        findings.missing(&at, "say what is allowed");
        return (Vec::new(), false);
    };
    match part(findings, &template, &at) {
        None => (Vec::new(), false),
        Some(RulesShape { rules }) => required(findings, rules, &format!("{at}.rules"), MOST_RULES),
    }
}

/// The entries of a list that can be parsed, and whether all can.
fn required<T: DeserializeOwned>(
    findings: &mut Findings,
    list: Option<Vec<Value>>,
    at: &str,
    most: usize,
) -> (Vec<Placed<T>>, bool) {
    let Some(list) = list else {
        findings.missing(at, "give at least one entry");
        return (Vec::new(), false);
    };
    findings.length(at, list.len(), 1, most);
    let count = list.len();
    let mut parts = Vec::new();
    for (place, entry) in list.into_iter().take(most).enumerate() {
        let path = format!("{at}[{place}]");
        let part = part(findings, &entry, &path);
        parts.extend(part.map(|part| Placed { path, part }));
    }
    let has_all = parts.len() == count;
    (parts, has_all)
}

/// Parses one part. Reports each unknown field, and the first malformed value.
fn part<T: DeserializeOwned>(findings: &mut Findings, value: &Value, at: &str) -> Option<T> {
    let mut value = value.clone();
    for _ in 0..MOST_UNKNOWN {
        let error = match parse::part(&value, at) {
            Ok(part) => return Some(part),
            Err(error) => error,
        };
        findings.parse(&error);
        let field = error.unknown_field()?;
        let within = error.path.strip_prefix(at)?;
        let parent = within.strip_suffix(field)?;
        let parent = parent.strip_suffix('.').unwrap_or(parent);
        let parent = value.pointer_mut(&pointer(parent))?;
        parent.as_object_mut()?.remove(field)?;
    }
    None
}

/// Converts `.checks[0].selector` to a JSON pointer. Names of known fields contain neither dots nor brackets.
fn pointer(path: &str) -> String {
    path.replace('[', "/").replace(']', "").replace('.', "/")
}
