//! A controller whose workers take urgent jobs first, and other jobs as well.

use std::sync::Arc;

use futures::FutureExt;
use tokio::time::advance;

use super::*;

/// Of such a controller.
const PAUSES: Pauses = Pauses {
    again: [SOON, SOON],
    urgent_retry: Duration::from_mins(2),
    retry_as: Some(Urgency::Urgent),
    changes: 0,
};

pub(super) type Jobs = Queue<&'static str>;

pub(super) fn taken(queue: &Jobs) -> Option<&'static str> {
    let taken = queue.take(&Urgency::ALL).now_or_never();
    taken.map(|it| it.job)
}

/// Ends a look.
pub(super) fn done(queue: &Jobs, job: &'static str, end: End) {
    let looked = match end {
        End::Well | End::Restored => Looked::Done,
        End::Failed => Looked::Failed,
        End::Late => Looked::Late,
    };
    if end == End::Restored {
        queue.changed(&job);
    }
    queue.done(&job, looked);
}

/// How a look ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Well,
    /// It reverted the change of another process.
    Restored,
    Failed,
    Late,
}

/// The first letter of a job is its namespace.
fn shared(workers: usize) -> Jobs {
    let queue = Jobs::shared(Shares::Together(workers), PAUSES, |job| {
        Tenants::one(&job[..1])
    });
    for urgency in Urgency::ALL {
        queue.open(urgency);
    }
    queue
}

pub(super) fn opened() -> Jobs {
    shared(100)
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
    let queue = shared(2);
    for job in ["a1", "a2", "a3", "b1"] {
        queue.wake(job, Urgency::Normal);
    }
    queue.wake("a4", Urgency::Urgent);
    let order: Vec<_> = std::iter::from_fn(|| taken(&queue)).collect();
    assert_eq!(order, ["a4", "a1", "b1"], "a has its two");
    for (job, next) in [("a1", "a2"), ("a4", "a3"), ("b1", "")] {
        done(&queue, job, End::Well);
        assert_eq!(taken(&queue).unwrap_or(""), next);
    }
    done(&queue, "a2", End::Well);
    done(&queue, "a3", End::Failed);
    assert_eq!(queue.census()[1], 0);
}

#[tokio::test(start_paused = true)]
async fn a_worker_for_urgent_jobs_takes_no_other_ones() {
    let queue = opened();
    let urgent = || {
        let taken = queue.take(&[Urgency::Urgent]).now_or_never();
        taken.map(|it| it.job)
    };
    for job in ["a", "b"] {
        queue.wake(job, Urgency::Normal);
    }
    assert_eq!(urgent(), None);
    queue.wake("c", Urgency::Urgent);
    queue.wake("b", Urgency::Urgent);
    assert_eq!(urgent(), Some("c"));
    assert_eq!(urgent(), Some("b"), "it became urgent");
    assert_eq!(urgent(), None);
    assert_eq!(taken(&queue), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn what_becomes_urgent_or_is_forgotten_leaves_nothing_in_line() {
    let queue = opened();
    for _ in 0..3 {
        queue.wake("a", Urgency::Normal);
        queue.wake("a", Urgency::Urgent);
        assert_eq!(taken(&queue), Some("a"));
        queue.wake("a", Urgency::Normal);
        done(&queue, "a", End::Failed);
        queue.wake("a", Urgency::Normal);
        advance(SOON).await;
        assert_eq!(taken(&queue), Some("a"));
        done(&queue, "a", End::Well);
    }
    assert_eq!(taken(&queue), None);
    assert_eq!(queue.census(), [0; 8]);
}

#[tokio::test(start_paused = true)]
async fn what_comes_up_again_meanwhile_is_looked_at_once_more_and_by_nobody_else() {
    let queue = opened();
    queue.wake("a", Urgency::Normal);
    assert_eq!(taken(&queue), Some("a"));
    queue.wake("a", Urgency::Normal);
    queue.wake("a", Urgency::Normal);
    assert_eq!(taken(&queue), None);
    done(&queue, "a", End::Well);
    assert_eq!(taken(&queue), Some("a"));
    done(&queue, "a", End::Well);
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
        queue.take(&Urgency::ALL).await;
        pauses.push(began.elapsed());
        done(&queue, "a", End::Failed);
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
        queue.take(&Urgency::ALL).await;
        done(&queue, "a", End::Failed);
    }
    queue.wake("a", Urgency::Urgent);
    let began = Instant::now();
    queue.take(&Urgency::ALL).await;
    assert!(began.elapsed() <= SOON, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_took_too_long_rests_for_pauses_that_grow_however_often_it_comes_up() {
    let queue = opened();
    queue.wake("a", Urgency::Normal);
    queue.take(&Urgency::ALL).await;
    let mut pauses = Vec::new();
    for _ in 0..12 {
        queue.wake("a", Urgency::Normal);
        done(&queue, "a", End::Late);
        queue.wake("a", Urgency::Normal);
        let began = Instant::now();
        queue.take(&Urgency::ALL).await;
        pauses.push(began.elapsed());
    }
    assert!(pauses[0] >= SHORTEST_REST, "{pauses:?}");
    assert!(pauses[11] > pauses[0] * 4, "{pauses:?}");
    assert!(pauses[11] <= Duration::from_mins(2), "{pauses:?}");
    done(&queue, "a", End::Well);
    queue.wake("a", Urgency::Normal);
    assert_eq!(taken(&queue), Some("a"), "the pauses are forgotten");
}

#[tokio::test(start_paused = true)]
async fn what_took_too_long_and_may_have_to_be_taken_back_waits_half_a_second_at_most() {
    let queue = opened();
    queue.wake("a", Urgency::Normal);
    queue.take(&Urgency::ALL).await;
    done(&queue, "a", End::Late);
    queue.wake("a", Urgency::Urgent);
    let began = Instant::now();
    queue.take(&Urgency::ALL).await;
    assert!(began.elapsed() <= SOON, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_is_fought_over_is_looked_at_twice_a_second_at_most() {
    let queue = opened();
    queue.wake("a", Urgency::Urgent);
    let began = Instant::now();
    for _ in 0..5 {
        queue.take(&Urgency::ALL).await;
        queue.wake("a", Urgency::Urgent);
        done(&queue, "a", End::Restored);
    }
    assert!(began.elapsed() >= SOON * 4);
    queue.take(&Urgency::ALL).await;
    done(&queue, "a", End::Well);
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
    done(&queue, "a", End::Failed);
    advance(Duration::from_mins(5)).await;
    assert_eq!(taken(&queue), None);
    for urgency in Urgency::ALL {
        queue.open(urgency);
    }
    assert_eq!(taken(&queue), None);
    assert_eq!(queue.depth(), 0);
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_is_told() {
    let queue = Arc::new(opened());
    let waiting = {
        let queue = Arc::clone(&queue);
        tokio::spawn(async move { queue.take(&Urgency::ALL).await.job })
    };
    tokio::task::yield_now().await;
    queue.wake("a", Urgency::Normal);
    assert_eq!(waiting.await.unwrap(), "a");
}
