//! What is being deleted and kept by a finalizer counts as deleted, whether the caches know of it or a live look finds
//! it. A pod is there until it is gone, and gets nothing new.

use serde_json::json;

use super::{look, older};
use crate::testing::{ApiServer, Cluster};

/// Every kind that a grant is decided on.
const ALL: [(&str, &str); 5] = [
    ("accessrequests", "request"),
    ("pods", "run-deploy-pod"),
    ("connectors", "harbor"),
    ("accesspolicies", "p"),
    ("configmaps", "approval-1"),
];

/// Somebody deletes it, and something keeps it.
fn keep(server: &ApiServer, plural: &str, name: &str) {
    server.change(plural, name, |it| {
        it["metadata"]["deletionTimestamp"] = "2026-03-01T10:00:05Z".into();
        it["metadata"]["finalizers"] = json!(["example.com/keeps"]);
    });
}

#[tokio::test]
async fn what_is_being_deleted_lets_nobody_in_whether_the_caches_know_or_not() {
    for (plural, name) in ALL {
        for caches_know in [false, true] {
            let cluster = Cluster::new();
            cluster.approval("approved");
            let controller = cluster.controller();
            keep(&cluster.server, plural, name);
            if caches_know {
                cluster.fill(&controller);
            }
            for _ in 0..2 {
                let _ = look(&controller).await;
                let said = format!("{plural}, caches know: {caches_know}");
                assert!(cluster.gives_nothing(), "{said}");
                assert_ne!(cluster.phase(), "Granted", "{said}");
            }
        }
    }
}

#[tokio::test]
async fn what_is_being_deleted_ends_a_grant_as_its_deletion_does() {
    let (stays, goes) = (("Granted", 2), ("Revoked", 0));
    for (latch, plural, name, expected) in [
        ("Auto", "connectors", "harbor", goes),
        ("Auto", "accesspolicies", "p", goes),
        ("Auto", "pods", "run-deploy-pod", stays),
        ("Auto", "configmaps", "approval-1", stays),
        ("WhileHolds", "configmaps", "approval-1", goes),
        // Nothing is recorded in it any more.
        ("Auto", "accessrequests", "request", ("Granted", 0)),
    ] {
        let cluster = Cluster::new();
        cluster.server.change("accesspolicies", "p", |it| {
            it["spec"]["checkGrantedPermission"]["spec"]["checks"][0]["latch"] = latch.into();
        });
        cluster.approval("approved");
        cluster.look().await.unwrap();
        assert_eq!((cluster.phase().as_str(), cluster.managed().len()), stays);
        keep(&cluster.server, plural, name);
        cluster.look().await.unwrap();
        let found = (cluster.phase(), cluster.managed().len());
        assert_eq!((found.0.as_str(), found.1), expected, "{latch} {plural}");
    }
}

/// What cannot be read keeps its grants while it is there, and not once it is being deleted.
#[tokio::test]
async fn a_policy_that_cannot_be_read_any_more_keeps_nothing_once_it_is_being_deleted() {
    for (kept, expected) in [(false, ("Granted", 2)), (true, ("Revoked", 0))] {
        let cluster = Cluster::new();
        cluster.approval("approved");
        cluster.look().await.unwrap();
        cluster.server.change("accesspolicies", "p", |it| {
            it["spec"]["checkGrantedPermission"] = "unreadable".into();
        });
        if kept {
            keep(&cluster.server, "accesspolicies", "p");
        }
        cluster.look().await.unwrap();
        let found = (cluster.phase(), cluster.managed().len());
        assert_eq!((found.0.as_str(), found.1), expected, "kept: {kept}");
    }
}

#[tokio::test]
async fn nobody_is_the_duplicate_of_a_request_that_is_being_deleted() {
    for caches_know in [false, true] {
        let cluster = Cluster::new();
        older(&cluster);
        cluster.approval("approved");
        let controller = cluster.controller();
        keep(&cluster.server, "accessrequests", "older");
        if caches_know {
            cluster.fill(&controller);
        }
        let _ = look(&controller).await;
        assert_ne!(cluster.phase(), "Invalid", "caches know: {caches_know}");
        cluster.restart().await;
        assert_eq!(cluster.phase(), "Granted");
    }
}
