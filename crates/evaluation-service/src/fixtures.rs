//! Objects and questions that the tests of several modules share.

use connectors_api::{AccessPolicy, AccessRequest, Permission};
use evaluation_api::access::{AccessQuestion, ConnectorName, PodRef, ServiceAccountName};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use serde_json::json;

/// The question of the pod that everything here is about.
pub(crate) fn question() -> AccessQuestion {
    AccessQuestion::mount(
        ServiceAccountName {
            namespace: "devops".to_owned(),
            name: "builder".to_owned(),
        },
        ConnectorName {
            namespace: "tools".to_owned(),
            name: "harbor".to_owned(),
        },
        Permission::Apis,
        PodRef {
            name: "deploy".to_owned(),
            uid: "pod-uid".to_owned(),
        },
    )
}

/// A request of that pod, of UID `uid-<name>`.
pub(crate) fn request(name: &str, phase: &str) -> AccessRequest {
    serde_json::from_value(json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessRequest",
        "metadata": {
            "name": name, "namespace": "tools", "uid": format!("uid-{name}"), "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "subject": {"kind": "ServiceAccount", "name": "builder", "namespace": "devops"},
            "connectorRef": {"name": "harbor"},
            "context": {"objectRef": {"apiVersion": "v1", "kind": "Pod", "namespace": "devops", "name": "deploy", "uid": "pod-uid"}},
            "permission": "apis",
        },
        "status": {"phase": phase, "policies": [{
            "policy": {"metadata": {"uid": "policy-uid"}}, "grant": {"state": "Granted"},
        }], "conditions": [{
            "type": "Ready", "status": "False", "reason": "ChecksPending", "message": "waits",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]},
    }))
    .unwrap()
}

/// The role that is written for request `a`.
pub(crate) fn role(name: &str, resource: &str) -> Role {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "tools"},
        "rules": [{"apiGroups": ["connectors.alauda.io"], "resources": [resource], "resourceNames": ["harbor"], "verbs": ["*"]}],
    }))
    .unwrap()
}

/// The binding that is written for request `a`, to a role of its own name.
pub(crate) fn role_binding(name: &str) -> RoleBinding {
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": "tools", "uid": format!("uid-{name}"),
            "labels": {"app.kubernetes.io/managed-by": "connectors-approval", "connectors.alauda.io/accessRequestUid": "uid-a", "connectors.alauda.io/accessPolicyUid": "policy-uid"},
        },
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "namespace": "devops", "name": "builder"}],
    }))
    .unwrap()
}

/// What the role of the pod is about.
pub(crate) const POD_FORM: &str = "connectors/apis/v1/pod/devops/deploy";

/// A policy that gives service account `devops/builder` a permission under one check.
pub(crate) fn policy(name: &str) -> AccessPolicy {
    serde_json::from_value(json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
        "metadata": {"name": name, "namespace": "tools", "uid": "policy-uid"},
        "spec": {"checkGrantedPermission": {
            "requesters": [{"kind": "ServiceAccount", "namespace": "devops", "name": "builder"}],
            "spec": {
                "checks": [{
                    "name": "gate",
                    "selector": {"labels": {"run": "{.object.metadata.labels.run}"}, "objectRef": {"apiVersion": "v1", "kind": "ConfigMap"}},
                    "state": {"rego": "package approval\noutput := {}"},
                }],
                "permissions": {"roleTemplate": {"rules": []}},
            },
        }},
    }))
    .unwrap()
}
