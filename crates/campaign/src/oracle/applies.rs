//! Decides whether a policy applies to a request, as simply as the scenarios allow.

use serde_json::Value;

use super::history::{is_going, list, namespace, text};

/// The labels that are set to a connector's class.
const CLASS: [&str; 2] = [
    "connectors.cpaas.io/connectorclass",
    "connectors.alauda.io/connectorclass",
];
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// The group of all service accounts.
const ACCOUNTS: &str = "system:serviceaccounts";

/// The subject of a request, from live reads.
pub(super) struct Asked<'a> {
    pub(super) request: &'a Value,
    pub(super) connector: &'a Value,
    /// The service account of the pod, if it was read.
    pub(super) account: Option<&'a Value>,
    /// Whether a policy without requesters accepts every account.
    pub(super) anybody: bool,
}

impl Asked<'_> {
    /// The reason why a policy of the connector's namespace does not apply, if it does not.
    pub(super) fn problem(&self, policy: &Value) -> Option<&'static str> {
        if is_going(policy) {
            return Some("the policy is being deleted");
        }
        let permission = |it: &Value| match text(it, "/spec/permission") {
            "" => "apis".to_owned(),
            word => word.to_owned(),
        };
        if permission(policy) != permission(self.request) {
            return Some("the policy is about another permission");
        }
        if !self.selects(policy) {
            return Some("the policy is about another connector");
        }
        (!self.accepts(policy)).then_some("the policy is for others")
    }

    fn selects(&self, policy: &Value) -> bool {
        let connector = &policy["spec"]["connector"];
        let name = text(self.connector, "/metadata/name");
        let is_named = match connector.get("names").and_then(Value::as_array) {
            Some(names) => names.iter().any(|it| it == name),
            None => true,
        };
        let class = text(self.connector, "/spec/connectorClassName");
        let label = |key: &str| match self.connector["metadata"]["labels"].get(key) {
            _ if CLASS.contains(&key) => class.to_owned(),
            value => value.and_then(Value::as_str).unwrap_or_default().to_owned(),
        };
        let is_selected = connector
            .get("selector")
            .is_none_or(|it| matches(it, label));
        is_named && is_selected
    }

    fn accepts(&self, policy: &Value) -> bool {
        let granted = &policy["spec"]["checkGrantedPermission"];
        if granted.get("requesters").is_none_or(Value::is_null) {
            return self.anybody;
        }
        let mut requesters = list(granted, "/requesters").iter();
        requesters.any(|it| self.is(it))
    }

    fn is(&self, requester: &Value) -> bool {
        let account = text(self.request, "/spec/subject/name");
        let label = |key: &str| {
            let labels = self.account.map(|it| &it["metadata"]["labels"]);
            let value = labels.and_then(|it| it.get(key)?.as_str());
            value.unwrap_or_default().to_owned()
        };
        let is_it = match requester.get("nameSelector") {
            Some(selector) => self.account.is_some() && matches(selector, label),
            None => text(requester, "/name") == account,
        };
        let home = text(self.request, "/spec/subject/namespace");
        let labels = |key: &str| match key {
            NAMESPACE_NAME => home.to_owned(),
            _ => String::new(),
        };
        let is_there = match requester.get("namespaceSelector") {
            Some(selector) => matches(selector, labels),
            None => match text(requester, "/namespace") {
                // The namespace of the policy.
                "" => namespace(self.request) == home,
                named => named == home,
            },
        };
        match text(requester, "/kind") {
            "ServiceAccount" => is_it && is_there,
            // The only group of the scenarios.
            "Group" => text(requester, "/name") == ACCOUNTS && is_there,
            _ => false,
        }
    }
}

/// True when labels match: the scenarios use no other selectors. An empty selector matches nothing.
fn matches(selector: &Value, label: impl Fn(&str) -> String) -> bool {
    let wanted = selector.get("matchLabels").and_then(Value::as_object);
    wanted.is_some_and(|wanted| {
        !wanted.is_empty() && wanted.iter().all(|(key, value)| *value == label(key))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::stage::{APPS, TOOLS};

    fn problem(edit: impl FnOnce(&mut Value)) -> Option<&'static str> {
        let mut policy = json!({
            "metadata": {"name": "p", "namespace": TOOLS},
            "spec": {"checkGrantedPermission": {
                "requesters": [{"kind": "ServiceAccount", "name": "builder", "namespace": APPS}],
            }},
        });
        edit(&mut policy);
        let asked = Asked {
            request: &json!({
                "metadata": {"namespace": TOOLS},
                "spec": {"subject": {"name": "builder", "namespace": APPS}, "permission": "apis"},
            }),
            connector: &json!({
                "metadata": {"name": "harbor", "labels": {"stage": "prod"}},
                "spec": {"connectorClassName": "registry"},
            }),
            account: Some(&json!({"metadata": {"labels": {"team": "a"}}})),
            anybody: false,
        };
        asked.problem(&policy)
    }

    fn requesters(requesters: Value) -> Option<&'static str> {
        problem(|it| it["spec"]["checkGrantedPermission"]["requesters"] = requesters)
    }

    fn connector(connector: Value) -> Option<&'static str> {
        problem(|it| it["spec"]["connector"] = connector)
    }

    #[test]
    fn a_policy_applies_to_the_connectors_and_the_permission_that_it_is_about() {
        assert_eq!(problem(|_| ()), None);
        let another = Some("the policy is about another connector");
        for (selects, expected) in [
            (json!({"names": ["harbor"]}), None),
            (json!({"names": ["harbor-2"]}), another),
            (json!({"names": []}), another),
            (
                json!({"selector": {"matchLabels": {"stage": "prod"}}}),
                None,
            ),
            (
                json!({"selector": {"matchLabels": {"stage": "test"}}}),
                another,
            ),
            (json!({"selector": {"matchLabels": {}}}), another),
            (json!({"selector": {}}), another),
            (
                json!({"selector": {"matchLabels": {CLASS[0]: "registry"}}}),
                None,
            ),
            (
                json!({"selector": {"matchLabels": {CLASS[1]: "other"}}}),
                another,
            ),
            (
                json!({"names": ["harbor"], "selector": {"matchLabels": {"stage": "test"}}}),
                another,
            ),
        ] {
            assert_eq!(connector(selects.clone()), expected, "{selects}");
        }
        let proxy = problem(|it| it["spec"]["permission"] = "proxy".into());
        assert_eq!(proxy, Some("the policy is about another permission"));
        let going = problem(|it| it["metadata"]["deletionTimestamp"] = "2026-03-01".into());
        assert_eq!(going, Some("the policy is being deleted"));
    }

    #[test]
    fn a_policy_applies_to_the_accounts_that_it_names_or_selects() {
        let others = Some("the policy is for others");
        let by = |name: Value, namespace: Value| json!([{"kind": "ServiceAccount", "nameSelector": name, "namespaceSelector": namespace}]);
        let team = json!({"matchLabels": {"team": "a"}});
        let home = json!({"matchLabels": {NAMESPACE_NAME: APPS}});
        for (asks, expected) in [
            (json!([]), others),
            (json!(null), others),
            (
                json!([{"kind": "ServiceAccount", "name": "builder"}]),
                others,
            ),
            (
                json!([{"kind": "ServiceAccount", "name": "build", "namespace": APPS}]),
                others,
            ),
            (
                json!([{"kind": "ServiceAccount", "name": "builder", "namespace": "app"}]),
                others,
            ),
            (
                json!([{"kind": "ServiceAccount", "name": "builder", "namespace": "apps-1"}]),
                others,
            ),
            (
                json!([{"kind": "User", "name": "builder", "namespace": APPS}]),
                others,
            ),
            (by(team.clone(), home.clone()), None),
            (
                by(json!({"matchLabels": {"team": "b"}}), home.clone()),
                others,
            ),
            (
                by(
                    team.clone(),
                    json!({"matchLabels": {NAMESPACE_NAME: TOOLS}}),
                ),
                others,
            ),
            (
                json!([{"kind": "Group", "name": ACCOUNTS, "namespaceSelector": home}]),
                None,
            ),
            (
                json!([{"kind": "Group", "name": "others", "namespaceSelector": home}]),
                others,
            ),
            (by(json!({}), home), others),
            (by(team, json!({})), others),
        ] {
            assert_eq!(requesters(asks.clone()), expected, "{asks}");
        }
    }
}
