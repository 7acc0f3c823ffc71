//! The service's own token for its API server.

use std::time::Duration;

use e2e::harness::PATIENCE;

use crate::support::{Secret, Seen, Stage};

/// The file is read again after a minute at most, and the pauses between two tries come on top.
const NOTICED: Duration = Duration::from_secs(90);

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_no_longer_good_is_replaced_without_a_restart() {
    let secret = Secret::new();
    let stage = Stage::bound_to("token", &secret).await;
    // The API server rejects the token from now on, like an expired one.
    drop(secret);
    let no_api_server = Seen::Refused("API_SERVER_UNAVAILABLE");
    stage.until_caller(no_api_server, PATIENCE).await;
    // A watch lives on after its token; the next one needs another.
    stage.reset();
    stage.take().await;
    stage.until_socket(Seen::AllowedThen, PATIENCE).await;
    stage.renew_token();
    stage.until_all(Seen::Denied, NOTICED).await;
    stage.give().await;
    stage.until_all(Seen::Allowed, PATIENCE).await;
    stage.end().await;
}
