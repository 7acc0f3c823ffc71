//! From an approval to the grant, on a node with the chart installed, as rows of a table; `cargo xtask bench requests`
//! runs it.
//!
//! One request at a time. The ways of approving take turns in each round, so that whatever disturbs the machine for
//! longer than a round disturbs all of them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark that cannot go on ends"
)]

mod follow;
mod rounds;
#[path = "../support/mod.rs"]
mod support;

use std::process::ExitCode;

use rounds::{Rounds, Way};
use support::load::Times;
use support::place::Place;
use support::table::Table;

/// How many approvals of each way are measured.
const MEASURED: usize = 200;
/// And how many before, for connections and caches. They do not count.
const BEFORE: usize = 10;
/// What a proof may add to the time of a grant, in milliseconds.
const PROOF: f64 = 10.0;

fn main() -> ExitCode {
    let place = Place::enter();
    let rounds = Rounds::set(&place);
    let mut times = Way::ALL.map(|_| Times::default());
    for number in 0..BEFORE + MEASURED {
        if number % 20 == 0 {
            eprintln!("round {number} of {}", BEFORE + MEASURED);
        }
        let mut ways = Way::ALL;
        if number % 2 == 1 {
            ways.reverse();
        }
        for way in ways {
            let took = rounds.play(way, number);
            if number >= BEFORE {
                times[way as usize].add(took);
            }
        }
    }
    let bound = with_bind(&rounds);
    table(&times, &bound).end()
}

/// The first way once more, with the right to bind Roles.
fn with_bind(rounds: &Rounds) -> Times {
    rounds.allow_to_bind();
    let mut times = Times::default();
    for number in 0..BEFORE + MEASURED {
        if number % 20 == 0 {
            eprintln!("with bind: round {number} of {}", BEFORE + MEASURED);
        }
        let took = rounds.play(Way::Proof, BEFORE + MEASURED + number);
        if number >= BEFORE {
            times.add(took);
        }
    }
    times
}

fn table(times: &[Times; Way::ALL.len()], bound: &Times) -> Table {
    let mut table = Table::default();
    for way in Way::ALL {
        let times = &times[way as usize];
        for (figure, value) in [("p50", times.median()), ("p99", times.p99())] {
            let what = format!("{}, {figure} of {MEASURED}", way.words());
            table.figure(&what, value / 1e3, "ms");
        }
    }
    for (figure, value) in [("p50", bound.median()), ("p99", bound.p99())] {
        let words = Way::Proof.words();
        let what = format!("{words} and `bindRoles`, {figure} of {MEASURED}");
        table.figure(&what, value / 1e3, "ms");
    }
    let added = times[Way::Proof as usize].beyond(&times[Way::Labels as usize]);
    let [lower, upper] = [250, 750].map(|of_thousand| added.micros(of_thousand) / 1e3);
    let what = format!(
        "what the proof adds in a round, p50 of {MEASURED} (half of them {lower:.1} to {upper:.1})"
    );
    table.at_most(&what, added.median() / 1e3, "ms", PROOF, PROOF);
    let what = format!("what the proof adds in a round, p99 of {MEASURED}");
    table.figure(&what, added.p99() / 1e3, "ms");
    table
}
