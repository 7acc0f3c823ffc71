//! How long decisions, changes and lists take, as rows of a table; run by `cargo xtask bench authz`.
//!
//! Each figure is the median of many batches of one run. It counts the CPU time of this thread, so that other
//! programs disturb it as little as possible. The program fails when a figure misses its limit.

#![allow(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a benchmark that cannot go on ends, and figures are rounded"
)]

mod clock;
#[path = "../tests/grants/mod.rs"]
mod grants;
mod table;

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use authz::{Authorizer, RbacIndex, RbacObject, RuleResolver};
use clock::Clock;
use grants::{CONNECTORS, Grant, Holders, Question, index};
use table::Table;

const FEW: usize = 10;
const MANY: usize = 100_000;
const SIZES: [usize; 3] = [FEW, 1_000, MANY];

/// Pods that ask in turn.
const ASKERS: usize = 1_024;
/// Objects that a watch asks for at a time.
const PAGE: usize = 500;
/// Batches of a figure.
const BATCHES: usize = 31;
/// Changes that are timed one by one.
const CHANGES: usize = 2_000;

fn main() -> ExitCode {
    let mut table = Table::default();
    for holders in [Holders::One, Holders::Many] {
        decisions(&mut table, holders);
    }
    building(&mut table);
    let mut index = index(MANY, Holders::One);
    changes(&mut table, &mut index);
    lists(&mut table, &index);
    table.end()
}

fn decisions(table: &mut Table, holders: Holders) {
    let who = match holders {
        Holders::One => "all of one account",
        Holders::Many => "of 1,000 accounts",
    };
    let mut of_size = Vec::new();
    for count in SIZES {
        let index = index(count, holders);
        // Spread out, so that one cached part of the index cannot answer all of them.
        let askers = (0..ASKERS).map(|asker| asker * 7_919 % count);
        let askers: Vec<Grant> = askers.map(|number| Grant::new(number, holders)).collect();
        let yes: Vec<Question> = askers.iter().map(Grant::pod_form).collect();
        let no: Vec<Question> = askers.iter().map(Grant::standing_form).collect();
        let decide = |question: &Question| index.authorize(&question.attributes()).is_allowed();
        let find = |question: &Question| index.allowing(&question.attributes()).next().is_some();
        assert!(yes.iter().all(decide) && !no.iter().any(decide));
        let figures = [
            ("yes, with its reason", per_question(&yes, decide)),
            ("yes, the binding alone", per_question(&yes, find)),
            ("no", per_question(&no, decide)),
        ];
        for (what, time) in figures {
            let what = format!("{what}; {count} grants {who}");
            table.at_most(&what, nanos(time), "ns", 1_000.0, 300.0);
        }
        of_size.push(figures);
    }
    let (few, many) = (of_size.first().unwrap(), of_size.last().unwrap());
    for ((what, few), (_, many)) in few.iter().zip(many) {
        let ratio = many.as_secs_f64() / few.as_secs_f64();
        let what = format!("{what}: time at {MANY} / at {FEW}; {who}");
        table.at_most(&what, ratio, "×", 3.0, 2.0);
    }
}

/// Two ways to fill the index: page by page, as the API server lists objects, and from a complete list, as a
/// watch collects it. The caller frees the objects; that time is measured separately.
fn building(table: &mut Table) {
    let mut times = [(); 3].map(|()| Vec::new());
    for _ in 0..7 {
        let mut index = RbacIndex::default();
        let roles = by_page(Grant::role, |role| index.apply(role).unwrap());
        let bindings = by_page(Grant::binding, |binding| index.apply(binding).unwrap());
        times[0].push(roles.taken + bindings.taken);
        times[1].push(roles.freed + bindings.freed);
        black_box(index);

        let mut index = RbacIndex::default();
        let grants = || (0..MANY).map(|number| Grant::new(number, Holders::One));
        let roles: Vec<_> = grants().map(|grant| grant.role()).collect();
        let bindings: Vec<_> = grants().map(|grant| grant.binding()).collect();
        let began = Clock::start();
        index.reset(&roles);
        index.reset(&bindings);
        times[2].push(began.elapsed());
        black_box(index);
    }
    let [paged, freed, at_once] = times.map(|times| millis(median(times)));
    let what = "index of 100,000 grants, from pages of 500 objects";
    table.at_most(what, paged, "ms", 250.0, 100.0);
    table.figure("the same pages, only freed", freed, "ms");
    table.figure("the same index from two whole lists", at_once, "ms");
}

/// The time spent on pages of objects, and the time spent freeing them.
#[derive(Default)]
struct Pages {
    taken: Duration,
    freed: Duration,
}

/// The time to process every grant, without the construction of the objects.
fn by_page<K: RbacObject>(object: impl Fn(&Grant) -> K, mut take: impl FnMut(&K)) -> Pages {
    let mut pages = Pages::default();
    let mut page = Vec::with_capacity(PAGE);
    for first in (0..MANY).step_by(PAGE) {
        let grants = (first..first + PAGE).map(|number| Grant::new(number, Holders::One));
        page.extend(grants.map(|grant| object(&grant)));
        let began = Clock::start();
        page.iter().for_each(&mut take);
        pages.taken += began.elapsed();
        let began = Clock::start();
        page.clear();
        pages.freed += began.elapsed();
    }
    pages
}

/// A watch event that changes the answer: a grant is written, then revoked. Each change is too short for any
/// but the wall clock.
fn changes(table: &mut Table, index: &mut RbacIndex) {
    let (mut granted, mut revoked) = (Vec::new(), Vec::new());
    for number in MANY..MANY + CHANGES {
        let grant = Grant::new(number, Holders::One);
        let question = grant.pod_form();
        let (role, binding) = (grant.role(), grant.binding());
        index.apply(&role).unwrap();
        let began = Instant::now();
        index.apply(&binding).unwrap();
        let yes = index.authorize(&question.attributes()).is_allowed();
        granted.push(began.elapsed());
        let began = Instant::now();
        index.delete(&binding);
        let no = !index.authorize(&question.attributes()).is_allowed();
        revoked.push(began.elapsed());
        assert!(yes && no);
        index.delete(&grant.role());
    }
    for (what, mut times) in [("a binding comes", granted), ("a binding goes", revoked)] {
        times.sort_unstable();
        let at = |percent: usize| nanos(times[(times.len() - 1) * percent / 100]) / 1e3;
        table.figure(
            &format!("{what} → another answer, p50; 100,000 grants"),
            at(50),
            "µs",
        );
        let what = format!("{what} → another answer, p99; 100,000 grants");
        table.at_most(&what, at(99), "µs", 1_000.0, 100.0);
    }
}

fn lists(table: &mut Table, index: &RbacIndex) {
    let grant = Grant::new(MANY / 2, Holders::One);
    let question = grant.pod_form();
    let attributes = question.attributes();
    let who = per_call(|| index.who_can(attributes.verb, attributes.target, usize::MAX, |_| true));
    table.figure("who_can, one pod's form; 100,000 grants", nanos(who), "ns");

    let spread = grants::index(MANY, Holders::Many);
    let user = Grant::new(0, Holders::Many).user();
    let rules = per_call(|| spread.rules_for(&user, CONNECTORS));
    table.figure(
        "rules_for an account with 100 grants",
        nanos(rules) / 1e3,
        "µs",
    );

    let user = grant.user();
    let rules = per_call(|| index.rules_for(&user, CONNECTORS));
    table.figure(
        "rules_for an account with 100,000 grants",
        millis(rules),
        "ms",
    );
}

/// The median time of one question, each batch asking all of them.
fn per_question(questions: &[Question], ask: impl Fn(&Question) -> bool) -> Duration {
    let batch = || {
        let began = Clock::start();
        for question in questions {
            black_box(ask(black_box(question)));
        }
        began.elapsed() / u32::try_from(questions.len()).unwrap()
    };
    // The first ones warm caches and predictors.
    (0..BATCHES).for_each(|_| {
        black_box(batch());
    });
    median((0..BATCHES).map(|_| batch()).collect())
}

/// The median time of one call, in batches of about ten milliseconds.
fn per_call<T>(call: impl Fn() -> T) -> Duration {
    let began = Clock::start();
    black_box(call());
    let once = began.elapsed().as_nanos().max(1);
    let times = u32::try_from((10_000_000 / once).clamp(1, 100_000)).unwrap();
    let batch = |_| {
        let began = Clock::start();
        (0..times).for_each(|_| drop(black_box(call())));
        began.elapsed() / times
    };
    median((0..BATCHES).map(batch).collect())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn millis(time: Duration) -> f64 {
    nanos(time) / 1e6
}

fn nanos(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}
