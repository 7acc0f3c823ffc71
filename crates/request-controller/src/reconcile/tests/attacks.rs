//! What somebody who may write some of the objects cannot achieve.

use http::StatusCode;
use serde_json::{Value, json};
use tonic::Code;

use super::{UPDATE, end_pod, grant_name};
use crate::{
    apply::ApplyError,
    cache::Job,
    reconcile::ReconcileError,
    testing::{ApiServer, Break, Cluster},
};
use service_kit::controller::queue::{Looked, Taken, Urgency};
use tokio::time::Instant;

const KINDS: [(&str, &str); 2] = [("rolebindings", "RoleBinding"), ("roles", "Role")];

/// Somebody's own object under the name that a grant will have.
fn squat(server: &ApiServer, plural: &str, kind: &str) {
    let mut object = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": {
            "name": grant_name(), "namespace": "tools", "uid": "squatted",
            "ownerReferences": [{
                "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessRequest",
                "name": "nobody", "uid": "nobody",
            }],
        },
    });
    if kind == "RoleBinding" {
        object["roleRef"] =
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "mine"});
    }
    server.put(plural, object);
}

#[tokio::test]
async fn a_foreign_object_under_the_name_is_left_and_named_and_nothing_of_the_grant_stays() {
    for (plural, kind) in KINDS {
        let cluster = Cluster::new();
        cluster.look().await.unwrap();
        squat(&cluster.server, plural, kind);
        cluster.approval("approved");
        let error = cluster.look().await.unwrap_err();
        assert!(
            matches!(error, ReconcileError::Apply(ApplyError::Foreign(..))),
            "{error}"
        );
        let conditions = cluster.status()["conditions"].clone();
        let sync = conditions.as_array().unwrap().iter();
        let sync = sync
            .clone()
            .find(|it| it["type"] == "AccessPermissionSync")
            .unwrap();
        assert_eq!(sync["reason"], "AccessPermissionSyncFailed");
        let message = sync["message"].as_str().unwrap();
        let named = format!("{kind} tools/{} is in the way", grant_name());
        assert!(message.contains(&named), "{message}");
        assert_eq!(
            cluster.managed(),
            [format!("{kind} \"{}\"", grant_name())],
            "the squatter alone"
        );

        // Neither the sweep nor the end of the request is held up by it.
        crate::sweep::sweep(&cluster.controller(), 0, std::time::Duration::ZERO)
            .await
            .unwrap();
        end_pod(&cluster.server);
        cluster.look().await.unwrap();
        assert_eq!(cluster.managed().len(), 1);
        cluster.server.remove(plural, &grant_name());
    }
}

#[tokio::test]
async fn the_owner_that_a_foreign_object_names_takes_nothing_from_a_grant() {
    let cluster = Cluster::granted().await;
    let name = grant_name();
    cluster.server.remove("rolebindings", &name);
    squat(&cluster.server, "rolebindings", "RoleBinding");
    let controller = cluster.controller();
    let name = crate::api::Name::new("tools", &name);
    assert_eq!(controller.grant(&name).await.unwrap(), 0);
    assert_eq!(cluster.managed().len(), 2);
}

#[tokio::test]
async fn an_object_that_cannot_be_removed_holds_up_neither_the_sweep_nor_its_counterpart() {
    let cluster = Cluster::granted().await;
    let name = grant_name();
    let stray = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "car-kept", "namespace": "tools", "labels": {
            "app.kubernetes.io/managed-by": "connectors-approval",
            "connectors.alauda.io/accessRequestUid": "nobody",
        }},
    });
    cluster.server.put("roles", stray);
    cluster.server.keep("car-kept");
    cluster.server.remove("accessrequests", "request");
    let controller = cluster.controller();
    let swept = crate::sweep::sweep(&controller, 0, std::time::Duration::ZERO)
        .await
        .unwrap();
    assert_eq!((swept.removed, swept.left), (2, 1));
    assert_eq!(cluster.managed(), ["Role \"car-kept\""], "{name}");
    controller.queues.of(0).open(Urgency::Urgent);
    let again = controller.queues.of(0).take(&[Urgency::Urgent]).await;
    let kept = crate::api::Name::new("tools", "car-kept");
    assert_eq!(again.job, Job::Grant(kept), "it is tried again on its own");
}

#[tokio::test]
async fn a_look_that_fails_has_the_grants_of_its_request_looked_at() {
    let cluster = Cluster::granted().await;
    end_pod(&cluster.server);
    let controller = cluster.controller();
    cluster.server.breaks(Break::Before(0));
    let taken = Taken {
        job: Job::Request(Cluster::request()),
        since: Instant::now(),
    };
    assert_eq!(controller.look(&taken).await, Looked::Failed);
    controller.queues.of(0).open(Urgency::Urgent);
    let next = controller.queues.of(0).take(&[Urgency::Urgent]).await;
    let grant = crate::api::Name::new("tools", &grant_name());
    assert_eq!(next.job, Job::Grant(grant));
}

#[tokio::test]
async fn a_status_that_cannot_be_written_does_not_keep_a_grant() {
    let answers = [
        StatusCode::UNPROCESSABLE_ENTITY,
        StatusCode::PAYLOAD_TOO_LARGE,
        StatusCode::FORBIDDEN,
        StatusCode::INTERNAL_SERVER_ERROR,
        StatusCode::CONFLICT,
    ];
    for answer in answers {
        for (reason, end) in super::ENDS {
            let cluster = Cluster::granted().await;
            end(&cluster.server);
            cluster.server.refuse(UPDATE, answer);
            cluster.look().await.unwrap_err();
            assert!(cluster.managed().is_empty(), "{answer} {reason}");
            cluster.look().await.unwrap_err();
            assert!(cluster.managed().is_empty(), "{answer} {reason}");
            cluster.server.accept();
            cluster.look().await.unwrap();
            assert_eq!(cluster.phase(), "Revoked", "{answer} {reason}");
            assert!(cluster.status()["revokedAt"].is_string());
        }
    }
}

#[tokio::test]
async fn whoever_keeps_changing_the_metadata_does_not_keep_an_end_from_being_recorded() {
    let cluster = Cluster::granted().await;
    end_pod(&cluster.server);
    cluster.server.race(3);
    cluster.look().await.unwrap();
    assert_eq!(
        (cluster.phase().as_str(), cluster.managed().len()),
        ("Revoked", 0)
    );
    let cluster = Cluster::new();
    cluster.look().await.unwrap();
    cluster.approval("rejected");
    cluster.server.race(3);
    cluster.look().await.unwrap();
    assert_eq!(cluster.phase(), "Rejected");
}

#[tokio::test]
async fn a_sweep_has_requests_looked_at_whose_pod_is_over_whatever_their_status_says() {
    let ends: [fn(&ApiServer); 2] = [end_pod, |server| server.remove("pods", "run-deploy-pod")];
    for end in ends {
        let cluster = Cluster::granted().await;
        end(&cluster.server);
        let controller = cluster.controller();
        crate::sweep::sweep(&controller, 0, std::time::Duration::ZERO)
            .await
            .unwrap();
        controller.queues.of(0).open(Urgency::Urgent);
        let taken = controller.queues.of(0).take(&[Urgency::Urgent]).await;
        assert_eq!(taken.job, Job::Request(Cluster::request()));
    }
    let cluster = Cluster::granted().await;
    let controller = cluster.controller();
    crate::sweep::sweep(&controller, 0, std::time::Duration::ZERO)
        .await
        .unwrap();
    assert!(controller.queues.of(0).is_drained(Urgency::Urgent));
}

#[tokio::test]
async fn a_deletion_in_the_foreground_does_not_keep_a_grant() {
    for finalizer in ["foregroundDeletion", "orphan"] {
        let cluster = Cluster::granted().await;
        let name = grant_name();
        cluster.server.change("rolebindings", &name, |it| {
            it["metadata"]["deletionTimestamp"] = "2026-03-01T10:00:05Z".into();
            it["metadata"]["finalizers"] = json!([finalizer]);
        });
        let name = crate::api::Name::new("tools", &name);
        cluster.controller().grant(&name).await.unwrap();
        assert!(cluster.server.all("rolebindings").is_empty());
        assert_eq!(cluster.server.all("roles").len(), 1);
    }
    // Any other finalizer is somebody's own, and deleting once more changes nothing.
    let cluster = Cluster::granted().await;
    cluster.server.change("rolebindings", &grant_name(), |it| {
        it["metadata"]["deletionTimestamp"] = "2026-03-01T10:00:05Z".into();
        it["metadata"]["finalizers"] = json!(["example.com/mine"]);
    });
    let name = crate::api::Name::new("tools", &grant_name());
    cluster.controller().grant(&name).await.unwrap();
    assert!(cluster.server.writes().is_empty());
}

/// A second policy, of the same connector and asker, whose check is of this kind.
fn second_policy(cluster: &Cluster, api_version: &str, kind: &str) {
    let mut policy = cluster.server.named("accesspolicies", "p").unwrap();
    policy["metadata"]["name"] = "q".into();
    policy["metadata"]["uid"] = "q-uid".into();
    policy["spec"]["checkGrantedPermission"]["spec"]["checks"][0]["selector"]["objectRef"] =
        json!({"apiVersion": api_version, "kind": kind});
    cluster.server.put("accesspolicies", policy);
}

#[tokio::test]
async fn a_policy_that_cannot_be_judged_keeps_no_grant_of_another() {
    for (reason, end) in super::ENDS {
        let cluster = Cluster::granted().await;
        // Nobody ever finds out whether there is such a kind.
        second_policy(&cluster, "metrics.k8s.io/v1beta1", "PodMetrics");
        cluster.look().await.unwrap();
        assert_eq!(
            (cluster.phase().as_str(), cluster.managed().len()),
            ("Granted", 2)
        );
        end(&cluster.server);
        cluster.look().await.unwrap();
        assert!(cluster.managed().is_empty(), "{reason}");
    }
    // The first one alone ends, and the request with it, for the second never gave anything.
    let cluster = Cluster::granted().await;
    second_policy(&cluster, "metrics.k8s.io/v1beta1", "PodMetrics");
    cluster.approval("expired");
    cluster.look().await.unwrap();
    assert_eq!(cluster.phase(), "Revoked");
}

/// The entry that somebody who may write statuses would like to see granted.
fn forged(cluster: &Cluster, labels: &Value) -> Value {
    let policy = cluster.server.named("accesspolicies", "p").unwrap();
    let mut kept = json!({
        "apiVersion": policy["apiVersion"], "kind": policy["kind"],
        "metadata": {"name": "p", "namespace": "tools", "uid": "p-uid", "generation": 1},
        "spec": {
            "permission": "apis",
            "checkGrantedPermission": {"spec": policy["spec"]["checkGrantedPermission"]["spec"]},
        },
    });
    let check = &mut kept["spec"]["checkGrantedPermission"]["spec"]["checks"][0];
    check["latch"] = "Once".into();
    check["selector"]["labels"] = labels.clone();
    json!([{
        "policy": kept,
        "checkRefs": [{"name": "approval", "ref": {
            "apiVersion": "v1", "kind": "ConfigMap", "namespace": "apps", "name": "evil", "uid": "evil-uid",
        }}],
        "grant": {"state": "Granting", "grantedAt": "2026-03-01T10:00:00Z", "rules": [
            {"resources": [crate::testing::cluster::RESOURCE], "verbs": ["*"]},
        ]},
    }])
}

#[tokio::test]
async fn a_status_that_somebody_else_wrote_gives_nothing() {
    for is_recorded in [false, true] {
        let cluster = Cluster::new();
        cluster.look().await.unwrap();
        cluster.server.put("configmaps", json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "evil", "namespace": "apps", "uid": "evil-uid", "labels": {"evil": "yes"}},
            "status": {"state": "approved"},
        }));
        let entries = forged(&cluster, &json!({"evil": "yes"}));
        cluster.server.change("accessrequests", "request", |it| {
            it["status"]["policies"] = entries;
            if is_recorded {
                it["status"]["grantedAt"] = "2026-03-01T10:00:00Z".into();
                it["status"]["evidence"] = "sha256:0".into();
                it["status"]["connectorUid"] = "connector-uid".into();
            }
        });
        for _ in 0..3 {
            cluster.look().await.unwrap();
            assert!(cluster.gives_nothing(), "{is_recorded}");
            assert_ne!(cluster.phase(), "Granted");
        }
        // What the policy itself asks for is granted once it is there, unless the forgery ended it.
        cluster.approval("approved");
        cluster.look().await.unwrap();
        assert_eq!(cluster.managed().len(), if is_recorded { 0 } else { 2 });
    }
}

#[tokio::test]
async fn what_was_taken_away_comes_back_under_the_policy_as_it_is_now() {
    let edit = |cluster: &Cluster, label: &str| {
        cluster.server.change("accesspolicies", "p", |it| {
            let check = &mut it["spec"]["checkGrantedPermission"]["spec"]["checks"][0];
            check["selector"]["labels"] = json!({label: "{.object.metadata.name}"});
        });
    };
    // It finds the approval still, under another name of the check's own label.
    let cluster = Cluster::granted().await;
    cluster.server.change("configmaps", "approval-1", |it| {
        it["metadata"]["labels"]["other"] = "run-deploy-pod".into();
    });
    edit(&cluster, "other");
    cluster.restart().await;
    assert_eq!(cluster.phase(), "Granted", "an edit alone changes nothing");
    cluster.server.remove("rolebindings", &grant_name());
    cluster.restart().await;
    assert_eq!(
        (cluster.phase().as_str(), cluster.managed().len()),
        ("Granted", 2)
    );
    let kept = &cluster.status()["policies"][0]["policy"]["spec"];
    let labels = kept.pointer("/checkGrantedPermission/spec/checks/0/selector/labels");
    assert!(labels.unwrap()["other"].is_string(), "{kept}");

    // It finds none.
    let cluster = Cluster::granted().await;
    edit(&cluster, "nothing");
    cluster.server.remove("rolebindings", &grant_name());
    cluster.restart().await;
    assert_eq!(
        (cluster.phase().as_str(), cluster.managed().len()),
        ("Revoked", 0)
    );

    // It does not apply any more.
    let cluster = Cluster::granted().await;
    cluster.server.change("accesspolicies", "p", |it| {
        it["spec"]["checkGrantedPermission"]["requesters"][0]["name"] = "somebody".into();
        it["spec"]["checkGrantedPermission"]["spec"]["limits"] = json!({"maxDuration": "1h"});
    });
    cluster.server.remove("rolebindings", &grant_name());
    cluster.restart().await;
    assert_eq!(
        (cluster.phase().as_str(), cluster.managed().len()),
        ("Revoked", 0)
    );

    // It is for other connectors by now, which says nothing about what it asks for.
    let cluster = Cluster::granted().await;
    cluster.server.change("accesspolicies", "p", |it| {
        it["spec"]["connector"] = json!({"names": ["another"]});
    });
    cluster.restart().await;
    assert_eq!(cluster.phase(), "Granted", "an edit alone changes nothing");
    cluster.server.remove("rolebindings", &grant_name());
    cluster.restart().await;
    assert_eq!(
        (cluster.phase().as_str(), cluster.managed().len()),
        ("Revoked", 0)
    );

    // Nobody can be asked: that is found out later.
    let cluster = Cluster::granted().await;
    edit(&cluster, "run2");
    cluster.server.change("configmaps", "approval-1", |it| {
        it["metadata"]["labels"]["run2"] = "run-deploy-pod".into();
    });
    cluster.server.remove("rolebindings", &grant_name());
    cluster
        .answers
        .store(false, std::sync::atomic::Ordering::SeqCst);
    cluster.look().await.unwrap();
    assert_ne!(cluster.phase(), "Revoked");
    cluster
        .answers
        .store(true, std::sync::atomic::Ordering::SeqCst);
    cluster.restart().await;
    assert_eq!(
        (cluster.phase().as_str(), cluster.managed().len()),
        ("Granted", 2)
    );
}

pub(super) fn message(cluster: &Cluster, type_: &str) -> String {
    let conditions = cluster.status()["conditions"].clone();
    let mut all = conditions.as_array().unwrap().iter();
    let found = all.find(|it| it["type"] == type_).unwrap();
    format!(
        "{}: {}",
        found["reason"].as_str().unwrap(),
        found["message"].as_str().unwrap()
    )
}

/// The notes of the events at the pod.
pub(super) fn told(cluster: &Cluster) -> String {
    let events = cluster.server.events();
    let at_pod = events.iter().filter(|it| it["regarding"]["kind"] == "Pod");
    let notes = at_pod.filter_map(|it| it["note"].as_str());
    notes.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn kinds_that_the_controller_reads_for_itself_are_never_checks() {
    let cluster = Cluster::new();
    cluster.server.change("accesspolicies", "p", |it| {
        it["spec"]["checkGrantedPermission"]["spec"]["checks"][0]["selector"]["objectRef"] =
            json!({"apiVersion": "v1", "kind": "Pod"});
    });
    cluster.look().await.unwrap();
    let said = message(&cluster, "AccessCheckReady");
    assert!(said.starts_with("AccessCheckFailed"), "{said}");
    assert!(said.contains("kind Pod of v1 are never checks"), "{said}");
}

#[tokio::test]
async fn an_object_too_large_to_be_a_check_is_none_and_lapses_what_it_let_through() {
    let grow = |cluster: &Cluster| {
        cluster.server.change("configmaps", "approval-1", |it| {
            it["data"] = json!({"much": "x".repeat(256 * 1024)});
        });
    };
    let cluster = Cluster::new();
    cluster.approval("approved");
    grow(&cluster);
    cluster.look().await.unwrap();
    assert!(cluster.managed().is_empty());
    let said = told(&cluster);
    assert!(
        said.contains(
            "ConfigMap approval-1 has more than 256 KiB, which is too large to be a check"
        ),
        "{said}"
    );
    // A controller that has not listed the kind yet reads it itself, and says the same.
    let before = cluster.status();
    cluster.look().await.unwrap();
    assert_eq!(cluster.status(), before);
    cluster.approval("approved");
    cluster.look().await.unwrap();
    assert_eq!(cluster.phase(), "Granted");
    grow(&cluster);
    cluster.look().await.unwrap();
    assert_eq!(
        (cluster.phase().as_str(), cluster.managed().len()),
        ("Revoked", 0)
    );
}

#[tokio::test]
async fn what_is_refused_as_a_whole_does_not_hold_and_what_is_not_answered_stays() {
    for (code, holds) in [
        (Code::InvalidArgument, false),
        (Code::OutOfRange, false),
        (Code::ResourceExhausted, true),
        (Code::Unavailable, true),
        (Code::DeadlineExceeded, true),
        (Code::Unauthenticated, true),
        (Code::Internal, true),
    ] {
        let cluster = Cluster::granted().await;
        *cluster.refuses.lock().unwrap() = Some(code);
        cluster.look().await.unwrap();
        let expected = if holds {
            ("Granted", 2)
        } else {
            ("Revoked", 0)
        };
        let is = (cluster.phase(), cluster.managed().len());
        assert_eq!((is.0.as_str(), is.1), expected, "{code:?}");
    }
}
