//! Requests that are one too many, judged with what the API server says about the others.

use std::net::Ipv4Addr;

use http::{Method, StatusCode};
use serde_json::json;

use super::*;
use crate::{
    page::UserPart,
    review,
    testing::{FakeApi, NAMESPACE, list_of, pod, requests},
};

const PLUGIN: &str = "system:serviceaccount:connectors-system:csi-node";

fn cluster() -> FakeApi {
    let api = FakeApi::default();
    api.put(
        &pod("team", "build-1"),
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "build-1", "namespace": "team", "uid": "u1"},
            "spec": {"containers": [], "serviceAccountName": "builder", "nodeName": "n1"},
        }),
    );
    api.let_read("ada");
    api
}

fn plugin() -> Value {
    json!({"username": PLUGIN, "extra": {"authentication.kubernetes.io/node-name": ["n1"]}})
}

fn ada() -> Value {
    json!({"username": "ada"})
}

/// The refusal of a request for a pod of this UID, if it is refused.
async fn refused(api: &FakeApi, user: Value, uid: &str) -> Option<AdmissionRefusal> {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "review-1", "operation": "CREATE", "namespace": "tools", "name": "r",
            "kind": {"group": names::GROUP, "version": names::VERSION, "kind": "AccessRequest"},
            "resource": {"group": names::GROUP, "version": names::VERSION, "resource": "accessrequests"},
            "userInfo": user,
            "object": {
                "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessRequest",
                "metadata": {"name": "r", "namespace": "tools"},
                "spec": {
                    "subject": {"kind": "ServiceAccount", "name": "builder"},
                    "connectorRef": {"name": "harbor"},
                    "context": {"objectRef": {
                        "apiVersion": "v1", "kind": "Pod", "namespace": "team", "name": "build-1", "uid": uid,
                    }},
                },
            },
        },
    });
    let asked = review::parse(
        &review.to_string().into(),
        Ipv4Addr::LOCALHOST.into(),
        UserPart::Whole,
    )
    .unwrap();
    let evaluator = Evaluator::Fake(None);
    let admission = Admission::new(
        api.client(),
        NAMESPACE,
        PLUGIN.to_owned(),
        evaluator,
        &PeerLimits::for_tests(),
    );
    let deadline = Instant::now() + Duration::from_secs(9);
    match admission.requests.validate(&asked, deadline).await {
        AdmissionAnswer::Refused(refusal) => Some(refusal),
        AdmissionAnswer::Allowed { .. } => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_has_so_many_requests_in_a_namespace_and_no_more() {
    let api = cluster();
    for user in [plugin(), ada()] {
        api.put(&requests("tools"), list_of(15));
        assert_eq!(refused(&api, user.clone(), "u1").await, None);
        api.put(&requests("tools"), list_of(16));
        let refusal = refused(&api, user, "u1").await.unwrap();
        assert_eq!(refusal.status, RefusalStatus::Forbidden);
        assert!(
            refusal.message.contains("16 requests"),
            "{}",
            refusal.message
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_anyway_is_not_counted() {
    let api = cluster();
    assert!(refused(&api, plugin(), "another").await.is_some());
    let list = requests("tools");
    assert!(api.calls().iter().all(|(_, path)| *path != list));
}

#[tokio::test(start_paused = true)]
async fn where_nothing_can_be_counted_pods_are_let_through_and_people_try_again() {
    let api = cluster();
    let list = requests("tools");
    for code in [StatusCode::FORBIDDEN, StatusCode::INTERNAL_SERVER_ERROR] {
        let list = list.clone();
        api.fail(move |method, path| (method == Method::GET && path == list).then_some(code));
        assert_eq!(refused(&api, plugin(), "u1").await, None);
        let refusal = refused(&api, ada(), "u1").await.unwrap();
        assert_eq!(refusal.status, RefusalStatus::Unavailable);
    }
}
