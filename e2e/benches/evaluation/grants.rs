//! Granted requests as the request-controller leaves them, each with its role and its binding, for the pods
//! of one service account. That is the worst case for a server that checks one binding after another.

use connectors_api::AccessRequest;
use evaluation_api::access::{AccessQuestion, ConnectorName, PodRef, ServiceAccountName};
use futures::{StreamExt, stream};
use hyper::body::Bytes;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The pods' namespace; it needs not exist.
const PODS: &str = "devops-ns1";
const ACCOUNT: &str = "pipeline";
const CONNECTOR: &str = "harbor-prod";
const GROUP: &str = "connectors.alauda.io";
/// The number of the first pod without a grant.
pub(crate) const WITHOUT: usize = 1_000_000;
/// Requests to the API server at one time.
const AT_ONCE: usize = 24;

/// One question, for both servers.
#[derive(Clone)]
pub(crate) struct Question {
    pub(crate) asked: AccessQuestion,
    /// The review for the API server, as JSON.
    pub(crate) review: Bytes,
    /// The expected answer.
    pub(crate) is_allowed: bool,
}

/// Makes the grants of these numbers in a namespace.
pub(crate) async fn make(client: &Client, namespace: &str, numbers: std::ops::Range<usize>) {
    stream::iter(numbers)
        .for_each_concurrent(AT_ONCE, |number| grant(client, namespace, number))
        .await;
}

/// Roles and bindings alone: like those that other tools leave in a cluster.
pub(crate) async fn make_others(client: &Client, namespace: &str, numbers: std::ops::Range<usize>) {
    stream::iter(numbers)
        .for_each_concurrent(AT_ONCE, |number| async move {
            rbac(
                client,
                namespace,
                &format!("other-{number}"),
                &json!({}),
                number,
            )
            .await;
        })
        .await;
}

/// Which pods have a grant, and then as many that have none.
pub(crate) fn questions(namespace: &str, grants: usize, count: usize) -> Vec<Question> {
    // Far from each other, so that not one corner answers all of them.
    let granted = (0..count / 2).map(|at| (at * 7_919 % grants, true));
    let others = (0..count / 2).map(|at| (WITHOUT + at, false));
    let pairs = granted.zip(others).flat_map(|(one, other)| [one, other]);
    pairs
        .map(|(number, is_allowed)| question(namespace, number, is_allowed))
        .collect()
}

fn question(namespace: &str, number: usize, is_allowed: bool) -> Question {
    let pod = pod(number);
    let asked = AccessQuestion::mount(
        ServiceAccountName {
            namespace: PODS.to_owned(),
            name: ACCOUNT.to_owned(),
        },
        ConnectorName {
            namespace: namespace.to_owned(),
            name: CONNECTOR.to_owned(),
        },
        connectors_api::Permission::Apis,
        PodRef {
            name: pod.clone(),
            uid: uid(number),
        },
    );
    let groups = [
        "system:serviceaccounts",
        "system:serviceaccounts:devops-ns1",
        "system:authenticated",
    ];
    let attributes = ResourceAttributes {
        group: Some(GROUP.to_owned()),
        resource: Some("connectors".to_owned()),
        subresource: Some(format!("apis/v1/pod/{PODS}/{pod}")),
        namespace: Some(namespace.to_owned()),
        name: Some(CONNECTOR.to_owned()),
        verb: Some("*".to_owned()),
        ..ResourceAttributes::default()
    };
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(format!("system:serviceaccount:{PODS}:{ACCOUNT}")),
            groups: Some(groups.map(str::to_owned).into()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    Question {
        asked,
        review: serde_json::to_vec(&review).unwrap().into(),
        is_allowed,
    }
}

async fn grant(client: &Client, namespace: &str, number: usize) {
    let requests = Api::<AccessRequest>::namespaced(client.clone(), namespace);
    let name = format!("{CONNECTOR}-{:032x}", scramble(number, 1));
    let request: AccessRequest = read(request(namespace, &name, number));
    let created = requests.create(&PostParams::default(), &request).await;
    let owner = created.unwrap().metadata.uid.unwrap();
    let status = Patch::Merge(json!({"status": status(namespace, number)}));
    let params = PatchParams::default();
    requests
        .patch_status(&name, &params, &status)
        .await
        .unwrap();
    let labels = json!({
        "app.kubernetes.io/managed-by": "connectors-approval",
        "connectors.alauda.io/accessPolicy": "harbor-prod-approval",
        "connectors.alauda.io/accessPolicyUid": POLICY,
        "connectors.alauda.io/accessRequest": name,
        "connectors.alauda.io/accessRequestUid": owner,
    });
    rbac(
        client,
        namespace,
        &format!("car-{owner}-{:08x}", 7),
        &labels,
        number,
    )
    .await;
}

/// Makes a Role and its `RoleBinding` for a pod, and ends both.
pub(crate) async fn make_and_end(client: &Client, namespace: &str, number: usize) {
    let name = format!("ended-{number}");
    rbac(client, namespace, &name, &json!({}), number).await;
    let params = DeleteParams::default();
    let bindings = Api::<RoleBinding>::namespaced(client.clone(), namespace);
    bindings.delete(&name, &params).await.unwrap();
    let roles = Api::<Role>::namespaced(client.clone(), namespace);
    roles.delete(&name, &params).await.unwrap();
}

const POLICY: &str = "7d4c2a1e-0000-4000-8000-000000000009";

async fn rbac(client: &Client, namespace: &str, name: &str, labels: &Value, number: usize) {
    let metadata = json!({"name": name, "namespace": namespace, "labels": labels});
    let role: Role = read(json!({
        "metadata": metadata,
        "rules": [{
            "apiGroups": [GROUP], "resourceNames": [CONNECTOR], "verbs": ["*"],
            "resources": [format!("connectors/apis/v1/pod/{PODS}/{}", pod(number))],
        }],
    }));
    let binding: RoleBinding = read(json!({
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "namespace": PODS, "name": ACCOUNT}],
    }));
    let params = PostParams::default();
    let roles = Api::namespaced(client.clone(), namespace);
    roles.create(&params, &role).await.unwrap();
    let bindings = Api::namespaced(client.clone(), namespace);
    bindings.create(&params, &binding).await.unwrap();
}

fn request(namespace: &str, name: &str, number: usize) -> Value {
    json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessRequest",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "subject": {"kind": "ServiceAccount", "namespace": PODS, "name": ACCOUNT},
            "connectorRef": {"name": CONNECTOR},
            "context": {"objectRef": {
                "apiVersion": "v1", "kind": "Pod", "namespace": PODS, "name": pod(number), "uid": uid(number),
            }},
            "permission": "apis",
        },
    })
}

/// The status that the controller writes at a grant, with the evidence of one check.
fn status(namespace: &str, number: usize) -> Value {
    let at = "2026-01-02T03:04:05Z";
    let condition = |of: &str, reason: &str| {
        json!({
            "type": of, "status": "True", "reason": reason, "message": "approved by alice",
            "observedGeneration": 1, "lastTransitionTime": at,
        })
    };
    let task = json!({
        "apiVersion": "openshift-pipelines.org/v1alpha1", "kind": "ApprovalTask", "namespace": PODS,
        "name": format!("approval-{number}"), "uid": uid(number + 5_000_000), "resourceVersion": "42",
    });
    let check = json!({
        "name": "manual-approval-check",
        "selector": {
            "labels": {"tekton.dev/pipelineRun": "{.object.metadata.labels['tekton\\.dev/pipelineRun']}"},
            "objectRef": {"apiVersion": "openshift-pipelines.org/v1alpha1", "kind": "ApprovalTask"},
        },
    });
    let rules = json!([{"resources": [format!("connectors/apis/v1/pod/{PODS}/{}", pod(number))], "verbs": ["*"]}]);
    json!({
        "observedGeneration": 1, "phase": "Granted", "grantedAt": at,
        "connectorUid": "7d4c2a1e-0000-4000-8000-000000000003", "evidence": format!("sha256:{:032x}", scramble(number, 3)),
        "policies": [{
            "policy": {
                "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
                "metadata": {"name": "harbor-prod-approval", "namespace": namespace, "uid": POLICY, "generation": 3},
                "spec": {"checkGrantedPermission": {"spec": {"checks": [check]}}},
            },
            "checkRefs": [{
                "name": "manual-approval-check", "ref": task,
                "status": {"state": "approved", "reason": "Approved", "message": "approved by alice", "approvedBy": ["alice"]},
            }],
            "grant": {"state": "Granted", "rules": rules, "grantedAt": at},
        }],
        "conditions": [
            condition("ContextObjectValid", "UnCompleted"), condition("ConnectorResolved", "Resolved"),
            condition("AccessPolicyMatched", "AccessPolicyMatched"), condition("AccessCheckReady", "AccessCheckPassed"),
            condition("AccessPermissionSync", "AccessPermissionGranted"), condition("Ready", "AccessPermissionGranted"),
        ],
    })
}

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn pod(number: usize) -> String {
    format!("deploy-{:05x}-{number}-pod", scramble(number, 2) >> 44)
}

fn uid(number: usize) -> String {
    let text = format!("{:016x}{:016x}", scramble(number, 4), scramble(number, 5));
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &text[part]);
    parts.join("-")
}

/// Another number for each, without an order.
fn scramble(number: usize, purpose: u64) -> u64 {
    let mut it = (number as u64 * 16 + purpose).wrapping_add(0x9e37_79b9_7f4a_7c15);
    it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    it ^ (it >> 31)
}
