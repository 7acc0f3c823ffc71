//! The permissions that policies allow, read from their text and from the objects that they select.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    Access,
    history::{History, is_going, list, text},
};

/// Each combination of states that the objects were in between two places of the log.
pub(super) fn allowed(history: &History, from: usize, to: usize) -> Access {
    let mut allowed = Access::new();
    let there = |plural: &str| -> Vec<&Value> {
        let all = history.during(plural, from, to).into_iter();
        all.filter(|it| !is_going(it)).collect()
    };
    let connectors = there("connectors");
    let (namespaces, accounts) = (there("namespaces"), there("serviceaccounts"));
    for policy in there("accesspolicies") {
        let (uid, place) = (
            text(policy, "/metadata/uid"),
            text(policy, "/metadata/namespace"),
        );
        for who in holders(policy, &namespaces, &accounts) {
            for connector in matched(policy, &connectors) {
                for what in capabilities(policy) {
                    let what = format!("{who} may {what} of {place}/{connector}");
                    allowed.insert((uid.to_owned(), what));
                }
            }
        }
    }
    allowed
}

/// The policies whose status differs from the permissions that they allow now; by their UID.
pub(super) fn told_wrong(history: &History, allowed: &Access) -> Vec<String> {
    let connectors: Vec<&Value> = history
        .all("connectors")
        .filter(|it| !is_going(it))
        .collect();
    let wrong = history.all("accesspolicies").filter(|policy| {
        if is_going(policy) {
            return false;
        }
        let uid = text(policy, "/metadata/uid");
        let (matched, holders): (BTreeSet<_>, BTreeSet<_>) = if is_readable(policy) {
            let of_policy = allowed.iter().filter(|it| it.0 == uid);
            let holders = of_policy.filter_map(|it| it.1.split(" may ").next());
            (
                matched(policy, &connectors).into_iter().collect(),
                holders.collect(),
            )
        } else {
            Default::default()
        };
        let status = &policy["status"];
        let told: BTreeSet<_> = list(status, "/matchedConnectors")
            .iter()
            .map(|it| text(it, "/name"))
            .collect();
        told != matched
            || status["grantedSubjects"] != holders.len()
            || status["observedGeneration"] != policy["metadata"]["generation"]
    });
    wrong
        .map(|it| text(it, "/metadata/uid").to_owned())
        .collect()
}

/// A policy with an unknown field gives nothing: it may be a misspelt limit.
fn is_readable(policy: &Value) -> bool {
    let known = |pointer: &str, fields: &[&str]| {
        let object = policy.pointer(pointer).and_then(Value::as_object);
        object.is_none_or(|it| it.keys().all(|key| fields.contains(&key.as_str())))
    };
    known("/spec", &["connector", "permission", "defaultPermission"])
        && known("/spec/connector", &["names", "selector"])
}

/// The connectors that a policy selects in its own namespace.
fn matched<'a>(policy: &Value, connectors: &[&'a Value]) -> Vec<&'a str> {
    if !is_readable(policy) {
        return Vec::new();
    }
    let wanted = &policy["spec"]["connector"];
    let own = |it: &&&Value| it["metadata"]["namespace"] == policy["metadata"]["namespace"];
    let named = |it: &&&Value| {
        let names = wanted["names"].as_array();
        names.is_none_or(|names| names.contains(&it["metadata"]["name"]))
    };
    let selected = |it: &&&Value| {
        wanted["selector"].is_null() || {
            let mut labels = labels(it);
            let class = text(it, "/spec/connectorClassName");
            for key in [
                "connectors.alauda.io/connectorclass",
                "connectors.cpaas.io/connectorclass",
            ] {
                labels.insert(key, class);
            }
            selects(&wanted["selector"], &labels)
        }
    };
    let all = connectors.iter().filter(own).filter(named).filter(selected);
    all.map(|it| text(it, "/metadata/name")).collect()
}

/// Verbs on resources, if each rule is about nothing but the capability that the policy gates.
fn capabilities(policy: &Value) -> Vec<String> {
    let permission = match text(policy, "/spec/permission") {
        "" => "apis",
        permission => permission,
    };
    let rules = list(policy, "/spec/defaultPermission/roleTemplate/rules");
    let is_right = |rule: &Value| {
        rule["apiGroups"] == serde_json::json!(["connectors.alauda.io"])
            && rule["resources"] == serde_json::json!([format!("connectors/{permission}")])
    };
    if !rules.iter().all(is_right) {
        return Vec::new();
    }
    let verbs = rules.iter().flat_map(|rule| list(rule, "/verbs"));
    let verbs = verbs.filter_map(Value::as_str);
    let what = |verb| format!("{verb} connectors.alauda.io/connectors/{permission}");
    verbs.map(what).collect()
}

/// The holders of a policy's permissions.
fn holders(policy: &Value, namespaces: &[&Value], accounts: &[&Value]) -> BTreeSet<String> {
    let own = text(policy, "/metadata/namespace");
    let mut holders = BTreeSet::new();
    if !is_readable(policy) {
        return holders;
    }
    for subject in list(policy, "/spec/defaultPermission/bindingTemplate/subjects") {
        let (kind, name) = (text(subject, "/kind"), text(subject, "/name"));
        let in_selected = |namespace: &str| {
            let mut named = namespaces
                .iter()
                .filter(|it| it["metadata"]["name"] == namespace);
            named.any(|it| selects(&subject["namespaceSelector"], &labels(it)))
        };
        let selects_namespaces = !subject["namespaceSelector"].is_null();
        match kind {
            "ServiceAccount" if !name.is_empty() => {
                let named = name.strip_prefix("system:serviceaccount:");
                let given = match subject["namespace"].as_str() {
                    Some(namespace) => namespace,
                    None => own,
                };
                let (namespace, name) = named
                    .and_then(|it| it.split_once(':'))
                    .unwrap_or((given, name));
                holders.insert(format!("ServiceAccount {namespace}/{name}"));
            }
            "ServiceAccount" => {
                for account in accounts {
                    let place = text(account, "/metadata/namespace");
                    let is_place = if selects_namespaces {
                        in_selected(place)
                    } else {
                        place == own
                    };
                    if is_place && selects(&subject["nameSelector"], &labels(account)) {
                        let name = text(account, "/metadata/name");
                        holders.insert(format!("ServiceAccount {place}/{name}"));
                    }
                }
            }
            "Group" if selects_namespaces => {
                let names = namespaces.iter().map(|it| text(it, "/metadata/name"));
                let names = names.filter(|it| in_selected(it));
                holders.extend(names.map(|it| format!("Group system:serviceaccounts:{it}")));
            }
            kind => {
                holders.insert(format!("{kind} {name}"));
            }
        }
    }
    holders
}

fn labels(object: &Value) -> BTreeMap<&str, &str> {
    let labels = object["metadata"]["labels"].as_object();
    let labels = labels.into_iter().flatten();
    labels
        .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
        .collect()
}

/// A selector that says nothing selects nothing.
fn selects(selector: &Value, labels: &BTreeMap<&str, &str>) -> bool {
    let equal = selector["matchLabels"].as_object();
    let equal: Vec<_> = equal.into_iter().flatten().collect();
    let others = list(selector, "/matchExpressions");
    let is_equal =
        |(key, value): &(&String, &Value)| labels.get(key.as_str()).copied() == value.as_str();
    let holds = |it: &Value| {
        let value = labels.get(text(it, "/key")).copied();
        let is_in = value.is_some_and(|value| list(it, "/values").iter().any(|it| it == value));
        match text(it, "/operator") {
            "In" => is_in,
            "NotIn" => !is_in,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    };
    equal.len() + others.len() > 0 && equal.iter().all(is_equal) && others.iter().all(holds)
}
