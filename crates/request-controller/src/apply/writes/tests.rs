use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use http::{Response, StatusCode};
use kube::client::Body;
use prometheus::Registry;
use service_kit::retry::Backoff;

use super::*;

const THREE_TIMES: RetryPolicy = RetryPolicy {
    attempts: 3,
    attempt: Duration::from_secs(1),
    total: Duration::from_mins(1),
    pauses: Backoff::new(Duration::from_millis(1), Duration::from_millis(2)),
};

/// Writes to an API server that answers each call with this status, and how often it was called.
fn answering(status: StatusCode) -> (Writes, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let server = tower::service_fn(move |_: http::Request<Body>| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move {
            let answer = json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure",
                "message": "no", "reason": "No", "code": status.as_u16(),
            });
            let response = Response::builder().status(status);
            response.body(Body::from(answer.to_string().into_bytes()))
        }
    });
    let metrics = Metrics::register(&Registry::new()).unwrap();
    let client = Client::new(server, "default");
    let writes = Writes::new(client, THREE_TIMES, Arc::new(|_| true), metrics);
    (writes, calls)
}

fn named<K: DeserializeOwned>(more: &Value) -> K {
    let mut object = json!({"metadata": {"name": "n", "namespace": "tools", "uid": "u", "resourceVersion": "1"}});
    for (field, value) in more.as_object().unwrap() {
        object[field] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

/// What was read live is too old by the time of a second attempt.
#[tokio::test(start_paused = true)]
async fn a_grant_is_posted_once_and_what_takes_back_or_records_is_tried_again() {
    let left = Duration::from_secs(5);
    let role: Role = named(&json!({}));
    let binding: RoleBinding = named(&json!({
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "n"},
    }));
    let request: AccessRequest = named(&json!({"spec": {
        "subject": {"kind": "ServiceAccount", "name": "builder"},
        "connectorRef": {"name": "harbor"},
        "context": {"objectRef": {"apiVersion": "v1", "kind": "Pod", "namespace": "apps", "name": "p", "uid": "u"}},
    }}));
    let name = Name::new("tools", "n");
    let object = json!({"metadata": {"resourceVersion": "1"}});
    for what in 0..7 {
        let (writes, calls) = answering(StatusCode::SERVICE_UNAVAILABLE);
        let none = AccessRequestStatus::default();
        let (done, expected) = match what {
            0 => (writes.create(&role, left).await, 1),
            1 => (writes.create(&binding, left).await, 1),
            2 => (writes.status(&request, none).await.map(|_| ()), 3),
            3 => (writes.first_status(&name, &object, &none).await, 3),
            4 => (writes.delete(GrantKind::Role, &name, Some("u")).await, 3),
            5 => (
                writes
                    .delete(GrantKind::RoleBinding, &name, Some("u"))
                    .await,
                3,
            ),
            _ => (writes.delete_request(&request).await, 3),
        };
        assert!(done.is_err(), "{what}");
        assert_eq!(calls.load(Ordering::SeqCst), expected, "{what}");
    }
}

/// A pod that is gone needs nothing more, and another one of its name is decided on anew.
#[tokio::test(start_paused = true)]
async fn of_a_gate_that_is_not_removed_it_is_known_whether_the_pod_is_gone_or_another() {
    let pod = Name::new("apps", "p");
    for (status, expected) in [
        (StatusCode::NOT_FOUND, "gone"),
        (StatusCode::CONFLICT, "another"),
        (StatusCode::FORBIDDEN, "refused"),
        (StatusCode::UNPROCESSABLE_ENTITY, "refused"),
        (StatusCode::SERVICE_UNAVAILABLE, "refused"),
    ] {
        let (writes, _) = answering(status);
        let removed = writes.remove_gate(&pod, "u").await;
        let said = match removed {
            Ok(false) => "gone",
            Err(ApplyError::Conflict(_)) => "another",
            Err(ApplyError::Call(_)) => "refused",
            other => panic!("{other:?}"),
        };
        assert_eq!(said, expected, "{status}");
    }
}
