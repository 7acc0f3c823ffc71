use std::convert::Infallible;
use std::future::pending;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::AUTHORIZATION;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use kube::client::Body;
use prometheus::Registry;
use serde_json::{Value, json};
use tokio::time::{Instant, advance};

use super::*;

fn token(audience: &str, subject: &str) -> String {
    let claims = json!({"aud": audience, "exp": clock::now().as_second() + 3600, "sub": subject});
    format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()))
}

fn claiming(subject: &str) -> HeaderMap {
    let token = token(TOKEN_AUDIENCE, subject);
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
    headers
}

const LIMITS: CallerLimits = CallerLimits {
    calls: 8,
    streams: 2,
};

fn reviewing(client: Client, metrics: Metrics) -> CallerReviews {
    CallerReviews::new(client, metrics, LIMITS, IndexedRights::none(), None)
}

/// An API server that knows `good`, does not know `bad`, and takes its time with everybody else. It
/// counts its answers.
fn callers() -> (CallerReviews, Arc<AtomicUsize>) {
    let answers = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&answers);
    let service = tower::service_fn(move |request: Request<Body>| {
        let counted = Arc::clone(&counted);
        async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let mut review: Value = serde_json::from_slice(&body).unwrap();
            let token = review["spec"]["token"].as_str().unwrap_or_default();
            let claims = token.split('.').nth(1).unwrap();
            let claims = URL_SAFE_NO_PAD.decode(claims).unwrap();
            let claims: Value = serde_json::from_slice(&claims).unwrap();
            review["status"] = match claims["sub"].as_str().unwrap() {
                "good" => json!({
                    "authenticated": true, "audiences": [TOKEN_AUDIENCE], "user": {"username": "good"},
                }),
                "bad" => json!({"authenticated": false}),
                _ => pending().await,
            };
            counted.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(review.to_string()))))
        }
    });
    let metrics = Metrics::register(&Registry::new()).unwrap();
    (reviewing(Client::new(service, "default"), metrics), answers)
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_unknown_tokens_keeps_no_known_caller_waiting() {
    let (callers, answers) = callers();
    let good = claiming("good");
    callers.authenticate(&good).await.unwrap();
    advance(TOKEN_HOLDS).await;
    let mut flood = tokio::task::JoinSet::new();
    for number in 0..500 {
        let callers = callers.clone();
        let unknown = claiming(&format!("unknown-{number}"));
        flood.spawn(async move { callers.authenticate(&unknown).await.map(|_| ()) });
    }
    tokio::task::yield_now().await;
    let before = Instant::now();
    callers.authenticate(&good).await.unwrap();
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_eq!(answers.load(Ordering::Relaxed), 2);
    while let Some(ended) = flood.join_next().await {
        let refused = ended.unwrap().unwrap_err();
        assert!(
            matches!(refused, Refused::TooManyReviews | Refused::NoReview(_)),
            "{refused}"
        );
    }
    // Somebody who was not seen for long has to wait like everybody else.
    advance(KNOWN_FOR).await;
    let digest: Sha = Sha256::digest(bearer(&good).unwrap()).into();
    assert!(!callers.0.known.has(&digest));
    callers.authenticate(&good).await.unwrap();
}

/// However many callers ask, each as much as it may, and the API server answers none of it.
#[tokio::test(start_paused = true)]
async fn questions_about_tokens_keep_nobody_from_being_authenticated() {
    let (callers, answers) = callers();
    let good = claiming("good");
    callers.authenticate(&good).await.unwrap();
    advance(TOKEN_HOLDS).await;
    let slow = token(evaluation_api::POD_TOKEN_AUDIENCE, "slow");
    let mut asking = tokio::task::JoinSet::new();
    for number in 0..20 {
        let user = UserInfo {
            username: Some(format!("asks-{number}")),
            ..UserInfo::default()
        };
        let caller = callers.0.caller(user).unwrap();
        for _ in 0..20 {
            let (callers, caller, slow) = (callers.clone(), caller.clone(), slow.clone());
            asking.spawn(async move { callers.owner_of(&caller, &slow).await.map(|_| ()) });
        }
    }
    tokio::task::yield_now().await;
    assert_eq!(callers.0.subject_reviews.available_permits(), 0);
    let before = Instant::now();
    callers.authenticate(&good).await.unwrap();
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_eq!(callers.0.access_reviews.available_permits(), ACCESS_REVIEWS);
    assert_eq!(answers.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_token_in_a_question_that_is_too_long_or_no_plain_text_is_not_reviewed() {
    let (callers, answers) = callers();
    let caller = callers.0.caller(UserInfo::default()).unwrap();
    let short = token(evaluation_api::POD_TOKEN_AUDIENCE, "good");
    let padded = |length: usize| format!("{short}{}", "c".repeat(length - short.len()));
    // The first is reviewed, and is for another audience. The others are not reviewed.
    for odd in [
        padded(subject::LONGEST),
        padded(subject::LONGEST + 1),
        format!("{short} "),
        format!("{short}\u{e9}"),
    ] {
        let refused = callers.owner_of(&caller, &odd).await.err();
        assert!(matches!(refused, Some(Refused::SubjectToken)));
        assert_eq!(answers.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test]
async fn an_empty_audience_of_the_proxy_is_none() {
    let service =
        tower::service_fn(|_: Request<Body>| pending::<Result<Response<Body>, Infallible>>());
    let client = Client::new(service, "default");
    let metrics = Metrics::register(&Registry::new()).unwrap();
    for (set, expected) in [
        (None, None),
        (Some(""), None),
        (Some("proxy"), Some("proxy")),
    ] {
        let set = set.map(str::to_owned);
        let callers = CallerReviews::new(
            client.clone(),
            metrics.clone(),
            LIMITS,
            IndexedRights::none(),
            set,
        );
        assert_eq!(callers.0.proxy_audience.as_deref(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn calls_that_come_together_cause_one_review() {
    let (callers, answers) = callers();
    let good = claiming("good");
    for reviews in 1..3 {
        let all = (0..50).map(|_| callers.authenticate(&good));
        let all = futures::future::join_all(all).await;
        assert!(all.iter().all(Result::is_ok));
        assert_eq!(answers.load(Ordering::Relaxed), reviews);
        advance(TOKEN_HOLDS).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_has_all_its_reviews_keeps_no_other_waiting() {
    let (callers, _) = callers();
    let named = |name: &str| {
        let username = Some(name.to_owned());
        let user = UserInfo {
            username,
            ..UserInfo::default()
        };
        callers.0.caller(user).unwrap()
    };
    let (greedy, modest) = (named("greedy"), named("modest"));
    let mut flood = Vec::new();
    while let Ok(asked) = timeout(Duration::from_millis(1), greedy.quotas.question()).await {
        flood.push(asked.unwrap());
    }
    let refused = callers
        .authorize(&greedy, Right::Mount, "tools")
        .await
        .err();
    assert!(matches!(refused, Some(Refused::TooManyReviews)));
    assert!(modest.quotas.question().await.is_ok());
    assert!(flood.len() < SUBJECT_REVIEWS.min(KNOWN_REVIEWS).min(ACCESS_REVIEWS));
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_refused_is_asked_about_again_after_some_seconds() {
    let (callers, answers) = callers();
    let bad = claiming("bad");
    for reviews in 1..3 {
        for _ in 0..10 {
            let refused = callers.authenticate(&bad).await.err();
            assert!(matches!(refused, Some(Refused::BadToken)));
        }
        assert_eq!(answers.load(Ordering::Relaxed), reviews);
        advance(REFUSAL_HOLDS).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_is_no_refusal() {
    let (callers, _) = callers();
    let slow = claiming("slow");
    for _ in 0..2 {
        let refused = callers.authenticate(&slow).await.err();
        assert!(matches!(refused, Some(Refused::NoReview(_))));
    }
}

#[tokio::test(start_paused = true)]
async fn reviews_of_permissions_and_of_tokens_do_not_take_places_from_each_other() {
    let (callers, _) = callers();
    let all = u32::try_from(UNKNOWN_REVIEWS).unwrap();
    let _taken = callers.0.unknown_reviews.acquire_many(all).await.unwrap();
    let refused = callers.authenticate(&claiming("good")).await.err();
    assert!(matches!(refused, Some(Refused::TooManyReviews)));
    assert_eq!(callers.0.access_reviews.available_permits(), ACCESS_REVIEWS);
    assert_eq!(callers.0.known_reviews.available_permits(), KNOWN_REVIEWS);
}

#[tokio::test]
async fn who_may_ask_about_one_namespace_may_not_ask_about_another() {
    let service = tower::service_fn(|request: Request<Body>| async move {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let mut review: Value = serde_json::from_slice(&body).unwrap();
        let namespace = &review["spec"]["resourceAttributes"]["namespace"];
        review["status"] = json!({"allowed": namespace == "tools"});
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(review.to_string()))))
    });
    let metrics = Metrics::register(&Registry::new()).unwrap();
    let callers = reviewing(Client::new(service, "default"), metrics);
    let caller = callers.0.caller(UserInfo::default()).unwrap();
    let all = Right::Everything;
    for _ in 0..2 {
        callers.authorize(&caller, all, "tools").await.unwrap();
        let refused = callers.authorize(&caller, all, "other").await.err();
        assert!(matches!(refused, Some(Refused::Forbidden(it)) if it == "other"));
    }
}

/// An API server that lets everybody create this subresource of evaluations, and the reviews that it saw.
fn allowing(subresource: Option<&'static str>) -> (CallerReviews, Caller, Arc<Mutex<Vec<Value>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let reviews = Arc::clone(&seen);
    let service = tower::service_fn(move |request: Request<Body>| {
        let reviews = Arc::clone(&reviews);
        async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let mut review: Value = serde_json::from_slice(&body).unwrap();
            let attributes = &review["spec"]["resourceAttributes"];
            let is_allowed = attributes["subresource"].as_str() == subresource;
            reviews
                .lock()
                .unwrap()
                .push(attributes["subresource"].clone());
            review["status"] = json!({"allowed": is_allowed});
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(review.to_string()))))
        }
    });
    let metrics = Metrics::register(&Registry::new()).unwrap();
    let callers = reviewing(Client::new(service, "default"), metrics);
    let caller = callers.0.caller(UserInfo::default()).unwrap();
    (callers, caller, seen)
}

#[tokio::test]
async fn who_may_ask_for_mounts_alone_may_ask_nothing_else() {
    let (callers, node, seen) = allowing(Some("mount"));
    for _ in 0..2 {
        callers
            .authorize(&node, Right::Mount, "tools")
            .await
            .unwrap();
        let refused = callers.authorize(&node, Right::Everything, "tools").await;
        assert!(matches!(refused, Err(Refused::Forbidden(it)) if it == "tools"));
    }
    // The yes is remembered, and stands for nothing more than it says.
    assert_eq!(
        *seen.lock().unwrap(),
        [json!("mount"), json!(null), json!(null)]
    );
}

#[tokio::test]
async fn who_may_ask_everything_may_ask_for_mounts() {
    let (callers, caller, seen) = allowing(None);
    for _ in 0..2 {
        callers
            .authorize(&caller, Right::Mount, "tools")
            .await
            .unwrap();
        callers
            .authorize(&caller, Right::Everything, "tools")
            .await
            .unwrap();
    }
    assert_eq!(*seen.lock().unwrap(), [json!("mount"), json!(null)]);
}

#[tokio::test]
async fn who_may_do_neither_is_refused() {
    let (callers, caller, _) = allowing(Some("other"));
    for right in [Right::Mount, Right::Everything] {
        let refused = callers.authorize(&caller, right, "tools").await;
        assert!(matches!(refused, Err(Refused::Forbidden(_))));
    }
}

#[tokio::test]
async fn what_a_user_may_is_remembered_for_all_that_he_is_and_not_for_his_name() {
    let (callers, _, seen) = allowing(None);
    let user = |groups: &[&str], uid: &str, scope: &str| UserInfo {
        username: Some("ci".to_owned()),
        groups: Some(groups.iter().map(|it| (*it).to_owned()).collect()),
        uid: Some(uid.to_owned()),
        extra: Some([("scopes".to_owned(), vec![scope.to_owned()])].into()),
    };
    let users = [
        user(&["admins"], "1", "all"),
        user(&[], "1", "all"),
        user(&["admins"], "2", "all"),
        user(&["admins"], "1", "some"),
    ];
    for number in 1..=users.len() {
        for user in &users[..number] {
            let caller = callers.0.caller(user.clone()).unwrap();
            let allowed = callers.authorize(&caller, Right::Everything, "tools").await;
            allowed.unwrap();
        }
        assert_eq!(seen.lock().unwrap().len(), number);
    }
}
