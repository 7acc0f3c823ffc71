//! What is too old to be said is not said.

use std::time::Duration;

use evaluation_api::client::{EvaluationCallError, Event};
use evaluation_api::refusal::Reason;
use futures::future::join_all;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tonic::Code;

use crate::FOLLOWED;
use crate::explain::asked;
use crate::fake_api::FakeApi;
use crate::world::{SOON, World, next, question};

/// No decision rests on these: they are told of when it is explained.
const ONLY_EXPLAINED: [&str; 3] = ["accesspolicies", "connectors", "namespaces"];

/// Shorter than anybody may ask for, so that a test has time to be late.
const MOST: Duration = Duration::from_secs(2);

/// Asks until there is no answer any more, which is because it would be too old.
async fn until_stale<T>(call: impl AsyncFn() -> Result<T, EvaluationCallError>) {
    let refused = async {
        loop {
            if let Err(error) = call().await {
                return error;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    let error = timeout(SOON, refused).await.unwrap();
    assert_eq!(error.code(), Some(Code::Unavailable), "{error}");
    assert_eq!(error.reason(), Some(Reason::CacheStale), "{error}");
    assert!(error.may_pass());
}

async fn stale(world: &World) {
    until_stale(async || world.client.check_access(question()).await).await;
}

/// The watches that are not mute hear something all the time.
fn bookmarks(world: &World) -> JoinHandle<()> {
    let api = world.api.clone();
    tokio::spawn(async move {
        loop {
            api.bookmark();
            sleep(Duration::from_millis(100)).await;
        }
    })
}

#[tokio::test]
async fn after_a_long_silence_nothing_is_answered_and_what_was_said_does_not_count() {
    let world = World::start_with(FakeApi::new(), MOST).await;
    world.ready().await;
    let mut watched = world.client.watcher().watch(question());
    assert!(matches!(next(&mut watched).await, Event::Answer(_)));
    // The stream ends by itself: nobody asks anything in between.
    assert_eq!(next(&mut watched).await, Event::Disconnected);
    stale(&world).await;
    let who = world.client.who_can(crate::listing::target()).await;
    assert_eq!(who.unwrap_err().reason(), Some(Reason::CacheStale));
    let batch = world.client.batch_check_access(&[question()]).await;
    assert_eq!(batch.unwrap_err().reason(), Some(Reason::CacheStale));

    // One bookmark on each watch is enough, and the stream comes back by itself.
    let alive = bookmarks(&world);
    assert!(matches!(next(&mut watched).await, Event::Answer(_)));
    let answer = world.client.check_access(question()).await.unwrap();
    let fresh = answer.fresh_as_of.unwrap();
    let longer = timeout(MOST * 2, watched.next()).await;
    assert!(longer.is_err(), "{longer:?}");
    let later = world.client.check_access(question()).await.unwrap();
    assert!(later.fresh_as_of.unwrap() > fresh);
    alive.abort();
}

#[tokio::test]
async fn one_silent_watch_is_enough_to_be_stale_whichever_it_is() {
    join_all(FOLLOWED.map(async |silent| {
        let world = World::start_with(FakeApi::new(), MOST).await;
        world.ready().await;
        world.api.mute(silent);
        let alive = bookmarks(&world);
        if ONLY_EXPLAINED.contains(&silent) {
            until_stale(async || world.client.explain(asked()).await).await;
            assert!(
                world.client.check_access(question()).await.is_ok(),
                "{silent}"
            );
        } else {
            stale(&world).await;
        }
        alive.abort();
    }))
    .await;
}
