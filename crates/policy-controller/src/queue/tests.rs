mod woken;

use std::sync::Arc;

use futures::FutureExt;
use tokio::time::advance;

use super::*;

type Jobs = Queue<&'static str>;

fn taken(queue: &Jobs) -> Option<&'static str> {
    queue.take().now_or_never().map(|it| it.job)
}

/// The first letter of a job is its namespace.
fn namespace(job: &&'static str) -> &'static str {
    &job[..1]
}

fn limited(limits: Limits) -> Jobs {
    let queue = Jobs::shared(limits, |job| namespace(job));
    queue.open();
    queue
}

fn opened() -> Jobs {
    limited(Limits {
        namespace: 100,
        normal: 100,
    })
}

#[tokio::test(start_paused = true)]
async fn what_may_have_to_be_taken_back_goes_first() {
    let queue = opened();
    queue.wake("a", Urgency::Normal);
    queue.wake("b", Urgency::Normal);
    queue.wake("c", Urgency::Urgent);
    queue.wake("b", Urgency::Urgent);
    assert_eq!(taken(&queue), Some("c"));
    assert_eq!(taken(&queue), Some("b"), "it became urgent");
    assert_eq!(taken(&queue), Some("a"));
    assert_eq!(taken(&queue), None);
}

#[tokio::test(start_paused = true)]
async fn namespaces_take_turns_however_much_one_has() {
    let queue = opened();
    for job in ["a1", "a2", "a3", "b1", "b2", "c1"] {
        queue.wake(job, Urgency::Urgent);
    }
    let order: Vec<_> = std::iter::from_fn(|| taken(&queue)).collect();
    assert_eq!(order, ["a1", "b1", "c1", "a2", "b2", "a3"]);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_holds_no_more_than_its_share_of_the_workers() {
    let queue = limited(Limits {
        namespace: 2,
        normal: 100,
    });
    for job in ["a1", "a2", "a3", "b1"] {
        queue.wake(job, Urgency::Normal);
    }
    queue.wake("a4", Urgency::Urgent);
    let order: Vec<_> = std::iter::from_fn(|| taken(&queue)).collect();
    assert_eq!(order, ["a4", "a1", "b1"], "a has its two");
    for (done, next) in [("a1", "a2"), ("a4", "a3"), ("b1", "")] {
        queue.done(&done, Done::Well);
        assert_eq!(taken(&queue).unwrap_or(""), next);
    }
    queue.done(&"a2", Done::Well);
    queue.done(&"a3", Done::Failed);
    assert_eq!(queue.state().shares.tenants(), 0);
}

#[tokio::test(start_paused = true)]
async fn some_workers_are_left_to_what_may_have_to_be_taken_back() {
    let queue = limited(Limits {
        namespace: 100,
        normal: 2,
    });
    for job in ["a", "b", "c"] {
        queue.wake(job, Urgency::Normal);
    }
    let order: Vec<_> = std::iter::from_fn(|| taken(&queue)).collect();
    assert_eq!(order, ["a", "b"]);
    queue.wake("d", Urgency::Urgent);
    queue.wake("c", Urgency::Urgent);
    assert_eq!(taken(&queue), Some("d"));
    assert_eq!(taken(&queue), Some("c"), "it became urgent");
    queue.wake("e", Urgency::Normal);
    queue.done(&"d", Done::Well);
    assert_eq!(taken(&queue), None);
    queue.done(&"a", Done::Well);
    assert_eq!(taken(&queue), Some("e"));
}

#[tokio::test(start_paused = true)]
async fn what_becomes_urgent_or_is_forgotten_leaves_nothing_in_line() {
    let queue = opened();
    for _ in 0..3 {
        queue.wake("a", Urgency::Normal);
        queue.wake("a", Urgency::Urgent);
        assert_eq!(taken(&queue), Some("a"));
        queue.wake("a", Urgency::Normal);
        queue.done(&"a", Done::Failed);
        queue.wake("a", Urgency::Normal);
        advance(SOON).await;
        assert_eq!(taken(&queue), Some("a"));
        queue.done(&"a", Done::Well);
    }
    let state = queue.state();
    assert!(state.lines.iter().all(FairLine::is_empty) && state.timers.is_empty());
    assert!(state.entries.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_comes_up_again_meanwhile_is_looked_at_once_more_and_by_nobody_else() {
    let queue = opened();
    queue.wake("a", Urgency::Normal);
    assert_eq!(taken(&queue), Some("a"));
    queue.wake("a", Urgency::Normal);
    queue.wake("a", Urgency::Normal);
    assert_eq!(taken(&queue), None);
    queue.done(&"a", Done::Well);
    assert_eq!(taken(&queue), Some("a"));
    queue.done(&"a", Done::Well);
    assert_eq!(taken(&queue), None);
    assert_eq!(queue.depth(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_failed_is_tried_again_by_itself_after_pauses_that_grow() {
    let queue = Arc::new(opened());
    queue.wake("a", Urgency::Normal);
    let mut pauses = Vec::new();
    for _ in 0..12 {
        let began = Instant::now();
        queue.take().await;
        pauses.push(began.elapsed());
        queue.done(&"a", Done::Failed);
    }
    assert_eq!(pauses[0], Duration::ZERO);
    assert!(pauses[11] > pauses[2] * 4, "{pauses:?}");
    assert!(pauses[11] <= Duration::from_mins(2));
}

#[tokio::test(start_paused = true)]
async fn what_failed_and_comes_up_again_waits_half_a_second_at_most() {
    let queue = opened();
    queue.wake("a", Urgency::Normal);
    for _ in 0..12 {
        queue.take().await;
        queue.done(&"a", Done::Failed);
    }
    queue.wake("a", Urgency::Urgent);
    let began = Instant::now();
    queue.take().await;
    assert!(began.elapsed() <= SOON, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_took_too_long_rests_for_pauses_that_grow_however_often_it_comes_up() {
    let queue = opened();
    queue.wake("a", Urgency::Normal);
    queue.take().await;
    let mut pauses = Vec::new();
    for _ in 0..12 {
        queue.wake("a", Urgency::Normal);
        queue.done(&"a", Done::Late);
        queue.wake("a", Urgency::Normal);
        let began = Instant::now();
        queue.take().await;
        pauses.push(began.elapsed());
    }
    assert!(pauses[0] >= SHORTEST_SLEEP, "{pauses:?}");
    assert!(pauses[11] > pauses[0] * 4, "{pauses:?}");
    assert!(pauses[11] <= Duration::from_mins(2), "{pauses:?}");
    queue.done(&"a", Done::Well);
    queue.wake("a", Urgency::Normal);
    assert_eq!(taken(&queue), Some("a"), "the pauses are forgotten");
}

#[tokio::test(start_paused = true)]
async fn what_took_too_long_and_may_have_to_be_taken_back_waits_half_a_second_at_most() {
    let queue = opened();
    queue.wake("a", Urgency::Normal);
    queue.take().await;
    queue.done(&"a", Done::Late);
    queue.wake("a", Urgency::Urgent);
    let began = Instant::now();
    queue.take().await;
    assert!(began.elapsed() <= SOON, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_is_fought_over_is_looked_at_twice_a_second_at_most() {
    let queue = opened();
    queue.wake("a", Urgency::Urgent);
    let began = Instant::now();
    for _ in 0..5 {
        queue.take().await;
        queue.wake("a", Urgency::Urgent);
        queue.done(&"a", Done::Restored);
    }
    assert!(began.elapsed() >= SOON * 4);
    queue.take().await;
    queue.done(&"a", Done::Well);
    queue.wake("a", Urgency::Urgent);
    assert_eq!(taken(&queue), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn what_was_fought_over_and_never_came_up_again_is_forgotten() {
    let queue = opened();
    let jobs: Vec<&'static str> = (0..10_000)
        .map(|number| &*Box::leak(format!("a{number}").into_boxed_str()))
        .collect();
    for job in &jobs {
        queue.wake(*job, Urgency::Normal);
        assert_eq!(taken(&queue), Some(*job));
        queue.done(job, Done::Restored);
        advance(Duration::from_millis(100)).await;
    }
    let kept = queue.state().entries.len();
    assert!(kept <= FEW_ENTRIES, "{kept} entries");
}

#[tokio::test(start_paused = true)]
async fn a_closed_queue_gives_nothing_and_forgets_what_waits() {
    let queue = opened();
    queue.wake("a", Urgency::Normal);
    queue.wake("b", Urgency::Normal);
    assert_eq!(taken(&queue), Some("a"));
    queue.close();
    queue.done(&"a", Done::Failed);
    advance(Duration::from_mins(5)).await;
    assert_eq!(taken(&queue), None);
    queue.open();
    assert_eq!(taken(&queue), None);
    assert_eq!(queue.depth(), 0);
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_is_told() {
    let queue = Arc::new(opened());
    let waiting = {
        let queue = Arc::clone(&queue);
        tokio::spawn(async move { queue.take().await.job })
    };
    tokio::task::yield_now().await;
    queue.wake("a", Urgency::Normal);
    assert_eq!(waiting.await.unwrap(), "a");
}
