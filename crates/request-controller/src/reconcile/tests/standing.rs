//! A standing permission that comes while a request waits.

use std::sync::atomic::Ordering;

use serde_json::Value;
use tokio::time::Duration;
use tonic::Code;

use super::{UPDATE, grant_name, look};
use crate::{
    cache::World,
    grant,
    reconcile::Reconciler,
    seen::StandingSeen,
    testing::{ApiServer, Break, Cluster},
};

/// As if all that wait had just been asked about, and this had been said.
fn heard(world: &World) {
    let _ = world.write().stands(["request-uid".to_owned()].into());
}

/// A request that waits, and of whose pod it was heard that it needs none.
async fn waits(cluster: &Cluster) -> Reconciler {
    cluster.look().await.unwrap();
    assert_eq!(cluster.phase(), "Pending");
    cluster.server.forget_writes();
    let controller = cluster.controller();
    heard(&controller.world);
    controller
}

fn says(cluster: &Cluster, standing: StandingSeen) {
    *cluster.standing.lock().unwrap() = standing;
}

fn ready(status: &Value) -> &Value {
    let conditions = status["conditions"].as_array().unwrap();
    let ready = conditions.iter().find(|it| it["type"] == "Ready").unwrap();
    &ready["reason"]
}

#[tokio::test]
async fn what_was_heard_is_asked_again_before_it_ends_the_request() {
    let cluster = Cluster::new();
    let controller = waits(&cluster).await;
    says(&cluster, StandingSeen::There);
    look(&controller).await.unwrap();
    let status = cluster.status();
    assert_eq!(
        (cluster.phase().as_str(), ready(&status)),
        ("Ended", &"StandingPermission".into())
    );
    assert!(status["endedAt"].is_string());
    let removed = format!("DELETE roles {}", grant_name());
    assert_eq!(cluster.server.writes(), [UPDATE, removed.as_str()]);
    let asked = cluster.asked.lock().unwrap().clone();
    let [question] = asked.concat().try_into().unwrap();
    assert_eq!(question.subject.namespace, "apps");
    assert_eq!(question.subject.name, "builder");
    assert_eq!(question.connector.namespace, "tools");
    assert_eq!(question.connector.name, "harbor");
    assert_eq!((question.verb.as_str(), question.pod), ("*", None));
}

#[tokio::test]
async fn what_was_heard_and_is_not_confirmed_changes_nothing_and_is_forgotten() {
    type Change = fn(&Cluster);
    let changes: [(&str, Change); 4] = [
        ("no", |cluster| says(cluster, StandingSeen::Absent)),
        ("refused", |cluster| says(cluster, StandingSeen::Unknown)),
        ("away", |cluster| {
            cluster.answers.store(false, Ordering::SeqCst);
        }),
        ("busy", |cluster| {
            *cluster.refuses.lock().unwrap() = Some(Code::ResourceExhausted);
        }),
    ];
    for (what, change) in changes {
        let cluster = Cluster::new();
        let controller = waits(&cluster).await;
        says(&cluster, StandingSeen::There);
        change(&cluster);
        for _ in 0..2 {
            look(&controller).await.unwrap();
        }
        assert_eq!(cluster.phase(), "Pending", "{what}");
        assert!(cluster.server.writes().is_empty(), "{what}");
        assert_eq!(cluster.asked.lock().unwrap().len(), 1, "{what}");
        assert_eq!(controller.world.read().standing.count(), 0, "{what}");
    }
}

#[tokio::test]
async fn a_request_that_nothing_was_heard_of_costs_no_question() {
    let cluster = Cluster::new();
    says(&cluster, StandingSeen::There);
    cluster.look().await.unwrap();
    cluster.approval("approved");
    cluster.look().await.unwrap();
    assert_eq!(cluster.phase(), "Granted");
    assert!(cluster.asked.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_never_comes_holds_no_worker_and_changes_nothing() {
    let cluster = Cluster::new();
    let mut controller = waits(&cluster).await;
    let saying = std::sync::Arc::default();
    super::answers::asks(&mut controller, &saying);
    let looked = tokio::time::timeout(Duration::from_secs(10), look(&controller)).await;
    looked.unwrap().unwrap();
    assert_eq!(cluster.phase(), "Pending");
}

#[tokio::test]
async fn it_is_deleted_one_minute_later_and_what_was_heard_goes_with_it() {
    let cluster = Cluster::new();
    let controller = waits(&cluster).await;
    says(&cluster, StandingSeen::There);
    look(&controller).await.unwrap();
    cluster.fill(&controller);
    cluster.server.forget_writes();
    look(&controller).await.unwrap();
    assert!(cluster.server.writes().is_empty());
    {
        let mut now = cluster.now.lock().unwrap();
        now.wall += Duration::from_mins(1);
        now.mono += Duration::from_mins(1);
    }
    look(&controller).await.unwrap();
    assert_eq!(cluster.server.writes(), ["DELETE accessrequests request"]);
    assert_eq!(controller.world.read().standing.count(), 1);
    let _ = controller.world.write().request_gone(&Cluster::request());
    assert_eq!(controller.world.read().standing.count(), 0);
}

/// The other leader died when it had written the evidence, or the Role.
#[tokio::test]
async fn a_grant_that_was_begun_is_finished_and_not_ended() {
    let name = grant::name("request-uid", "p-uid");
    for last in [UPDATE.to_owned(), format!("POST roles {name}")] {
        let cluster = Cluster::new();
        cluster.approval("approved");
        let die = |server: &ApiServer| server.breaks(Break::Before(0));
        cluster.server.after(&last, die);
        cluster.look().await.unwrap_err();
        cluster.server.breaks(Break::Never);
        says(&cluster, StandingSeen::There);
        let controller = cluster.controller();
        heard(&controller.world);
        look(&controller).await.unwrap();
        assert_eq!(cluster.phase(), "Granted", "{last}");
    }
}

#[tokio::test]
async fn a_request_that_another_leader_granted_meanwhile_is_not_ended() {
    let cluster = Cluster::new();
    let behind = waits(&cluster).await;
    says(&cluster, StandingSeen::There);
    cluster.approval("approved");
    cluster.look().await.unwrap();
    assert_eq!(cluster.phase(), "Granted");
    cluster.server.forget_writes();
    look(&behind).await.unwrap();
    assert_eq!(cluster.phase(), "Granted");
    assert!(cluster.server.writes().is_empty());
}
