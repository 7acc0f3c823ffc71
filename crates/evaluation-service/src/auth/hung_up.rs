//! Whoever hangs up, wherever it waits, takes no turn, no place and no review with it.

use std::convert::Infallible;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::poll;
use http::header::AUTHORIZATION;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use kube::client::Body;
use prometheus::Registry;
use serde_json::{Value, json};
use tokio::time::{Instant, advance, sleep};

use super::*;

const LIMITS: CallerLimits = CallerLimits {
    calls: 8,
    streams: 2,
};
/// What a review takes.
const REVIEW: Duration = Duration::from_millis(300);
/// Who waits is looked at that often, and hangs up at one of these moments.
const STEP: Duration = Duration::from_millis(50);

fn token(audience: &str) -> String {
    let claims = json!({"aud": audience, "exp": clock::now().as_second() + 3600});
    format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()))
}

/// An API server that knows everybody, and lets them do everything but what mounts need alone.
fn callers() -> CallerReviews {
    let service = tower::service_fn(|request: Request<Body>| async move {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        sleep(REVIEW).await;
        let mut review: Value = serde_json::from_slice(&body).unwrap();
        let spec = review["spec"].clone();
        review["status"] = if spec["token"].is_null() {
            json!({"allowed": spec["resourceAttributes"]["subresource"].is_null()})
        } else {
            let pod = json!({
                "authentication.kubernetes.io/pod-name": ["deploy"], "authentication.kubernetes.io/pod-uid": ["u"],
            });
            json!({
                "authenticated": true, "audiences": spec["audiences"],
                "user": {"username": "system:serviceaccount:devops:builder", "extra": pod},
            })
        };
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(review.to_string()))))
    });
    let metrics = Metrics::register(&Registry::new()).unwrap();
    let (client, indexed) = (Client::new(service, "default"), IndexedRights::none());
    CallerReviews::new(client, metrics, LIMITS, indexed, None)
}

/// All that is asked of the API server for one call: whose the token is, two rights, whose the other token is.
async fn asks(callers: &CallerReviews) -> Caller {
    let mut headers = HeaderMap::new();
    let bearer = format!("Bearer {}", token(TOKEN_AUDIENCE));
    headers.insert(AUTHORIZATION, bearer.parse().unwrap());
    let caller = callers.authenticate(&headers).await.unwrap();
    let allowed = callers.authorize(&caller, Right::Mount, "tools").await;
    allowed.unwrap();
    let subject = token(evaluation_api::POD_TOKEN_AUDIENCE);
    callers.owner_of(&caller, &subject).await.unwrap();
    caller
}

/// Waits for something so many steps long; whether it came to its end.
async fn waits(steps: usize, something: impl Future) -> bool {
    let mut something = std::pin::pin!(something);
    for _ in 0..=steps {
        if poll!(&mut something).is_ready() {
            return true;
        }
        advance(STEP).await;
    }
    false
}

fn are_places_free(callers: &CallerReviews) -> bool {
    let AuthState {
        unknown_reviews,
        known_reviews,
        subject_reviews,
        access_reviews,
        ..
    } = &*callers.0;
    let all = [
        (unknown_reviews, UNKNOWN_REVIEWS),
        (known_reviews, KNOWN_REVIEWS),
        (subject_reviews, SUBJECT_REVIEWS),
        (access_reviews, ACCESS_REVIEWS),
    ];
    all.iter()
        .all(|(free, all)| free.available_permits() == *all)
}

/// How many questions at the same time a caller may ask of the API server yet.
fn left(caller: &Caller) -> usize {
    let mut asked = Vec::new();
    while let Some(Ok(place)) = futures::FutureExt::now_or_never(caller.quotas.question()) {
        asked.push(place);
    }
    asked.len()
}

#[tokio::test(start_paused = true)]
async fn whoever_hangs_up_at_any_moment_leaves_everything_free() {
    let mut ended = 0;
    let all = left(&asks(&callers()).await);
    for steps in 0..40 {
        for is_known in [false, true] {
            let callers = callers();
            if is_known {
                asks(&callers).await;
                // What was found is forgotten, and that the token was good is not.
                advance(PERMISSION_HOLDS).await;
            }
            ended += usize::from(waits(steps, asks(&callers)).await);
            assert!(are_places_free(&callers), "{steps}");
            let before = Instant::now();
            let caller = asks(&callers).await;
            // Nothing that was left behind is waited for.
            assert!(
                before.elapsed() <= 4 * REVIEW,
                "{steps}: {:?}",
                before.elapsed()
            );
            assert_eq!(left(&caller), all, "{steps}");
        }
    }
    assert!((10..70).contains(&ended), "{ended}");
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_behind_somebody_who_hangs_up_has_the_turn_at_once() {
    for steps in 0..24 {
        let callers = callers();
        let mut first = Box::pin(asks(&callers));
        assert!(poll!(&mut first).is_pending());
        let behind = callers.clone();
        let began = Instant::now();
        let second = tokio::spawn(async move {
            asks(&behind).await;
            began.elapsed()
        });
        assert!(!waits(steps, &mut first).await, "{steps}");
        let hung_up = began.elapsed();
        drop(first);
        let took = second.await.unwrap();
        assert!(took <= hung_up + 4 * REVIEW + STEP, "{steps}: {took:?}");
    }
}
