//! The long form: ten thousand requests that wait, that are granted, and that went, and the end of the leader while they
//! are granted.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use e2e::ApiClient;
use e2e::api::kinds::LEASE;
use rustix::process::{Pid, Signal, kill_process};

use crate::crowd::{self, CONTROLLER, Crowd};
use crate::rounds::Rounds;
use crate::support::place::Place;
use crate::support::process::Running;
use crate::support::table::Table;

/// How many requests there are, and in how many namespaces: no namespace may have more of them waiting.
const REQUESTS: usize = 10_000;
const NAMESPACES: usize = 10;
/// The most memory that should be resident, in MB: while they wait, when they are granted and after they went.
const WAITING: [f64; 2] = [60.0, 40.0];
const GRANTED: [f64; 2] = [80.0, 60.0];
const GONE: [f64; 2] = [40.0, 30.0];
/// The longest times after the end of a leader, in seconds: to the first revocation, and until all were looked at.
const FIRST: [f64; 2] = [2.0, 1.0];
const ALL: [f64; 2] = [30.0, 10.0];
/// The controller is calm when it uses less than a tenth of a processor for this many times in a row.
const MOMENT: Duration = Duration::from_millis(200);
const MOMENTS: u32 = 25;
/// The longest time until it is calm.
const PATIENCE: Duration = Duration::from_mins(15);
const INSTALLED_IN: &str = "connectors-system";

/// How a leader ends.
#[derive(Clone, Copy)]
enum LeaderEnd {
    /// It is asked to, as when its pod is deleted, and gives its lease back.
    InOrder,
    /// It is killed. The lease stays until its container has started again, or for 15 seconds.
    Killed,
}

impl LeaderEnd {
    fn words(self) -> &'static str {
        match self {
            Self::InOrder => "the leader ends in order",
            Self::Killed => "the leader is killed (the wait for its lease included)",
        }
    }

    fn signal(self) -> Signal {
        match self {
            Self::InOrder => Signal::TERM,
            Self::Killed => Signal::KILL,
        }
    }
}

/// All rows of the long form.
pub(crate) fn rows(place: &Place, rounds: &Rounds, table: &mut Table) {
    rounds.allow_to_bind();
    calm();
    let memory = |table: &mut Table, when: &str, [must, aim]: [f64; 2]| {
        let what = format!("resident memory of the request-controller {when}");
        table.at_most(&what, crowd::memory(), "MB", must, aim);
    };
    let before = crowd::memory();
    eprintln!("{REQUESTS} requests in {NAMESPACES} namespaces; {before:.0} MB before");
    let began = Instant::now();
    let crowd = Crowd::gather(place, "many", NAMESPACES, REQUESTS / NAMESPACES);
    calm();
    eprintln!("all wait, after {:.0} s", began.elapsed().as_secs_f64());
    table.figure("requests with a Role in advance", crowd.prepared(), "");
    let what = "resident memory of the request-controller before";
    table.figure(what, before, "MB");
    memory(table, &format!("while {REQUESTS} wait"), WAITING);
    let took = crowd.approve().as_secs_f64();
    calm();
    eprintln!("all are granted, after {took:.0} s more");
    table.figure(&format!("approvals → all {REQUESTS} Granted"), took, "s");
    memory(
        table,
        &format!("when these {REQUESTS} are granted"),
        GRANTED,
    );
    let cost = crowd.cost_of_another_pod().as_secs_f64() * 1e6;
    let what = "processor time of both replicas for an event of a pod without a request";
    table.figure(what, cost, "µs");
    for (number, end) in [LeaderEnd::InOrder, LeaderEnd::Killed]
        .into_iter()
        .enumerate()
    {
        failover(place, &crowd, end, number, table);
    }
    eprintln!("all are deleted");
    crowd.dissolve();
    calm();
    memory(table, &format!("after these {REQUESTS} went"), GONE);
}

/// The leader ends, and one pod with a grant goes at the same time.
fn failover(place: &Place, crowd: &Crowd, end: LeaderEnd, number: usize, table: &mut Table) {
    let api = ApiClient::connect(&place.kubeconfig, INSTALLED_IN).unwrap();
    let leader = leader(&api);
    eprintln!("{}: process {leader}", end.words());
    let id = Pid::from_raw(leader.cast_signed()).unwrap();
    let began = Instant::now();
    let revoked = crowd.end_pod(number, || kill_process(id, end.signal()).unwrap());
    let first = (revoked - began).as_secs_f64();
    let all = (calm() - began).as_secs_f64();
    eprintln!("first revocation after {first:.1} s, calm after {all:.1} s");
    let of = format!("{}, {REQUESTS} granted", end.words());
    let first_row = format!("{of} → the grant of a pod that went meanwhile is revoked");
    let all_row = format!("{of} → the next leader has looked at all of them");
    match end {
        LeaderEnd::InOrder => {
            table.at_most(&first_row, first, "s", FIRST[0], FIRST[1]);
            table.at_most(&all_row, all, "s", ALL[0], ALL[1]);
        }
        LeaderEnd::Killed => {
            table.figure(&first_row, first, "s");
            table.figure(&all_row, all, "s");
        }
    }
}

/// The process that holds the lease.
fn leader(api: &ApiClient) -> u32 {
    let lease = api.get(LEASE, CONTROLLER).unwrap();
    let lease = lease.expect("the controller has a lease");
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap();
    // The pod's name, by which replicas are told apart.
    let named = format!("POD_NAME={holder}");
    let has_name = |id: &u32| {
        let variables = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        let mut variables = variables.split(|it| *it == 0);
        variables.any(|it| it == named.as_bytes())
    };
    let mut replicas = Running::named(CONTROLLER).into_iter().map(|it| it.id());
    let leader = replicas.find(has_name);
    leader.unwrap_or_else(|| panic!("no process of {holder}"))
}

/// Waits until all replicas are calm, and gives the time since when they are.
pub(crate) fn calm() -> Instant {
    let began = Instant::now();
    let mut since = None;
    let mut moments = 0;
    while moments < MOMENTS {
        assert!(began.elapsed() < PATIENCE, "the controller is not calm");
        let now = Instant::now();
        let worked = crowd::worked_during(|| sleep(MOMENT));
        if worked < now.elapsed() / 10 {
            since.get_or_insert(now);
            moments += 1;
        } else {
            since = None;
            moments = 0;
        }
    }
    since.unwrap_or(began)
}
