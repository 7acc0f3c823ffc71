//! From an approval to the running container, and what mounts cost on their node, as rows of a table; `cargo xtask bench
//! mount` runs it on a cluster with the chart.
//!
//! Each wave of pods waits for the same time, and then its approvals are given one after the other. After each of them a
//! pod with a bare tmpfs starts, so that both meet the same machine.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark that cannot go on ends"
)]

mod node;
mod objects;
mod pods;
mod rendering;
#[path = "../support/mod.rs"]
mod support;

use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use e2e::harness::is_long_form;

use node::Driver;
use pods::{Approved, Pods};
use support::load::Times;
use support::place::Place;
use support::table::Table;

/// Pods of one wave.
const WAVE: usize = 10;
/// The time from the creation of the pods to the first approval of their wave, and the number of waves.
const WAITS: [(Duration, usize); 3] = [
    (Duration::from_secs(5), 3),
    (Duration::from_mins(1), 3),
    (Duration::from_mins(5), 1),
];
/// The time in the long form: the kubelet's pauses between its calls have become as long as they get.
const LONG_WAIT: Duration = Duration::from_mins(30);
/// One call of the kubelet and the longest pause after it. Approvals that come in a pause wait for its end.
const CYCLE: Duration = Duration::from_mins(4);
/// By how many milliseconds a mount may be later than a bare tmpfs, and by how many it should be: at the 99th percentile.
const MUST: f64 = 300.0;
const AIM: f64 = 100.0;
/// By how many milliseconds the answer to the kubelet may be later than the grant, and by how many it should be.
const ANSWER: [f64; 2] = [10.0, 5.0];
/// How long each call is held where calls are not to be held: the chart takes no less.
const SHORT_HOLD: &str = "1s";
/// How long the kubelet waits for the answer to one call.
const CALL: Duration = Duration::from_mins(2);
/// Held mounts: so many pods, with so many volumes each.
const HELD: (usize, usize) = (67, 15);
/// Mounted volumes, in the same way.
const MOUNTED: (usize, usize) = (10, 10);
/// How long the held calls are watched at a time, and how often. In each such time the driver ends every call once, and the
/// kubelet makes the next.
const WATCHED: Duration = CALL;
const WINDOWS: u64 = 3;
/// How many times as much as in the first of these times it may work in the last.
const GROWTH: [f64; 2] = [1.5, 1.2];

/// How pods wait for their approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// At the mount, each call of the kubelet for two minutes.
    AtMount,
    /// Without a node, by the scheduling gate.
    AtGate,
    /// At the mount, and the kubelet calls again and again.
    Recalled,
}

impl Waiting {
    const fn words(self) -> &'static str {
        match self {
            Self::AtMount => "held at the mount",
            Self::AtGate => "with the scheduling gate",
            Self::Recalled => "not held, `csiNode.hold: 1s`",
        }
    }

    /// True if a bound holds for the times after this wait. The kubelet decides when it calls again, and a held call ends
    /// after two minutes.
    fn is_bound(self, wait: Duration) -> bool {
        match self {
            Self::AtMount => wait < CALL,
            Self::AtGate => true,
            Self::Recalled => false,
        }
    }
}

fn main() -> ExitCode {
    let place = Place::enter();
    let pods = Pods::new(&place);
    let driver = Driver::of(&pods);
    let mut table = Table::default();
    // Connections and caches, and services that lost their API server a moment ago.
    let wave = Wave::begin(&pods, "before", WAVE);
    wave.approve(&pods, &driver, Duration::ZERO, Duration::ZERO);
    if is_long_form() {
        long(&pods, &driver, &mut table);
    } else {
        usual(&pods, &driver, &mut table);
    }
    table.end()
}

fn usual(pods: &Pods, driver: &Driver, table: &mut Table) {
    rendering::rows(table);
    driver.gate(pods, "Release");
    rows(pods, driver, Waiting::AtMount, table);
    memory(pods, table);
    held(pods, driver, table);
    driver.gate(pods, "Set");
    rows(pods, driver, Waiting::AtGate, table);
}

/// Approvals that meet the longest pauses of the kubelet. Both waves wait side by side.
fn long(pods: &Pods, driver: &Driver, table: &mut Table) {
    driver.gate(pods, "Set");
    let gated = Wave::begin(pods, "long-gated", WAVE);
    driver.gate(pods, "Release");
    let mounted = Wave::begin(pods, "long-mounted", WAVE);
    eprintln!("two waves wait for {LONG_WAIT:?}");
    let times = gated.approve(pods, driver, LONG_WAIT, Duration::ZERO);
    figures(Waiting::AtGate, LONG_WAIT, &times, table);
    let apart = CYCLE / u32::try_from(WAVE).unwrap_or(u32::MAX);
    let times = mounted.approve(pods, driver, LONG_WAIT, apart);
    figures(Waiting::AtMount, LONG_WAIT, &times, table);
    driver.hold(SHORT_HOLD);
    let (wait, _) = WAITS[0];
    eprintln!("a wave that is not held, after {wait:?}");
    let wave = Wave::begin(pods, "recalled", WAVE);
    let times = wave.approve(pods, driver, wait, Duration::ZERO);
    figures(Waiting::Recalled, wait, &times, table);
}

/// The times of one way to wait.
fn rows(pods: &Pods, driver: &Driver, waiting: Waiting, table: &mut Table) {
    for (wait, waves) in WAITS {
        let mut times = WaveTimes::default();
        for number in 0..waves {
            eprintln!("{waiting:?}: wave {number} of {waves}, after {wait:?}");
            let word = format!("{waiting:?}-{}-{number}", wait.as_secs()).to_lowercase();
            let wave = Wave::begin(pods, &word, WAVE);
            times.extend(wave.approve(pods, driver, wait, Duration::ZERO));
        }
        figures(waiting, wait, &times, table);
    }
}

/// The times of mounted and of bare pods as rows.
fn figures(waiting: Waiting, wait: Duration, times: &WaveTimes, table: &mut Table) {
    let WaveTimes {
        granted,
        answered,
        mounted,
        bare,
    } = times;
    let what = format!(
        "approval after {} s → container runs, {}",
        wait.as_secs(),
        waiting.words()
    );
    let count = mounted.count();
    let beside = "creation → container runs, bare tmpfs beside these";
    for (what, times) in [(what.as_str(), mounted), (beside, bare)] {
        for (figure, micros) in [("p50", times.median()), ("p99", times.p99())] {
            table.figure(&format!("{what}, {figure} of {count}"), micros / 1e3, "ms");
        }
    }
    let beyond = format!("{what}, beyond the bare tmpfs");
    let added = mounted.beyond(bare).median() / 1e3;
    table.figure(&format!("{beyond}, p50 of {count}"), added, "ms");
    let added = (mounted.p99() - bare.p99()) / 1e3;
    let beyond = format!("{beyond}, difference of the p99");
    if waiting.is_bound(wait) {
        table.at_most(&beyond, added, "ms", MUST, AIM);
    } else {
        table.figure(&beyond, added, "ms");
    }
    if waiting == Waiting::AtMount && waiting.is_bound(wait) {
        let what = format!(
            "approval after {} s → Granted, p50 of {count}",
            wait.as_secs()
        );
        table.figure(&what, granted.median() / 1e3, "ms");
        let what = format!(
            "approval after {} s → the answer of the mount beyond Granted, p50 of {count}",
            wait.as_secs()
        );
        let [must, aim] = ANSWER;
        let added = answered.beyond(granted).median() / 1e3;
        table.at_most(&what, added, "ms", must, aim);
    }
}

/// The times of a wave: from each approval, and from the creation of each bare pod to its container.
#[derive(Default)]
struct WaveTimes {
    granted: Times,
    answered: Times,
    mounted: Times,
    bare: Times,
}

impl WaveTimes {
    fn extend(&mut self, more: Self) {
        self.granted.extend(more.granted);
        self.answered.extend(more.answered);
        self.mounted.extend(more.mounted);
        self.bare.extend(more.bare);
    }
}

/// Pods that wait for their approvals.
struct Wave {
    began: Instant,
    names: Vec<String>,
}

impl Wave {
    /// Creates the pods, and waits until the request of each of them waits.
    fn begin(pods: &Pods, word: &str, count: usize) -> Self {
        let names: Vec<_> = (0..count).map(|it| format!("{word}-{it}")).collect();
        let began = Instant::now();
        for name in &names {
            pods.start(name, 1);
        }
        for name in &names {
            pods.wait_for_request(name);
        }
        Self { began, names }
    }

    /// Gives the approvals from the end of the wait on, so far apart, and ends the pods.
    fn approve(self, pods: &Pods, driver: &Driver, wait: Duration, apart: Duration) -> WaveTimes {
        let mut times = WaveTimes::default();
        for (name, turn) in self.names.iter().zip(0..) {
            sleep((wait + apart * turn).saturating_sub(self.began.elapsed()));
            let Approved {
                granted,
                answered,
                ran,
            } = pods.approve_and_run(name, driver);
            times.granted.add(granted);
            times.answered.add(answered);
            times.mounted.add(ran);
            let beside = format!("{name}-bare");
            let created = pods.start_bare(&beside);
            times.bare.add(pods.ran_after(created, &beside));
            pods.end(&beside);
        }
        pods.end_all(&self.names);
        times
    }
}

/// The memory of the driver with mounted volumes.
fn memory(pods: &Pods, table: &mut Table) {
    let (count, volumes) = MOUNTED;
    eprintln!("{} volumes", count * volumes);
    let before = node::memory();
    let names: Vec<_> = (0..count).map(|it| format!("mounted-{it}")).collect();
    for name in &names {
        pods.start(name, volumes);
        pods.approve(name);
    }
    for name in &names {
        pods.wait_until_running(name);
    }
    let of = format!("{} volumes of {} files", count * volumes, objects::FILES);
    let what = |when: &str| format!("resident memory of csi-node {when} {of}");
    table.figure(&what("before"), before, "MB");
    table.at_most(&what("with"), node::memory(), "MB", 15.0, 12.0);
    pods.end_all(&names);
}

/// The processor time and the memory of the driver while mounts are held.
fn held(pods: &Pods, driver: &Driver, table: &mut Table) {
    let (count, volumes) = HELD;
    let calls = count * volumes;
    eprintln!("{calls} held mounts");
    let names: Vec<_> = (0..count).map(|it| format!("held-{it}")).collect();
    for name in &names {
        pods.start(name, volumes);
    }
    driver.wait_for_held(calls);
    let what = format!("processor of csi-node while {calls} mounts are held");
    let minutes = WATCHED.as_secs() / 60;
    let mut shares = Vec::new();
    for window in 0..WINDOWS {
        let worked = node::worked_during(|| sleep(WATCHED));
        let share = worked.as_secs_f64() / WATCHED.as_secs_f64() * 100.0;
        let what = format!(
            "{what}, minutes {} to {}",
            window * minutes,
            (window + 1) * minutes
        );
        table.at_most(&what, share, "% of one", 5.0, 1.0);
        shares.push(share);
    }
    let [must, aim] = GROWTH;
    if let [first, .., last] = shares.as_slice() {
        let what = format!("{what}, the last of these / the first");
        table.at_most(&what, last / first, "×", must, aim);
    }
    let what = format!("resident memory of csi-node while {calls} mounts are held");
    table.figure(&what, node::memory(), "MB");
    pods.end_all(&names);
}
