//! What an evaluator says, and for how long it counts.

use std::sync::{Arc, Mutex};

use evaluation_api::{
    access::AccessQuestion,
    v1::{CheckResult, CheckVerdict, EvaluateChecksRequest, EvaluateChecksResponse},
};
use futures::future::{BoxFuture, join_all};
use tokio::time::{Duration, Instant, sleep};

use super::look;
use crate::{
    evaluator::{Evaluator, Unanswered},
    observe::{LiveLook, Observer},
    reconcile::Reconciler,
    seen::{Freshness, MountAccess, StandingSeen},
    testing::Cluster,
};
use service_kit::clock::Now;

/// Says something to each question about checks, or nothing for ever; nothing to any other.
#[derive(Default)]
pub(super) struct Saying(Mutex<Option<EvaluateChecksResponse>>);

impl Evaluator for Saying {
    fn mounts(
        &self,
        _: Vec<AccessQuestion>,
    ) -> BoxFuture<'_, Result<Vec<MountAccess>, Unanswered>> {
        Box::pin(std::future::pending())
    }

    fn standing(
        &self,
        _: Vec<AccessQuestion>,
    ) -> BoxFuture<'_, Result<Vec<StandingSeen>, Unanswered>> {
        Box::pin(std::future::pending())
    }

    fn evaluate(
        &self,
        _: EvaluateChecksRequest,
    ) -> BoxFuture<'_, Result<EvaluateChecksResponse, Unanswered>> {
        let said = self.0.lock().unwrap().clone();
        Box::pin(async move {
            match said {
                Some(said) => Ok(said),
                None => std::future::pending().await,
            }
        })
    }
}

/// What the check of the policy says, and nothing about objects.
fn said(verdict: CheckVerdict) -> EvaluateChecksResponse {
    EvaluateChecksResponse {
        verdict: verdict.into(),
        checks: vec![CheckResult {
            check: "approval".to_owned(),
            verdict: verdict.into(),
            ..CheckResult::default()
        }],
        ..EvaluateChecksResponse::default()
    }
}

fn asking(cluster: &Cluster, saying: &Arc<Saying>) -> Reconciler {
    let mut controller = cluster.controller();
    asks(&mut controller, saying);
    controller
}

/// From now on the controller asks this one.
pub(super) fn asks(controller: &mut Reconciler, saying: &Arc<Saying>) {
    controller.observer = Observer::new(
        Arc::clone(&controller.world),
        controller.live.clone(),
        Arc::clone(saying) as Arc<dyn Evaluator>,
        Arc::clone(&controller.clock),
        2,
    );
}

#[tokio::test(start_paused = true)]
async fn an_evaluator_that_never_answers_holds_nobody() {
    let cluster = Cluster::new();
    cluster.approval("approved");
    let controller = asking(&cluster, &Arc::new(Saying(Mutex::default())));
    let looked = tokio::time::timeout(Duration::from_secs(10), look(&controller)).await;
    looked.unwrap().unwrap();
    assert!(cluster.managed().is_empty());
}

#[tokio::test]
async fn a_wrong_answer_is_not_remembered_for_ever() {
    let cluster = Cluster::new();
    cluster.approval("approved");
    let saying = Arc::new(Saying(Mutex::new(Some(said(CheckVerdict::Failed)))));
    let controller = asking(&cluster, &saying);
    look(&controller).await.unwrap();
    assert_eq!(cluster.phase(), "Pending");
    let messages = |cluster: &Cluster| cluster.status()["conditions"].to_string();
    let wrong = messages(&cluster);
    // Nothing changes but the time.
    *saying.0.lock().unwrap() = None;
    cluster.fill(&controller);
    look(&controller).await.unwrap();
    assert_eq!(messages(&cluster), wrong, "remembered");
    tokio::time::pause();
    cluster.now.lock().unwrap().mono += Duration::from_hours(1);
    look(&controller).await.unwrap();
    assert_eq!(messages(&cluster), wrong, "nobody says otherwise");
    *saying.0.lock().unwrap() = Some(said(CheckVerdict::Pending));
    look(&controller).await.unwrap();
    assert_ne!(messages(&cluster), wrong, "asked anew");
}

#[tokio::test]
async fn an_answer_that_is_used_all_the_time_is_asked_again_in_its_time() {
    let cluster = Cluster::new();
    cluster.approval("approved");
    let saying = Arc::new(Saying(Mutex::new(Some(said(CheckVerdict::Failed)))));
    let controller = asking(&cluster, &saying);
    look(&controller).await.unwrap();
    let messages = |cluster: &Cluster| cluster.status()["conditions"].to_string();
    let wrong = messages(&cluster);
    *saying.0.lock().unwrap() = Some(said(CheckVerdict::Pending));
    let mut used = 0;
    for _ in 0..20 {
        cluster.now.lock().unwrap().mono += Duration::from_mins(5);
        cluster.fill(&controller);
        look(&controller).await.unwrap();
        used += usize::from(messages(&cluster) == wrong);
    }
    assert!(
        (1..=9).contains(&used),
        "remembered for {used} times 5 minutes"
    );
}

#[tokio::test]
async fn an_answer_about_something_else_is_not_remembered_at_all() {
    let cluster = Cluster::new();
    cluster.approval("approved");
    let saying = Arc::new(Saying(Mutex::new(Some(EvaluateChecksResponse::default()))));
    let controller = asking(&cluster, &saying);
    look(&controller).await.unwrap();
    let wrong = cluster.status()["conditions"].to_string();
    *saying.0.lock().unwrap() = Some(said(CheckVerdict::Pending));
    cluster.fill(&controller);
    look(&controller).await.unwrap();
    assert_ne!(cluster.status()["conditions"].to_string(), wrong);
}

/// Takes the given time for each answer about checks or mounts.
pub(super) struct Slow(pub(super) Arc<dyn Evaluator>, pub(super) Duration);

impl Evaluator for Slow {
    fn mounts(
        &self,
        questions: Vec<AccessQuestion>,
    ) -> BoxFuture<'_, Result<Vec<MountAccess>, Unanswered>> {
        Box::pin(async move {
            sleep(self.1).await;
            self.0.mounts(questions).await
        })
    }

    fn standing(
        &self,
        questions: Vec<AccessQuestion>,
    ) -> BoxFuture<'_, Result<Vec<StandingSeen>, Unanswered>> {
        self.0.standing(questions)
    }

    fn evaluate(
        &self,
        question: EvaluateChecksRequest,
    ) -> BoxFuture<'_, Result<EvaluateChecksResponse, Unanswered>> {
        Box::pin(async move {
            sleep(self.1).await;
            self.0.evaluate(question).await
        })
    }
}

/// An observer with an evaluator that takes the given time for each answer.
fn slow_observer(cluster: &Cluster, controller: &Reconciler, answer: Duration) -> Observer {
    let wall = (controller.clock)().wall;
    Observer::new(
        Arc::clone(&controller.world),
        controller.live.clone(),
        Arc::new(Slow(cluster.evaluator(), answer)),
        Arc::new(move || Now {
            wall,
            mono: Instant::now(),
        }),
        2,
    )
}

/// The age of what each of so many observations has read, when all began at the same time.
async fn ages_of_live_reads(observer: &Observer, count: usize) -> Vec<Duration> {
    let looks = (0..count).map(async |_| {
        let seen = observer.live(&Cluster::request(), LiveLook::First).await;
        match seen.unwrap().unwrap().freshness {
            Freshness::Live(since) => since.elapsed(),
            Freshness::Cached => panic!("not read live"),
        }
    });
    join_all(looks).await
}

#[tokio::test(start_paused = true)]
async fn what_is_read_live_does_not_grow_old_while_others_are_answered() {
    let cluster = Cluster::new();
    cluster.approval("approved");
    let controller = cluster.controller();
    let observer = slow_observer(&cluster, &controller, Duration::from_secs(1));
    // The first answer shows that the namespace is slow.
    ages_of_live_reads(&observer, 1).await;
    let began = Instant::now();
    let ages = ages_of_live_reads(&observer, 24).await;
    assert!(
        ages.iter().all(|it| *it < Duration::from_secs(2)),
        "{ages:?}"
    );
    assert!(began.elapsed() >= Duration::from_secs(8), "three at a time");
}

#[tokio::test(start_paused = true)]
async fn a_question_that_waited_in_line_does_not_make_its_namespace_slow() {
    let cluster = Cluster::new();
    cluster.approval("approved");
    let controller = cluster.controller();
    let answer = Duration::from_millis(200);
    let observer = slow_observer(&cluster, &controller, answer);
    let name = Cluster::request();
    let began = Instant::now();
    join_all((0..24).map(|_| observer.cached(&name))).await;
    assert!(began.elapsed() >= 8 * answer, "three at a time");
    // Observations of a quick namespace read side by side, and their questions wait afterwards.
    let ages = ages_of_live_reads(&observer, 8).await;
    assert!(ages.iter().any(|it| *it >= 2 * answer), "{ages:?}");
}

/// What a reconciliation has read may be out of date before its end.
#[tokio::test(start_paused = true)]
async fn while_a_request_is_looked_at_each_object_wakes_it() {
    let cluster = Cluster::with_run();
    let mut controller = cluster.controller();
    controller.observer = Observer::new(
        Arc::clone(&controller.world),
        controller.live.clone(),
        Arc::new(Slow(cluster.evaluator(), Duration::from_secs(1))),
        Arc::clone(&controller.clock),
        2,
    );
    let mut another = cluster.server.named("approvaltasks", "run-wait").unwrap();
    another["metadata"]["name"] = "other-wait".into();
    another["metadata"]["labels"]["tekton.dev/pipelineRun"] = "other".into();
    cluster.server.put("approvaltasks", another);
    let wakes = || {
        cluster
            .news(&controller, "approvaltasks", "other-wait")
            .len()
    };
    look(&controller).await.unwrap();
    cluster.fill(&controller);
    assert_eq!(wakes(), 0);
    // Its words are new, so that the evaluation service is asked again.
    cluster
        .server
        .change("approvaltasks", "run-wait", |it| it["words"] = "new".into());
    cluster.news(&controller, "approvaltasks", "run-wait");
    let meanwhile = async {
        sleep(Duration::from_millis(500)).await;
        wakes()
    };
    let (looked, woken) = tokio::join!(look(&controller), meanwhile);
    looked.unwrap();
    assert_eq!((woken, wakes()), (1, 0));
}
