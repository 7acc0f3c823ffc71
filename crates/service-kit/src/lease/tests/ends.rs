//! How leadership ends: by time alone, by a deleted record, and last of all with its process.

use futures::{FutureExt, stream};

use super::*;
use crate::{
    readiness::Readiness,
    shutdown::{ProcessEnd, Signal, Tasks},
};

fn leads_for(seconds: u32) -> Leadership {
    Leadership::Leader {
        until: Instant::now() + SECOND * seconds,
    }
}

#[tokio::test(start_paused = true)]
async fn leadership_is_lost_when_its_time_is_up_though_nobody_writes_anything() {
    // The reported states, each with the seconds since the previous one; and the time when leadership is
    // lost.
    for (said, lost) in [
        (vec![(0, Some(10))], 10),
        (vec![(0, Some(10)), (8, Some(10))], 18),
        (vec![(0, Some(10)), (8, Some(10)), (9, Some(10))], 27),
        // A renewal with other numbers that ends at the same time changes nothing.
        (vec![(0, Some(10)), (4, Some(6)), (4, Some(2))], 10),
        // An end may come nearer.
        (vec![(0, Some(10)), (2, Some(1))], 3),
        (vec![(0, Some(10)), (3, None)], 3),
        (vec![(0, None)], 0),
        (vec![(0, Some(0))], 0),
    ] {
        let (sender, receiver) = watch::channel(Leadership::Follower);
        let mut said = said.into_iter();
        let words = |seconds: Option<u32>| seconds.map_or(Leadership::Follower, leads_for);
        sender.send_replace(words(said.next().unwrap().1));
        let started = Instant::now();
        let waits = tokio::spawn(Leadership::lost(receiver));
        for (pause, seconds) in said {
            sleep(SECOND * pause).await;
            sender.send_replace(words(seconds));
        }
        timeout(SECOND * 60, waits).await.unwrap().unwrap();
        assert_eq!(started.elapsed(), SECOND * lost);
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_knows_at_once_and_a_follower_after_the_next_step() {
    let (sender, mut receiver) = watch::channel(leads_for(10));
    for _ in 0..2 {
        let known = Leadership::known(&mut receiver).now_or_never();
        assert_eq!(known, Some(true), "a leader needs no further step");
    }
    sender.send_replace(Leadership::Follower);
    {
        let mut known = std::pin::pin!(Leadership::known(&mut receiver));
        assert_eq!(known.as_mut().now_or_never(), None);
        sender.send_replace(Leadership::Follower);
        assert_eq!(known.as_mut().now_or_never(), Some(true));
    }
    drop(sender);
    assert_eq!(Leadership::known(&mut receiver).now_or_never(), Some(false));
}

#[tokio::test(start_paused = true)]
async fn leadership_is_lost_with_the_election() {
    let (sender, receiver) = watch::channel(leads_for(10));
    drop(sender);
    timeout(SECOND * 60, Leadership::lost(receiver))
        .await
        .unwrap();
}

/// A holder whose record vanishes continues for its time, and every process that saw it leaves it that time.
#[tokio::test(start_paused = true)]
async fn no_two_lead_whenever_somebody_deletes_the_record() {
    for tenths in (0..60).step_by(3) {
        let server = Server::default();
        let mut first = server.stand("first");
        first.until(true).await;
        let second = server.stand("second");
        sleep(SECOND * 5 + SECOND / 10 * tenths).await;
        server.0.lock().unwrap().0 = None;
        // At the worst moment: its holder cannot be told.
        first.cut.store(tenths % 2 == 0, Ordering::SeqCst);
        let mut has_led = false;
        for _ in 0..300 {
            sleep(SECOND / 10).await;
            assert!(
                !(first.leads() && second.leads()),
                "deleted after {tenths} tenths"
            );
            has_led |= second.leads();
        }
        assert!(has_led || first.leads(), "deleted after {tenths} tenths");
    }
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_given_back_when_the_last_worker_has_ended_and_held_until_then() {
    let server = Server::default();
    let (client, _) = server.client();
    let election = Election::new(client, "ns", "controller", "first", LeaseTerms::default());
    let leadership = election.leadership();
    let mut tasks = Tasks::new();
    let workers = [0, 3, 25].map(|lingers| {
        let stop = tasks.stop();
        tokio::spawn(async move {
            stop.stopped().await;
            sleep(SECOND * lingers).await;
        })
    });
    election.spawn_with(&mut tasks, workers.into());
    let (readiness, _start) = Readiness::starting();
    let (signal, signals) = oneshot::channel::<()>();
    let ended = tokio::spawn(async move {
        let signals = stream::once(async {
            let _ = signals.await;
            Signal::Terminate
        });
        tasks.run(Box::pin(signals), &readiness, SECOND * 60).await
    });
    sleep(SECOND * 3).await;
    signal.send(()).unwrap();
    for _ in 0..24 {
        sleep(SECOND).await;
        assert!(leadership.borrow().is_leader());
        assert_eq!(server.holder().as_deref(), Some("first"));
    }
    assert_eq!(ended.await.unwrap(), ProcessEnd::Drained);
    assert!(!leadership.borrow().is_leader());
    assert_eq!(server.holder(), None);
}
