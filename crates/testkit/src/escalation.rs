//! RBAC's protection against escalation, and the validation of its objects.

use authz::{ResourceRequest, ResourceRule, SystemMasters, Target, User, UserRules};
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    kind::{Kind, RBAC},
    meta,
    refusal::{Cause, Faults, Refusal},
    store::{Key, Store},
    write::Place,
};

/// Refuses a role with rules, or a binding to a role with rules, that the user does not hold.
pub(crate) fn check(
    store: &Store,
    user: &User,
    place: Place<'_>,
    object: &Value,
    before: Option<&Value>,
) -> Result<(), Refusal> {
    let is_master = user.groups.iter().any(|it| it == SystemMasters::GROUP);
    let plural = place.kind.plural.as_str();
    if place.kind.group != RBAC
        || is_master
        || before.is_some_and(|it| differs_for_garbage_only(it, object))
    {
        return Ok(());
    }
    let rules = if matches!(plural, "roles" | "clusterroles") {
        if may(store, user, "escalate", plural, place.namespace, place.name) {
            return Ok(());
        }
        rules_of(object)
    } else {
        let role = &object["roleRef"];
        let name = role["name"].as_str().unwrap_or_default();
        let (plural, namespace) = match role["kind"].as_str() {
            Some("Role") => ("roles", place.namespace),
            _ => ("clusterroles", ""),
        };
        if may(store, user, "bind", plural, place.namespace, name) {
            return Ok(());
        }
        let Some(kind) = store.kind(RBAC, "v1", plural) else {
            return Err(Refusal::no_such_resource());
        };
        let role = store.get(&Key::new(kind, namespace, name));
        rules_of(role.ok_or_else(|| Refusal::not_found(kind, name))?)
    };
    let held = store.rbac.rules_for(user, place.namespace);
    if rules.iter().all(|rule| covers(&held, rule)) {
        return Ok(());
    }
    let why = format!(
        "user {:?} is attempting to grant RBAC permissions not currently held",
        user.name
    );
    let name = meta::name(object);
    Err(Refusal::forbidden(plural, RBAC, name, &why))
}

fn may(store: &Store, user: &User, verb: &str, plural: &str, namespace: &str, name: &str) -> bool {
    let request = ResourceRequest {
        group: RBAC,
        resource: plural,
        subresource: "",
        namespace,
        name,
        ..ResourceRequest::default()
    };
    store.rbac.allows(user, verb, Target::Resource(request))
}

/// True when two objects differ only in fields that the garbage collector may change.
fn differs_for_garbage_only(before: &Value, after: &Value) -> bool {
    let mut before = before.clone();
    let mut after = after.clone();
    for field in ["finalizers", "ownerReferences", "managedFields"] {
        meta::of(&mut before).remove(field);
        meta::of(&mut after).remove(field);
    }
    before == after
}

fn rules_of(role: &Value) -> Vec<PolicyRule> {
    Vec::deserialize(&role["rules"]).unwrap_or_default()
}

/// True when each combination of verb, group, resource and name of a rule is covered by one of the rules
/// held.
fn covers(held: &UserRules, wanted: &PolicyRule) -> bool {
    let list = |it: &Option<Vec<String>>| it.clone().unwrap_or_default();
    let names = list(&wanted.resource_names);
    let names: Vec<Option<&String>> = if names.is_empty() {
        vec![None]
    } else {
        names.iter().map(Some).collect()
    };
    let holds_resource = |verb: &str, group: &str, resource: &str, name: Option<&String>| {
        let mut rules = held.resource.iter();
        rules.any(|rule| {
            has(&rule.verbs, verb)
                && has(&rule.api_groups, group)
                && has_resource(rule, resource)
                && (rule.resource_names.is_empty()
                    || name.is_some_and(|it| rule.resource_names.contains(it)))
        })
    };
    let holds_url = |verb: &str, url: &str| {
        let mut rules = held.non_resource.iter();
        rules.any(|rule| has(&rule.verbs, verb) && rule.urls.iter().any(|it| has_url(it, url)))
    };
    wanted.verbs.iter().all(|verb| {
        let urls = list(&wanted.non_resource_urls);
        let groups = list(&wanted.api_groups);
        let resources = list(&wanted.resources);
        urls.iter().all(|url| holds_url(verb, url))
            && groups.iter().all(|group| {
                resources.iter().all(|resource| {
                    names
                        .iter()
                        .all(|name| holds_resource(verb, group, resource, *name))
                })
            })
    })
}

fn has(words: &[String], wanted: &str) -> bool {
    words.iter().any(|it| it == "*" || it == wanted)
}

fn has_resource(rule: &ResourceRule, wanted: &str) -> bool {
    let of_all = wanted.split_once('/').map(|(_, sub)| format!("*/{sub}"));
    has(&rule.resources, wanted) || of_all.is_some_and(|it| rule.resources.contains(&it))
}

fn has_url(held: &str, wanted: &str) -> bool {
    let prefix = held.strip_suffix('*');
    held == wanted || prefix.is_some_and(|it| wanted.starts_with(it))
}

/// Validates a role or a binding.
pub(crate) fn validate(
    kind: &Kind,
    object: &Value,
    before: Option<&Value>,
    faults: &mut Faults,
) -> Result<(), Refusal> {
    if kind.group != RBAC {
        return Ok(());
    }
    if matches!(kind.plural.as_str(), "roles" | "clusterroles") {
        let rules: Vec<PolicyRule> = match Option::deserialize(&object["rules"]) {
            Ok(rules) => rules.unwrap_or_default(),
            Err(error) => return Err(Refusal::bad_request(error.to_string())),
        };
        for (at, rule) in rules.iter().enumerate() {
            check_rule(&format!("rules[{at}]"), rule, kind.namespaced, faults);
        }
    } else {
        check_binding(kind, object, faults);
        if before.is_some_and(|it| it["roleRef"] != object["roleRef"]) {
            faults.push((
                Cause::Invalid,
                "roleRef".to_owned(),
                "cannot change roleRef",
            ));
        }
    }
    Ok(())
}

fn check_rule(at: &str, rule: &PolicyRule, namespaced: bool, faults: &mut Faults) {
    let is_empty = |it: &Option<Vec<String>>| it.as_ref().is_none_or(Vec::is_empty);
    let mut say = |cause, field: &str, why| faults.push((cause, format!("{at}.{field}"), why));
    if rule.verbs.is_empty() {
        say(
            Cause::Required,
            "verbs",
            "verbs must contain at least one value",
        );
    }
    if !is_empty(&rule.non_resource_urls) {
        let field = "nonResourceURLs";
        if namespaced {
            say(
                Cause::Invalid,
                field,
                "namespaced rules cannot apply to non-resource URLs",
            );
        }
        let others = [&rule.api_groups, &rule.resources, &rule.resource_names];
        if !others.into_iter().all(is_empty) {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            say(Cause::Invalid, field, why);
        }
        return;
    }
    if is_empty(&rule.api_groups) {
        say(
            Cause::Required,
            "apiGroups",
            "resource rules must supply at least one api group",
        );
    }
    if is_empty(&rule.resources) {
        say(
            Cause::Required,
            "resources",
            "resource rules must supply at least one resource",
        );
    }
}

fn check_binding(kind: &Kind, binding: &Value, faults: &mut Faults) {
    let mut say = |cause, field: String, why| faults.push((cause, field, why));
    let role = &binding["roleRef"];
    if role["apiGroup"] != RBAC {
        say(
            Cause::NotSupported,
            "roleRef.apiGroup".to_owned(),
            "unsupported",
        );
    }
    let is_role = match role["kind"].as_str() {
        Some("ClusterRole") => true,
        Some("Role") => kind.namespaced,
        _ => false,
    };
    if !is_role {
        say(
            Cause::NotSupported,
            "roleRef.kind".to_owned(),
            "unsupported",
        );
    }
    if role["name"].as_str().is_none_or(str::is_empty) {
        say(Cause::Required, "roleRef.name".to_owned(), "required");
    }
    let subjects = binding["subjects"].as_array();
    for (at, subject) in subjects.into_iter().flatten().enumerate() {
        let text = |field: &str| subject[field].as_str().unwrap_or_default();
        let field = |field: &str| format!("subjects[{at}].{field}");
        if text("name").is_empty() {
            say(Cause::Required, field("name"), "required");
        }
        let group = match text("kind") {
            "ServiceAccount" => "",
            "User" | "Group" => RBAC,
            _ => {
                say(Cause::NotSupported, field("kind"), "unsupported");
                continue;
            }
        };
        if text("kind") == "ServiceAccount" {
            if text("name").contains(':') {
                say(
                    Cause::Invalid,
                    field("name"),
                    "no name of a service account",
                );
            }
            if text("namespace").is_empty() {
                say(Cause::Required, field("namespace"), "required");
            }
        }
        if text("apiGroup") != group {
            say(Cause::NotSupported, field("apiGroup"), "unsupported");
        }
    }
}
