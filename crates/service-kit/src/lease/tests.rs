mod ends;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::{Method, Request, StatusCode};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::MicroTime};
use kube::{Client, client::Body};
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::{Election, Leadership, LeaseTerms, TermsError, record};
use crate::{
    fake_api::{self, Answer, answer, body, refusal},
    readiness::{Readiness, ReadinessPart},
};

const SECOND: Duration = Duration::from_secs(1);

/// An API server that keeps one lease and refuses writes from an older version of it. It stays beside `testkit`, because one
/// object is all that an election has, and a test cuts single candidates off.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<(Option<Lease>, u32)>>);

impl Server {
    fn lease(&self) -> Option<Lease> {
        self.0.lock().unwrap().0.clone()
    }

    fn holder(&self) -> Option<String> {
        self.lease()?.spec?.holder_identity
    }

    fn serve(&self, method: &Method, claim: &[u8]) -> Answer {
        let mut state = self.0.lock().unwrap();
        let (lease, version) = &mut *state;
        let current = lease
            .as_ref()
            .and_then(|lease| lease.metadata.resource_version.clone());
        if *method != Method::GET {
            let mut claim: Lease = serde_json::from_slice(claim).unwrap();
            if claim.metadata.resource_version != current {
                return refusal(StatusCode::CONFLICT);
            }
            *version += 1;
            claim.metadata.resource_version = Some(version.to_string());
            *lease = Some(claim);
        }
        match lease {
            Some(lease) => answer(StatusCode::OK, serde_json::to_vec(lease).unwrap()),
            None => refusal(StatusCode::NOT_FOUND),
        }
    }

    /// A client, and the switch that cuts it off.
    fn client(&self) -> (Client, Arc<AtomicBool>) {
        let (server, cut) = (self.clone(), Arc::new(AtomicBool::new(false)));
        let is_cut = Arc::clone(&cut);
        let client = fake_api::client(move |request: Request<Body>| {
            let (server, is_cut) = (server.clone(), Arc::clone(&is_cut));
            async move {
                if is_cut.load(Ordering::SeqCst) {
                    std::future::pending::<()>().await;
                }
                let method = request.method().clone();
                server.serve(&method, &body(request).await)
            }
        });
        (client, cut)
    }

    /// A candidate whose caches are incomplete, and the part that they miss.
    fn stand_unprepared(&self, identity: &str) -> (Standing, ReadinessPart) {
        let (client, cut) = self.client();
        let (caches, part) = Readiness::starting();
        let terms = LeaseTerms::default();
        let election = Election::new(client, "ns", "controller", identity, terms);
        (Standing::of(election.preparing(caches), cut), part)
    }

    fn stand(&self, identity: &str) -> Standing {
        let (client, cut) = self.client();
        Standing::with(client, cut, identity)
    }
}

/// A candidate that runs.
struct Standing {
    leadership: watch::Receiver<Leadership>,
    cut: Arc<AtomicBool>,
    release: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Standing {
    fn with(client: Client, cut: Arc<AtomicBool>, identity: &str) -> Self {
        let election = Election::new(client, "ns", "controller", identity, LeaseTerms::default());
        Self::of(election, cut)
    }

    fn of(election: Election, cut: Arc<AtomicBool>) -> Self {
        let leadership = election.leadership();
        let (release, released) = oneshot::channel::<()>();
        let task = tokio::spawn(election.run(async {
            let _ = released.await;
        }));
        Self {
            leadership,
            cut,
            release,
            task,
        }
    }

    fn leads(&self) -> bool {
        self.leadership.borrow().is_leader()
    }

    /// Waits until it leads or no longer does, and says how long that took.
    async fn until(&mut self, leads: bool) -> Duration {
        let started = Instant::now();
        let changed = self
            .leadership
            .wait_for(|leadership| leadership.is_leader() == leads);
        timeout(SECOND * 60, changed).await.unwrap().unwrap();
        started.elapsed()
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_candidate_leads_at_once_and_stays() {
    let server = Server::default();
    let mut first = server.stand("first");
    assert_eq!(first.until(true).await, Duration::ZERO);
    let second = server.stand("second");
    for _ in 0..120 {
        sleep(SECOND).await;
        assert!(first.leads() && !second.leads());
    }
    let spec = server.lease().unwrap().spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some("first"));
    assert_eq!(
        (spec.lease_transitions, spec.lease_duration_seconds),
        (Some(0), Some(15))
    );
    assert!(spec.renew_time > spec.acquire_time);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_stops_before_another_one_starts() {
    let server = Server::default();
    let mut first = server.stand("first");
    first.until(true).await;
    let mut second = server.stand("second");
    sleep(SECOND * 5).await;

    first.cut.store(true, Ordering::SeqCst);
    let stopped = first.until(false).await;
    assert!(stopped <= SECOND * 10, "{stopped:?}");
    let started = stopped + second.until(true).await;
    assert!(
        started >= SECOND * 13 && started <= SECOND * 18,
        "{started:?}"
    );
    assert_eq!(server.holder().as_deref(), Some("second"));

    first.cut.store(false, Ordering::SeqCst);
    sleep(SECOND * 30).await;
    assert!(second.leads() && !first.leads());
    assert_eq!(
        server.lease().unwrap().spec.unwrap().lease_transitions,
        Some(1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_leaves_a_leader_time_to_renew() {
    let server = Server::default();
    let mut first = server.stand("first");
    first.until(true).await;
    sleep(SECOND).await;
    // The renewal at the second second is sent, and never answered.
    first.cut.store(true, Ordering::SeqCst);
    sleep(SECOND * 2).await;
    first.cut.store(false, Ordering::SeqCst);
    for second in 3..30 {
        assert!(first.leads(), "after {second} seconds");
        sleep(SECOND).await;
    }
}

/// No record is seen, and the first claim is not accepted. That another process was faster shows that there is a holder.
#[tokio::test(start_paused = true)]
async fn a_lost_race_is_waited_out_and_any_other_refusal_is_not() {
    for (status, waits) in [
        (StatusCode::CONFLICT, 15),
        (StatusCode::INTERNAL_SERVER_ERROR, 2),
    ] {
        let (server, is_refused) = (Server::default(), Arc::new(AtomicBool::new(false)));
        let client = fake_api::client(move |request: Request<Body>| {
            let (server, is_refused) = (server.clone(), Arc::clone(&is_refused));
            async move {
                let method = request.method().clone();
                if method == Method::POST && !is_refused.swap(true, Ordering::SeqCst) {
                    return refusal(status);
                }
                server.serve(&method, &body(request).await)
            }
        });
        let mut first = Standing::with(client, Arc::default(), "first");
        assert_eq!(first.until(true).await, SECOND * waits, "{status}");
    }
}

#[test]
fn a_record_says_when_it_was_written_and_never_the_same_time_twice() {
    let at = |second| Timestamp::from_second(second).unwrap();
    let claimed = |before, wall| record::claimed(before, "lease", "me", SECOND * 15, wall);
    let held = claimed(None, at(5));
    for (wall, written) in [
        (at(4), at(4)),
        (at(5), at(5) + SignedDuration::from_micros(1)),
        (at(6), at(6)),
    ] {
        let mut expected = held.clone();
        expected.spec.as_mut().unwrap().renew_time = Some(MicroTime(written));
        assert_eq!(claimed(Some(&held), wall), expected, "{wall}");
        expected.spec.as_mut().unwrap().holder_identity = None;
        assert_eq!(record::released(&held, wall), expected, "{wall}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_without_waiting_for_its_end() {
    let server = Server::default();
    let mut first = server.stand("first");
    first.until(true).await;
    let mut second = server.stand("second");
    sleep(SECOND).await;
    first.release.send(()).unwrap();
    first.task.await.unwrap();
    assert!(!first.leadership.borrow().is_leader());
    assert_eq!(server.holder(), None);
    assert!(second.until(true).await <= SECOND * 2);
}

/// A container that restarts is faster than the next look of another replica.
#[tokio::test(start_paused = true)]
async fn a_free_lease_is_taken_by_the_process_whose_caches_are_complete() {
    let server = Server::default();
    let mut first = server.stand("first");
    first.until(true).await;
    let mut second = server.stand("second");
    sleep(SECOND / 2).await;
    first.release.send(()).unwrap();
    first.task.await.unwrap();
    let (again, _part) = server.stand_unprepared("first");
    assert!(second.until(true).await <= SECOND * 2);
    sleep(SECOND * 10).await;
    assert!(second.leads() && !again.leads());
}

#[tokio::test(start_paused = true)]
async fn a_process_without_others_leads_when_its_caches_are_complete_or_after_some_time() {
    for (complete_after, expected) in [(1, SECOND), (100, SECOND * 4)] {
        let server = Server::default();
        let mut before = server.stand("before");
        before.until(true).await;
        before.release.send(()).unwrap();
        before.task.await.unwrap();
        let (mut only, part) = server.stand_unprepared("only");
        let completed = tokio::spawn(async move {
            sleep(SECOND * complete_after).await;
            part.ready();
        });
        assert_eq!(only.until(true).await, expected);
        sleep(SECOND * 200).await;
        completed.await.unwrap();
        assert!(only.leads());
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_process_of_all_leads_at_once_before_its_caches_are_complete() {
    let server = Server::default();
    let (mut first, _part) = server.stand_unprepared("first");
    assert_eq!(first.until(true).await, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_process_goes_on_with_its_own_lease_before_its_caches_are_complete() {
    let server = Server::default();
    let mut first = server.stand("pod-1");
    first.until(true).await;
    first.task.abort();
    let (mut again, _part) = server.stand_unprepared("pod-1");
    assert_eq!(again.until(true).await, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_ends_leaves_the_lease_alone() {
    let server = Server::default();
    let mut first = server.stand("first");
    first.until(true).await;
    let second = server.stand("second");
    sleep(SECOND).await;
    second.release.send(()).unwrap();
    second.task.await.unwrap();
    assert!(first.leads());
    assert_eq!(server.holder().as_deref(), Some("first"));
}

#[tokio::test(start_paused = true)]
async fn a_restarted_process_goes_on_where_it_was_killed() {
    let server = Server::default();
    let mut first = server.stand("pod-1");
    first.until(true).await;
    first.task.abort();
    let mut again = server.stand("pod-1");
    assert_eq!(again.until(true).await, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn leadership_ends_by_the_clock_though_nobody_says_so() {
    let server = Server::default();
    let mut first = server.stand("first");
    first.until(true).await;
    first.task.abort();
    let last_word = *first.leadership.borrow();
    sleep(SECOND * 9).await;
    assert!(last_word.is_leader());
    sleep(SECOND).await;
    assert!(!last_word.is_leader());
}

#[test]
fn terms_under_which_two_could_lead_are_refused() {
    let millis = Duration::from_millis;
    let good = LeaseTerms::new(SECOND * 15, SECOND * 10, SECOND * 2);
    assert_eq!(good, Ok(LeaseTerms::default()));
    let bad = [
        (SECOND * 15, SECOND * 14, SECOND * 2),
        (SECOND * 15, SECOND * 10, SECOND * 6),
        (SECOND * 15, SECOND * 10, Duration::ZERO),
        (millis(1_500), millis(1_000), millis(100)),
    ];
    for (duration, hold, period) in bad {
        let refused = TermsError {
            duration,
            hold,
            period,
        };
        assert_eq!(LeaseTerms::new(duration, hold, period), Err(refused));
    }
}
