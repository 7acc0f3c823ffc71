//! Rights that a test gives in its namespace, and questions about rights.

use e2e::{ApiClient, ApiUser};
use serde_json::{Value, json};

use super::{CONNECTOR, Gate, wait_until};

const RBAC: &str = "rbac.authorization.k8s.io";

/// The subject of a right.
#[derive(Clone, Copy)]
pub(crate) enum RightHolder<'a> {
    User(&'a str),
    Group(&'a str),
    /// An account of the test's namespace.
    Account(&'a str),
}

impl RightHolder<'_> {
    fn subject(self, gate: &Gate) -> Value {
        match self {
            Self::User(name) => json!({"kind": "User", "apiGroup": RBAC, "name": name}),
            Self::Group(name) => json!({"kind": "Group", "apiGroup": RBAC, "name": name}),
            Self::Account(name) => {
                json!({"kind": "ServiceAccount", "namespace": gate.namespace(), "name": name})
            }
        }
    }

    fn user(self, gate: &Gate) -> ApiUser {
        match self {
            Self::User(name) => ApiUser::named(name),
            Self::Group(name) => ApiUser::named("somebody").in_group(name),
            Self::Account(name) => ApiUser::service_account(gate.namespace(), name),
        }
    }
}

/// The rule of a role about one resource.
pub(crate) struct RightRule<'a> {
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
    /// Of all of them without a name.
    pub(crate) name: Option<&'a str>,
    pub(crate) verbs: &'a [&'a str],
}

/// Gives rights by a role of the namespace, and waits until the API server knows: its authorizer sees a role and its
/// binding a moment after they were written.
pub(crate) fn give(gate: &Gate, name: &str, rules: &[RightRule<'_>], holder: RightHolder<'_>) {
    let in_role = |rule: &RightRule<'_>| {
        json!({
            "apiGroups": [rule.group], "resources": [rule.resource], "verbs": rule.verbs,
            "resourceNames": Vec::from_iter(rule.name),
        })
    };
    let role = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": {"name": name},
        "rules": rules.iter().map(in_role).collect::<Vec<_>>(),
    });
    gate.scene().apply(&role).unwrap();
    bind(gate, name, ("Role", name), holder);
    let user = holder.user(gate);
    wait_until(&format!("what role {name} gives"), || {
        rules.iter().all(|rule| {
            let right = json!({
                "namespace": gate.namespace(), "verb": rule.verbs[0], "group": rule.group,
                "resource": rule.resource, "name": rule.name,
            });
            gate.api().allows(&user, &right).unwrap()
        })
    });
}

/// Binds a role to its holder: the kind and the name of the role.
pub(crate) fn bind(gate: &Gate, name: &str, (kind, role): (&str, &str), holder: RightHolder<'_>) {
    let binding = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
        "subjects": [holder.subject(gate)],
    });
    gate.scene().apply(&binding).unwrap();
}

/// Whether the account of a pod may use a capability of the connector.
pub(super) fn may_use(api: &ApiClient, namespace: &str, pod: &str, capability: &str) -> bool {
    let account = ApiUser::service_account(namespace, "default");
    let attributes = json!({
        "namespace": namespace, "verb": "*", "group": "connectors.alauda.io",
        "resource": "connectors", "subresource": format!("{capability}/v1/pod/{namespace}/{pod}"), "name": CONNECTOR,
    });
    api.allows(&account, &attributes).unwrap()
}
