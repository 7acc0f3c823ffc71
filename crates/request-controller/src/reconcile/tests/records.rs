//! What becomes of a decision that cannot be recorded, carried out or taken back.

use std::{
    io,
    sync::{Arc, Mutex, atomic::Ordering},
};

use http::StatusCode;
use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use super::{UPDATE, end_pod, grant_name, look};
use crate::{
    api::Name,
    apply::ApplyError,
    reconcile::ReconcileError,
    seen::OLDEST,
    testing::{ApiServer, Cluster},
};
use service_kit::controller::queue::Urgency;

async fn failure(cluster: &Cluster) -> ApplyError {
    match cluster.look().await.unwrap_err() {
        ReconcileError::Apply(error) => error,
        error @ (ReconcileError::Observe(_)
        | ReconcileError::Call(_)
        | ReconcileError::Lists(_)
        | ReconcileError::TooSlow
        | ReconcileError::Panicked) => panic!("{error}"),
    }
}

/// The RoleBinding becomes another one, which is not deleted under the old UID.
fn replace_binding(server: &ApiServer) {
    server.change("rolebindings", &grant_name(), |it| {
        it["metadata"]["uid"] = "another".into();
    });
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

    let cluster = ended(replace_binding).await;
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

#[tokio::test]
async fn what_a_finalizer_keeps_is_not_recorded_as_gone() {
    let cluster = Cluster::granted().await;
    let name = grant_name();
    let mut kept = cluster.server.named("rolebindings", &name).unwrap();
    kept["metadata"]["deletionTimestamp"] = "2026-03-01T10:00:05Z".into();
    kept["metadata"]["finalizers"] = json!(["example.com/mine"]);
    // As often as anybody deletes it.
    for _ in 0..5 {
        let kept = kept.clone();
        let write = "DELETE rolebindings";
        let back = move |server: &ApiServer| server.put("rolebindings", kept);
        cluster.server.after(write, back);
    }
    end_pod(&cluster.server);
    let error = cluster.look().await.unwrap_err();
    assert!(
        matches!(error, ReconcileError::Apply(ApplyError::Stuck(..))),
        "{error}"
    );
    assert_eq!(cluster.phase(), "Revoked");
    assert!(cluster.status()["revokedAt"].is_null());
}

#[tokio::test]
async fn a_foreign_object_does_not_keep_a_revocation_from_being_finished() {
    let cluster = Cluster::granted().await;
    let ours = cluster.server.named("roles", &grant_name()).unwrap();
    let mut foreign = ours.clone();
    foreign["metadata"]["labels"] = json!({});
    // Ours comes back twice, and then somebody puts his own in its place.
    for next in [ours.clone(), ours, foreign] {
        let write = "DELETE roles ";
        let take_its_place = move |server: &ApiServer| server.put("roles", next);
        cluster.server.after(write, take_its_place);
    }
    end_pod(&cluster.server);
    cluster.look().await.unwrap();
    assert!(cluster.status()["revokedAt"].is_string());
    let left = [format!("Role \"{}\"", grant_name())];
    assert_eq!(cluster.managed(), left, "what is not ours stays");
}

#[tokio::test]
async fn an_end_is_not_recorded_over_what_somebody_else_recorded() {
    let cluster = Cluster::granted().await;
    end_pod(&cluster.server);
    cluster.server.race(1);
    // Another leader is faster.
    cluster.server.after(UPDATE, |server| {
        server.change("accessrequests", "request", |it| {
            it["status"]["phase"] = "Revoked".into();
            it["status"]["revokedAt"] = "2026-03-01T10:00:09Z".into();
        });
    });
    cluster.look().await.unwrap_err();
    assert_eq!(cluster.status()["revokedAt"], "2026-03-01T10:00:09Z");
    assert!(
        cluster.managed().is_empty(),
        "what ends is gone all the same"
    );
}

#[tokio::test]
async fn what_cannot_be_removed_keeps_nothing_else() {
    let cluster = Cluster::granted().await;
    end_pod(&cluster.server);
    cluster.server.after(UPDATE, replace_binding);
    cluster.look().await.unwrap_err();
    assert!(cluster.server.all("roles").is_empty());
    cluster.look().await.unwrap();
    assert!(cluster.managed().is_empty());
}

#[tokio::test]
async fn a_stray_binding_that_stays_does_not_keep_its_role() {
    let cluster = Cluster::granted().await;
    cluster.server.remove("accessrequests", "request");
    cluster
        .server
        .refuse("DELETE rolebindings", StatusCode::INTERNAL_SERVER_ERROR);
    let controller = cluster.controller();
    let name = Name::new("tools", &grant_name());
    controller.grant(&name).await.unwrap_err();
    assert!(cluster.server.all("roles").is_empty());
}

#[tokio::test]
async fn a_role_that_somebody_widened_and_nobody_can_delete_loses_its_binding() {
    let cluster = Cluster::granted().await;
    let name = Name::new("tools", &grant_name());
    cluster.server.change("roles", &name.name, |it| {
        it["rules"][0]["resources"] = json!(["connectors/apis"]);
    });
    cluster
        .server
        .refuse("DELETE roles", StatusCode::INTERNAL_SERVER_ERROR);
    let controller = cluster.controller();
    let error = controller.grant(&name).await.unwrap_err().to_string();
    assert_eq!(error, format!("Role {name} cannot be deleted"));
    assert!(cluster.server.all("rolebindings").is_empty());
}

#[tokio::test]
async fn a_binding_that_somebody_widened_and_nobody_can_delete_loses_its_role() {
    let cluster = Cluster::granted().await;
    let name = Name::new("tools", &grant_name());
    cluster.server.change("rolebindings", &name.name, |it| {
        it["subjects"][0]["name"] = "intruder".into();
    });
    cluster
        .server
        .refuse("DELETE rolebindings", StatusCode::INTERNAL_SERVER_ERROR);
    let controller = cluster.controller();
    let error = controller.grant(&name).await.unwrap_err().to_string();
    assert_eq!(error, format!("RoleBinding {name} cannot be deleted"));
    assert!(cluster.server.all("roles").is_empty());
}

/// Two policies grant, for one minute and for three. That the first end cannot be recorded is tried again less and less
/// often, and the second comes in its time all the same.
#[tokio::test(start_paused = true)]
async fn an_end_that_comes_by_time_does_not_wait_for_what_failed_before_it() {
    let cluster = Cluster::new();
    let mut policy = cluster.server.named("accesspolicies", "p").unwrap();
    for (name, limit) in [("p", "1m"), ("q", "3m")] {
        policy["metadata"]["name"] = name.into();
        policy["metadata"]["uid"] = format!("{name}-uid").into();
        policy["spec"]["checkGrantedPermission"]["spec"]["limits"] = json!({"maxDuration": limit});
        cluster.server.put("accesspolicies", policy.clone());
    }
    cluster.approval("approved");
    cluster.look().await.unwrap();
    assert_eq!(cluster.managed().len(), 4);
    cluster.now.lock().unwrap().wall += jiff::SignedDuration::from_mins(1);
    cluster
        .server
        .refuse("PUT accessrequests/status", StatusCode::FORBIDDEN);
    let controller = cluster.controller();
    look(&controller).await.unwrap_err();
    assert_eq!(cluster.managed().len(), 2, "carried out all the same");
    let queue = controller.queues.of(0);
    queue.open(Urgency::Urgent);
    let begun = Instant::now();
    tokio::select! {
        _ = queue.take(&[Urgency::Urgent]) => {}
        () = tokio::time::sleep(Duration::from_mins(10)) => {}
    }
    let took = begun.elapsed().as_secs();
    assert!((119..=120).contains(&took), "{took} s");
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// The records so far, each with its request's phase.
    fn records(&self) -> Vec<(String, String)> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let lines = text
            .lines()
            .map(|it| serde_json::from_str::<Value>(it).unwrap());
        let records = lines.filter(|it| it["target"] == "decisions");
        records
            .map(|line| {
                let record: Value =
                    serde_json::from_str(line["fields"]["record"].as_str().unwrap()).unwrap();
                let text = |it: &Value| it.as_str().unwrap().to_owned();
                (text(&line["fields"]["message"]), text(&record["phase"]))
            })
            .collect()
    }
}

/// A request is granted, revoked, and deleted after some days; the deletion is refused.
async fn life_of_a_request() {
    let cluster = Cluster::granted().await;
    end_pod(&cluster.server);
    cluster.look().await.unwrap();
    cluster.server.remove("pods", "run-deploy-pod");
    cluster.look().await.unwrap();
    cluster.now.lock().unwrap().wall += SignedDuration::from_hours(24 * 30);
    cluster
        .server
        .refuse("DELETE accessrequests request", StatusCode::FORBIDDEN);
    cluster.look().await.unwrap_err();
}

/// The request is deleted some days after its end, and an auditor asks later.
#[tokio::test]
async fn each_decision_is_in_the_log_and_once_more_before_its_request_is_deleted() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    // Other tests may have met these lines first, on threads that have no subscriber.
    life_of_a_request().await;
    tracing::callsite::rebuild_interest_cache();
    lines.0.lock().unwrap().clear();
    life_of_a_request().await;
    let records = lines.records();
    let records: Vec<_> = records
        .iter()
        .map(|(what, phase)| (&**what, &**phase))
        .collect();
    let expected = [
        ("decided", "Granted"),
        ("decided", "Revoked"),
        ("to be deleted", "Revoked"),
    ];
    assert_eq!(records, expected);
}

/// A Role may be written by a call that arrives late.
#[tokio::test]
async fn a_prepared_role_that_no_cache_knows_is_gone_before_the_end_is_recorded() {
    let cluster = Cluster::granted().await;
    let other = crate::grant::name("request-uid", "q-uid");
    cluster
        .server
        .change("accessrequests", "request", |request| {
            let policies = request["status"]["policies"].as_array_mut().unwrap();
            let mut waits = policies[0].clone();
            waits["policy"]["metadata"]["uid"] = "q-uid".into();
            waits["preparedRules"] = waits["grant"]["rules"].take();
            waits.as_object_mut().unwrap().remove("grant");
            policies.push(waits);
        });
    let controller = cluster.controller();
    let mut late = cluster.server.named("roles", &grant_name()).unwrap();
    late["metadata"]["name"] = other.as_str().into();
    cluster.server.put("roles", late);
    end_pod(&cluster.server);
    look(&controller).await.unwrap();
    assert!(cluster.status()["revokedAt"].is_string());
    assert!(cluster.managed().is_empty(), "{:?}", cluster.managed());
}
