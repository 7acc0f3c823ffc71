//! Labels for people and for list filters. No decision uses them as stored, because any writer of the object
//! can set them.

use std::collections::BTreeMap;

use crate::AccessRequestSpec;

/// Label of an `AccessRequest`: the kind of the object that requested access.
pub const CONTEXT_OBJECT_KIND: &str = "connectors.cpaas.io/contextObjectKind";
/// Label of an `AccessRequest`: the name of the object that requested access.
pub const CONTEXT_OBJECT_NAME: &str = "connectors.cpaas.io/contextObjectName";
/// Label of an `AccessRequest`: the namespace of the object that requested access.
pub const CONTEXT_OBJECT_NAMESPACE: &str = "connectors.cpaas.io/contextObjectNamespace";
/// Label of an `AccessRequest`: the UID of the object that requested access.
pub const CONTEXT_OBJECT_UID: &str = "connectors.cpaas.io/contextObjectUID";
/// Label of an `AccessRequest`: the name of the requested connector.
pub const CONNECTOR: &str = "connectors.cpaas.io/connector";

/// Label of a `Connector`: its class. The webhook writes both keys. Selectors see them even where they are missing.
pub const CONNECTOR_CLASS: [&str; 2] = [
    "connectors.cpaas.io/connectorclass",
    "connectors.alauda.io/connectorclass",
];

/// Label of a Role or RoleBinding: its manager, `connectors-approval`.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Label of a Role or RoleBinding: the name of the `AccessPolicy` that it comes from, if it has at most 63 characters.
pub const ACCESS_POLICY: &str = "connectors.alauda.io/accessPolicy";
/// Label of a Role or RoleBinding: the UID of the `AccessPolicy` that it comes from.
pub const ACCESS_POLICY_UID: &str = "connectors.alauda.io/accessPolicyUid";
/// Label of a Role or RoleBinding: the name of the `AccessRequest` that it comes from, if it has at most 63 characters.
pub const ACCESS_REQUEST: &str = "connectors.alauda.io/accessRequest";
/// Label of a Role or RoleBinding: the UID of the `AccessRequest` that it comes from.
pub const ACCESS_REQUEST_UID: &str = "connectors.alauda.io/accessRequestUid";

/// The API server refuses an object with a longer label value.
const LONGEST_VALUE: usize = 63;

/// True when `name`, which is already a valid object name, can be the value of a label.
#[must_use]
pub const fn fits(name: &str) -> bool {
    !name.is_empty() && name.len() <= LONGEST_VALUE
}

/// The labels of a connector as selectors see them. The class is set under both keys and replaces any stored
/// value. A connector without a class has neither label.
#[must_use]
pub fn of_connector(
    mut written: BTreeMap<String, String>,
    class: &str,
) -> BTreeMap<String, String> {
    for key in CONNECTOR_CLASS {
        if class.is_empty() {
            written.remove(key);
        } else {
            written.insert(key.to_owned(), class.to_owned());
        }
    }
    written
}

/// The labels of a request. A name that is too long gets no label: a truncated name would find the wrong
/// object.
#[must_use]
pub fn of_request(spec: &AccessRequestSpec) -> BTreeMap<String, String> {
    let object = &spec.context.object_ref;
    let uid = object.uid.as_deref().unwrap_or_default();
    [
        (CONTEXT_OBJECT_KIND, object.kind.as_str()),
        (CONTEXT_OBJECT_NAME, &object.name),
        (CONTEXT_OBJECT_NAMESPACE, &object.namespace),
        (CONTEXT_OBJECT_UID, uid),
        (CONNECTOR, &spec.connector_ref.name),
    ]
    .into_iter()
    .filter(|(_, value)| fits(value))
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(pod: &str, connector: &str, uid: Option<&str>) -> BTreeMap<String, String> {
        let mut spec = json!({
            "subject": {"kind": "ServiceAccount", "name": "pipeline-sa"},
            "connectorRef": {"name": connector},
            "context": {"objectRef": {"apiVersion": "v1", "kind": "Pod", "namespace": "devops-ns1", "name": pod}},
        });
        if let Some(uid) = uid {
            spec["context"]["objectRef"]["uid"] = uid.into();
        }
        of_request(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn a_request_carries_what_it_is_about() {
        let labels = request(
            "deploy-prod-xxx",
            "prod-harbor",
            Some("7d4c2a1e-0000-4000-8000-000000000001"),
        );
        let expected = [
            ("connectors.cpaas.io/connector", "prod-harbor"),
            ("connectors.cpaas.io/contextObjectKind", "Pod"),
            ("connectors.cpaas.io/contextObjectName", "deploy-prod-xxx"),
            ("connectors.cpaas.io/contextObjectNamespace", "devops-ns1"),
            (
                "connectors.cpaas.io/contextObjectUID",
                "7d4c2a1e-0000-4000-8000-000000000001",
            ),
        ];
        assert_eq!(
            labels,
            expected
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into()
        );
    }

    #[test]
    fn a_value_that_does_not_fit_is_left_out_alone() {
        let longest = "a".repeat(63);
        let labels = request(&longest, &"a".repeat(64), None);
        assert_eq!(labels[CONTEXT_OBJECT_NAME], longest);
        assert!(!labels.contains_key(CONNECTOR));
        assert!(!labels.contains_key(CONTEXT_OBJECT_UID));
        assert!(!fits(""));
    }
}
