//! From an approval to the grant, on a node with the chart installed, as rows of a table; `cargo xtask bench requests`
//! runs it.
//!
//! First one request at a time. The ways of approving take turns in each round, so that a disturbance of the
//! machine that lasts longer than a round affects all of them. Then many requests at once.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark that cannot go on ends"
)]

mod crowd;
mod floor;
mod many;
mod rounds;
#[path = "../support/mod.rs"]
mod support;

use std::process::ExitCode;

use crowd::Crowd;
use e2e::harness::is_long_form;
use floor::Floor;
use rounds::{Played, Rounds, Way};
use support::load::Times;
use support::place::Place;
use support::table::Table;

/// How many approvals of each way are measured.
const MEASURED: usize = 200;
/// And how many before, for connections and caches. They do not count.
const BEFORE: usize = 10;
/// The most that a proof may add to the time of a grant, in milliseconds.
const PROOF: f64 = 10.0;
/// The most that a grant should take, in milliseconds, without the right to bind Roles and with it.
const GRANT: [Bound; 2] = [
    Bound {
        p50: [60.0, 40.0],
        p99: [120.0, 80.0],
    },
    Bound {
        p50: [40.0, 25.0],
        p99: [60.0, 40.0],
    },
];
/// How many times as long as its floor it may take where it cannot be had.
const BESIDE: [f64; 2] = [1.3, 1.1];

/// What must be kept, and what should be.
struct Bound {
    p50: [f64; 2],
    p99: [f64; 2],
}

fn main() -> ExitCode {
    let place = Place::enter();
    let rounds = Rounds::set(&place);
    let mut table = Table::default();
    if is_long_form() {
        many::rows(&place, &rounds, &mut table);
        return table.end();
    }
    let floor = Floor::of(&place);
    let mut times = Way::ALL.map(|_| Times::default());
    let (mut bare, mut ended) = (Times::default(), Times::default());
    for number in 0..BEFORE + MEASURED {
        if number % 20 == 0 {
            eprintln!("round {number} of {}", BEFORE + MEASURED);
        }
        let mut ways = Way::ALL;
        if number % 2 == 1 {
            ways.reverse();
        }
        for way in ways {
            let Played { granted, revoked } = rounds.play(way, number);
            if number >= BEFORE {
                times[way as usize].add(granted);
                ended.add(revoked);
            }
        }
        let took = floor.play(number);
        if number >= BEFORE {
            bare.add(took);
        }
    }
    by_ways(&times, &mut table);
    let [without, with] = GRANT;
    grant("", &times[Way::Proof as usize], &bare, &without, &mut table);
    for (figure, value) in [("p50", ended.median()), ("p99", ended.p99())] {
        let what = format!(
            "the pod of a grant deleted → Revoked, {figure} of {}",
            ended.count()
        );
        table.figure(&what, value / 1e3, "ms");
    }
    soon(&place, &mut table);
    crowds(&place, &floor, &mut table);
    let (times, bare) = with_bind(&rounds, &floor);
    grant(" and `bindRoles`", &times, &bare, &with, &mut table);
    floor.end();
    table.end()
}

/// Requests that are approved one after the other without a pause, and the most that each may take, in milliseconds.
const IN_TURN: usize = 150;
const GRANT_IN_TURN: Bound = Bound {
    p50: [150.0, 120.0],
    p99: [300.0, 200.0],
};
/// Requests that are approved at once, and how often.
const TOGETHER: usize = 10;
const TIMES: usize = 20;

/// Approvals that follow each other without a pause, and some at a time.
fn soon(place: &Place, table: &mut Table) {
    eprintln!("approvals one after the other, and {TOGETHER} at once");
    let crowd = Crowd::gather(place, "soon", 1, IN_TURN + TOGETHER * TIMES);
    many::calm();
    let what = format!("Roles in advance of {} requests that wait", crowd.count());
    table.figure(&what, crowd.prepared(), "");
    let times = crowd.approve_in_turn(0..IN_TURN);
    let words = "approval in a ConfigMap → Granted, back to back";
    for (figure, value, [must, aim]) in [
        ("p50", times.median(), GRANT_IN_TURN.p50),
        ("p99", times.p99(), GRANT_IN_TURN.p99),
    ] {
        let what = format!("{words}, {figure} of {IN_TURN}");
        table.at_most(&what, value / 1e3, "ms", must, aim);
    }
    let mut times = Times::default();
    for round in 0..TIMES {
        let first = IN_TURN + round * TOGETHER;
        times.add(crowd.approve_together(first..first + TOGETHER));
    }
    let what = format!("{TOGETHER} approvals at once → all Granted, p50 of {TIMES}");
    table.figure(&what, times.median() / 1e3, "ms");
    crowd.dissolve();
}

/// Requests that are approved at once.
const CROWD: usize = 1000;
/// Requests that wait while one approval changes, and the objects among which it is.
const WAITING: [usize; 2] = [10, 500];
const OBJECTS: usize = 5000;

/// The costs of many requests that wait at a time.
fn crowds(place: &Place, floor: &Floor, table: &mut Table) {
    eprintln!("events of one approval");
    for waiting in WAITING {
        let crowd = Crowd::gather(place, &format!("events-{waiting}"), 1, waiting);
        crowd.surround(OBJECTS - waiting);
        let cost = crowd.cost_of_an_event().as_secs_f64() * 1e3;
        let what =
            format!("processor time for an event of one approval of {OBJECTS}, {waiting} waiting");
        table.at_most(&what, cost, "ms", 5.0, 1.0);
        crowd.dissolve();
    }
    for (namespaces, must, aim) in [(1, 15.0, 8.0), (10, 10.0, 5.0)] {
        eprintln!("{CROWD} requests in {namespaces} namespaces");
        let before = crowd::memory();
        let word = format!("crowd-{namespaces}");
        let crowd = Crowd::gather(place, &word, namespaces, CROWD / namespaces);
        let waiting = crowd::memory();
        let prepared = crowd.prepared();
        let bare = floor.play_many(crowd.spaces(), CROWD / namespaces);
        let bare = bare.as_secs_f64();
        let granted = crowd.approve().as_secs_f64();
        let memory = crowd::memory();
        let revoked = crowd.withdraw().as_secs_f64();
        crowd.dissolve();
        let of = format!("{CROWD} at once, {namespaces} namespaces");
        table.at_most(
            &format!("approvals → all Granted; {of}"),
            granted,
            "s",
            must,
            aim,
        );
        table.figure(
            &format!("of these, with a Role in advance; {of}"),
            prepared,
            "",
        );
        let own =
            "a Role and a RoleBinding for each by 24 callers of an account with the same rights";
        table.figure(&format!("{own}; {of}"), bare, "s");
        let [most, wanted] = BESIDE;
        table.at_most(
            &format!("the grants / these bare calls; {of}"),
            granted / bare,
            "×",
            most,
            wanted,
        );
        table.figure(
            &format!("approvals withdrawn → all Revoked; {of}"),
            revoked,
            "s",
        );
        for (when, megabytes) in [
            ("before", before),
            ("while they wait", waiting),
            ("when they are granted", memory),
            ("after they went", crowd::memory()),
        ] {
            let what = format!("resident memory of the request-controller {when}; {of}");
            table.figure(&what, megabytes, "MB");
        }
    }
}

/// The first way once more, with the right to bind Roles, and its floor.
fn with_bind(rounds: &Rounds, floor: &Floor) -> (Times, Times) {
    rounds.allow_to_bind();
    let (mut times, mut bare) = (Times::default(), Times::default());
    for number in 0..BEFORE + MEASURED {
        if number % 20 == 0 {
            eprintln!("with bind: round {number} of {}", BEFORE + MEASURED);
        }
        let number_of_all = BEFORE + MEASURED + number;
        let took = rounds.play(Way::Proof, number_of_all).granted;
        let took_bare = floor.play(number_of_all);
        if number >= BEFORE {
            times.add(took);
            bare.add(took_bare);
        }
    }
    (times, bare)
}

/// A grant beside its floor.
fn grant(more: &str, times: &Times, bare: &Times, bound: &Bound, table: &mut Table) {
    let words = Way::Proof.words();
    let own = "a Role and its RoleBinding by bare calls of an account with the same rights";
    for (figure, value, bare, [must, aim]) in [
        ("p50", times.median(), bare.median(), bound.p50),
        ("p99", times.p99(), bare.p99(), bound.p99),
    ] {
        let what = format!("{words}{more}, {figure} of {MEASURED}");
        table.at_most(&what, value / 1e3, "ms", must, aim);
        let what = format!("{own}{more}, {figure} of {MEASURED}");
        table.figure(&what, bare / 1e3, "ms");
        let what = format!("a grant with its proof{more} / these bare calls, {figure}");
        let [must, aim] = BESIDE;
        table.at_most(&what, value / bare, "×", must, aim);
    }
}

fn by_ways(times: &[Times; Way::ALL.len()], table: &mut Table) {
    for way in [Way::Labels, Way::ConfigMap] {
        let times = &times[way as usize];
        for (figure, value) in [("p50", times.median()), ("p99", times.p99())] {
            let what = format!("{}, {figure} of {MEASURED}", way.words());
            table.figure(&what, value / 1e3, "ms");
        }
    }
    let added = times[Way::Proof as usize].beyond(&times[Way::Labels as usize]);
    let [lower, upper] = [250, 750].map(|of_thousand| added.micros(of_thousand) / 1e3);
    let what = format!(
        "what the proof adds in a round, p50 of {MEASURED} (half of them {lower:.1} to {upper:.1})"
    );
    table.at_most(&what, added.median() / 1e3, "ms", PROOF, PROOF);
    let what = format!("what the proof adds in a round, p99 of {MEASURED}");
    table.figure(&what, added.p99() / 1e3, "ms");
}
