use std::sync::{Mutex, atomic::Ordering};

use futures::future::BoxFuture;
use serde_json::Value;
use tokio::time::Instant;

use super::*;
use crate::{api::Strict, cache::Job, reconcile::Reconciler, seen::MountAccess, testing::Cluster};
use service_kit::watches::Parse;

type Woken = Arc<Mutex<Wakes>>;

/// Asks for a controller of this cluster, and what it wakes.
fn asker(
    cluster: &Cluster,
    controller: &Reconciler,
    most_waiting: usize,
) -> (StandingReviews, Woken) {
    let woken = Woken::default();
    let heard = Arc::clone(&woken);
    let asker = StandingReviews {
        world: Arc::clone(&controller.world),
        evaluator: cluster.evaluator(),
        leads: Arc::clone(&controller.leads),
        sink: Arc::new(move |wakes| heard.lock().unwrap().extend(wakes)),
        most_waiting,
    };
    (asker, woken)
}

/// A further request of the same pod's namespace, in this phase.
fn another(controller: &Reconciler, cluster: &Cluster, name: &str, phase: Option<&str>) {
    let mut request = cluster.server.named("accessrequests", "request").unwrap();
    request["metadata"]["name"] = name.into();
    request["metadata"]["uid"] = format!("{name}-uid").into();
    request["metadata"]["creationTimestamp"] = "2026-03-01T10:00:05Z".into();
    request["status"] = phase.map_or(Value::Null, |it| serde_json::json!({"phase": it}));
    let parsed = <Strict as Parse<AccessRequest>>::parse(&request.to_string());
    let name = crate::api::Name::new("tools", name);
    let mut state = controller.world.write();
    let _ = state.request(&name, Ok(Arc::new(parsed.unwrap())));
}

fn says(cluster: &Cluster, standing: StandingSeen) {
    *cluster.standing.lock().unwrap() = standing;
}

/// How many questions each call asked.
fn calls(cluster: &Cluster) -> Vec<usize> {
    cluster.asked.lock().unwrap().iter().map(Vec::len).collect()
}

#[tokio::test]
async fn requests_that_wait_are_asked_about_in_one_call_and_looked_at_when_the_answer_is_yes() {
    let cluster = Cluster::new();
    let controller = cluster.controller();
    another(&controller, &cluster, "pending", Some("Pending"));
    for phase in ["Granted", "Rejected", "Revoked", "Invalid", "Ended"] {
        another(&controller, &cluster, &phase.to_lowercase(), Some(phase));
    }
    let (asker, _) = asker(&cluster, &controller, 100);
    says(&cluster, StandingSeen::There);
    let mut woken = asker.ask().await;
    woken.sort_by_key(|(job, _)| format!("{job:?}"));
    let expected = ["pending", "request"].map(|name| {
        let job = Job::Request(crate::api::Name::new("tools", name));
        (job, service_kit::controller::queue::Urgency::Normal)
    });
    assert_eq!(woken, expected);
    assert_eq!(calls(&cluster), [2]);
    assert!(controller.world.read().standing.has("request-uid"));
}

#[tokio::test]
async fn only_a_yes_counts_and_each_round_replaces_what_was_heard_before() {
    let cluster = Cluster::new();
    let controller = cluster.controller();
    let (asker, _) = asker(&cluster, &controller, 100);
    let mute: [fn(&Cluster); 3] = [
        |cluster| says(cluster, StandingSeen::Absent),
        |cluster| says(cluster, StandingSeen::Unknown),
        |cluster| cluster.answers.store(false, Ordering::SeqCst),
    ];
    for mute in mute {
        says(&cluster, StandingSeen::There);
        cluster.answers.store(true, Ordering::SeqCst);
        assert_eq!(asker.ask().await.len(), 1);
        assert_eq!(controller.world.read().standing.count(), 1);
        mute(&cluster);
        assert_eq!(asker.ask().await, []);
        assert_eq!(controller.world.read().standing.count(), 0);
    }
}

#[tokio::test]
async fn requests_that_have_too_many_before_them_cost_no_question() {
    let cluster = Cluster::new();
    let controller = cluster.controller();
    for number in 0..5 {
        another(&controller, &cluster, &format!("r{number}"), None);
    }
    let (asker, _) = asker(&cluster, &controller, 2);
    says(&cluster, StandingSeen::There);
    assert_eq!(asker.ask().await.len(), 2);
    assert_eq!(calls(&cluster), [2]);
}

#[tokio::test]
async fn no_call_asks_more_than_one_may_and_one_without_an_answer_ends_the_round() {
    let cluster = Cluster::new();
    let controller = cluster.controller();
    for number in 0..MOST_QUESTIONS {
        another(&controller, &cluster, &format!("r{number}"), None);
    }
    let (asker, _) = asker(&cluster, &controller, usize::MAX);
    says(&cluster, StandingSeen::There);
    assert_eq!(asker.ask().await.len(), MOST_QUESTIONS + 1);
    assert_eq!(calls(&cluster), [MOST_QUESTIONS, 1]);
    cluster.answers.store(false, Ordering::SeqCst);
    assert_eq!(asker.ask().await, []);
    assert_eq!(calls(&cluster), [MOST_QUESTIONS, 1, MOST_QUESTIONS]);
}

#[tokio::test]
async fn no_question_is_asked_where_nothing_waits() {
    let cluster = Cluster::new();
    let controller = cluster.controller();
    let _ = controller.world.write().request_gone(&Cluster::request());
    let (asker, _) = asker(&cluster, &controller, 100);
    assert_eq!(asker.ask().await, []);
    assert_eq!(calls(&cluster), [0; 0]);
}

/// Says how many questions it gets, and never answers.
struct Silent(Arc<Mutex<usize>>);

impl Evaluator for Silent {
    fn mounts(
        &self,
        _: Vec<AccessQuestion>,
    ) -> BoxFuture<'_, Result<Vec<MountAccess>, Unanswered>> {
        Box::pin(std::future::pending())
    }

    fn evaluate(
        &self,
        _: evaluation_api::v1::EvaluateChecksRequest,
    ) -> BoxFuture<'_, Result<evaluation_api::v1::EvaluateChecksResponse, Unanswered>> {
        Box::pin(std::future::pending())
    }

    fn standing(
        &self,
        _: Vec<AccessQuestion>,
    ) -> BoxFuture<'_, Result<Vec<StandingSeen>, Unanswered>> {
        *self.0.lock().unwrap() += 1;
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_never_answered_is_given_up() {
    let cluster = Cluster::new();
    let controller = cluster.controller();
    let (mut asker, _) = asker(&cluster, &controller, 100);
    let calls = Arc::default();
    asker.evaluator = Arc::new(Silent(Arc::clone(&calls)));
    let before = Instant::now();
    assert_eq!(asker.ask().await, []);
    assert_eq!((before.elapsed(), *calls.lock().unwrap()), (LIMIT, 1));
}

#[tokio::test(start_paused = true)]
async fn a_leader_asks_once_a_minute_and_no_other_process_does() {
    let cluster = Cluster::new();
    let controller = cluster.controller();
    let (asker, woken) = asker(&cluster, &controller, 100);
    says(&cluster, StandingSeen::There);
    cluster.leads.store(false, Ordering::SeqCst);
    let tasks = service_kit::shutdown::Tasks::new();
    let running = tokio::spawn(asker.run(tasks.stop()));
    sleep(Duration::from_mins(10)).await;
    assert_eq!(calls(&cluster).len(), 0);
    cluster.leads.store(true, Ordering::SeqCst);
    sleep(Duration::from_mins(5)).await;
    assert_eq!(calls(&cluster).len(), 5);
    assert_eq!(woken.lock().unwrap().len(), 5);
    running.abort();
}
