mod one_line;
mod woken;
mod workers;

use std::sync::Arc;

use futures::FutureExt;
use tokio::time::timeout;

use super::{
    state::{CALM, REMEMBERED, SHORTEST_REST},
    *,
};
use crate::fair::FairLine;

const SOON: Duration = Duration::from_millis(500);
const LATER: Duration = Duration::from_secs(5);
const URGENTLY: Duration = Duration::from_secs(10);
const OFTEN: u32 = 16;

/// Of a controller whose urgent jobs have workers of their own.
const PAUSES: Pauses = Pauses {
    again: [SOON, LATER],
    urgent_retry: URGENTLY,
    retry_as: None,
    changes: OFTEN,
};

/// A queue in which everything is one tenant's, which may have all workers.
pub(in crate::controller) fn one_tenant<J: Clone + Eq + Hash>() -> Queue<J> {
    Queue::shared(Shares::Each([usize::MAX; 2]), PAUSES, |_| {
        Tenants::default()
    })
}

/// A queue in which a job is named after its owner and its asker, such as `a/b 1`; each may have two workers.
fn of_tenants() -> Queue<&'static str> {
    let queue = Queue::shared(Shares::Each([2, 2]), PAUSES, |job: &&'static str| {
        let (owner, rest) = job.split_once('/').unwrap();
        let (asker, _) = rest.split_once(' ').unwrap();
        Tenants {
            owner: owner.to_owned(),
            asker: asker.to_owned(),
        }
    });
    queue.open(Urgency::Urgent);
    queue.open(Urgency::Normal);
    queue
}

#[tokio::test(start_paused = true)]
async fn a_queue_has_ended_when_it_is_closed_and_no_worker_looks_at_a_job() {
    let queue = Arc::new(one_tenant());
    queue.open(Urgency::Normal);
    queue.wake("a", Urgency::Normal);
    queue.wake("b", Urgency::Normal);
    queue.take(&[Urgency::Normal]).await;
    let ended = tokio::spawn({
        let queue = Arc::clone(&queue);
        async move { queue.ended().await }
    });
    let has_ended = async || {
        tokio::task::yield_now().await;
        ended.is_finished()
    };
    assert!(!has_ended().await);
    queue.close();
    assert!(!has_ended().await, "a worker looks at it");
    queue.done(&"a", Looked::Done);
    assert!(has_ended().await);
    // Nothing runs, but a worker may take a job at any moment.
    queue.listen();
    assert_eq!(queue.ended().now_or_never(), None);
}

#[tokio::test]
async fn a_closed_queue_takes_nothing_until_it_listens() {
    let queue = one_tenant();
    queue.open(Urgency::Normal);
    queue.wake("running", Urgency::Normal);
    let running = queue.take(&[Urgency::Normal]).await;
    let comes_up = || {
        queue.wake("running", Urgency::Urgent);
        queue.wake("a", Urgency::Normal);
        queue.wake_after("b", Urgency::Urgent, SOON);
        queue.changed(&"a");
    };
    queue.close();
    comes_up();
    queue.done(&running.job, Looked::Failed);
    comes_up();
    assert!(queue.census().iter().all(|it| *it == 0));
    queue.listen();
    comes_up();
    assert_eq!(queue.depth(), 3);
    assert_eq!(
        queue.take(&[Urgency::Normal]).now_or_never(),
        None,
        "it is not open"
    );
    queue.open(Urgency::Urgent);
    assert_eq!(queue.take(&[Urgency::Urgent]).await.job, "running");
}

#[tokio::test]
async fn a_job_is_counted_once_however_it_waits() {
    let queue = one_tenant();
    queue.open(Urgency::Normal);
    queue.wake("a", Urgency::Normal);
    queue.wake_after("a", Urgency::Urgent, LATER);
    assert_eq!(queue.depth(), 1, "in line, and waits for its time");
    queue.take(&[Urgency::Normal]).await;
    queue.wake_after("a", Urgency::Urgent, LATER);
    assert_eq!(queue.depth(), 1, "looked at, and waits for its time");
    queue.wake("b", Urgency::Normal);
    assert_eq!(queue.depth(), 2);
}

#[tokio::test]
async fn tenants_take_turns() {
    let queue = of_tenants();
    for job in ["a/a 1", "a/a 2", "a/a 3", "b/b 1"] {
        queue.wake(job, Urgency::Urgent);
    }
    assert_eq!(now(&queue, Urgency::Urgent), Some("a/a 1"));
    assert_eq!(now(&queue, Urgency::Urgent), Some("b/b 1"));
    assert_eq!(now(&queue, Urgency::Urgent), Some("a/a 2"));
}

#[tokio::test]
async fn a_namespace_holds_no_more_than_its_share_of_the_workers() {
    let queue = of_tenants();
    for job in ["a/p 1", "a/q 1", "a/r 1", "b/p 1", "c/p 1", "d/d 1"] {
        queue.wake(job, Urgency::Normal);
    }
    let mut taken = Vec::new();
    while let Some(job) = now(&queue, Urgency::Normal) {
        taken.push(job);
    }
    // The third of owner a waits, and the third of asker p.
    assert_eq!(taken, ["a/p 1", "a/q 1", "b/p 1", "d/d 1"]);
    queue.done(&"a/p 1", Looked::Done);
    assert_eq!(now(&queue, Urgency::Normal), Some("a/r 1"));
    assert_eq!(now(&queue, Urgency::Normal), Some("c/p 1"));
    // The lanes have workers of their own.
    queue.wake("a/p 2", Urgency::Urgent);
    assert_eq!(now(&queue, Urgency::Urgent), Some("a/p 2"));
    for job in ["a/q 1", "a/r 1", "b/p 1", "c/p 1", "d/d 1", "a/p 2"] {
        queue.done(&job, Looked::Done);
    }
    let state = queue.state();
    assert!(
        state
            .owners
            .iter()
            .chain(&state.askers)
            .all(|it| it.tenants() == 0)
    );
    assert!(state.lines.iter().all(FairLine::is_empty));
}

#[tokio::test]
async fn a_worker_is_woken_when_its_tenant_has_room_again() {
    let queue = Arc::new(of_tenants());
    for job in ["a/a 1", "a/a 2", "a/a 3"] {
        queue.wake(job, Urgency::Normal);
    }
    let _ = (now(&queue, Urgency::Normal), now(&queue, Urgency::Normal));
    let waiting = Arc::clone(&queue);
    let third = tokio::spawn(async move { waiting.take(&[Urgency::Normal]).await.job });
    tokio::task::yield_now().await;
    queue.done(&"a/a 1", Looked::Done);
    assert_eq!(third.await.unwrap(), "a/a 3");
}

fn queue() -> Arc<Queue<&'static str>> {
    let queue = one_tenant();
    queue.open(Urgency::Urgent);
    queue.open(Urgency::Normal);
    Arc::new(queue)
}

/// Fails until the pause before the next attempt is longer than any wait in these tests.
async fn fail_often(queue: &Queue<&'static str>) {
    for _ in 0..12 {
        queue.wake("a", Urgency::Normal);
        let _ = queue.take(&[Urgency::Normal]).await;
        queue.done(&"a", Looked::Failed);
    }
}

fn now<J: Clone + Eq + Hash>(queue: &Queue<J>, lane: Urgency) -> Option<J> {
    queue.take(&[lane]).now_or_never().map(|taken| taken.job)
}

#[tokio::test]
async fn each_thing_waits_once() {
    let queue = queue();
    for _ in 0..3 {
        queue.wake("a", Urgency::Normal);
    }
    assert_eq!(now(&queue, Urgency::Normal), Some("a"));
    assert_eq!(now(&queue, Urgency::Normal), None);
    queue.done(&"a", Looked::Done);
    assert_eq!(now(&queue, Urgency::Normal), None);
}

#[tokio::test]
async fn what_becomes_urgent_changes_the_lane_and_never_back() {
    let queue = queue();
    queue.wake("a", Urgency::Normal);
    queue.wake("a", Urgency::Urgent);
    queue.wake("a", Urgency::Normal);
    assert_eq!(now(&queue, Urgency::Normal), None);
    assert_eq!(now(&queue, Urgency::Urgent), Some("a"));
    assert_eq!(now(&queue, Urgency::Urgent), None);
}

#[tokio::test]
async fn one_thing_is_looked_at_by_one_worker_and_again_if_it_came_up_meanwhile() {
    let queue = queue();
    queue.wake("a", Urgency::Normal);
    assert_eq!(now(&queue, Urgency::Normal), Some("a"));
    queue.wake("a", Urgency::Normal);
    queue.wake("a", Urgency::Urgent);
    assert_eq!(now(&queue, Urgency::Urgent), None);
    queue.done(&"a", Looked::Done);
    assert_eq!(now(&queue, Urgency::Normal), None);
    assert_eq!(now(&queue, Urgency::Urgent), Some("a"));
}

#[tokio::test]
async fn a_closed_lane_gives_nothing_and_closing_forgets() {
    let queue = one_tenant();
    queue.wake("a", Urgency::Normal);
    assert_eq!(now(&queue, Urgency::Normal), None);
    queue.open(Urgency::Urgent);
    assert_eq!(now(&queue, Urgency::Normal), None);
    queue.close();
    queue.open(Urgency::Normal);
    assert_eq!(now(&queue, Urgency::Normal), None);
    assert!(queue.is_drained(Urgency::Normal));
}

#[tokio::test]
async fn a_lane_is_drained_when_nothing_of_it_waits_or_runs() {
    let queue = queue();
    let drained = || Urgency::ALL.map(|urgency| queue.is_drained(urgency));
    assert_eq!(drained(), [true, true]);
    queue.wake("a", Urgency::Urgent);
    assert_eq!(drained(), [false, true]);
    let _ = queue.take(&[Urgency::Urgent]).await;
    assert_eq!(drained(), [false, true]);
    queue.done(&"a", Looked::Done);
    queue.wake("b", Urgency::Normal);
    assert_eq!(drained(), [true, false]);
}

#[tokio::test(start_paused = true)]
async fn failures_come_back_after_growing_pauses_and_success_forgets_them() {
    let queue = queue();
    queue.wake("a", Urgency::Normal);
    let mut last = Duration::ZERO;
    for _ in 0..6 {
        let started = Instant::now();
        assert_eq!(queue.take(&[Urgency::Normal]).await.job, "a");
        assert!(started.elapsed() >= last / 2, "{last:?}");
        last = started.elapsed().max(Duration::from_millis(50));
        queue.done(&"a", Looked::Failed);
    }
    assert!(last >= Duration::from_millis(800), "{last:?}");
    let _ = queue.take(&[Urgency::Normal]).await;
    queue.done(&"a", Looked::Done);
    assert!(queue.is_drained(Urgency::Normal));
}

#[tokio::test(start_paused = true)]
async fn of_two_times_the_sooner_counts_and_a_look_forgets_it() {
    let queue = queue();
    let started = Instant::now();
    queue.wake_after("a", Urgency::Normal, Duration::from_mins(1));
    queue.wake_after("a", Urgency::Urgent, Duration::from_secs(5));
    queue.wake_after("a", Urgency::Normal, Duration::from_secs(9));
    assert_eq!(queue.take(&[Urgency::Urgent]).await.job, "a");
    assert!(started.elapsed() < Duration::from_secs(6));
    assert_eq!(queue.state().timers.sizes(), [0, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_sooner_look_for_which_nobody_waits_takes_no_urgent_time_away() {
    use Urgency::{Normal, Urgent};
    let (soon, late) = (Duration::from_secs(2), Duration::from_secs(9));
    for (times, urgent_at) in [
        ([(Urgent, late), (Normal, soon)], late),
        ([(Urgent, soon), (Normal, late)], soon),
        ([(Urgent, late), (Urgent, soon)], soon),
        ([(Urgent, soon), (Urgent, late)], soon),
        // A job that becomes urgent keeps its sooner time.
        ([(Normal, soon), (Urgent, late)], soon),
        ([(Normal, late), (Urgent, soon)], soon),
    ] {
        let queue = queue();
        let started = Instant::now();
        for (lane, pause) in times {
            queue.wake_after("a", lane, pause);
        }
        // Every worker of the other lane is busy.
        let taken = timeout(3 * late, queue.take(&[Urgent])).await;
        assert_eq!(taken.expect("a look in time").job, "a", "{times:?}");
        let took = started.elapsed();
        let bound = urgent_at..urgent_at + Duration::from_millis(3);
        assert!(bound.contains(&took), "{times:?}: {took:?}");
        queue.done(&"a", Looked::Done);
        tokio::time::sleep(2 * late).await;
        assert_eq!((now(&queue, Urgent), now(&queue, Normal)), (None, None));
        let state = queue.state();
        assert_eq!(state.timers.sizes(), [0, 0]);
    }
}

/// In which lane something waits that was woken twice, by where it is meanwhile.
#[tokio::test(start_paused = true)]
async fn what_is_woken_twice_is_looked_at_once_in_the_more_urgent_lane() {
    use Urgency::{Normal, Urgent};
    for first in [Normal, Urgent] {
        for second in [Normal, Urgent] {
            for before in ["new", "running", "failed", "awaits its time"] {
                let queue = queue();
                match before {
                    "running" => {
                        queue.wake("a", Normal);
                        let _ = queue.take(&[Normal]).await;
                    }
                    "failed" => fail_often(&queue).await,
                    "awaits its time" => queue.wake_after("a", Normal, Duration::from_mins(1)),
                    _ => {}
                }
                queue.wake("a", first);
                queue.wake("a", second);
                queue.done(&"a", Looked::Done);
                let lane = first.min(second);
                let said = format!("{before}: {first:?}, {second:?}");
                let taken = timeout(LATER * 2, queue.take(&[lane])).await;
                assert_eq!(taken.expect(&said).job, "a", "{said}");
                queue.done(&"a", Looked::Done);
                tokio::time::sleep(Duration::from_mins(3)).await;
                let again = (now(&queue, Urgent), now(&queue, Normal));
                assert_eq!(again, (None, None), "{said}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_gives_up_waiting_takes_nothing_with_it() {
    let queue = queue();
    for polls in 1..4 {
        let given_up = {
            let mut waits = std::pin::pin!(queue.take(&[Urgency::Normal]));
            for _ in 0..polls {
                assert!(futures::poll!(&mut waits).is_pending());
            }
            queue.wake("a", Urgency::Normal);
            // Woken, and gone before it looks.
            polls
        };
        assert_eq!(now(&queue, Urgency::Normal), Some("a"), "{given_up} polls");
        queue.done(&"a", Looked::Done);
    }
}

#[tokio::test(start_paused = true)]
async fn what_failed_waits_for_its_pause_though_it_comes_up_again_and_what_is_urgent_not_long() {
    for (lane, most) in [(Urgency::Normal, LATER), (Urgency::Urgent, SOON)] {
        let queue = queue();
        let mut longest = Duration::ZERO;
        for _ in 0..30 {
            let failed = Instant::now();
            queue.wake("a", lane);
            assert_eq!(queue.take(&[lane]).await.job, "a");
            longest = longest.max(failed.elapsed());
            queue.done(&"a", Looked::Failed);
            assert_eq!(now(&queue, lane), None, "{lane:?}");
        }
        // Timers are at most a millisecond late.
        assert!(longest <= most + Duration::from_millis(2), "{longest:?}");
        assert!(longest >= most / 3, "{longest:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_urgent_is_tried_again_by_itself_within_seconds() {
    let queue = queue();
    queue.wake("a", Urgency::Urgent);
    for _ in 0..20 {
        let failed = Instant::now();
        let taken = queue.take(&[Urgency::Urgent]).await;
        assert!(failed.elapsed() <= URGENTLY + Duration::from_millis(2));
        queue.done(&taken.job, Looked::Failed);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_urgent_and_nowhere_in_force_waits_like_the_rest() {
    let queue = queue();
    queue.wake("a", Urgency::Urgent);
    let mut last = Duration::ZERO;
    for _ in 0..20 {
        let failed = Instant::now();
        let taken = queue.take(&[Urgency::Urgent]).await;
        last = failed.elapsed();
        queue.done(&taken.job, Looked::FailedSafely);
    }
    assert!(last > 4 * URGENTLY, "{last:?}");
    // A change of the job is looked at as soon as ever.
    tokio::time::sleep(SOON).await;
    let came_up = Instant::now();
    queue.wake("a", Urgency::Urgent);
    let _ = queue.take(&[Urgency::Urgent]).await;
    assert!(came_up.elapsed() <= Duration::from_millis(2));
}

#[tokio::test(start_paused = true)]
async fn how_long_something_waited_includes_its_pause() {
    let queue = queue();
    fail_often(&queue).await;
    let came_up = Instant::now();
    queue.wake("a", Urgency::Normal);
    assert_eq!(queue.take(&[Urgency::Normal]).await.since, came_up);
    assert!(came_up.elapsed() > LATER / 2);
}

#[tokio::test(start_paused = true)]
async fn what_became_urgent_after_a_failure_waits_less() {
    let queue = queue();
    fail_often(&queue).await;
    // A worker waits for the time of the next attempt by now.
    tokio::time::sleep(SOON / 5).await;
    let failed = Instant::now();
    queue.wake("a", Urgency::Urgent);
    assert_eq!(queue.take(&[Urgency::Urgent]).await.job, "a");
    assert!(failed.elapsed() <= SOON + Duration::from_millis(2));
}

#[tokio::test(start_paused = true)]
async fn waiting_workers_are_woken() {
    let queue = queue();
    let worker = Arc::clone(&queue);
    let worker = tokio::spawn(async move { worker.take(&[Urgency::Normal]).await.job });
    tokio::task::yield_now().await;
    queue.wake("a", Urgency::Normal);
    assert_eq!(worker.await.unwrap(), "a");
}

#[tokio::test(start_paused = true)]
async fn what_somebody_undoes_each_time_is_not_done_again_without_a_pause() {
    for (lane, most) in [(Urgency::Normal, LATER), (Urgency::Urgent, SOON)] {
        let queue = queue();
        let wait = async || {
            let woken = Instant::now();
            queue.wake("a", lane);
            assert_eq!(queue.take(&[lane]).await.job, "a");
            queue.changed(&"a");
            queue.done(&"a", Looked::Done);
            // Its own change is looked at and found good.
            queue.wake("a", lane);
            queue.take(&[lane]).await;
            queue.done(&"a", Looked::Done);
            woken.elapsed()
        };
        for _ in 0..OFTEN {
            assert_eq!(wait().await, Duration::ZERO);
        }
        for _ in 0..3 {
            let waited = wait().await;
            assert!(waited >= most, "{lane:?} {waited:?}");
            assert!(waited <= most * 2 + Duration::from_millis(4), "{waited:?}");
        }
        // Other jobs do not wait for it.
        queue.wake("b", lane);
        assert_eq!(now(&queue, lane), Some("b"));
        queue.done(&"b", Looked::Done);
        tokio::time::sleep(CALM).await;
        assert_eq!(wait().await, Duration::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_calm_again_is_forgotten() {
    let queue = one_tenant();
    for number in 0..REMEMBERED {
        queue.changed(&number);
    }
    tokio::time::sleep(CALM).await;
    queue.changed(&0);
    assert_eq!(queue.state().changes.len(), 1);
}

#[tokio::test]
async fn a_share_is_given_back_to_who_took_it_whoever_causes_the_job_by_then() {
    let asker = std::sync::Arc::new(std::sync::Mutex::new("pods"));
    let now_asks = std::sync::Arc::clone(&asker);
    let queue = Queue::shared(Shares::Each([2, 2]), PAUSES, move |_: &&'static str| {
        Tenants {
            owner: "tools".to_owned(),
            asker: (*now_asks.lock().unwrap()).to_owned(),
        }
    });
    queue.open(Urgency::Normal);
    for job in ["a", "b", "c"] {
        *asker.lock().unwrap() = "pods";
        queue.wake(job, Urgency::Normal);
        assert_eq!(now(&queue, Urgency::Normal), Some(job));
        // The request is gone meanwhile, so the namespace of its pod is unknown.
        *asker.lock().unwrap() = "tools";
        queue.wake(job, Urgency::Normal);
        queue.done(&job, Looked::Done);
        assert_eq!(now(&queue, Urgency::Normal), Some(job));
        queue.done(&job, Looked::Done);
    }
    let state = queue.state();
    let mut shares = state.owners.iter().chain(&state.askers);
    assert!(shares.all(|it| it.tenants() == 0));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_worker_hears_of_a_sooner_time() {
    let queue = queue();
    queue.wake_after("a", Urgency::Normal, LATER);
    let worker = Arc::clone(&queue);
    let worker = tokio::spawn(async move {
        worker.take(&[Urgency::Normal]).await;
        Instant::now()
    });
    tokio::task::yield_now().await;
    let soon = Instant::now() + SOON;
    queue.wake_after("b", Urgency::Normal, SOON);
    let taken = worker.await.unwrap();
    assert!(taken <= soon + Duration::from_millis(2), "{taken:?}");
}
