//! Candidates, a server and a network that delays, loses and reorders, in simulated time.

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use proptest::{collection::vec, prelude::*};
use tokio::time::Instant;

use super::{
    LeaseTerms,
    candidate::{Candidate, LeaseStep, Patience},
    record,
};

const TICK: Duration = Duration::from_millis(100);
const RUN: u32 = 1_200;

/// How one call travels, in ticks: there, back, and how long the process sleeps meanwhile and after it.
#[derive(Clone, Copy, Debug)]
struct Fate {
    there: u32,
    back: u32,
    meanwhile: u32,
    frozen: u32,
    lost: bool,
}

fn fate(worst: u32) -> impl Strategy<Value = Fate> {
    let delay = move || prop_oneof![4 => 0..3_u32, 1 => 0..worst];
    let sleep = move || prop_oneof![9 => Just(0_u32), 1 => 0..worst];
    let lost = prop::bool::weighted(0.1);
    (delay(), delay(), sleep(), sleep(), lost).prop_map(|(there, back, meanwhile, frozen, lost)| {
        Fate {
            there,
            back,
            meanwhile,
            frozen,
            lost,
        }
    })
}

#[derive(Clone, Debug)]
enum Call {
    Read,
    Write(Box<Lease>),
}

type Reply = Option<Option<Lease>>;

/// The API server: one object, its version, and the rule about versions. It stays beside `testkit`, because the
/// simulation chooses the order of calls itself, and has neither client nor tasks.
#[derive(Default)]
struct Server {
    lease: Option<Lease>,
    version: u32,
}

impl Server {
    /// Nothing is a refusal.
    fn serve(&mut self, call: Call) -> Reply {
        match call {
            Call::Read => Some(self.lease.clone()),
            Call::Write(mut claim) => {
                let current = self
                    .lease
                    .as_ref()
                    .and_then(|lease| lease.metadata.resource_version.clone());
                if claim.metadata.resource_version != current {
                    return None;
                }
                if self.lease.as_ref() != Some(&*claim) {
                    self.version += 1;
                    claim.metadata.resource_version = Some(self.version.to_string());
                    self.lease = Some(*claim);
                }
                Some(self.lease.clone())
            }
        }
    }
}

/// One process with its call under way.
struct Process {
    candidate: Candidate,
    skew: SignedDuration,
    fates: Vec<Fate>,
    calls: usize,
    /// Which call is waited for, whether it writes, when it was sent and when it is given up.
    waiting: Option<(usize, bool, u32)>,
    /// Asleep or between two steps until then.
    idle_until: u32,
}

struct World {
    start: Instant,
    terms: LeaseTerms,
    server: Server,
    processes: Vec<Process>,
    /// By tick, process and call: the requests that arrive at the server, and the replies.
    requests: BTreeMap<(u32, usize, usize), Call>,
    replies: BTreeMap<(u32, usize, usize), Reply>,
}

impl World {
    fn new(terms: LeaseTerms, processes: Vec<(i64, Vec<Fate>)>) -> Self {
        let process = |(index, (skew, fates)): (usize, (i64, Vec<Fate>))| Process {
            candidate: Candidate::new(&format!("process-{index}"), terms),
            skew: SignedDuration::from_secs(skew),
            fates,
            calls: 0,
            waiting: None,
            idle_until: 0,
        };
        Self {
            start: Instant::now(),
            terms,
            server: Server::default(),
            processes: processes.into_iter().enumerate().map(process).collect(),
            requests: BTreeMap::new(),
            replies: BTreeMap::new(),
        }
    }

    fn at(&self, tick: u32) -> Instant {
        self.start + TICK * tick
    }

    fn fate(&self, index: usize, call: usize) -> Fate {
        let fates = &self.processes[index].fates;
        fates[call % fates.len()]
    }

    /// Lets a tick pass, and returns the processes that lead then.
    fn tick(&mut self, tick: u32) -> Vec<usize> {
        let arrived: Vec<_> = self
            .requests
            .extract_if(.., |(due, ..), _| *due <= tick)
            .collect();
        for ((_, index, number), call) in arrived {
            let reply = self.server.serve(call);
            let fate = self.fate(index, number);
            if !fate.lost {
                self.replies
                    .insert((tick + fate.back, index, number), reply);
            }
        }
        for index in 0..self.processes.len() {
            self.step(tick, index);
        }
        let now = self.at(tick);
        let leads = |index: &usize| {
            self.processes[*index]
                .candidate
                .leadership()
                .is_leader_at(now)
        };
        (0..self.processes.len()).filter(leads).collect()
    }

    fn step(&mut self, tick: u32, index: usize) {
        let (now, terms) = (self.at(tick), self.terms);
        let ticks = |time: Duration| u32::try_from(time.as_millis() / TICK.as_millis()).unwrap();
        if tick < self.processes[index].idle_until {
            return;
        }
        if let Some((call, writes, sent)) = self.processes[index].waiting {
            let mine = |(due, of, number): &(u32, usize, usize), _: &mut Reply| {
                *due <= tick && *of == index && *number == call
            };
            let reply = self
                .replies
                .extract_if(.., mine)
                .next()
                .map(|(_, reply)| reply);
            let fate = self.fate(index, call);
            let sent_at = self.at(sent);
            let process = &mut self.processes[index];
            match reply {
                Some(Some(lease)) if writes => {
                    process.candidate.wrote(lease.unwrap(), sent_at, now);
                }
                Some(Some(lease)) => process.candidate.saw(lease, now),
                Some(None) => process.candidate.rest(),
                None if tick >= sent + ticks(terms.hold) / 2 => process.candidate.rest(),
                None => return,
            }
            process.waiting = None;
            process.idle_until = tick + fate.frozen + if writes { ticks(terms.period) } else { 0 };
            return;
        }
        let process = &mut self.processes[index];
        let wall =
            Timestamp::UNIX_EPOCH + SignedDuration::try_from(TICK * tick).unwrap() + process.skew;
        let call = match process.candidate.plan(now, Patience::default()) {
            LeaseStep::Look => Call::Read,
            LeaseStep::Write => Call::Write(Box::new(process.candidate.claim("lease", wall))),
            LeaseStep::Wait(_) => {
                process.candidate.rest();
                process.idle_until = tick + ticks(terms.period);
                return;
            }
        };
        let number = process.calls;
        process.calls += 1;
        process.waiting = Some((number, matches!(call, Call::Write(_)), tick));
        let Fate {
            there, meanwhile, ..
        } = self.fate(index, number);
        self.processes[index].idle_until = tick + meanwhile;
        self.requests.insert((tick + there, index, number), call);
    }
}

/// Processes with clocks up to a day apart.
fn processes(worst: u32) -> impl Strategy<Value = Vec<(i64, Vec<Fate>)>> {
    vec((-86_400_i64..86_400, vec(fate(worst), 1..40)), 2..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn never_two_lead_at_one_instant(processes in processes(400)) {
        let mut world = World::new(LeaseTerms::default(), processes);
        for tick in 0..RUN {
            let leaders = world.tick(tick);
            prop_assert!(leaders.len() <= 1, "{leaders:?} lead after {:?}", TICK * tick);
        }
    }

    /// All processes have seen a holder by then. The known gap is a process that comes later and finds no
    /// lease, or that misses a claim between two deletions.
    #[test]
    fn never_two_lead_whenever_the_record_is_deleted(
        processes in processes(30),
        deletion in 200..RUN,
    ) {
        let quick = Fate { there: 1, back: 1, meanwhile: 0, frozen: 0, lost: false };
        let begun = |(skew, fates): (i64, Vec<Fate>)| (skew, [vec![quick; 6], fates].concat());
        let mut world = World::new(LeaseTerms::default(), processes.into_iter().map(begun).collect());
        for tick in 0..RUN {
            if tick == deletion {
                world.server.lease = None;
            }
            let leaders = world.tick(tick);
            prop_assert!(leaders.len() <= 1, "{leaders:?} lead after {:?}", TICK * tick);
        }
    }

    #[test]
    fn somebody_leads_throughout_when_calls_are_quick_and_nobody_sleeps(skews in vec(-86_400_i64..86_400, 2..4)) {
        let quick = Fate { there: 1, back: 1, meanwhile: 0, frozen: 0, lost: false };
        let processes = skews.into_iter().map(|skew| (skew, vec![quick])).collect();
        let mut world = World::new(LeaseTerms::default(), processes);
        let first = (0..100).find_map(|tick| world.tick(tick).first().copied());
        for tick in 100..RUN {
            prop_assert_eq!(world.tick(tick).first().copied(), first, "after {:?}", TICK * tick);
        }
    }
}

#[test]
fn a_holder_whose_clock_stands_still_is_not_taken_for_silent() {
    let held = record::claimed(
        None,
        "lease",
        "me",
        Duration::from_secs(15),
        Timestamp::UNIX_EPOCH,
    );
    let renewed = record::claimed(
        Some(&held),
        "lease",
        "me",
        Duration::from_secs(15),
        Timestamp::UNIX_EPOCH,
    );
    assert_ne!(
        held.spec.unwrap().renew_time,
        renewed.spec.unwrap().renew_time
    );
}
