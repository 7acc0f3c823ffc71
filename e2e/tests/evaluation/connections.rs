//! Connections to the API server that end, and connections on which nothing comes any more.

use e2e::harness::PATIENCE;

use crate::support::{MOST, Seen, Stage, Way};

const STALE: Seen = Seen::Refused("CACHE_STALE");
const NO_API_SERVER: Seen = Seen::Refused("API_SERVER_UNAVAILABLE");

#[tokio::test(flavor = "multi_thread")]
async fn what_is_taken_while_the_watches_are_cut_is_noticed_when_they_are_back() {
    let stage = Stage::new("cut").await;
    for _ in 0..2 {
        stage.set(Way::Refused);
        stage.reset();
        stage.take().await;
        // The service did not learn of it; its answer is about the time before.
        stage.until_socket(Seen::AllowedThen, PATIENCE).await;
        stage.until_caller(NO_API_SERVER, PATIENCE).await;
        stage.set(Way::Open);
        stage.until_all(Seen::Denied, PATIENCE).await;
        stage.give().await;
        stage.until_all(Seen::Allowed, PATIENCE).await;
    }
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_broken_off_again_and_again_lose_no_change() {
    let stage = Stage::new("broken").await;
    for _ in 0..10 {
        stage.take().await;
        stage.reset();
        stage.until_socket(Seen::Denied, PATIENCE).await;
        stage.give().await;
        stage.reset();
        stage.until_socket(Seen::Allowed, PATIENCE).await;
    }
    stage.until_all(Seen::Allowed, PATIENCE).await;
    stage.end().await;
}

/// Nothing tells a lost connection from a quiet one but that it is quiet for too long.
#[tokio::test(flavor = "multi_thread")]
async fn watches_that_fall_silent_are_begun_anew_before_anything_is_stale() {
    let stage = Stage::new("silent").await;
    stage.silence();
    stage.take().await;
    stage.until_socket(Seen::AllowedThen, PATIENCE).await;
    stage.until_socket(Seen::Denied, MOST).await;
    let counts = stage.counts();
    assert_eq!(counts.get(&STALE), None, "{counts:?}");
    stage.until_all(Seen::Denied, PATIENCE).await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_word_from_the_api_server_answers_end_with_the_bound() {
    let stage = Stage::new("black-hole").await;
    stage.set(Way::Silent);
    stage.silence();
    stage.take().await;
    stage.until_socket(Seen::AllowedThen, PATIENCE).await;
    stage.until_caller(NO_API_SERVER, PATIENCE).await;
    stage.until_socket(STALE, MOST + PATIENCE).await;
    // A client on a stream is not left with the old yes.
    stage.until_streams_end(PATIENCE).await;
    // The old connections stay lost; only new ones come through.
    stage.set(Way::Open);
    stage.until_all(Seen::Denied, 2 * PATIENCE).await;
    stage.end().await;
}
