//! The certificates of the service are replaced on disk while callers hold connections, and while they make new
//! ones.

use std::fs;
use std::path::PathBuf;

use e2e::harness::PATIENCE;
use evaluation_api::client::{Client, Code};
use tokio::time::{Instant, sleep};

use crate::support::{Authority, Pair, Seen, Stage, replace};

/// A file of roots beside the others, and a client that trusts them and has no connection yet.
fn newcomer(stage: &Stage, name: &str, roots: &str) -> (Client, PathBuf) {
    let file = stage.process().dir().join(name);
    replace(&file, roots);
    (stage.another_asker(file.clone()), file)
}

async fn finds_in(stage: &Stage, client: &Client) {
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = client.check_access(stage.question()).await {
        assert_eq!(error.code(), Some(Code::Unavailable), "{error}");
        assert!(Instant::now() < deadline, "{error}");
        sleep(std::time::Duration::from_millis(200)).await;
    }
}

async fn is_kept_out(stage: &Stage, client: &Client) {
    let error = client.check_access(stage.question()).await.unwrap_err();
    assert_eq!(
        (error.code(), error.reason()),
        (Some(Code::Unavailable), None),
        "{error}"
    );
    assert!(
        error.to_string().contains("invalid peer certificate"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_authority_in_its_order_is_noticed_by_nobody() {
    let stage = Stage::new("rotated").await;
    let (old, new) = (stage.authority().pem(), Authority::new("new"));
    let roots = stage.process().dir().join("ca.crt");
    replace(&roots, &(old.clone() + &new.pem()));
    stage.process().replace_pair(&new.sign());
    let (only_new, _) = newcomer(&stage, "new.crt", &new.pem());
    finds_in(&stage, &only_new).await;
    // A client that trusts both sees no change, and a new one does not either.
    let (both, _) = newcomer(&stage, "both.crt", &(old.clone() + &new.pem()));
    both.check_access(stage.question()).await.unwrap();
    replace(&roots, &new.pem());
    let (only_old, _) = newcomer(&stage, "old.crt", &old);
    is_kept_out(&stage, &only_old).await;
    stage.take().await;
    stage.until_all(Seen::Denied, PATIENCE).await;
    let counts = stage.counts();
    assert_eq!(counts.get(&Seen::Unreached), None, "{counts:?}");
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_that_do_not_know_the_new_authority_yet_keep_what_they_have_and_find_in_later() {
    let stage = Stage::new("early").await;
    let new = Authority::new("new");
    let (late, roots) = newcomer(&stage, "late.crt", &stage.authority().pem());
    let (only_new, _) = newcomer(&stage, "new.crt", &new.pem());
    stage.process().replace_pair(&new.sign());
    finds_in(&stage, &only_new).await;
    is_kept_out(&stage, &late).await;
    // A client with a connection goes on.
    stage.take().await;
    stage.until_all(Seen::Denied, PATIENCE).await;
    assert_eq!(stage.counts().get(&Seen::Unreached), None);
    replace(&roots, &new.pem());
    finds_in(&stage, &late).await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pair_that_is_none_changes_nothing() {
    let stage = Stage::new("half").await;
    let (one, other) = (stage.authority().sign(), stage.authority().sign());
    stage.process().replace_pair(&Pair {
        certificate: one.certificate,
        key: other.key,
    });
    stage
        .process()
        .until_logged("changed TLS files are not used")
        .await;
    let (newcomer, roots) = newcomer(&stage, "same.crt", &stage.authority().pem());
    newcomer.check_access(stage.question()).await.unwrap();
    stage.process().replace_pair(&stage.authority().sign());
    stage.process().until_logged("TLS files changed").await;
    fs::remove_file(roots).unwrap();
    newcomer.check_access(stage.question()).await.unwrap();
    stage.end().await;
}
