//! Validation of the rules that a policy grants.

use super::finding::{FindingCode, Findings};
use super::shape::{Placed, PolicyParts};
use crate::access_policy::RoleRule;
use crate::names::GROUP;
use crate::template::{ResourceTemplate, ResourceTemplateError};
use crate::{AccessResource, Permission};

/// The limit of verbs and of resources in one rule.
const MOST: usize = 16;
const LONGEST_VERB: usize = 63;
const LONGEST_RESOURCE: usize = 512;
/// The verb that a mount requests.
const EVERYTHING: &str = "*";

pub(super) fn look(findings: &mut Findings, spec: &PolicyParts) {
    let permission = spec.permission;
    if let Some(standing) = &spec.standing {
        let mut rules = standing.rules.iter();
        let look = |rule: &Placed<RoleRule>| look_at_standing(findings, rule, permission);
        // Collected first, so that every rule is validated.
        let covers: Vec<bool> = rules.by_ref().map(look).collect();
        if standing.has_all_rules && !covers.contains(&true) {
            no_mount(
                findings,
                "spec.defaultPermission.roleTemplate.rules",
                permission,
                "",
            );
        }
    }
    if let Some(granted) = &spec.granted {
        let look = |rule: &Placed<RoleRule>| look_at_granted(findings, rule, permission);
        let covers: Vec<bool> = granted.rules.iter().map(look).collect();
        if granted.has_all_rules && !covers.contains(&true) {
            no_mount(
                findings,
                "spec.checkGrantedPermission.spec.permissions.roleTemplate.rules",
                permission,
                "/v1/pod/{.object.metadata.namespace}/{.object.metadata.name}",
            );
        }
    }
}

fn no_mount(findings: &mut Findings, path: &str, permission: Option<Permission>, end: &str) {
    let Some(permission) = permission else {
        return;
    };
    let message = "no rule covers what a mount asks for, so no pod can mount by this permission";
    let fix = format!("a rule with verb \"*\" and resource connectors/{permission}{end}");
    findings.warning(path, FindingCode::NoMountRule, message, fix);
}

/// True when a mount can use the rule.
fn look_at_standing(
    findings: &mut Findings,
    rule: &Placed<RoleRule>,
    permission: Option<Permission>,
) -> bool {
    let mut covers = false;
    look_at_rule(findings, rule, |findings, path, text| {
        if text.contains('{') {
            let message = "there is no pod yet that could fill a template";
            let fix = "connectors/<permission>";
            findings.error(path, FindingCode::InvalidTemplate, message, fix);
            return;
        }
        match text.parse::<AccessResource>() {
            Err(error) => wrong(findings, path, &error.to_string()),
            Ok(resource) => {
                is_about(findings, path, resource.permission, permission);
                covers |= resource.context.is_none();
            }
        }
    });
    covers && rule.part.verbs.iter().any(|verb| verb == EVERYTHING)
}

fn look_at_granted(
    findings: &mut Findings,
    rule: &Placed<RoleRule>,
    permission: Option<Permission>,
) -> bool {
    let mut covers = false;
    look_at_rule(findings, rule, |findings, path, text| {
        let resource = match ResourceTemplate::parse(text) {
            Ok(resource) => resource,
            Err(error @ (ResourceTemplateError::Template(_) | ResourceTemplateError::Place(_))) => {
                let fix =
                    "{.object.metadata.namespace} and {.object.metadata.name}, each in its place";
                findings.error(path, FindingCode::InvalidTemplate, error.to_string(), fix);
                return;
            }
            Err(error @ (ResourceTemplateError::Resource(_) | ResourceTemplateError::Standing)) => {
                return wrong(findings, path, &error.to_string());
            }
        };
        for warning in resource.warnings() {
            findings.alias(path, warning);
        }
        is_about(findings, path, resource.permission(), permission);
        if !resource.is_own() {
            let message = "names a fixed namespace or name: no other pod can use it";
            let fix = "end it in /{.object.metadata.namespace}/{.object.metadata.name}";
            findings.warning(path, FindingCode::FixedResource, message, fix);
        }
        covers |= resource.is_of_pods();
    });
    covers && rule.part.verbs.iter().any(|verb| verb == EVERYTHING)
}

fn wrong(findings: &mut Findings, path: &str, message: &str) {
    let fix = "connectors/<permission> in defaultPermission, connectors/<permission>/v1/pod/{.object.metadata.namespace}/{.object.metadata.name} under checks";
    findings.error(path, FindingCode::InvalidResource, message, fix);
}

fn is_about(
    findings: &mut Findings,
    path: &str,
    found: Permission,
    permission: Option<Permission>,
) {
    if let Some(permission) = permission.filter(|permission| *permission != found) {
        let message = format!("is about {found}, the policy about {permission}");
        let fix = format!("begin it with connectors/{permission}, or say spec.permission: {found}");
        findings.error(path, FindingCode::WrongPermission, message, fix);
    }
}

fn look_at_rule(
    findings: &mut Findings,
    Placed { path, part }: &Placed<RoleRule>,
    mut resource: impl FnMut(&mut Findings, &str, &str),
) {
    let RoleRule {
        api_groups,
        resources,
        verbs,
    } = part;
    if *api_groups != [GROUP] {
        let message = "a policy hands out access to connectors only";
        let at = format!("{path}.apiGroups");
        findings.error(
            &at,
            FindingCode::WrongApiGroup,
            message,
            format!("[{GROUP}]"),
        );
    }
    let at = format!("{path}.verbs");
    findings.length(&at, verbs.len(), 1, MOST);
    for (place, verb) in verbs.iter().enumerate() {
        if verb.is_empty() || verb.len() > LONGEST_VERB {
            let message = format!("must have 1 to {LONGEST_VERB} bytes");
            findings.invalid(&format!("{at}[{place}]"), message, "a mount asks for *");
        }
    }
    let at = format!("{path}.resources");
    findings.length(&at, resources.len(), 1, MOST);
    for (place, text) in resources.iter().take(MOST).enumerate() {
        let at = format!("{at}[{place}]");
        if text.len() > LONGEST_RESOURCE {
            let message = format!("is longer than {LONGEST_RESOURCE} bytes");
            wrong(findings, &at, &message);
        } else {
            resource(findings, &at, text);
        }
    }
}
