//! Jobs that are woken twice and in any order, and workers that stop waiting. No job is lost, and a job that
//! may have to revoke something waits no longer than promised.

use std::collections::{BTreeMap, BTreeSet};

use proptest::{collection::vec, prelude::*, sample::select};
use tokio::time::advance;

use super::one_line::{End, Jobs, done, opened, taken};
use super::*;

const JOBS: [&str; 4] = ["a1", "a2", "a11", "b1"];
/// In steps of this, time passes.
const STEP: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug)]
enum Doing {
    Wake(&'static str, Urgency),
    /// A look ends, if there is one.
    End(&'static str, End),
    /// So many steps pass.
    Pass(u32),
    /// A worker that waits hangs up.
    HangUp,
}

fn doings() -> impl Strategy<Value = Vec<Doing>> {
    let job = || select(JOBS.to_vec());
    let end = select(vec![End::Well, End::Restored, End::Failed, End::Late]);
    let doing = prop_oneof![
        3 => job().prop_map(|job| Doing::Wake(job, Urgency::Normal)),
        3 => job().prop_map(|job| Doing::Wake(job, Urgency::Urgent)),
        5 => (job(), end).prop_map(|(job, end)| Doing::End(job, end)),
        3 => (0..40_u32).prop_map(Doing::Pass),
        1 => Just(Doing::HangUp),
    ];
    vec(doing, 0..60)
}

/// The state as seen from outside: the running jobs, and since when an urgent or other job waits.
#[derive(Default)]
struct Outside {
    running: BTreeSet<&'static str>,
    /// Woken while it ran.
    again: BTreeMap<&'static str, Urgency>,
    urgent: BTreeMap<&'static str, Instant>,
    any: BTreeSet<&'static str>,
}

impl Outside {
    fn wake(&mut self, job: &'static str, urgency: Urgency) {
        self.any.insert(job);
        if self.running.contains(job) {
            let least = self.again.get(job).map_or(urgency, |it| urgency.min(*it));
            self.again.insert(job, least);
        } else if urgency == Urgency::Urgent {
            self.urgent.entry(job).or_insert_with(Instant::now);
        }
    }

    fn end(&mut self, job: &'static str) {
        self.running.remove(job);
        if let Some(urgency) = self.again.remove(job) {
            self.wake(job, urgency);
        }
    }

    /// Workers take everything that is due.
    fn drain(&mut self, queue: &Jobs) -> Result<(), TestCaseError> {
        while let Some(job) = taken(queue) {
            prop_assert!(self.running.insert(job), "{job} is looked at by two");
            self.urgent.remove(job);
            self.any.remove(job);
        }
        for (job, since) in &self.urgent {
            let waits = since.elapsed();
            prop_assert!(
                waits <= SOON + STEP,
                "{job} is urgent and waits for {waits:?}"
            );
        }
        Ok(())
    }
}

async fn pass(queue: &Jobs, outside: &mut Outside, steps: u32) -> Result<(), TestCaseError> {
    for _ in 0..steps {
        advance(STEP).await;
        outside.drain(queue)?;
    }
    Ok(())
}

async fn happens(doings: Vec<Doing>) -> Result<(), TestCaseError> {
    let (queue, mut outside) = (opened(), Outside::default());
    for doing in doings {
        match doing {
            Doing::Wake(job, urgency) => {
                outside.wake(job, urgency);
                queue.wake(job, urgency);
            }
            Doing::End(job, end) => {
                if outside.running.contains(job) {
                    done(&queue, job, end);
                    outside.end(job);
                }
            }
            Doing::Pass(steps) => pass(&queue, &mut outside, steps).await?,
            Doing::HangUp => {
                // It waits for the next job, and is dropped before it receives it.
                let mut waits = Box::pin(queue.take(&Urgency::ALL));
                prop_assert!(waits.as_mut().now_or_never().is_none());
                outside.wake("b1", Urgency::Normal);
                queue.wake("b1", Urgency::Normal);
                drop(waits);
            }
        }
        outside.drain(&queue)?;
    }
    // The longest pause is two minutes. Every woken job is looked at by then, and leaves no state.
    for _ in 0..3 {
        for job in outside.running.clone() {
            done(&queue, job, End::Well);
            outside.end(job);
        }
        pass(&queue, &mut outside, 20).await?;
        advance(Duration::from_mins(2)).await;
        outside.drain(&queue)?;
    }
    prop_assert!(
        outside.any.is_empty(),
        "{:?} are never looked at",
        outside.any
    );
    for job in outside.running.clone() {
        done(&queue, job, End::Well);
    }
    prop_assert_eq!(queue.depth(), 0);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whatever_is_woken_in_any_order_is_looked_at_by_one_at_a_time_and_in_time(doings in doings()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(happens(doings))?;
    }
}

/// Every way in which the first and the second call for a look may meet.
#[tokio::test(start_paused = true)]
async fn a_second_call_makes_a_look_no_later_and_no_less_urgent() {
    for end in [End::Well, End::Restored, End::Failed, End::Late] {
        for (first, second) in [
            (Urgency::Urgent, Urgency::Normal),
            (Urgency::Normal, Urgency::Urgent),
            (Urgency::Urgent, Urgency::Urgent),
        ] {
            for is_running in [false, true] {
                let queue = opened();
                queue.wake("a", Urgency::Normal);
                assert_eq!(taken(&queue), Some("a"));
                if !is_running {
                    done(&queue, "a", end);
                }
                // It is not urgent, and came before.
                queue.wake("b", Urgency::Normal);
                queue.wake("a", first);
                queue.wake("a", second);
                if is_running {
                    done(&queue, "a", end);
                }
                advance(SOON).await;
                let name = format!("{end:?}, {first:?} then {second:?}, running: {is_running}");
                assert_eq!(taken(&queue), Some("a"), "{name}");
                assert_eq!(taken(&queue), Some("b"), "{name}");
            }
        }
    }
}

/// When one of the waiting workers is dropped, the others still receive the next job.
#[tokio::test(start_paused = true)]
async fn a_worker_that_hangs_up_takes_no_news_along() {
    for gone in 0..3 {
        for is_told in [false, true] {
            let queue = opened();
            let mut waits: Vec<_> = (0..3)
                .map(|_| Box::pin(queue.take(&Urgency::ALL)))
                .collect();
            for wait in &mut waits {
                assert!(wait.as_mut().now_or_never().is_none());
            }
            if is_told {
                queue.wake("a", Urgency::Urgent);
            }
            drop(waits.remove(gone));
            if !is_told {
                queue.wake("a", Urgency::Urgent);
            }
            let mut found = waits.iter_mut().filter_map(|it| it.as_mut().now_or_never());
            assert_eq!(
                found.next().map(|it| it.job),
                Some("a"),
                "{gone}, told: {is_told}"
            );
        }
    }
}
