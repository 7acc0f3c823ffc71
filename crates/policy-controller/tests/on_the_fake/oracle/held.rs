//! The permissions of Roles and RoleBindings, as the API server would decide.

use serde_json::Value;

use super::{
    Access,
    history::{History, label, list, text},
};

/// Whether an object says that it is managed for a policy.
pub(super) fn is_ours(object: &Value) -> bool {
    object["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "connectors-approval"
        && !label(object, "accessPolicyUid").is_empty()
        && label(object, "accessRequestUid").is_empty()
}

/// All permissions that subjects hold by managed RoleBindings, regardless of the Role. A RoleBinding that is
/// being deleted counts as long as it exists.
pub(super) fn held(history: &History) -> Access {
    let mut held = Access::new();
    for binding in history.all("rolebindings").filter(|it| is_ours(it)) {
        let place = text(binding, "/metadata/namespace");
        let uid = label(binding, "accessPolicyUid");
        let role = text(binding, "/roleRef/name");
        let rules = match text(binding, "/roleRef/kind") {
            "Role" => {
                let role = history.get("roles", place, role);
                role.map(|it| list(it, "/rules")).unwrap_or_default()
            }
            // No scenario has one, so no subject may hold its permissions.
            kind => {
                held.insert((uid.to_owned(), format!("whatever {kind} {role} says")));
                continue;
            }
        };
        for subject in list(binding, "/subjects") {
            for what in rules.iter().flat_map(|rule| gives(rule, place)) {
                held.insert((uid.to_owned(), format!("{} may {what}", who(subject))));
            }
        }
    }
    held
}

fn who(subject: &Value) -> String {
    let (kind, name) = (text(subject, "/kind"), text(subject, "/name"));
    match text(subject, "/namespace") {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}

/// The permissions of a rule, one for each verb, resource and connector.
fn gives(rule: &Value, place: &str) -> Vec<String> {
    let texts = |field: &str| -> Vec<String> {
        let texts = list(rule, field).iter().filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    };
    let mut names = texts("/resourceNames");
    if names.is_empty() {
        names.push("(any)".to_owned());
    }
    let mut all = Vec::new();
    for verb in texts("/verbs") {
        for group in texts("/apiGroups") {
            for resource in texts("/resources") {
                let what = |name| format!("{verb} {group}/{resource} of {place}/{name}");
                all.extend(names.iter().map(what));
            }
        }
        let urls = texts("/nonResourceURLs").into_iter();
        all.extend(urls.map(|url| format!("{verb} {url}")));
    }
    all
}
