use std::sync::Arc;

use futures::FutureExt;
use tokio::time::advance;

use super::*;

type Jobs = Queue<&'static str>;

fn taken(queue: &Jobs) -> Option<&'static str> {
    queue.take().now_or_never().map(|it| it.job)
}

fn opened() -> Jobs {
    let queue = Jobs::default();
    queue.open();
    queue
}

#[tokio::test(start_paused = true)]
async fn what_may_have_to_be_taken_back_goes_first() {
    let queue = opened();
    queue.wake("a", Urgency::Normal);
    queue.wake("b", Urgency::Normal);
    queue.wake("c", Urgency::Urgent);
    queue.wake("b", Urgency::Urgent);
    assert_eq!(taken(&queue), Some("b"), "it came up before c");
    assert_eq!(taken(&queue), Some("c"));
    assert_eq!(taken(&queue), Some("a"));
    assert_eq!(taken(&queue), None);
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
