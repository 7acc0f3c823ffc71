//! Three days in which all objects come and go, on virtual time: no map grows with deleted objects.

use std::time::Duration;

use connectors_api::AccessPolicy;
use futures::FutureExt;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::json;
use tokio::time::advance;

use service_kit::controller::queue::{Looked, Queue, Urgency};

use crate::{
    cache::{Job, PolicyCached, State, Wakes},
    controller,
    seen::{ManagedCached, ManagedKind, Name},
    testing::{labels, reading, spec},
};

const DAYS: usize = 3;
const SECONDS: usize = DAYS * 24 * 60 * 60;
/// Things of one kind that are there at the same time, at most.
const THINGS: usize = 40;

fn policy(uid: String, subject: &serde_json::Value) -> PolicyCached {
    let policy = AccessPolicy::new("p", spec(&reading(&json!({}), &json!([subject]))));
    PolicyCached::of(uid, false, Some(policy))
}

/// One change; nothing stays there where everything has to go.
fn change(state: &mut State, dice: &mut StdRng, number: usize, all_goes: Option<usize>) -> Wakes {
    let at = all_goes.unwrap_or_else(|| dice.random_range(0..THINGS * 5));
    let (kind, thing) = (at / THINGS, at % THINGS);
    let is_there = all_goes.is_none() && dice.random_range(0..2) == 0;
    let name = Name::new(&format!("n{}", thing % 4), &format!("x{thing}"));
    let some_labels = labels(&[("role", ["builder", "tester"][number % 2])]);
    match kind {
        0 => {
            let subject = json!({"kind": "ServiceAccount", "nameSelector": {"matchLabels": {"role": "builder"}}});
            // The same name is taken again and again.
            let policy = is_there.then(|| policy(format!("u{}", number % 7), &subject));
            state.policy(&name, policy)
        }
        1 => state.connector(&name, is_there.then_some(some_labels)),
        2 => state.namespace(&name.namespace, is_there.then_some(some_labels)),
        3 => state.account(&name, is_there.then_some(some_labels)),
        _ => {
            let uid = format!("u{}", number % 7);
            let cached = ManagedCached {
                version: String::new(),
                said: None,
                terminating: number.is_multiple_of(3),
            };
            state.object(
                ManagedKind::Role,
                &name,
                is_there.then_some((&*uid, cached)),
            )
        }
    }
}

/// Wakes, and looks at the due jobs.
fn look(queue: &Queue<Job>, wakes: Wakes, dice: &mut StdRng) {
    for (job, urgency) in wakes {
        queue.wake(job, urgency);
    }
    while let Some(taken) = queue.take(&Urgency::ALL).now_or_never() {
        if dice.random_range(0..5) == 0 {
            queue.changed(&taken.job);
        }
        let ends = [Looked::Done, Looked::Done, Looked::Failed, Looked::Late];
        queue.done(&taken.job, ends[dice.random_range(0..ends.len())]);
    }
}

#[tokio::test(start_paused = true)]
async fn every_map_is_as_it_was_after_three_days_of_churn() {
    let queue = controller::queue();
    for urgency in Urgency::ALL {
        queue.open(urgency);
    }
    let (mut state, mut dice) = (State::default(), StdRng::seed_from_u64(7));
    let (caches, jobs) = (state.census(), queue.census());
    let mut most = 0;
    for number in 0..SECONDS {
        let wakes = change(&mut state, &mut dice, number, None);
        look(&queue, wakes, &mut dice);
        advance(Duration::from_secs(1)).await;
        if number.is_multiple_of(60) {
            most = most.max(state.census().iter().sum());
        }
    }
    assert!(most > THINGS, "nothing was there");
    assert!(most < 20 * THINGS, "{most} entries at a time");
    for thing in 0..THINGS * 5 {
        let wakes = change(&mut state, &mut dice, thing, Some(thing));
        look(&queue, wakes, &mut dice);
    }
    assert_eq!(state.census(), caches);
    // A failed job is tried again until it succeeds; then no map of the queue holds it.
    for _ in 0..100 {
        advance(Duration::from_mins(3)).await;
        while let Some(taken) = queue.take(&Urgency::ALL).now_or_never() {
            queue.done(&taken.job, Looked::Done);
        }
    }
    let (left, last) = (queue.census(), jobs.len() - 1);
    assert_eq!(left[..last], jobs[..last]);
    // A job that was changed lately is remembered until there are many.
    assert!(left[last] <= 4096, "{left:?}");
}
