//! Granted requests of one service account, each with its role and its binding, and questions about them.

use connectors_api::Permission;
use evaluation_api::access::{AccessQuestion, ConnectorName, PodRef, ServiceAccountName};
use serde_json::json;

use crate::fake_api::FakeApi;

const PODS: &str = "devops-ns1";
const ACCOUNT: &str = "pipeline";
/// Where callers of the fake API server may ask.
const TOOLS: &str = "tools";
const CONNECTOR: &str = "harbor-prod";
const POLICY: &str = "7d4c2a1e-0000-4000-8000-000000000009";

/// Makes grants of the numbers up to this one.
pub(crate) fn put(api: &FakeApi, count: usize) {
    for number in 0..count {
        grant(api, number);
    }
}

fn grant(api: &FakeApi, number: usize) {
    let (name, owner) = (format!("car-{}", uid(number, 7)), uid(number, 1));
    let metadata = json!({
        "name": name, "namespace": TOOLS, "uid": uid(number, 2),
        "labels": {
            "app.kubernetes.io/managed-by": "connectors-approval",
            "connectors.alauda.io/accessPolicyUid": POLICY,
            "connectors.alauda.io/accessRequestUid": owner,
        },
    });
    let role = json!({"metadata": metadata, "rules": [{
        "apiGroups": ["connectors.alauda.io"], "resourceNames": [CONNECTOR], "verbs": ["*"],
        "resources": [format!("connectors/apis/v1/pod/{PODS}/{}", pod(number))],
    }]});
    let binding = json!({
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "namespace": PODS, "name": ACCOUNT}],
    });
    let request = json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessRequest",
        "metadata": {
            "name": format!("{CONNECTOR}-{number}"), "namespace": TOOLS, "uid": owner,
            "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "subject": {"kind": "ServiceAccount", "namespace": PODS, "name": ACCOUNT},
            "connectorRef": {"name": CONNECTOR},
            "context": {"objectRef": {
                "apiVersion": "v1", "kind": "Pod", "namespace": PODS, "name": pod(number), "uid": uid(number, 3),
            }},
            "permission": "apis",
        },
        "status": {"phase": "Granted", "policies": [{
            "policy": {"metadata": {"uid": POLICY}}, "grant": {"state": "Granted"},
        }]},
    });
    api.put("roles", &role);
    api.put("rolebindings", &binding);
    api.put("accessrequests", &request);
}

/// Questions and whether they are to be answered with yes: of pods with a grant and of others, in turn.
pub(crate) fn questions(grants: usize, count: usize) -> Vec<(AccessQuestion, bool)> {
    // Far from each other, so that not one corner answers all of them.
    let granted = (0..count / 2).map(|at| (question(at * 7_919 % grants), true));
    let others = (0..count / 2).map(|at| (question(1_000_000 + at), false));
    granted
        .zip(others)
        .flat_map(|(one, other)| [one, other])
        .collect()
}

fn question(number: usize) -> AccessQuestion {
    AccessQuestion::mount(
        ServiceAccountName {
            namespace: PODS.to_owned(),
            name: ACCOUNT.to_owned(),
        },
        ConnectorName {
            namespace: TOOLS.to_owned(),
            name: CONNECTOR.to_owned(),
        },
        Permission::Apis,
        PodRef {
            name: pod(number),
            uid: uid(number, 3),
        },
    )
}

fn pod(number: usize) -> String {
    format!("deploy-{:05x}-{number}-pod", number * 40_503 % 0x10_0000)
}

/// As long as a real one.
fn uid(number: usize, purpose: usize) -> String {
    format!(
        "{:08x}-{purpose:04x}-4000-8000-{number:012x}",
        number.wrapping_mul(2_654_435_761) % 0x1_0000_0000
    )
}
