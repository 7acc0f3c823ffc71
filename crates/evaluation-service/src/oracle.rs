//! Scenarios under fault, judged by somebody who shares nothing with the service.
//!
//! A history that follows from a seed happens to an API server; the service watches it through pages, events and
//! failures, and is asked meanwhile. [`reference`] says from the documents and the rules of RBAC what holds, and
//! [`judge`] whether what was said could be said: true at a moment that its freshness admits, to somebody who might
//! ask, on a stream that follows what changes.
//!
//! `ORACLE_SEEDS=5000` plays more histories, `ORACLE_SEED=17` one of them, and prints it.

mod api;
mod callers;
mod cluster;
mod history;
mod judge;
mod objects;
mod play;
mod reference;
mod scenes;
mod service;
mod stage;
mod truth;
mod watching;

use std::env;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use jiff::Timestamp;
use tokio::runtime::Builder;

use history::History;
use play::play;
use stage::Tally;

/// Histories of a usual run.
const SEEDS: u64 = 200;
/// Steps of a history.
const STEPS: usize = 160;
/// As many are played at the same time.
const THREADS: usize = 2;

/// What a usual run meets.
const MET: &[&str] = &[
    "check AllowedStanding",
    "check AllowedPod",
    "check Denied",
    "batch AllowedStanding",
    "batch AllowedPod",
    "batch Denied",
    "stream AllowedStanding",
    "stream AllowedPod",
    "stream Denied",
    "news on a stream",
    "refusal on a stream",
    "requestable Yes",
    "requestable No",
    "requestable Unknown",
    "hung up",
    "StreamTooOld",
    "Some(CacheStale)",
    "Some(NamespaceForbidden)",
    "Some(TokenInvalid)",
    "Some(ApiServerUnavailable)",
    "Some(TooManyStreams)",
];

fn begins() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

/// What is wrong in the history of a seed, with all of it.
fn run(seed: u64, tally: &Mutex<Tally>) -> Option<String> {
    let history = History::of(seed, begins(), STEPS);
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    let (wrong, said) = runtime.block_on(play(&history, begins()));
    let mut all = tally.lock().unwrap();
    for (what, count) in said {
        *all.entry(what).or_default() += count;
    }
    (!wrong.is_empty()).then(|| tell(seed, &history, &wrong))
}

fn tell(seed: u64, history: &History, wrong: &[String]) -> String {
    let mut text = format!("seed {seed}; again with ORACLE_SEED={seed}\n");
    for (number, question) in history.questions.iter().enumerate() {
        writeln!(text, "  {number}: {question:?}").unwrap();
    }
    let mut at = begins();
    for (pause, step) in &history.steps {
        at += *pause;
        writeln!(text, "  {at} {step}").unwrap();
    }
    let first = wrong.iter().take(5);
    first.for_each(|it| writeln!(text, "{it}").unwrap());
    text
}

#[test]
fn every_answer_holds_at_a_moment_that_its_freshness_admits_whatever_happens() {
    let (first, end) = match number("ORACLE_SEED") {
        Some(seed) => (seed, seed + 1),
        None => (0, number("ORACLE_SEEDS").unwrap_or(SEEDS)),
    };
    let (next, tally, found) = (
        AtomicU64::new(first),
        Mutex::default(),
        Mutex::new(Vec::new()),
    );
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end || found.lock().unwrap().len() > 2 {
                        return;
                    }
                    if let Some(wrong) = run(seed, &tally) {
                        found.lock().unwrap().push((seed, wrong));
                    }
                }
            });
        }
    });
    let tally = tally.into_inner().unwrap();
    let mut found = found.into_inner().unwrap();
    found.sort();
    assert!(found.is_empty(), "{}\n{tally:?}", found.remove(0).1);
    println!("{tally:#?}");
    // Histories in which nothing happens prove nothing.
    if end - first >= SEEDS {
        for what in MET {
            assert!(tally.contains_key(*what), "{what} was never met");
        }
    }
}
