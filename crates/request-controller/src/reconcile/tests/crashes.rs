//! The process dies at each call in turn, before it was carried out and after.

use tokio::time::Instant;

use super::{ENDS, end_pod};
use crate::testing::{Break, Cluster};

/// Runs one look that breaks down at each call in turn, and hands the cluster to the test.
async fn broken_at_each_call<F: Future<Output = ()>>(
    start: impl AsyncFn() -> Cluster,
    then: impl Fn(Cluster, Break) -> F,
) {
    let cluster = start().await;
    cluster.server.breaks(Break::Never);
    cluster.look().await.unwrap();
    let calls = cluster.server.calls();
    assert!(calls > 4);
    for call in 0..calls {
        for breaks in [Break::Before(call), Break::After(call)] {
            let cluster = start().await;
            cluster.server.breaks(breaks);
            let _ = cluster.look().await;
            cluster.server.breaks(Break::Never);
            then(cluster, breaks).await;
        }
    }
}

async fn approved() -> Cluster {
    let cluster = Cluster::new();
    // From this look on the connector is known by its UID.
    cluster.look().await.unwrap();
    cluster.approval("approved");
    cluster
}

/// The Role was not written in advance: the grant writes both.
async fn approved_at_once() -> Cluster {
    let cluster = approved().await;
    cluster.server.remove("roles", &super::grant_name());
    cluster
}

/// Whatever was written is described by the request, and the other way round once it is granted.
fn is_safe(cluster: &Cluster, breaks: Break) {
    let entry = &cluster.status()["policies"][0];
    if !cluster.gives_nothing() {
        assert!(entry["grant"].is_object(), "{breaks:?}: {entry}");
    }
    if !cluster.managed().is_empty() {
        let is_described = entry["grant"].is_object() || entry["preparedRules"].is_array();
        assert!(is_described, "{breaks:?}: {entry}");
    }
    if cluster.phase() == "Granted" {
        assert_eq!(cluster.managed().len(), 2, "{breaks:?}");
    }
    if cluster.status()["revokedAt"].is_string() {
        assert!(cluster.managed().is_empty(), "{breaks:?}");
    }
}

#[tokio::test]
async fn a_crash_at_any_call_of_a_grant_is_safe_and_the_grant_is_made_after_a_restart() {
    broken_at_each_call(approved, granted_after_a_restart).await;
    broken_at_each_call(approved_at_once, granted_after_a_restart).await;
}

#[tokio::test]
async fn a_crash_at_any_call_of_a_first_look_delays_no_grant() {
    broken_at_each_call(
        async || Cluster::new(),
        |cluster, breaks| async move {
            is_safe(&cluster, breaks);
            cluster.approval("approved");
            granted_after_a_restart(cluster, breaks).await;
        },
    )
    .await;
}

async fn granted_after_a_restart(cluster: Cluster, breaks: Break) {
    is_safe(&cluster, breaks);
    cluster.restart().await;
    assert_eq!(
        (cluster.phase().as_str(), cluster.managed().len()),
        ("Granted", 2),
        "{breaks:?}"
    );
}

#[tokio::test]
async fn a_crash_at_any_call_of_a_grant_leaves_nothing_if_it_is_not_wanted_after_the_restart() {
    for (_, end) in ENDS {
        broken_at_each_call(approved, |cluster, breaks| async move {
            end(&cluster.server);
            cluster.restart().await;
            is_safe(&cluster, breaks);
            assert!(
                cluster.gives_nothing(),
                "{breaks:?}: {:?}",
                cluster.status()
            );
            let is_open = cluster.phase() == "Pending";
            assert!(is_open || cluster.managed().is_empty(), "{breaks:?}");
            assert_ne!(cluster.phase(), "Granted", "{breaks:?}");
        })
        .await;
    }
}

#[tokio::test]
async fn a_crash_at_any_call_of_a_revocation_is_finished_after_a_restart() {
    let ended = async || {
        let cluster = Cluster::granted().await;
        end_pod(&cluster.server);
        cluster
    };
    broken_at_each_call(ended, |cluster, breaks| async move {
        is_safe(&cluster, breaks);
        cluster.restart().await;
        assert_eq!(
            (cluster.phase().as_str(), cluster.managed().len()),
            ("Revoked", 0),
            "{breaks:?}"
        );
        assert!(cluster.status()["revokedAt"].is_string(), "{breaks:?}");
    })
    .await;
}

#[tokio::test]
async fn a_request_deleted_after_a_crash_at_any_call_leaves_nothing() {
    broken_at_each_call(approved, |cluster, breaks| async move {
        cluster.server.remove("accessrequests", "request");
        cluster.restart().await;
        assert!(cluster.managed().is_empty(), "{breaks:?}");
    })
    .await;
}

#[tokio::test]
async fn two_leaders_at_once_do_no_harm() {
    for prepares in [false, true] {
        two_leaders(prepares).await;
    }
}

async fn two_leaders(prepares: bool) {
    let cluster = Cluster::new();
    if prepares {
        cluster.look().await.unwrap();
    }
    cluster.approval("approved");
    let (one, two) = (cluster.controller(), cluster.controller());
    let name = Cluster::request();
    let both = || async {
        let (one, two) = tokio::join!(
            one.request(&name, Instant::now()),
            two.request(&name, Instant::now())
        );
        one.is_ok() || two.is_ok()
    };
    assert!(Box::pin(both()).await);
    cluster.restart().await;
    assert_eq!(
        (cluster.phase().as_str(), cluster.managed().len()),
        ("Granted", 2)
    );
    end_pod(&cluster.server);
    cluster.fill(&one);
    assert!(Box::pin(both()).await);
    cluster.restart().await;
    assert_eq!(
        (cluster.phase().as_str(), cluster.managed().len()),
        ("Revoked", 0)
    );
}
