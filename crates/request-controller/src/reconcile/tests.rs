mod answers;
mod attacks;
mod costs;
mod crashes;
mod creators;
mod crowd;
mod deleting;
mod gates;
mod guards;
mod lineage;
mod records;
mod slow_lists;
mod standing;
mod sweeps;
mod waits;

use std::{sync::atomic::Ordering, time::Duration};

use prometheus::Histogram;
use serde_json::{Value, json};
use service_kit::controller::{
    queue::{Looked, Urgency},
    worker::LookError,
};
use service_kit::retry::CallError;
use tokio::time::Instant;

use super::{ReconcileError, Reconciler};
use crate::{
    api::Name,
    apply::ApplyError,
    observe::ObserveError,
    plan::NotOurs,
    testing::{ApiServer, Cluster},
};

/// The name of the Role and the RoleBinding.
fn grant_name() -> String {
    crate::grant::name("request-uid", "p-uid")
}

const UPDATE: &str = "PUT accessrequests/status request";

async fn look(controller: &Reconciler) -> Result<(), ReconcileError> {
    let name = Cluster::request();
    controller.request(&name, Instant::now()).await.map(|_| ())
}

fn end_pod(server: &ApiServer) {
    server.change("pods", "run-deploy-pod", |pod| {
        pod["status"]["phase"] = "Succeeded".into();
    });
}

#[tokio::test]
async fn an_approval_leads_to_evidence_role_binding_and_grant_in_this_order() {
    let cluster = Cluster::new();
    let name = grant_name();
    cluster.look().await.unwrap();
    assert_eq!(
        (cluster.phase().as_str(), cluster.server.writes()),
        (
            "Pending",
            vec![UPDATE.to_owned(), format!("POST roles {name}")]
        )
    );
    cluster.approval("pending");
    cluster.look().await.unwrap();
    cluster.server.forget_writes();
    cluster.look().await.unwrap();
    assert!(cluster.server.writes().is_empty(), "nothing has changed");

    cluster.approval("approved");
    cluster.look().await.unwrap();
    assert_eq!(
        cluster.server.writes(),
        [
            UPDATE.to_owned(),
            format!("POST rolebindings {name}"),
            UPDATE.to_owned(),
        ]
    );
    assert_eq!(cluster.phase(), "Granted");
    let role = cluster.server.named("roles", &name).unwrap();
    assert_eq!(
        role["rules"],
        json!([{
            "apiGroups": ["connectors.alauda.io"],
            "resources": ["connectors/apis/v1/pod/apps/run-deploy-pod"],
            "resourceNames": ["harbor"],
            "verbs": ["*"],
        }])
    );
    let binding = cluster.server.named("rolebindings", &name).unwrap();
    assert_eq!(
        binding["subjects"],
        json!([{"kind": "ServiceAccount", "name": "builder", "namespace": "apps"}])
    );
    assert_eq!(
        binding["roleRef"],
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name})
    );
    cluster.server.forget_writes();
    cluster.look().await.unwrap();
    assert!(cluster.server.writes().is_empty());
}

#[tokio::test]
async fn the_end_of_the_pod_is_recorded_before_binding_and_role_are_removed() {
    let cluster = Cluster::granted().await;
    end_pod(&cluster.server);
    cluster.look().await.unwrap();
    let name = grant_name();
    assert_eq!(
        cluster.server.writes(),
        [
            UPDATE.to_owned(),
            format!("DELETE rolebindings {name}"),
            format!("DELETE roles {name}"),
            UPDATE.to_owned(),
        ]
    );
    assert_eq!(cluster.phase(), "Revoked");
    assert!(cluster.status()["revokedAt"].is_string());
    assert!(cluster.managed().is_empty());
}

type End = fn(&ApiServer);

/// What ends a grant, each as somebody in the cluster does it.
const ENDS: [(&str, End); 6] = [
    ("PodFinished", end_pod),
    ("PodGone", |server| server.remove("pods", "run-deploy-pod")),
    ("PodGone", |server| {
        server.change("pods", "run-deploy-pod", |pod| {
            pod["metadata"]["uid"] = "another".into();
        });
    }),
    ("CheckLapsed", |server| {
        server.change("configmaps", "approval-1", |it| {
            it["status"]["state"] = "expired".into();
        });
    }),
    ("PolicyDeleted", |server| {
        server.remove("accesspolicies", "p");
    }),
    ("ConnectorDeleted", |server| {
        server.change("connectors", "harbor", |it| {
            it["metadata"]["uid"] = "another".into();
        });
    }),
];

#[tokio::test]
async fn whatever_ends_a_grant_leaves_nothing_of_it() {
    for (reason, end) in ENDS {
        let cluster = Cluster::granted().await;
        end(&cluster.server);
        cluster.look().await.unwrap();
        assert!(cluster.managed().is_empty(), "{reason}");
        let conditions = cluster.status()["conditions"].clone();
        let ready = conditions
            .as_array()
            .unwrap()
            .iter()
            .find(|it| it["type"] == "Ready")
            .unwrap();
        assert_eq!(
            (cluster.phase().as_str(), &ready["reason"]),
            ("Revoked", &reason.into())
        );
    }
}

#[tokio::test]
async fn a_class_selects_the_connector_whatever_its_labels_say() {
    for (class, is_granted) in [("harbor", true), ("git", false)] {
        let cluster = Cluster::new();
        cluster.server.change("connectors", "harbor", |it| {
            it["metadata"]["labels"] = json!({"connectors.cpaas.io/connectorclass": "git"});
        });
        cluster.server.change("accesspolicies", "p", |it| {
            let class = json!({"connectors.cpaas.io/connectorclass": class});
            it["spec"]["connector"] = json!({"selector": {"matchLabels": class}});
        });
        cluster.approval("approved");
        cluster.look().await.unwrap();
        assert_eq!(cluster.phase() == "Granted", is_granted, "{class}");
    }
}

#[tokio::test]
async fn caches_that_are_behind_grant_nothing() {
    let changes: [fn(&ApiServer); 6] = [
        end_pod,
        |server| server.remove("pods", "run-deploy-pod"),
        |server| server.remove("accesspolicies", "p"),
        |server| server.remove("connectors", "harbor"),
        |server| server.remove("configmaps", "approval-1"),
        |server| {
            server.change("configmaps", "approval-1", |it| {
                it["status"]["state"] = "pending".into();
            });
        },
    ];
    for change in changes {
        let cluster = Cluster::new();
        cluster.approval("approved");
        let controller = cluster.controller();
        change(&cluster.server);
        let _ = controller
            .request(&Cluster::request(), Instant::now())
            .await;
        assert!(cluster.gives_nothing());
        assert_ne!(cluster.phase(), "Granted");
    }
}

#[tokio::test]
async fn what_changes_while_a_grant_is_written_takes_it_back_at_once() {
    let cluster = Cluster::new();
    cluster.approval("approved");
    cluster.server.after("POST rolebindings", |server| {
        server.change("accessrequests", "request", |it| {
            it["status"]["phase"] = "Revoked".into();
        });
    });
    let error = cluster.look().await.unwrap_err();
    assert!(
        matches!(error, ReconcileError::Apply(ApplyError::NotOurs(_))),
        "{error}"
    );
    assert!(cluster.managed().is_empty());

    let cluster = Cluster::new();
    cluster.approval("approved");
    cluster.server.after("POST rolebindings", |server| {
        server.remove("accessrequests", "request");
    });
    cluster.look().await.unwrap_err();
    assert!(cluster.managed().is_empty());
}

#[tokio::test]
async fn a_request_that_somebody_else_wrote_meanwhile_is_decided_anew() {
    let cluster = Cluster::new();
    cluster.approval("approved");
    let controller = cluster.controller();
    cluster.server.after("PUT accessrequests/status", |server| {
        // Whatever it was, the version is another one.
        server.change("accessrequests", "request", |it| {
            it["metadata"]["annotations"] = json!({"a": "b"});
        });
    });
    controller
        .request(&Cluster::request(), Instant::now())
        .await
        .unwrap();
    assert_eq!(cluster.phase(), "Granted");

    let cluster = Cluster::granted().await;
    let behind = cluster.controller();
    end_pod(&cluster.server);
    cluster.look().await.unwrap();
    let before = cluster.status();
    behind
        .request(&Cluster::request(), Instant::now())
        .await
        .unwrap();
    assert_eq!(cluster.status(), before);
}

#[tokio::test]
async fn something_else_under_the_name_is_removed_and_never_adopted() {
    let name = grant_name();
    let kinds = [("roles", "Role"), ("rolebindings", "RoleBinding")];
    for (plural, kind) in kinds {
        let cluster = Cluster::new();
        cluster.approval("approved");
        let mut squatter = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
            "metadata": {"name": name, "namespace": "tools", "labels": {
                "app.kubernetes.io/managed-by": "connectors-approval",
            }},
        });
        if kind == "RoleBinding" {
            squatter["roleRef"] =
                json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name});
            squatter["subjects"] =
                json!([{"kind": "User", "name": "eve", "apiGroup": "rbac.authorization.k8s.io"}]);
        } else {
            squatter["rules"] = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
        }
        cluster.server.put(plural, squatter);
        let error = cluster.look().await.unwrap_err();
        assert!(
            matches!(error, ReconcileError::Apply(ApplyError::NotExact(..))),
            "{error}"
        );
        assert!(cluster.managed().is_empty());
        cluster.look().await.unwrap();
        assert_eq!(
            (cluster.phase().as_str(), cluster.managed().len()),
            ("Granted", 2)
        );
    }
}

#[tokio::test]
async fn a_grant_that_was_changed_or_removed_by_hand_is_made_anew() {
    let name = grant_name();
    let changes: [&dyn Fn(&ApiServer); 3] = [
        &|server| server.remove("roles", &name),
        &|server| server.remove("rolebindings", &name),
        &|server| {
            server.change("roles", &name, |it| {
                it["rules"][0]["resourceNames"] = json!(["another"]);
            });
        },
    ];
    for change in changes {
        let cluster = Cluster::granted().await;
        change(&cluster.server);
        cluster
            .controller()
            .grant(&crate::api::Name::new("tools", &name))
            .await
            .unwrap();
        cluster.restart().await;
        assert_eq!(
            (cluster.phase().as_str(), cluster.managed().len()),
            ("Granted", 2)
        );
        // The approval is gone now: what is taken away does not come back.
        cluster.server.remove("configmaps", "approval-1");
        cluster.restart().await;
        assert_eq!(
            cluster.phase(),
            "Granted",
            "deletion of the approval alone changes nothing"
        );
        change(&cluster.server);
        cluster.restart().await;
        assert_eq!(
            (cluster.phase().as_str(), cluster.managed().len()),
            ("Revoked", 0)
        );
    }
}

#[tokio::test]
async fn nothing_is_written_on_reads_that_have_become_too_old() {
    let cluster = Cluster::new();
    cluster.approval("approved");
    let now = std::sync::Arc::clone(&cluster.now);
    cluster.server.after("POST roles", move |_| {
        now.lock().unwrap().mono += Duration::from_secs(5);
    });
    let error = cluster.look().await.unwrap_err();
    assert!(
        matches!(error, ReconcileError::Apply(ApplyError::Stale)),
        "{error}"
    );
    assert!(cluster.server.all("rolebindings").is_empty());
}

#[tokio::test]
async fn a_process_that_does_not_lead_writes_nothing() {
    let cluster = Cluster::new();
    cluster.approval("approved");
    cluster.leads.store(false, Ordering::SeqCst);
    let error = cluster.look().await.unwrap_err();
    assert!(
        matches!(error, ReconcileError::Apply(ApplyError::NotLeading)),
        "{error}"
    );
    assert!(cluster.server.writes().is_empty());

    let cluster = Cluster::granted().await;
    let leads = std::sync::Arc::clone(&cluster.leads);
    end_pod(&cluster.server);
    cluster
        .server
        .after(UPDATE, move |_| leads.store(false, Ordering::SeqCst));
    cluster.look().await.unwrap_err();
    assert_eq!(cluster.server.writes(), [UPDATE]);
}

#[tokio::test]
async fn without_an_evaluation_service_nothing_is_granted_and_nothing_taken_back() {
    let cluster = Cluster::new();
    cluster.approval("approved");
    cluster.answers.store(false, Ordering::SeqCst);
    cluster.look().await.unwrap();
    assert_eq!(
        (cluster.phase().as_str(), cluster.managed().len()),
        ("Pending", 0)
    );

    let cluster = Cluster::granted().await;
    cluster.answers.store(false, Ordering::SeqCst);
    cluster.server.change("configmaps", "approval-1", |it| {
        it["status"]["state"] = "expired".into();
    });
    cluster.look().await.unwrap();
    assert_eq!(
        (cluster.phase().as_str(), cluster.managed().len()),
        ("Granted", 2)
    );
    // What ends a grant without anybody being asked still does.
    end_pod(&cluster.server);
    cluster.look().await.unwrap();
    assert_eq!(
        (cluster.phase().as_str(), cluster.managed().len()),
        ("Revoked", 0)
    );
}

#[tokio::test]
async fn a_sweep_removes_what_no_request_describes_and_leaves_what_is_not_ours() {
    let cluster = Cluster::granted().await;
    let name = grant_name();
    let stray = |name: &str, uid: Value| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": name, "namespace": "tools", "labels": {
                "app.kubernetes.io/managed-by": "connectors-approval",
                "connectors.alauda.io/accessRequestUid": uid,
            }},
            "rules": [],
        })
    };
    cluster
        .server
        .put("roles", stray("car-other", "other-uid".into()));
    cluster
        .server
        .put("roles", stray("car-same", "request-uid".into()));
    let mut standing = stray("standing", Value::Null);
    standing["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "connectors-approval"});
    cluster.server.put("roles", standing);
    let swept = crate::sweep::sweep(&cluster.controller(), 0, Duration::ZERO)
        .await
        .unwrap();
    assert_eq!((swept.managed, swept.removed), (4, 2));
    assert_eq!(
        cluster.managed(),
        [
            format!("RoleBinding \"{name}\""),
            format!("Role \"{name}\""),
            "Role \"standing\"".to_owned()
        ]
    );

    cluster.server.remove("accessrequests", "request");
    crate::sweep::sweep(&cluster.controller(), 0, Duration::ZERO)
        .await
        .unwrap();
    assert_eq!(cluster.managed(), ["Role \"standing\""]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_read_says_so_once_and_keeps_nothing() {
    let unknown = |it: &mut Value| it["spec"]["connectorNmae"] = "x".into();
    let cluster = Cluster::new();
    cluster.server.change("accessrequests", "request", unknown);
    cluster.look().await.unwrap();
    cluster.look().await.unwrap();
    assert_eq!(
        cluster.server.writes(),
        ["PATCH accessrequests/status request"]
    );
    assert_eq!(cluster.phase(), "Invalid");
    assert_eq!(cluster.status()["conditions"][5]["reason"], "Unreadable");

    let cluster = Cluster::granted().await;
    cluster.server.change("accessrequests", "request", unknown);
    let before = cluster.status();
    let controller = cluster.controller();
    controller
        .request(&Cluster::request(), Instant::now())
        .await
        .unwrap();
    controller.queues.of(0).open(Urgency::Urgent);
    let urgent = controller.queues.of(0).take(&[Urgency::Urgent]);
    let taken = tokio::time::timeout(Duration::from_secs(1), urgent).await;
    let taken = taken.expect("its grant is to be looked at");
    let looked = controller.look(&taken).await;
    assert_eq!(looked, Looked::Done);
    assert!(cluster.managed().is_empty());
    assert_eq!(cluster.status(), before);
}

/// An older request of the same tuple.
fn older(cluster: &Cluster) {
    let mut other = cluster.server.named("accessrequests", "request").unwrap();
    other["metadata"]["name"] = "older".into();
    other["metadata"]["uid"] = "older-uid".into();
    other["metadata"]["creationTimestamp"] = "2026-03-01T09:00:00Z".into();
    cluster.server.put("accessrequests", other);
}

#[tokio::test]
async fn of_two_requests_of_one_tuple_the_later_grants_nothing_and_goes_with_the_first() {
    let cluster = Cluster::new();
    older(&cluster);
    cluster.approval("approved");
    cluster.look().await.unwrap();
    assert_eq!(
        (cluster.phase().as_str(), cluster.managed().len()),
        ("Invalid", 0)
    );
    cluster.look().await.unwrap();
    cluster.server.remove("accessrequests", "older");
    cluster.look().await.unwrap();
    assert!(cluster.server.named("accessrequests", "request").is_none());
}

#[tokio::test]
async fn nobody_is_the_duplicate_of_a_request_that_is_gone() {
    let cluster = Cluster::new();
    older(&cluster);
    cluster.approval("approved");
    let controller = cluster.controller();
    cluster.server.remove("accessrequests", "older");
    let name = Cluster::request();
    let _ = controller.request(&name, Instant::now()).await;
    assert_ne!(cluster.phase(), "Invalid");
    cluster.restart().await;
    assert_eq!(cluster.phase(), "Granted");
}

#[tokio::test]
async fn what_is_recorded_has_the_time_at_which_it_was_done() {
    let cluster = Cluster::granted().await;
    let at = |cluster: &Cluster, field: &str| -> jiff::Timestamp {
        let time = cluster.status()[field].clone();
        time.as_str().unwrap().parse().unwrap()
    };
    let now = service_kit::clock::whole_seconds(cluster.now.lock().unwrap().wall);
    assert_eq!(at(&cluster, "grantedAt"), now);
    end_pod(&cluster.server);
    cluster.restart().await;
    assert_eq!(at(&cluster, "revokedAt"), now);
}

#[tokio::test]
async fn a_sweep_knows_whose_time_is_over() {
    let cluster = Cluster::granted().await;
    cluster.server.change("accessrequests", "request", |it| {
        it["status"]["policies"][0]["grant"]["expiresAt"] = "2000-01-01T00:00:00Z".into();
    });
    let swept = crate::sweep::sweep(&cluster.controller(), 0, Duration::ZERO)
        .await
        .unwrap();
    assert_eq!((swept.removed, cluster.managed().len()), (2, 0));
}

#[test]
fn each_failure_is_counted_under_its_cause() {
    let call = || CallError::NoAnswer {
        call: "get it".to_owned(),
        attempts: 1,
    };
    let name = || Name::new("tools", "g");
    let stale = Box::new(ApplyError::Stale);
    let table: [(ReconcileError, &str); 14] = [
        (ObserveError::LinksLate.into(), "observe"),
        (ApplyError::Conflict("it".to_owned()).into(), "conflict"),
        (ApplyError::NotOurs(NotOurs::Gone).into(), "not-ours"),
        (ApplyError::NotExact("Role", name()).into(), "not-ours"),
        (ApplyError::Foreign("Role", name()).into(), "not-ours"),
        (ApplyError::Stale.into(), "stale"),
        (ReconcileError::TooSlow, "stale"),
        (ApplyError::NotLeading.into(), "not-leading"),
        (ApplyError::Unrecorded(stale).into(), "unrecorded"),
        (ApplyError::Call(call()).into(), "apply"),
        (
            ApplyError::Kept("Role", name(), Box::new(call())).into(),
            "apply",
        ),
        (ApplyError::Stuck("Role", name()).into(), "apply"),
        (call().into(), "read"),
        (ReconcileError::Panicked, "panic"),
    ];
    for (error, word) in table {
        assert_eq!(error.word(), word, "{error}");
    }
}

#[tokio::test]
async fn the_look_that_grants_and_the_look_that_revokes_are_timed_and_no_other() {
    let cluster = Cluster::new();
    let controller = cluster.controller();
    let timed = async || {
        for _ in 0..2 {
            cluster.fill(&controller);
            look(&controller).await.unwrap();
        }
        let metrics = &controller.metrics;
        [&metrics.granting, &metrics.revoking].map(Histogram::get_sample_count)
    };
    assert_eq!(timed().await, [0, 0]);
    cluster.approval("approved");
    assert_eq!(timed().await, [1, 0]);
    end_pod(&cluster.server);
    assert_eq!(timed().await, [1, 1]);
}
