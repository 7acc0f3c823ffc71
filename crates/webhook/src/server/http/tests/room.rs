//! What reviews take, and that they give it back.

use super::*;
use crate::{metrics::Limit, page::UserPart};

const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const CONNECTORS: &str = "/mutate/connectors";
const RUNS: &str = "/mutate/pipelineruns";
const PODS: &str = "/mutate/pods";

fn in_groups(count: usize) -> Value {
    json!({"username": "ada", "groups": vec![""; count]})
}

#[tokio::test]
async fn a_user_in_too_many_groups_is_refused_and_told_the_bound() {
    let api = cluster();
    let words = "userInfo.groups: at most 1024 groups are read; use an account that is in fewer";
    for path in [MUTATE, VALIDATE, "/validate/accesspolicies"] {
        let asked = review(&in_groups(1025), &object(Some("u1")));
        denied(&ask(&api, path, &asked).await, 422, words);
        let asked = review(&in_groups(500_000), &object(Some("u1")));
        let response = ask(&api, path, &asked).await;
        let words = "userInfo: at most 65536 bytes are read; use an account with fewer groups and less extra";
        denied(&response, 422, words);
    }
    assert_eq!(api.calls(), [], "nothing was asked for it");
    let asked = review(&in_groups(1024), &object(Some("u1")));
    assert_eq!(ask(&api, VALIDATE, &asked).await["allowed"], true);
    let connector = json!({"metadata": {"name": "c"}, "spec": {"connectorClassName": "oci"}});
    let mut asked = review(&in_groups(500_000), &connector);
    asked["request"]["resource"]["resource"] = json!("connectors");
    let response = ask(&api, CONNECTORS, &asked).await;
    assert_eq!(response["patchType"], "JSONPatch", "whoever writes it");
    asked["request"]["resource"] =
        json!({"group": "tekton.dev", "version": "v1", "resource": "pipelineruns"});
    let response = ask(&api, RUNS, &asked).await;
    assert_eq!(response["patchType"], "JSONPatch", "whoever creates it");
    asked["request"]["resource"] = json!({"group": "", "version": "v1", "resource": "pods"});
    assert_eq!(ask(&api, PODS, &asked).await["allowed"], true);
}

#[test]
fn a_review_weighs_what_is_made_from_it() {
    let asked = |object: Value| {
        let body = review(&mallory(), &object).to_string().into();
        review::parse(&body, PEER, UserPart::Whole).unwrap()
    };
    let (without, with) = (json!({}), json!({"a": "x".repeat(1000)}));
    let text = with.to_string();
    let more = weigh(text.as_bytes()) - weigh(b"{}");
    for (page, expected) in [
        (Page::MutateAccessRequests, 2 * more),
        (Page::ValidateAccessRequests, more),
        (Page::ValidateAccessPolicies, more + 2 * (text.len() - 2)),
        (Page::MutateConnectors, 0),
        (Page::MutatePipelineRuns, 0),
        (Page::MutatePods, 0),
    ] {
        let weight = |object: &Value| weight_of(page, &asked(object.clone()));
        assert_eq!(weight(&with) - weight(&without), expected, "{page:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn everything_that_a_review_takes_is_given_back() {
    let api = cluster();
    let handler = handler(&api);
    let good = review(&ada(), &object(Some("u1"))).to_string();
    let heavy = review(&ada(), &json!({"spec": vec![json!({}); 10_000]})).to_string();
    let many = review(&in_groups(2000), &object(None)).to_string();
    let large = " ".repeat((4 << 20) + 1);
    for path in [
        MUTATE,
        VALIDATE,
        "/validate/accesspolicies",
        CONNECTORS,
        RUNS,
        PODS,
    ] {
        for body in [&good, &heavy, &many, &large, "", "{}"] {
            handler.answer(PEER, post(path, body.to_owned())).await;
            assert_eq!(handler.taken(), 0, "{path}: {}", body.len());
        }
    }
    // Of who stops asking while the answer is made.
    api.hang();
    let asked = handler.answer(PEER, post(VALIDATE, good.clone()));
    let asked = timeout_at(Instant::now() + Duration::from_secs(1), asked).await;
    assert!(asked.is_err());
    assert_eq!(handler.taken(), 0);
    // It takes something while it is asked.
    let asked = handler.answer(PEER, post(VALIDATE, good));
    let mut asked = std::pin::pin!(asked);
    while handler.taken() < 2 {
        assert!(futures::poll!(asked.as_mut()).is_pending());
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_that_fills_its_share_keeps_no_other_out() {
    let handler = handler(&cluster());
    let deadline = Instant::now() + Duration::from_mins(1);
    let mut held = handler.rooms.requests.body(PEER, deadline);
    held.push(&vec![b' '; 2 << 20]).await.unwrap();
    let good = review(&ada(), &object(Some("u1"))).to_string();
    let answer = handler.answer(PEER, post(VALIDATE, good.clone())).await;
    assert_eq!(answer.status(), StatusCode::REQUEST_TIMEOUT);
    assert_eq!(handler.limits().counted(Limit::Memory), 1);
    let answer = handler.answer(OTHER, post(VALIDATE, good)).await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(handler.limits().counted(Limit::Memory), 1);
}

#[tokio::test(start_paused = true)]
async fn calls_of_one_address_wait_for_each_other_within_the_deadline() {
    let api = cluster();
    let handler = handler(&api);
    let good = review(&ada(), &object(Some("u1"))).to_string();
    api.hang();
    let flood: Vec<_> = (0..100)
        .map(|_| {
            let (handler, body) = (handler.clone(), good.clone());
            tokio::spawn(async move { handler.answer(PEER, post(VALIDATE, body)).await })
        })
        .collect();
    let other = tokio::spawn({
        let (handler, body) = (handler.clone(), good.clone());
        async move { handler.answer(OTHER, post(VALIDATE, body)).await }
    });
    for answer in flood.into_iter().chain([other]) {
        let body = answer.await.unwrap().into_body();
        let body = body.collect().await.unwrap().to_bytes();
        let answer: Value = serde_json::from_slice(&body).unwrap();
        denied(&answer["response"], 503, UNANSWERED);
    }
    let waited = handler.limits().counted(Limit::Calls);
    assert_eq!(waited, 100 - 64, "the other address waits for none of them");
    assert_eq!(handler.taken(), 0);
}
