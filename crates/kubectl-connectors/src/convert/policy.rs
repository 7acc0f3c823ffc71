//! An AccessPolicy of the other product in this product's form.

use connectors_api::access_policy::{
    BindingTemplate, CheckGrantedPermission, CheckGrantedSpec, ConnectorSelector,
    DefaultPermission, GrantedPermissions, RoleRule, RoleTemplate,
};
use connectors_api::validate::Severity;
use connectors_api::{AccessPolicy, AccessPolicySpec, Permission, parse, quoted};
use serde_json::{Value, json};

use crate::lint;
use crate::modules::Modules;

use super::checks;
use super::connectors::connectors;
use super::facts::ShippedFacts;
use super::metadata;
use super::place::{ConvertLog, ConvertSource, Origins};
use super::shipped::{ShippedDefault, ShippedGranted, ShippedRoleTemplate, ShippedSpec};
use super::subjects;
use super::templates::{Templates, problem};
use super::words::{NoteWord, RefusalWord};

/// The resource that opens mounts there. Behind it perhaps the pod that may use it.
const PROXY: &str = "connectors/proxy";

/// The converted policy. None if it was refused.
pub(super) async fn policy(
    source: ConvertSource<'_>,
    facts: ShippedFacts,
    templates: &Templates<'_>,
    modules: &Modules,
    log: &mut ConvertLog,
) -> Option<Value> {
    let refused = log.refusals.len();
    let mut object = metadata::of_policy(source, log);
    let mut origins = Origins::default();
    if parse::object::<AccessPolicy>(&object).is_ok() {
        let message = "an AccessPolicy of this product";
        log.note(source.at("spec"), NoteWord::AlreadyConverted, message);
    } else {
        origins.add("spec", source.at("spec"));
        let spec = spec(source, facts, templates, &mut origins, log)?;
        let spec = serde_json::to_value(spec).ok()?;
        object.as_object_mut()?.insert("spec".to_owned(), spec);
    }
    if log.refusals.len() > refused {
        return None;
    }
    let findings = lint::findings(&object, modules).await;
    for finding in findings
        .into_iter()
        .filter(|it| it.severity == Severity::Error)
    {
        let place = origins.of(&finding.path).cloned();
        let message = format!("{}: {} [{}]", finding.path, finding.message, finding.code);
        let place = place.unwrap_or_else(|| source.at(&finding.path));
        log.refuse(place, RefusalWord::NotAccepted, message, finding.fix);
    }
    (log.refusals.len() == refused).then_some(object)
}

fn spec(
    source: ConvertSource<'_>,
    facts: ShippedFacts,
    templates: &Templates<'_>,
    origins: &mut Origins,
    log: &mut ConvertLog,
) -> Option<AccessPolicySpec> {
    let written = source.value().get("spec").cloned().unwrap_or(json!({}));
    let shipped: ShippedSpec = match parse::spec(&written) {
        Ok(shipped) => shipped,
        Err(error) => {
            let fix = "the form is that of the other product; `policy lint` looks at policies of this one";
            let (within, message) = problem(&error);
            let place = source.at(&format!("spec{within}"));
            log.refuse(place, RefusalWord::FieldUnreadable, message, fix);
            return None;
        }
    };
    let ShippedSpec {
        connector,
        default_permission,
        check_granted_permission,
    } = shipped;
    origins.add("spec.connector", source.at("spec.connector"));
    // Each part is looked at, so that all mistakes are told at once.
    let connector = match connector {
        None => Some(ConnectorSelector::default()),
        Some(selector) => connectors(source, &selector, log),
    };
    let standing = default_permission.map(|it| standing(source, &it, templates, origins, log));
    let granted =
        check_granted_permission.map(|it| granted(source, &it, facts, templates, origins, log));
    Some(AccessPolicySpec {
        connector: connector?,
        permission: Permission::Proxy,
        default_permission: standing.map_or(Some(None), |it| it.map(Some))?,
        check_granted_permission: granted.map_or(Some(None), |it| it.map(Some))?,
    })
}

fn standing(
    source: ConvertSource<'_>,
    shipped: &ShippedDefault,
    templates: &Templates<'_>,
    origins: &mut Origins,
    log: &mut ConvertLog,
) -> Option<DefaultPermission> {
    let ShippedDefault {
        role_template,
        binding_template,
    } = shipped;
    let at = "spec.defaultPermission";
    let paths = [at, at];
    let role_template = role(source, role_template, paths, templates, origins, log);
    let accounts = &binding_template.service_accounts;
    let subjects = subjects::subjects(source, accounts, origins, log);
    let place = source.at(&format!("{at}.bindingTemplate"));
    let message = "subjects without the right to get the connector have the permission too";
    log.note(place, NoteWord::ReadRightNotAsked, message);
    Some(DefaultPermission {
        role_template: role_template?,
        binding_template: BindingTemplate { subjects },
    })
}

fn granted(
    source: ConvertSource<'_>,
    shipped: &ShippedGranted,
    facts: ShippedFacts,
    templates: &Templates<'_>,
    origins: &mut Origins,
    log: &mut ConvertLog,
) -> Option<CheckGrantedPermission> {
    let at = "spec.checkGrantedPermission.spec";
    let converted = format!("{at}.permissions");
    let paths = [at, converted.as_str()];
    let role_template = role(
        source,
        &shipped.spec.role_template,
        paths,
        templates,
        origins,
        log,
    );
    let mut all = Some(Vec::new());
    for (place, shipped) in shipped.spec.checks.iter().enumerate() {
        let check = checks::check(source, place, shipped, facts, templates, origins, log);
        all = all.zip(check).map(|(mut all, check)| {
            all.push(check);
            all
        });
    }
    let place = || source.at("spec.checkGrantedPermission");
    for (word, message) in [
        (
            NoteWord::ReadRightNotAsked,
            "pods whose account has no right to get the connector may have the permission too",
        ),
        (
            NoteWord::RequestersAreHome,
            "pods of other namespaces may not ask: name their accounts in requesters",
        ),
        (
            NoteWord::ApprovalMayLapse,
            "latch: Auto takes access back when an approval leaves its passing state",
        ),
        (
            NoteWord::PolicyNotFrozen,
            "until access is granted, the policy counts as it is then",
        ),
    ] {
        log.note(place(), word, message);
    }
    Some(CheckGrantedPermission {
        requesters: None,
        spec: CheckGrantedSpec {
            checks: all?,
            permissions: GrantedPermissions {
                role_template: role_template?,
            },
            limits: None,
        },
    })
}

/// The rules of a template, which stands below the first of both paths there, and below the second one here.
fn role(
    source: ConvertSource<'_>,
    template: &ShippedRoleTemplate,
    [shipped, converted]: [&str; 2],
    templates: &Templates<'_>,
    origins: &mut Origins,
    log: &mut ConvertLog,
) -> Option<RoleTemplate> {
    let from = source.at(&format!("{shipped}.roleTemplate.ref.configMap.name"));
    let text = templates.rules(&template.reference, from, log)?;
    origins.add(
        format!("{converted}.roleTemplate.rules"),
        text.source.at(&text.path),
    );
    let mut are_about_mounts = true;
    for (place, rule) in text.content.iter().enumerate() {
        let at = format!("{}[{place}]", text.path);
        origins.add(
            format!("{converted}.roleTemplate.rules[{place}]"),
            text.source.at(&at),
        );
        for (place, resource) in others(rule) {
            let place = text.source.at(&format!("{at}.resources[{place}]"));
            let message = format!(
                "`{}` opened no mount there, and is none of {PROXY}: here it could open one",
                quoted(resource)
            );
            let fix = format!(
                "leave the rule out; a mount needs {PROXY}, or {PROXY}/v1/pod/… under checks"
            );
            log.refuse(place, RefusalWord::OtherPermission, message, fix);
            are_about_mounts = false;
        }
    }
    are_about_mounts.then_some(RoleTemplate {
        rules: text.content,
    })
}

/// The resources of a rule that are about something else than mounts, with their places.
fn others(rule: &RoleRule) -> impl Iterator<Item = (usize, &str)> {
    let is_other = |(_, resource): &(usize, &str)| {
        let rest = resource.strip_prefix(PROXY);
        !rest.is_some_and(|it| it.is_empty() || it.starts_with('/'))
    };
    let resources = rule.resources.iter().map(String::as_str);
    resources.enumerate().filter(is_other)
}
