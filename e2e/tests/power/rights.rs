//! The rights of our accounts on a cluster, one verb of one resource at a time.

use std::fmt;

use e2e::{
    api::kinds::{CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING},
    harness::Scene,
    install::NAMESPACE,
};
use serde_json::Value;

use crate::calls::Call;

/// The group in which the controllers hold everything, because the API server lets them grant only rights
/// that they hold.
const OURS: &str = "connectors.alauda.io";

/// One verb of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Right {
    pub(crate) account: String,
    /// Everywhere without one.
    namespace: Option<String>,
    verb: String,
    group: String,
    resource: String,
    /// Any without one.
    name: Option<String>,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            verb,
            group,
            resource,
            name,
            ..
        } = self;
        let dot = if group.is_empty() { "" } else { "." };
        write!(f, "{verb} {resource}{dot}{group}")?;
        name.as_ref().map_or(Ok(()), |name| write!(f, " {name}"))
    }
}

impl Right {
    pub(crate) fn covers(&self, call: &Call) -> bool {
        let is_any = |own: &str, asked: &str| own == "*" || own == asked;
        self.account == call.account
            && is_any(&self.verb, &call.verb)
            && is_any(&self.group, &call.group)
            && is_any(&self.resource, &call.resource)
            && self
                .namespace
                .as_ref()
                .is_none_or(|it| *it == call.namespace)
            && self.name.as_ref().is_none_or(|it| *it == call.name)
    }
}

/// Every right of the installation's accounts, but the whole of our own group.
pub(crate) fn held(scene: &Scene) -> Vec<Right> {
    let kinds = [CLUSTER_ROLE_BINDING, ROLE_BINDING, CLUSTER_ROLE, ROLE];
    let objects = kinds.map(|kind| scene.api().list_everywhere(kind).unwrap());
    rights(&objects.concat())
}

fn list(value: &Value) -> Vec<&Value> {
    value.as_array().into_iter().flatten().collect()
}

fn rights(objects: &[Value]) -> Vec<Right> {
    let mut rights = Vec::new();
    for binding in objects {
        let namespace = binding["metadata"]["namespace"].as_str();
        let accounts = list(&binding["subjects"]).into_iter().filter(|subject| {
            subject["kind"] == "ServiceAccount" && subject["namespace"] == NAMESPACE
        });
        for account in accounts {
            let role = objects.iter().find(|role| {
                role["kind"] == binding["roleRef"]["kind"]
                    && role["metadata"]["name"] == binding["roleRef"]["name"]
                    && (role["kind"] == "ClusterRole"
                        || role["metadata"]["namespace"].as_str() == namespace)
            });
            for rule in list(&role.unwrap_or_else(|| panic!("{binding}"))["rules"]) {
                rights.extend(of_rule(account["name"].as_str().unwrap(), namespace, rule));
            }
        }
    }
    rights
}

fn of_rule(account: &str, namespace: Option<&str>, rule: &Value) -> Vec<Right> {
    let texts = |field: &str| -> Vec<String> {
        list(&rule[field])
            .into_iter()
            .map(|it| it.as_str().unwrap().to_owned())
            .collect()
    };
    let names = match texts("resourceNames") {
        names if names.is_empty() => vec![None],
        names => names.into_iter().map(Some).collect(),
    };
    let mut rights = Vec::new();
    for group in texts("apiGroups") {
        for resource in texts("resources") {
            for verb in texts("verbs") {
                if (group.as_str(), resource.as_str(), verb.as_str()) == (OURS, "*", "*") {
                    continue;
                }
                rights.extend(names.iter().map(|name| Right {
                    account: account.to_owned(),
                    namespace: namespace.map(str::to_owned),
                    verb: verb.clone(),
                    group: group.clone(),
                    resource: resource.clone(),
                    name: name.clone(),
                }));
            }
        }
    }
    rights
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn objects() -> Vec<Value> {
        let subjects = json!([
            {"kind": "ServiceAccount", "namespace": NAMESPACE, "name": "webhook"},
            {"kind": "ServiceAccount", "namespace": "other", "name": "webhook"},
            {"kind": "User", "name": "ada"},
        ]);
        let role_ref = |kind: &str| json!({"kind": kind, "name": "r"});
        vec![
            json!({"kind": "RoleBinding", "metadata": {"namespace": "n"}, "roleRef": role_ref("Role"), "subjects": subjects}),
            json!({"kind": "Role", "metadata": {"namespace": "n", "name": "r"}, "rules": [
                {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a", "b"], "verbs": ["get"]},
            ]}),
            json!({"kind": "Role", "metadata": {"namespace": "m", "name": "r"}, "rules": [
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
            ]}),
            json!({"kind": "ClusterRoleBinding", "metadata": {}, "roleRef": role_ref("ClusterRole"), "subjects": subjects}),
            json!({"kind": "ClusterRole", "metadata": {"name": "r"}, "rules": [
                {"apiGroups": [OURS], "resources": ["*"], "verbs": ["*"]},
                {"apiGroups": ["g"], "resources": ["x"], "verbs": ["list", "watch"]},
            ]}),
        ]
    }

    #[test]
    fn rights_are_taken_apart_and_our_own_group_is_left_out() {
        let rights: Vec<String> = rights(&objects()).iter().map(ToString::to_string).collect();
        assert_eq!(
            rights,
            ["get secrets a", "get secrets b", "list x.g", "watch x.g"]
        );
    }

    #[test]
    fn a_call_uses_the_rights_that_cover_it() {
        let rights = rights(&objects());
        let call = |verb: &str, resource: &str, namespace: &str, name: &str| Call {
            account: "webhook".to_owned(),
            verb: verb.to_owned(),
            group: if resource == "x" { "g" } else { "" }.to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            allowed: true,
        };
        let used = |call: &Call| rights.iter().filter(|it| it.covers(call)).count();
        assert_eq!(used(&call("get", "secrets", "n", "a")), 1);
        assert_eq!(
            used(&call("get", "secrets", "m", "a")),
            0,
            "another namespace"
        );
        assert_eq!(used(&call("get", "secrets", "n", "c")), 0, "another name");
        assert_eq!(used(&call("list", "x", "anywhere", "")), 1);
        assert_eq!(used(&call("get", "x", "", "")), 0, "another verb");
        let mut others = call("list", "x", "", "");
        others.account = "csi-node".to_owned();
        assert_eq!(used(&others), 0, "another account");
    }
}
