use std::{io, time::Duration};

use futures::{StreamExt, channel::mpsc, stream};

use super::{ProcessEnd, Signal, Stop, TaskError, Tasks};
use crate::readiness::{Readiness, Status};

const DRAIN: Duration = Duration::from_secs(20);

fn ready() -> Readiness {
    let (readiness, start) = Readiness::starting();
    start.ready();
    readiness
}

/// A task that needs some time after it was told to stop.
async fn lingers(stop: Stop, time: Duration) -> Result<(), TaskError> {
    stop.stopped().await;
    tokio::time::sleep(time).await;
    Ok(())
}

fn one(signal: Signal) -> impl futures::Stream<Item = Signal> + Unpin {
    stream::iter([signal])
}

#[tokio::test(start_paused = true)]
async fn the_first_signal_makes_unready_and_drains() {
    let readiness = ready();
    let mut tasks = Tasks::new();
    let (stop, seen) = (tasks.stop(), readiness.clone());
    tasks.spawn("work", async move {
        stop.stopped().await;
        assert_eq!(seen.status(), Status::Stopping);
        tokio::time::sleep(DRAIN / 2).await;
        Ok::<(), TaskError>(())
    });
    let outcome = tasks.run(one(Signal::Terminate), &readiness, DRAIN).await;
    assert_eq!((outcome.exit_code(), outcome), (0, ProcessEnd::Drained));
}

#[tokio::test(start_paused = true)]
async fn the_drain_ends_at_the_deadline_and_names_who_is_late() {
    let mut tasks = Tasks::new();
    tasks.spawn("quick", lingers(tasks.stop(), Duration::ZERO));
    tasks.spawn("slow", lingers(tasks.stop(), DRAIN * 2));
    let started = tokio::time::Instant::now();
    let outcome = tasks.run(one(Signal::Interrupt), &ready(), DRAIN).await;
    assert_eq!(started.elapsed(), DRAIN);
    assert_eq!(
        (outcome.exit_code(), outcome),
        (0, ProcessEnd::Overrun(vec!["slow"]))
    );
}

#[tokio::test(start_paused = true)]
async fn the_second_signal_aborts() {
    let mut tasks = Tasks::new();
    let (send, signals) = mpsc::unbounded();
    let stop = tasks.stop();
    tasks.spawn("slow", lingers(tasks.stop(), DRAIN / 2));
    send.unbounded_send(Signal::Terminate).unwrap();
    tokio::spawn(async move {
        stop.stopped().await;
        send.unbounded_send(Signal::Terminate).unwrap();
    });
    let started = tokio::time::Instant::now();
    let outcome = tasks.run(signals, &ready(), DRAIN).await;
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert_eq!((outcome.exit_code(), outcome), (1, ProcessEnd::Aborted));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_fails_ends_the_process_after_the_others_have_drained() {
    let readiness = ready();
    let mut tasks = Tasks::new();
    tasks.spawn("work", lingers(tasks.stop(), DRAIN / 2));
    tasks.spawn("lease", async { Err::<(), _>(io::Error::other("gone")) });
    let started = tokio::time::Instant::now();
    let outcome = tasks.run(stream::pending(), &readiness, DRAIN).await;
    assert_eq!(started.elapsed(), DRAIN / 2);
    assert_eq!(
        (outcome.exit_code(), outcome),
        (1, ProcessEnd::Failed("lease"))
    );
    assert_eq!(readiness.status(), Status::Stopping);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_or_just_ends_is_a_failure_too() {
    let mut tasks = Tasks::new();
    tasks.spawn("watch", async { Ok::<(), TaskError>(()) });
    let outcome = tasks.run(stream::pending(), &ready(), DRAIN).await;
    assert_eq!(outcome, ProcessEnd::Failed("watch"));

    let mut tasks = Tasks::new();
    tasks.spawn("watch", async {
        if true {
            panic!("on purpose")
        } else {
            Ok::<(), TaskError>(())
        }
    });
    let outcome = tasks.run(stream::pending(), &ready(), DRAIN).await;
    assert_eq!(outcome, ProcessEnd::Failed("watch"));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_fails_while_it_drains_is_not_forgotten() {
    let mut tasks = Tasks::new();
    let stop = tasks.stop();
    tasks.spawn("work", async move {
        stop.stopped().await;
        Err::<(), _>(io::Error::other("could not finish"))
    });
    let outcome = tasks.run(one(Signal::Terminate), &ready(), DRAIN).await;
    assert_eq!(outcome, ProcessEnd::Failed("work"));
}

#[tokio::test(start_paused = true)]
async fn the_first_signal_after_a_failure_does_not_abort() {
    let mut tasks = Tasks::new();
    tasks.spawn("work", lingers(tasks.stop(), DRAIN / 2));
    tasks.spawn("lease", async { Err::<(), _>(io::Error::other("gone")) });
    let stop = tasks.stop();
    let signals = stream::once(async move {
        stop.stopped().await;
        Signal::Terminate
    })
    .boxed();
    let outcome = tasks.run(signals, &ready(), DRAIN).await;
    assert_eq!(outcome, ProcessEnd::Failed("lease"));
}

#[tokio::test(start_paused = true)]
async fn a_process_without_tasks_still_waits_for_its_signal() {
    let outcome = Tasks::new()
        .run(one(Signal::Terminate), &ready(), DRAIN)
        .await;
    assert_eq!(outcome, ProcessEnd::Drained);
}

#[test]
fn an_outcome_names_the_tasks_that_are_its_reason() {
    let overrun = ProcessEnd::Overrun(vec!["watches", "lease"]);
    assert_eq!(
        overrun.to_string(),
        "still running at the deadline: watches, lease"
    );
    for (outcome, said) in [
        (ProcessEnd::Drained, "every task has ended"),
        (ProcessEnd::Aborted, "aborted by a second signal"),
        (
            ProcessEnd::Failed("lease"),
            "task lease ended before its time",
        ),
    ] {
        assert_eq!(outcome.to_string(), said);
    }
}
