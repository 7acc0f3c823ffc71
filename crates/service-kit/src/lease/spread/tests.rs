//! Elections of several shards in several processes, on an API server that takes its time.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
};

use futures::FutureExt;
use http::{Method, Request, StatusCode};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Client, client::Body};
use proptest::{collection::vec, prelude::*};
use tokio::{
    runtime::Builder,
    sync::{oneshot, watch},
    task::JoinHandle,
    time::{Instant, sleep, sleep_until},
};

use super::*;
use crate::{
    fake_api::{self, Answer, answer, body, refusal},
    lease::{Election, Leadership, NextShard},
    readiness::Readiness,
    shutdown::Tasks,
};

const SECOND: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);
/// A shard of a process that died is led again within: its lease, the pause of a candidate, two periods, and calls.
const LED_AGAIN: Duration = Duration::from_secs(25);
/// A hand-over takes up to two periods and the work of the leader, and there are up to six.
const SPREAD: Duration = Duration::from_secs(100);

/// Leases by name. Each call takes up to 300 ms there and back.
#[derive(Clone, Default)]
struct Server {
    leases: Arc<Mutex<BTreeMap<String, Lease>>>,
    /// Of versions and delays.
    number: Arc<AtomicU64>,
}

impl Server {
    fn with(seed: u64) -> Self {
        let server = Self::default();
        server.number.store(seed, SeqCst);
        server
    }

    async fn delay(&self) {
        let number = self.number.fetch_add(1, SeqCst);
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        sleep(Duration::from_millis(mixed % 150)).await;
    }

    fn serve(&self, method: &Method, path: &str, claim: &[u8]) -> Answer {
        let mut leases = self.leases.lock().unwrap();
        if *method != Method::GET {
            let mut claim: Lease = serde_json::from_slice(claim).unwrap();
            let name = claim.metadata.name.clone().unwrap();
            let current = leases.get(&name);
            let current = current.and_then(|it| it.metadata.resource_version.clone());
            if claim.metadata.resource_version != current {
                return refusal(StatusCode::CONFLICT);
            }
            let version = self.number.fetch_add(1, SeqCst);
            claim.metadata.resource_version = Some(version.to_string());
            let written = serde_json::to_vec(&claim).unwrap();
            leases.insert(name, claim);
            return answer(StatusCode::OK, written);
        }
        match leases.get(path.rsplit('/').next().unwrap()) {
            Some(lease) => answer(StatusCode::OK, serde_json::to_vec(lease).unwrap()),
            None => refusal(StatusCode::NOT_FOUND),
        }
    }

    fn client(&self, cut: &Arc<AtomicBool>) -> Client {
        let (server, cut) = (self.clone(), Arc::clone(cut));
        fake_api::client(move |request: Request<Body>| {
            let (server, cut) = (server.clone(), Arc::clone(&cut));
            async move {
                if cut.load(SeqCst) {
                    std::future::pending::<()>().await;
                }
                server.delay().await;
                let (method, path) = (request.method().clone(), request.uri().path().to_owned());
                let answer = server.serve(&method, &path, &body(request).await);
                server.delay().await;
                answer
            }
        })
    }
}

/// A process that stands for all shards.
struct Process {
    shards: Vec<watch::Receiver<Leadership>>,
    cut: Arc<AtomicBool>,
    release: Vec<oneshot::Sender<()>>,
    tasks: Vec<JoinHandle<()>>,
    stop: Tasks,
}

impl Process {
    /// Its work under a lease ends so long after it is to be handed over.
    fn start(server: &Server, name: &str, shards: usize, work: Duration) -> Self {
        let (caches, part) = Readiness::starting();
        part.ready();
        Self::start_preparing(server, name, (shards, work), &caches)
    }

    /// The same while its caches may be incomplete.
    fn start_preparing(
        server: &Server,
        name: &str,
        (shards, work): (usize, Duration),
        caches: &Readiness,
    ) -> Self {
        let cut = Arc::default();
        let client = server.client(&cut);
        let terms = LeaseTerms::default();
        let spread = Spread::new(name, shards, terms);
        let mut process = Self {
            shards: Vec::new(),
            cut,
            release: Vec::new(),
            tasks: Vec::new(),
            stop: Tasks::new(),
        };
        for shard in 0..shards {
            let lease = format!("shard-{shard}");
            let election = Election::new(client.clone(), "ns", &lease, name, terms);
            let election = election.preparing(caches.clone());
            let election = election.shared(ShardPlace {
                spread: Arc::clone(&spread),
                shard,
                work: ends_after(work),
            });
            process.shards.push(election.leadership());
            let (release, released) = oneshot::channel();
            process.release.push(release);
            process.tasks.push(tokio::spawn(election.run(async {
                let _ = released.await;
            })));
        }
        let next = NextShard::new(client, "ns", "next", spread, terms);
        let next = next.preparing(caches.clone());
        let next = next.run(process.stop.stop());
        process.tasks.push(tokio::spawn(next));
        process
    }

    fn led(&self) -> BTreeSet<usize> {
        let leads = |it: &usize| self.shards[*it].borrow().is_leader();
        (0..self.shards.len()).filter(leads).collect()
    }

    /// Its tasks stop in the middle of their work.
    fn dies(self) {
        self.cut.store(true, SeqCst);
        self.tasks.iter().for_each(JoinHandle::abort);
    }

    /// It gives its leases back.
    async fn ends(self) {
        drop((self.release, self.stop));
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

/// Work that ends so long after its end was awaited first. The next hand-over is later.
fn ends_after(work: Duration) -> WorkEnded {
    let awaited: Mutex<Option<Instant>> = Mutex::default();
    Arc::new(move || {
        let (mut awaited, now) = (awaited.lock().unwrap(), Instant::now());
        let since = awaited.filter(|it| now < *it + SECOND * 20).unwrap_or(now);
        *awaited = Some(since);
        sleep_until(since + work).boxed()
    })
}

/// How the shards are led now. No shard has two leaders.
fn counts(processes: &[&Process]) -> Vec<usize> {
    let led: Vec<_> = processes.iter().map(|it| it.led()).collect();
    let all: BTreeSet<_> = led.iter().flatten().collect();
    let counts: Vec<_> = led.iter().map(BTreeSet::len).collect();
    assert_eq!(all.len(), counts.iter().sum::<usize>(), "{led:?}");
    counts
}

/// Lets time pass, and looks at each moment. The counts at its end, and since when they have been the same.
async fn pass(processes: &[&Process], time: Duration) -> (Vec<usize>, Duration) {
    let started = Instant::now();
    let (mut last, mut since) = (counts(processes), Duration::ZERO);
    while started.elapsed() < time {
        sleep(TICK).await;
        let now = counts(processes);
        if now != last {
            (last, since) = (now, started.elapsed());
        }
    }
    last.sort_unstable();
    (last, since)
}

/// The longest time in which a shard had no leader, and the one that lasts at the end. A shard that is handed over has none
/// for some seconds.
async fn gaps(processes: &[&Process], shards: usize, time: Duration) -> (Duration, Duration) {
    let (started, mut longest) = (Instant::now(), Duration::ZERO);
    let mut led_at = vec![started; shards];
    while started.elapsed() < time {
        sleep(TICK).await;
        counts(processes);
        for shard in processes.iter().flat_map(|it| it.led()) {
            led_at[shard] = Instant::now();
        }
        let gaps = led_at.iter().map(Instant::elapsed);
        longest = longest.max(gaps.max().unwrap_or_default());
    }
    let left = led_at.iter().map(Instant::elapsed);
    (longest, left.max().unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn processes_share_the_shards_and_one_that_returns_gets_its_share_again() {
    let server = Server::with(7);
    let start = |name| Process::start(&server, name, 8, SECOND);
    let a = start("a");
    assert_eq!(pass(&[&a], SECOND * 5).await.0, [8]);
    let b = start("b");
    assert_eq!(pass(&[&a, &b], SPREAD).await.0, [4, 4]);
    let c = start("c");
    assert_eq!(pass(&[&a, &b, &c], SPREAD).await.0, [2, 3, 3]);
    b.dies();
    assert_eq!(pass(&[&a, &c], SPREAD).await.0, [4, 4]);
    let b = start("b");
    assert_eq!(pass(&[&a, &b, &c], SPREAD).await.0, [2, 3, 3]);
    a.ends().await;
    assert_eq!(pass(&[&b, &c], SPREAD).await.0, [4, 4]);
    // Nothing moves once they are spread.
    assert_eq!(pass(&[&b, &c], SECOND * 300).await.1, Duration::ZERO);
}

/// It would not take a shard that another process gives up for it.
#[tokio::test(start_paused = true)]
async fn a_process_gets_no_shard_before_its_caches_are_complete() {
    let server = Server::with(5);
    let a = Process::start(&server, "a", 2, SECOND);
    pass(&[&a], SECOND * 5).await;
    let (caches, part) = Readiness::starting();
    let b = Process::start_preparing(&server, "b", (2, SECOND), &caches);
    assert_eq!(pass(&[&a, &b], SPREAD).await, (vec![0, 2], Duration::ZERO));
    part.ready();
    assert_eq!(pass(&[&a, &b], SPREAD).await.0, [1, 1]);
}

/// The time without a leader is that of the pause of a candidate.
#[tokio::test(start_paused = true)]
async fn a_shard_that_is_handed_over_is_led_again_within_seconds() {
    let server = Server::with(1);
    let a = Process::start(&server, "a", 2, SECOND * 3);
    pass(&[&a], SECOND * 5).await;
    let b = Process::start(&server, "b", 2, SECOND * 3);
    let (mut gap, mut longest) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..600 {
        sleep(TICK).await;
        let led: usize = counts(&[&a, &b]).iter().sum();
        gap = if led < 2 { gap + TICK } else { Duration::ZERO };
        longest = longest.max(gap);
    }
    assert_eq!(counts(&[&a, &b]), [1, 1]);
    assert!(longest <= SECOND * 3, "{longest:?}");
}

/// A leader hands over when its work has ended, and after two periods in any case: nothing begins meanwhile.
#[tokio::test(start_paused = true)]
async fn a_lease_is_handed_over_when_the_work_under_it_has_ended() {
    for (work, expected) in [(1, 1), (3, 3), (600, 4)] {
        let server = Server::with(3);
        let a = Process::start(&server, "a", 2, SECOND * work);
        pass(&[&a], SECOND * 5).await;
        let _b = Process::start(&server, "b", 2, SECOND);
        let mut last = a.shards[1].clone();
        let leaves = |it: &Leadership| matches!(it, Leadership::Leaving { .. });
        last.wait_for(leaves).await.unwrap();
        let leaving = Instant::now();
        assert!(last.borrow().is_leader() && !last.borrow().may_begin());
        last.wait_for(|it| *it == Leadership::Follower)
            .await
            .unwrap();
        let took = leaving.elapsed();
        assert!(
            took >= SECOND * expected && took < SECOND * expected + SECOND / 2,
            "{took:?}"
        );
        assert!(a.shards[0].borrow().may_begin());
    }
}

/// It asks, and dies before it takes anything: one needless hand-over at most, and the leader takes the shard back.
#[tokio::test(start_paused = true)]
async fn a_process_that_dies_while_it_waits_for_a_shard_keeps_none_without_a_leader() {
    for moment in 0..40 {
        let server = Server::with(moment);
        let a = Process::start(&server, "a", 4, SECOND);
        pass(&[&a], SECOND * 5).await;
        let b = Process::start(&server, "b", 4, SECOND);
        sleep(TICK * u32::try_from(moment).unwrap() * 3).await;
        b.dies();
        let (led, since) = pass(&[&a], SECOND * 60).await;
        assert_eq!(led, [4], "{moment}");
        assert!(since <= LED_AGAIN, "{moment}: {since:?}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Happens {
    Starts(usize),
    Dies(usize),
    Ends(usize),
    IsCutOff(usize),
}

fn happens() -> impl Strategy<Value = (Happens, u32)> {
    let what = (0..4_u8, 0..3_usize).prop_map(|(what, process)| match what {
        0 | 1 => Happens::Starts(process),
        2 => Happens::Dies(process),
        _ => Happens::Ends(process),
    });
    let what = prop_oneof![4 => what, 1 => (0..3_usize).prop_map(Happens::IsCutOff)];
    (what, 0..300_u32)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever happens: no shard has two leaders, each is led again soon, and the living processes share them.
    #[test]
    fn no_shard_has_two_leaders_and_all_are_led_and_spread_again(
        seed in 0..1_000_000_u64,
        shards in prop_oneof![Just(2_usize), Just(4), Just(8)],
        story in vec(happens(), 1..8),
    ) {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let server = Server::with(seed);
            let mut processes: BTreeMap<usize, Process> = BTreeMap::new();
            // A process that is cut off goes on, and so may believe for its time that it leads.
            let mut cut_off = Vec::new();
            let start = |it: usize| {
                let work = SECOND * u32::try_from(it).unwrap();
                Process::start(&server, &format!("p{it}"), shards, work)
            };
            processes.insert(0, start(0));
            for (what, ticks) in story {
                let all = |processes: &BTreeMap<usize, Process>, cut_off: &[Process]| {
                    counts(&processes.values().chain(cut_off).collect::<Vec<_>>());
                };
                for _ in 0..ticks {
                    sleep(TICK).await;
                    all(&processes, &cut_off);
                }
                match what {
                    Happens::Starts(it) => {
                        // Under its name another process may still believe that it leads.
                        if !processes.contains_key(&it) && cut_off.is_empty() {
                            processes.insert(it, start(it));
                        }
                    }
                    Happens::Dies(it) => processes.remove(&it).into_iter().for_each(Process::dies),
                    Happens::Ends(it) => if let Some(process) = processes.remove(&it) {
                        process.ends().await;
                    }
                    Happens::IsCutOff(it) => if let Some(process) = processes.remove(&it) {
                        process.cut.store(true, SeqCst);
                        cut_off.push(process);
                    }
                }
            }
            if processes.is_empty() {
                processes.insert(3, start(3));
            }
            let living: Vec<_> = processes.values().chain(&cut_off).collect();
            // A shard that was left in vain stays for minutes.
            let spread = super::super::LEFT_AGAIN + SPREAD * 2;
            let (gap, left) = gaps(&living, shards, LED_AGAIN + spread).await;
            assert!(gap <= LED_AGAIN && left.is_zero(), "{gap:?}, {left:?}");
            let led = counts(&processes.values().collect::<Vec<_>>());
            let (most, least) = (led.iter().max().unwrap(), led.iter().min().unwrap());
            assert!(most - least <= 1, "{led:?}");
            assert_eq!(led.iter().sum::<usize>(), shards, "by living processes");
        });
    }
}

#[test]
fn a_shard_moves_from_the_first_of_those_with_the_most_to_one_that_leads_two_fewer() {
    let seen = |shards: &str, next: &str| SeenHolders {
        shards: shards
            .chars()
            .map(|it| (it != '-').then(|| it.to_string()))
            .collect(),
        next: (!next.is_empty()).then(|| next.to_owned()),
    };
    for (shards, next, gives) in [
        // One that leads two more gives its last shard.
        ("aaaa", "b", Some(3)),
        ("aaab", "b", Some(2)),
        ("aabb", "b", None),
        ("aab", "b", None),
        // No process asks, or one shard is on its way.
        ("aaaa", "", None),
        ("aaa-", "b", None),
        // Of two with the most, the first by name.
        ("aabb", "c", Some(1)),
        ("bbaa", "c", Some(3)),
        ("aabbb", "c", None),
        // It leads nothing itself.
        ("bbbb", "c", None),
    ] {
        assert_eq!(seen(shards, next).gives("a"), gives, "{shards} {next}");
    }
    for (shards, wants) in [
        ("bbbb", true),
        ("abbb", true),
        ("aabb", false),
        ("abb", false),
        ("----", false),
        ("bb", true),
        ("b", false),
    ] {
        assert_eq!(seen(shards, "").wants("a"), wants, "{shards}");
    }
}
