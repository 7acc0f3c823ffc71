//! What becomes of a decision that cannot be recorded, or not be written.

use std::sync::atomic::Ordering;

use http::StatusCode;
use serde_json::json;
use tokio::time::Instant;

use super::{UPDATE, end_pod, grant_name};
use crate::{
    apply::ApplyError,
    reconcile::ReconcileError,
    seen::OLDEST,
    testing::{ApiServer, Cluster},
};

async fn failure(cluster: &Cluster) -> ApplyError {
    match cluster.look().await.unwrap_err() {
        ReconcileError::Apply(error) => error,
        error @ (ReconcileError::Observe(_)
        | ReconcileError::Call(_)
        | ReconcileError::TooSlow
        | ReconcileError::Panicked) => panic!("{error}"),
    }
}

#[tokio::test]
async fn an_end_is_tried_a_few_times_then_carried_out_and_then_recorded() {
    for (conflicts, recorded_first) in [(0, true), (5, true), (6, false), (7, false)] {
        let cluster = Cluster::granted().await;
        end_pod(&cluster.server);
        cluster.server.race(conflicts);
        cluster.look().await.unwrap();
        let writes = cluster.server.writes();
        assert_eq!(
            writes[0] == UPDATE,
            recorded_first,
            "{conflicts}: {writes:?}"
        );
        assert_eq!(cluster.phase(), "Revoked");
        assert!(cluster.managed().is_empty());
    }
}

#[tokio::test]
async fn an_end_that_cannot_be_recorded_is_told_apart_from_one_of_a_process_that_leads_no_more() {
    let ended = async || {
        let cluster = Cluster::granted().await;
        end_pod(&cluster.server);
        cluster.server.refuse(UPDATE, StatusCode::FORBIDDEN);
        cluster
    };
    let cluster = ended().await;
    let error = failure(&cluster).await;
    let ApplyError::Unrecorded(why) = &error else {
        panic!("{error}");
    };
    assert!(matches!(**why, ApplyError::Call(_)), "{why}");

    let cluster = ended().await;
    let leads = cluster.leads.clone();
    let last = format!("DELETE roles {}", grant_name());
    cluster
        .server
        .after(&last, move |_| leads.store(false, Ordering::SeqCst));
    let error = failure(&cluster).await;
    assert!(matches!(error, ApplyError::NotLeading), "{error}");
}

#[tokio::test]
async fn a_write_that_is_refused_is_not_taken_for_a_name_that_is_taken() {
    for write in ["POST roles", "POST rolebindings"] {
        let cluster = Cluster::new();
        cluster.approval("approved");
        cluster.server.refuse(write, StatusCode::FORBIDDEN);
        let error = failure(&cluster).await;
        let ApplyError::Call(refused) = &error else {
            panic!("{error}");
        };
        assert_eq!(refused.status(), Some(403));
        assert_ne!(cluster.phase(), "Granted");
    }
}

#[tokio::test]
async fn what_was_written_before_a_failure_is_kept_and_the_rest_is_added() {
    let cluster = Cluster::new();
    cluster.approval("approved");
    cluster
        .server
        .refuse("POST rolebindings", StatusCode::INTERNAL_SERVER_ERROR);
    failure(&cluster).await;
    cluster.server.accept();
    cluster.server.forget_writes();
    cluster.look().await.unwrap();
    let binding = format!("POST rolebindings {}", grant_name());
    let writes = cluster.server.writes();
    assert!(writes.contains(&binding), "{writes:?}");
    assert!(
        !writes.iter().any(|it| it.starts_with("DELETE")),
        "{writes:?}"
    );
    assert_eq!(cluster.phase(), "Granted");
}

#[tokio::test]
async fn what_went_by_itself_is_gone_and_what_became_another_is_looked_at_again() {
    let ended = async |hook: fn(&ApiServer)| {
        let cluster = Cluster::granted().await;
        end_pod(&cluster.server);
        cluster.server.after(UPDATE, hook);
        cluster
    };
    let cluster = ended(|server| server.remove("roles", &grant_name())).await;
    cluster.look().await.unwrap();
    assert_eq!(cluster.phase(), "Revoked");

    let cluster = ended(|server| {
        server.change("rolebindings", &grant_name(), |it| {
            it["metadata"]["uid"] = "another".into();
        });
    })
    .await;
    let error = failure(&cluster).await;
    assert!(matches!(error, ApplyError::Conflict(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_grant_is_not_waited_for_longer_than_what_it_was_decided_on_lasts() {
    let cluster = Cluster::new();
    cluster.approval("approved");
    cluster.server.ignore("POST roles");
    let now = cluster.now.clone();
    cluster.server.after(UPDATE, move |_| {
        now.lock().unwrap().mono += OLDEST.mul_f64(0.8);
    });
    let asked = Instant::now();
    failure(&cluster).await;
    assert_eq!(asked.elapsed().as_secs(), OLDEST.as_secs() / 5);
}

#[tokio::test]
async fn only_a_request_that_changed_or_went_is_decided_anew_when_its_first_status_is_refused() {
    for (answer, is_conflict) in [
        (StatusCode::NOT_FOUND, true),
        (StatusCode::CONFLICT, true),
        (StatusCode::FORBIDDEN, false),
        (StatusCode::UNPROCESSABLE_ENTITY, false),
    ] {
        let cluster = Cluster::new();
        cluster.server.change("accessrequests", "request", |it| {
            it["spec"] = json!({"unknown": true});
        });
        cluster
            .server
            .refuse("PATCH accessrequests/status request", answer);
        let error = failure(&cluster).await;
        assert_eq!(
            matches!(error, ApplyError::Conflict(_)),
            is_conflict,
            "{answer}: {error}"
        );
    }
}
