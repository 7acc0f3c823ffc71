//! I4: never more than one pod's use of one connector.

use serde_json::{Value, json};

use super::{Case, Judgement};
use crate::checker::{
    facts::{Tuple, list, text},
    grant::{Grant, Kind},
    report::Rule,
    wire,
};

pub(super) fn judge(case: &Case<'_>, judgement: &mut Judgement) {
    for grant in case.grants() {
        let mut wrong = frame(grant);
        wrong.extend(match grant.kind {
            Kind::Role => role(grant, case.request(grant).map(|request| &request.tuple)),
            Kind::RoleBinding => binding(grant),
        });
        for what in wrong {
            judgement.against(Rule::Shape, grant, what, &[]);
        }
        for (mark, user) in &grant.changes {
            judgement.against(Rule::Shape, grant, format!("changed by {user}"), &[mark]);
        }
    }
}

/// The common fields of both halves of a grant: labels, name and owner.
fn frame(grant: &Grant) -> Vec<String> {
    let mut wrong = Vec::new();
    let uid = grant.request_uid();
    if grant.label(wire::MANAGED_BY) != wire::MANAGED_BY_US
        || uid.is_empty()
        || grant.policy_uid().is_empty()
    {
        wrong.push("lacks a label that says what it is".to_owned());
    }
    if !grant.name.starts_with(&format!("car-{uid}-")) {
        wrong.push(format!("is not named after its request {uid}"));
    }
    let owners = list(&grant.object, "/metadata/ownerReferences");
    let owned =
        |owner: &Value| text(owner, "/uid") == uid && text(owner, "/kind") == "AccessRequest";
    if !owners.iter().any(owned) {
        wrong.push("is not owned by its request".to_owned());
    }
    wrong
}

fn role(grant: &Grant, tuple: Option<&Tuple>) -> Vec<String> {
    let rules = list(&grant.object, "/rules");
    if rules.is_empty() {
        return vec!["has no rules".to_owned()];
    }
    rules.iter().flat_map(|rule| rule_of(rule, tuple)).collect()
}

fn rule_of(rule: &Value, tuple: Option<&Tuple>) -> Vec<String> {
    let mut wrong = Vec::new();
    if rule["apiGroups"] != json!([wire::GROUP]) {
        wrong.push(format!("names the API groups {}", rule["apiGroups"]));
    }
    let known = ["apiGroups", "resources", "resourceNames", "verbs"];
    let keys = rule
        .as_object()
        .map(|rule| rule.keys().cloned().collect::<Vec<_>>())
        .unwrap_or_default();
    for key in keys.iter().filter(|key| !known.contains(&key.as_str())) {
        wrong.push(format!("says {key}: {}", rule[key]));
    }
    for key in ["resources", "verbs"] {
        if list(rule, &format!("/{key}")).is_empty() {
            wrong.push(format!("has no {key}"));
        }
    }
    // Without the request it is known to be wrong already, by I1; any one name is better than none.
    let names = &rule["resourceNames"];
    let exact = tuple.map_or(
        names.as_array().is_some_and(|names| names.len() == 1),
        |tuple| *names == json!([tuple.connector]),
    );
    if !exact {
        wrong.push(format!("is about the connectors {names}"));
    }
    for resource in list(rule, "/resources") {
        if !resource
            .as_str()
            .is_some_and(|resource| is_of_pod(resource, tuple))
        {
            wrong.push(format!("covers {resource}"));
        }
    }
    wrong
}

/// `connectors/<permission>/<version>/<kind>/<namespace>/<pod>`, with a group before the version or not.
fn is_of_pod(resource: &str, tuple: Option<&Tuple>) -> bool {
    let segments: Vec<&str> = resource.split('/').collect();
    let plain = segments
        .iter()
        .all(|segment| !segment.is_empty() && !segment.contains(['*', '{']));
    let [connectors, permission, middle @ .., namespace, pod] = segments.as_slice() else {
        return false;
    };
    let of_request = tuple.is_none_or(|tuple| {
        (*permission, *namespace, *pod) == (&tuple.permission, &tuple.pod_namespace, &tuple.pod)
    });
    plain
        && *connectors == "connectors"
        && wire::PERMISSIONS.contains(permission)
        && (2..=3).contains(&middle.len())
        && of_request
}

fn binding(grant: &Grant) -> Vec<String> {
    let mut wrong = Vec::new();
    let role = json!({"apiGroup": wire::RBAC, "kind": "Role", "name": grant.name});
    if grant.object["roleRef"] != role {
        wrong.push(format!("refers to {}", grant.object["roleRef"]));
    }
    let subjects = list(&grant.object, "/subjects");
    let [subject] = subjects else {
        wrong.push(format!("has {} subjects", subjects.len()));
        return wrong;
    };
    if text(subject, "/kind") != "ServiceAccount" {
        wrong.push(format!("binds a {}", text(subject, "/kind")));
    }
    wrong
}
