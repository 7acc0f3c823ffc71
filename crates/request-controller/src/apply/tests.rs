//! What a conflict of a status leads to, and what is written in advance.

use connectors_api::access_request::Phase;
use serde_json::{Value, json};

use super::*;
use crate::testing::Cluster;

fn request(cluster: &Cluster) -> AccessRequest {
    let request = cluster.server.named("accessrequests", "request").unwrap();
    serde_json::from_value(request).unwrap()
}

/// A client that keeps changing metadata cannot prevent the record; what the end was decided on may be another now.
#[tokio::test]
async fn after_a_conflict_an_end_is_recorded_only_if_nothing_but_other_metadata_changed() {
    type Change = fn(&mut Value);
    let changes: [(Change, bool); 5] = [
        (|it| it["metadata"]["annotations"] = json!({"a": "b"}), true),
        (
            |it| it["metadata"]["deletionTimestamp"] = "2026-03-01T10:00:05Z".into(),
            false,
        ),
        (|it| it["metadata"]["uid"] = "another".into(), false),
        (
            |it| it["spec"]["connectorRef"]["name"] = "git".into(),
            false,
        ),
        (
            |it| it["status"]["revokedAt"] = "2026-03-01T10:00:09Z".into(),
            false,
        ),
    ];
    for (change, is_recorded) in changes {
        let cluster = Cluster::granted().await;
        let decided = request(&cluster);
        let mut status = decided.status.clone().unwrap();
        status.phase = Some(Phase::Revoked);
        cluster.server.change("accessrequests", "request", change);
        let live = request(&cluster);
        let recorded = cluster.controller().applier.record(&decided, &status).await;
        match &recorded {
            Ok(written) => assert_eq!(written.status, Some(status)),
            Err(error) => assert!(error.is_conflict(), "{error}"),
        }
        assert_eq!(recorded.is_ok(), is_recorded, "{live:?}");
        assert_eq!(cluster.phase() == "Revoked", is_recorded);
    }
}

/// The decided copy may be older than the request that describes the grant.
#[tokio::test]
async fn only_a_live_read_takes_a_written_grant_back() {
    for (is_over, is_kept) in [(false, true), (true, false)] {
        let cluster = Cluster::granted().await;
        let end = |it: &mut Value| {
            it["status"]["policies"][0]["grant"]["expiresAt"] = "2026-03-01T10:00:00Z".into();
        };
        let live = request(&cluster);
        let grant = grant::of_entry(&live, &live.status.as_ref().unwrap().policies[0]).unwrap();
        let mut decided = serde_json::to_value(&live).unwrap();
        end(&mut decided);
        let decided = serde_json::from_value(decided).unwrap();
        if is_over {
            cluster.server.change("accessrequests", "request", end);
        }
        let applier = cluster.controller().applier;
        let confirmed = applier.confirm(&decided, &[grant]).await;
        assert_eq!(confirmed.is_ok(), is_kept);
        assert_eq!(cluster.managed().is_empty(), !is_kept);
    }
}

/// Where the definition of an older version is installed, the API server drops the field of the status.
#[tokio::test]
async fn no_role_is_prepared_that_the_stored_status_does_not_describe() {
    let cluster = Cluster::new();
    cluster.look().await.unwrap();
    let described = request(&cluster);
    let entry = &described.status.as_ref().unwrap().policies[0];
    let role = grant::prepared(&described, entry).unwrap().role;
    cluster
        .server
        .remove("roles", role.metadata.name.as_deref().unwrap());
    let mut dropped = described.clone();
    dropped.status.as_mut().unwrap().policies[0].prepared_rules = vec![];
    let applier = cluster.controller().applier;
    for (stored, roles) in [(dropped, 0), (described, 1)] {
        applier.prepare(&stored, std::slice::from_ref(&role)).await;
        assert_eq!(cluster.server.all("roles").len(), roles);
    }
}

/// A grant writes what is missing, so a request waits for its place only for a moment.
#[tokio::test(start_paused = true)]
async fn no_role_is_prepared_while_many_others_are() {
    let cluster = Cluster::new();
    let controller = cluster.controller();
    // Those of the pod's namespace. Others have theirs.
    let take = |_| controller.applier.preparing.take("apps".to_owned());
    let places = join_all((0..IN_ADVANCE_OF_ONE).map(take)).await;
    let other = controller.applier.preparing.take("other".to_owned());
    drop(timeout(Duration::ZERO, other).await.unwrap());
    let begun = tokio::time::Instant::now();
    controller
        .request(&Cluster::request(), begun)
        .await
        .unwrap();
    assert_eq!(cluster.phase(), "Pending");
    assert_eq!(cluster.server.all("roles").len(), 0);
    assert_eq!(begun.elapsed(), WAIT_FOR_PLACE);
    drop(places);
    assert_eq!(controller.applier.preparing.tenants(), 0);
}

/// The API server takes seconds where the progress of its watches is slow.
#[tokio::test(start_paused = true)]
async fn a_role_in_advance_may_take_as_long_as_two_lists_of_the_api_server() {
    let cluster = Cluster::new();
    cluster.server.ignore("POST roles");
    let begun = tokio::time::Instant::now();
    cluster.look().await.unwrap();
    assert_eq!(cluster.phase(), "Pending");
    assert_eq!(begun.elapsed(), Duration::from_secs(8));
}
