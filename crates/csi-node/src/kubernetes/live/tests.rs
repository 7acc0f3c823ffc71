//! The client against an API server that is a function.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use http::{Request, Response, StatusCode};
use kube::client::Body;
use prometheus::Registry;
use serde_json::{Value, json};

use super::*;
use crate::testing::{key, wish};

/// Every call as method, path and body, and one answer for all of them.
type Calls = Arc<Mutex<Vec<(String, Value)>>>;

fn server(status: u16, body: &Value) -> (Live, Calls) {
    let calls = Calls::default();
    let (seen, body) = (Arc::clone(&calls), body.to_string());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (seen, body) = (Arc::clone(&seen), body.clone());
        async move {
            let (parts, sent) = request.into_parts();
            let sent = sent.collect_bytes().await.unwrap();
            let sent = serde_json::from_slice(&sent).unwrap_or(Value::Null);
            let call = format!("{} {}", parts.method, parts.uri.path());
            seen.lock().unwrap().push((call, sent));
            let mut response = Response::new(Body::from(body.into_bytes()));
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            Ok::<_, Infallible>(response)
        }
    });
    let metrics = Metrics::register(&Registry::new()).unwrap();
    let client = Client::new(service, "default");
    (Live::new(client, "node-1", metrics), calls)
}

fn refusal(code: u16) -> (Live, Calls) {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": "said the server", "reason": if code == 404 { "NotFound" } else { "Other" }, "code": code,
    });
    server(code, &body)
}

#[tokio::test(start_paused = true)]
async fn what_the_server_says_to_a_new_request_has_one_meaning_each() {
    let wish = wish(&["tools/harbor"]);
    let ours = wish.request(&key("tools/harbor"));
    let json = serde_json::to_value(&ours).unwrap();
    let (live, calls) = server(201, &json);
    assert_eq!(live.create_request("tools", &ours).await, Ok(Created::Made));
    let expected = "POST /apis/connectors.alauda.io/v1alpha1/namespaces/tools/accessrequests";
    assert_eq!(*calls.lock().unwrap(), [(expected.to_owned(), json)]);
    for (code, expected, attempts, word) in [
        (409, Ok(Created::Exists), 1, "exists"),
        (404, Ok(Created::NoNamespace), 1, "no_namespace"),
        (400, Ok(Created::Refused), 1, "refused"),
        (403, Ok(Created::Refused), 1, "refused"),
        (422, Ok(Created::Refused), 1, "refused"),
        (401, Err(NoAnswer), 1, "no_answer"),
        (500, Err(NoAnswer), 3, "no_answer"),
        (503, Err(NoAnswer), 3, "no_answer"),
    ] {
        let (live, calls) = refusal(code);
        assert_eq!(
            live.create_request("tools", &ours).await,
            expected,
            "{code}"
        );
        assert_eq!(calls.lock().unwrap().len(), attempts, "{code}");
        assert_eq!(live.metrics.requests(word), 1, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_quota_and_a_namespace_that_goes_are_told_from_other_refusals() {
    let wish = wish(&["tools/harbor"]);
    let ours = wish.request(&key("tools/harbor"));
    let of_server =
        |why: &str| format!("accessrequests.connectors.alauda.io \"areq-1\" is forbidden: {why}");
    let (quota, refused) = (Ok(Created::QuotaFull), Ok(Created::Refused));
    let full = "exceeded quota: q, requested: count/accessrequests.connectors.alauda.io=1, used: count/accessrequests.connectors.alauda.io=2, limited: count/accessrequests.connectors.alauda.io=2";
    for (code, message, causes, expected) in [
        (403, of_server(full), json!([]), quota),
        (
            403,
            of_server("status unknown for quota: q, resources: x"),
            json!([]),
            quota,
        ),
        (
            403,
            of_server("insufficient quota to consume: x"),
            json!([]),
            quota,
        ),
        (422, of_server(full), json!([]), refused),
        // What somebody else's webhook says is no quota.
        (
            403,
            format!("admission webhook \"w\" denied the request: {full}"),
            json!([]),
            refused,
        ),
        (
            403,
            of_server("ValidatingAdmissionPolicy 'p' denied request: exceeded quota: q"),
            json!([]),
            refused,
        ),
        (403, full.to_owned(), json!([]), refused),
        (403, String::new(), json!([]), refused),
        (
            403,
            of_server(
                "unable to create new content in namespace tools because it is being terminated",
            ),
            json!([{"reason": "NamespaceTerminating", "message": "namespace tools is being terminated"}]),
            Ok(Created::NoNamespace),
        ),
    ] {
        let (live, calls) = server(
            code,
            &json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message,
                "reason": "Forbidden", "details": {"causes": causes}, "code": code,
            }),
        );
        let created = live.create_request("tools", &ours).await;
        assert_eq!(created, expected, "{message}");
        assert_eq!(calls.lock().unwrap().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_is_read_strictly() {
    let wish = wish(&["tools/harbor"]);
    let ours = wish.request(&key("tools/harbor"));
    let mut json = serde_json::to_value(&ours).unwrap();
    let (live, _) = server(200, &json);
    let found = live.request("tools", "name").await;
    assert_eq!(found, Ok(Lookup::Found(Box::new(ours))));
    json["spec"]["extra"] = json!(true);
    for odd in [json, json!({}), json!([])] {
        let (live, _) = server(200, &odd);
        assert_eq!(
            live.request("tools", "name").await,
            Ok(Lookup::Unreadable),
            "{odd}"
        );
    }
    let (live, _) = refusal(404);
    assert_eq!(live.request("tools", "name").await, Ok(Lookup::Absent));
    let (live, _) = refusal(403);
    assert_eq!(live.request("tools", "name").await, Err(NoAnswer));
}

#[tokio::test(start_paused = true)]
async fn only_a_plain_yes_of_a_review_is_a_yes() {
    for (status, expected) in [
        (json!({"allowed": true}), true),
        (
            json!({"allowed": true, "evaluationError": "some authorizer broke"}),
            true,
        ),
        (json!({"allowed": false}), false),
        (json!({"allowed": false, "denied": true}), false),
        (Value::Null, false),
    ] {
        let body = json!({"metadata": {}, "spec": {}, "status": status});
        let (live, _) = server(201, &body);
        let answer = live.review_access(SubjectAccessReviewSpec::default()).await;
        assert_eq!(answer, Ok(expected), "{body}");
    }
    let (live, _) = refusal(403);
    assert_eq!(
        live.review_access(SubjectAccessReviewSpec::default()).await,
        Err(NoAnswer)
    );
}

#[tokio::test(start_paused = true)]
async fn a_token_is_reviewed_for_our_audience() {
    let body = json!({"metadata": {}, "spec": {}, "status": {"authenticated": true}});
    let (live, calls) = server(201, &body);
    let review = live.review_token(&Token::of("the-token")).await.unwrap();
    assert_eq!(review.authenticated, Some(true));
    let (call, sent) = calls.lock().unwrap().remove(0);
    assert_eq!(call, "POST /apis/authentication.k8s.io/v1/tokenreviews");
    let expected = json!({"token": "the-token", "audiences": ["connectors.alauda.io"]});
    assert_eq!(sent["spec"], expected);
    // A server that says nothing about the token has not authenticated it.
    let (live, _) = server(201, &json!({"metadata": {}, "spec": {}}));
    let review = live.review_token(&Token::of("the-token")).await.unwrap();
    assert_eq!(review.authenticated, None);
}

#[tokio::test(start_paused = true)]
async fn an_event_is_about_the_very_pod() {
    let (live, calls) = server(201, &json!({"metadata": {}, "eventTime": null}));
    live.tell(
        &wish(&["tools/harbor"]).pod,
        EventWord::AccessDenied,
        "no".to_owned(),
    );
    while calls.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let (call, event) = calls.lock().unwrap().remove(0);
    assert_eq!(call, "POST /apis/events.k8s.io/v1/namespaces/shop/events");
    let about = json!({
        "apiVersion": "v1", "kind": "Pod",
        "namespace": "shop", "name": "deploy-1", "uid": "uid-1",
    });
    assert_eq!(event["regarding"], about);
    assert_eq!(
        (&event["reason"], &event["note"]),
        (&json!("AccessDenied"), &json!("no"))
    );
    assert_eq!(event["type"], "Warning");
}
