use std::{
    future::pending,
    mem,
    sync::{Arc, Mutex},
};

use tokio::time::timeout;

use super::*;
use crate::{
    readiness::{Readiness, Status},
    shutdown::Tasks,
};

const SECOND: Duration = Duration::from_secs(1);

/// A controller that says what it is told.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<&'static str>>>);

impl Told {
    fn tell(&self, what: &'static str) {
        self.0.lock().unwrap().push(what);
    }
}

/// Says that leading has ended.
struct Ends(Told);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.tell("ends");
    }
}

impl Leader for Told {
    async fn lead(&self, first_sweep: &mut Option<ReadinessPart>) {
        let _ends = Ends(self.clone());
        self.tell("leads");
        if let Some(part) = first_sweep.take() {
            part.ready();
        }
        pending::<()>().await;
    }

    fn pause(&self) {
        self.tell("pauses");
    }
}

fn leads() -> Leadership {
    Leadership::Leader {
        until: Instant::now() + SECOND * 10,
    }
}

#[tokio::test(start_paused = true)]
async fn work_begins_with_leadership_and_pauses_whenever_that_ends() {
    for first in [Leadership::Follower, leads()] {
        let told = Told::default();
        let said = || mem::take(&mut *told.0.lock().unwrap());
        let (readiness, first_sweep) = Readiness::starting();
        let (sender, receiver) = watch::channel(Leadership::Follower);
        let tasks = Tasks::new();
        let process = tokio::spawn(follow(told.clone(), receiver, first_sweep, tasks.stop()));
        sleep(SECOND).await;
        assert_eq!(said(), ["pauses"]);
        assert_ne!(readiness.status(), Status::Ready, "nobody is known to lead");
        // Whoever leads sweeps: this process, or another one.
        sender.send_replace(first);
        sleep(SECOND).await;
        assert_eq!(readiness.status(), Status::Ready);
        sender.send_replace(Leadership::Follower);
        sleep(SECOND).await;
        said();
        sender.send_replace(leads());
        sleep(SECOND).await;
        assert_eq!(said(), ["pauses", "leads"]);
        sender.send_replace(Leadership::Follower);
        sleep(SECOND).await;
        assert_eq!(said(), ["ends", "pauses"]);
        sender.send_replace(leads());
        // Its time is up, though nobody says so.
        sleep(SECOND * 11).await;
        assert_eq!(said(), ["pauses", "leads", "ends", "pauses"]);
        sender.send_replace(leads());
        sleep(SECOND).await;
        assert!(!process.is_finished());
        drop(tasks);
        timeout(SECOND, process).await.unwrap().unwrap();
        assert_eq!(said(), ["pauses", "leads", "ends"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_is_at_most_a_tenth_shorter_or_longer_and_not_always_the_same() {
    chance::fix(1);
    let mut waits = Vec::new();
    for _ in 0..30 {
        let began = Instant::now();
        about(SECOND * 100).await;
        waits.push(began.elapsed());
    }
    waits.sort();
    let (shortest, longest) = (waits[0], waits[29]);
    assert!(
        SECOND * 90 <= shortest && shortest < SECOND * 95,
        "{shortest:?}"
    );
    assert!(
        SECOND * 105 < longest && longest <= SECOND * 110,
        "{longest:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_waited_for_is_tried_after_each_pause_until_the_limit() {
    for (holds_after, waited) in [(0, 0), (2, 2), (3, 3), (9, 3)] {
        let began = Instant::now();
        let holds = || began.elapsed() >= SECOND * holds_after;
        wait_until(holds, SECOND, SECOND * 3).await;
        assert_eq!(began.elapsed(), SECOND * waited, "{holds_after}");
    }
}
