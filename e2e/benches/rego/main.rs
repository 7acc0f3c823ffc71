//! A check that Rego decides: in the process, through the service, and by a real server of Open Policy
//! Agent, as rows of a table; `cargo xtask bench rego` runs it.
//!
//! The same objects to all of them, in one run, in turn; no object comes twice, so that no cache answers.
//! Every answer is compared with the expected one. The service is the release program.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_precision_loss,
    reason = "a benchmark that cannot go on ends, and figures are rounded"
)]

mod bombs;
mod check;
#[path = "../../../crates/authz/benches/clock/mod.rs"]
mod clock;
mod crowd;
#[path = "../evaluation/grants.rs"]
#[allow(dead_code, reason = "another program needs the rest")]
mod grants;
#[path = "../../../crates/evaluation-service/tests/bombs/list.rs"]
mod list;
mod opa;
mod remembered;
#[path = "../evaluation/service.rs"]
#[allow(dead_code, reason = "another program needs the rest")]
mod service;
#[path = "../support/mod.rs"]
mod support;
mod ways;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use e2e::Progress;
use evaluation_api::v1::CheckVerdict;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use check::Check;
use opa::Opa;
use service::{Program, Running};
use support::echo::{Echo, EchoConnection};
use support::load::{Times, order};
use support::place::Place;
use support::table::Table;
use ways::{ObjectBatch, Question, WAYS, Way};

/// Rounds of one caller, and questions of each.
const ROUNDS: usize = 11;
const OF_ROUND: usize = 300;
/// Callers at the same time, the few and the many, and questions that they share in a round.
const FEW: usize = 4;
const MANY: usize = 36;
const OF_ROUND_TOGETHER: usize = 1_000;
/// Objects of one call, and such calls of a round.
const BATCH: usize = 64;
const BATCHES_OF_ROUND: usize = 20;

fn main() -> ExitCode {
    // Before the network is another one: it may have to be built.
    let opa = e2e::cluster::opa(&Progress::default()).unwrap();
    let place = Place::enter();
    let program = Program::new(&place);
    let mut table = Table::default();
    let check = Check::new(&place.namespace);
    remembered::rows(&mut table, &check);
    let service = program.start();
    compare(&mut table, None, &check, &opa, &service, &place);
    let other = check.clone().with_module(&check.module_for_the_engine());
    let named = Some("a module without a program");
    compare(&mut table, named, &other, &opa, &service, &place);
    crowd::rows(&mut table, &check, &service, &program, &place);
    drop(service);
    table.end()
}

/// The figures of one module.
fn compare(
    table: &mut Table,
    named: Option<&str>,
    check: &Check,
    opa: &Path,
    service: &Running,
    place: &Place,
) {
    let opa = Opa::start(opa, check.module(), place.files.path());
    // One thread, so that nothing is handed from one to another. It goes with its connections.
    let one = Builder::new_current_thread().enable_all().build().unwrap();
    let ways = one.block_on(Way::all(check, service, &opa));
    let echo = Echo::start(place.file(if named.is_some() { "echo-2" } else { "echo" }));
    let echo = one.block_on(echo.over_socket());
    let mut bench = Bench {
        one,
        ways,
        echo,
        check: check.clone(),
        named: named.map_or_else(String::new, |named| format!(", {named}")),
        goals: named.is_none(),
        // No object of the other module is asked again.
        asked: if named.is_some() { 100_000 } else { 0 },
    };
    bench.prove();
    bench.alone(table);
    // Beyond the few, calls about one namespace that need workers are refused in part.
    let crowds = if bench.goals {
        &[
            Callers::EachOwn(FEW),
            Callers::EachOwn(MANY),
            Callers::Sharing(MANY),
        ][..]
    } else {
        &[Callers::EachOwn(FEW)]
    };
    for callers in crowds.iter().copied() {
        let ways = bench.one.block_on(async {
            let shared = Program::over_socket(service);
            let ours = async || match callers {
                Callers::EachOwn(_) => Way::Service(Program::over_socket(service)),
                Callers::Sharing(_) => Way::Service(shared.clone()),
            };
            let theirs = async || Way::Opa(opa.connect().await);
            [
                together(callers.count(), ours).await,
                together(callers.count(), theirs).await,
            ]
        });
        bench.together(table, callers, &ways);
    }
    bench.batches(table);
}

/// So many callers at the same time. OPA's API carries one call at a time on a connection, so that its callers have a
/// connection each.
#[derive(Clone, Copy)]
enum Callers {
    /// Each with a client of its own.
    EachOwn(usize),
    /// With one client, as the workers of the request-controller have.
    Sharing(usize),
}

impl Callers {
    const fn count(self) -> usize {
        match self {
            Self::EachOwn(count) | Self::Sharing(count) => count,
        }
    }

    fn words(self) -> String {
        match self {
            Self::EachOwn(count) => format!("{count} callers"),
            Self::Sharing(count) => format!("{count} callers of one client"),
        }
    }

    /// What must be kept and what should be, for the calls of a second.
    const fn goals(self) -> Option<[f64; 2]> {
        match self {
            Self::EachOwn(_) => None,
            Self::Sharing(_) => Some([2.0, 4.0]),
        }
    }
}

/// Several callers. Those of one way are alike.
async fn together(callers: usize, way: impl AsyncFn() -> Way) -> Vec<Arc<Mutex<Way>>> {
    let mut all = Vec::new();
    for _ in 0..callers {
        all.push(Arc::new(Mutex::new(way().await)));
    }
    all
}

struct Bench {
    one: Runtime,
    ways: [(&'static str, Way); WAYS],
    /// A call without any work behind it.
    echo: EchoConnection,
    check: Check,
    /// What the rows say about the module.
    named: String,
    /// Whether its rows have goals.
    goals: bool,
    /// Objects that there were.
    asked: usize,
}

impl Bench {
    fn question(&mut self, change: impl FnOnce(&mut Value)) -> Question {
        self.asked += 1;
        let mut object = self.check.object(self.asked);
        change(&mut object);
        Question::new(&self.check, self.asked, object.to_string())
    }

    /// Objects that pass, objects that do not, and unreadable ones: all ways give the same verdict.
    fn prove(&mut self) {
        let mut questions = Vec::new();
        for (status, verdict) in statuses() {
            let question = self.question(|object| match status {
                Some(status) => object["status"] = status,
                None => drop(object.as_object_mut().unwrap().remove("status")),
            });
            questions.push((question, verdict));
        }
        for text in [
            "",
            "{",
            "{\"status\": {\"state\": \"approved\"}",
            "approved",
        ] {
            self.asked += 1;
            let question = Question::new(&self.check, self.asked, text.to_owned());
            questions.push((question, CheckVerdict::Failed));
        }
        let count = questions.len();
        self.one.block_on(async {
            for (question, verdict) in questions {
                for (name, way) in &mut self.ways {
                    let (said, _) = way.ask(&question).await;
                    assert_eq!(said, verdict, "{name}: {question:?}");
                }
            }
        });
        eprintln!("{count} objects, every way: no difference");
    }

    /// One caller with one question after the other: in each round some questions one way, then the same
    /// another way. Each way is the first in its turn.
    fn alone(&mut self, table: &mut Table) {
        let mut all = [(); WAYS].map(|()| Times::default());
        let (mut ratios, mut floor) = (Vec::new(), Times::default());
        for round in 0..ROUNDS {
            let mut times = [(); WAYS].map(|()| Times::default());
            let questions: Vec<_> = (0..OF_ROUND).map(|_| self.usual()).collect();
            self.one.block_on(async {
                for at in order(WAYS, round) {
                    let (name, way) = &mut self.ways[at];
                    for (question, verdict) in &questions {
                        let (said, took) = way.ask(question).await;
                        assert_eq!(said, *verdict, "{name}: {question:?}");
                        times[at].add(took);
                    }
                }
                for _ in 0..OF_ROUND {
                    let began = Instant::now();
                    self.echo.call().await;
                    floor.add(began.elapsed());
                }
            });
            let [service, opa, ..] = &times;
            ratios.push(opa.median() / service.median());
            for (all, times) in all.iter_mut().zip(times) {
                all.extend(times);
            }
        }
        let named = &self.named;
        for ((name, _), times) in self.ways.iter().zip(&all) {
            let what = format!("a check{named}, {name}");
            table.figure(&format!("{what}, p50"), times.median(), "µs");
            table.figure(&format!("{what}, p99"), times.p99(), "µs");
        }
        if self.goals {
            let what = "bytes alone over a Unix socket, p50";
            table.figure(what, floor.median(), "µs");
        }
        ratios.sort_unstable_by(f64::total_cmp);
        let (lowest, highest) = (ratios[0], ratios[ROUNDS - 1]);
        let (ours, theirs) = (self.ways[0].0, self.ways[1].0);
        let what = format!(
            "{theirs} / {ours}{named}, p50 ({lowest:.1} to {highest:.1} in {ROUNDS} rounds)"
        );
        self.ratio(table, &what, ratios[ROUNDS / 2], Some([1.5, 3.0]));
    }

    /// A row beside its goals: must and aim.
    fn ratio(&self, table: &mut Table, what: &str, ratio: f64, goals: Option<[f64; 2]>) {
        match goals.filter(|_| self.goals) {
            Some([must, aim]) => table.at_least(what, ratio, "×", must, aim),
            None => table.figure(what, ratio, "×"),
        }
    }

    /// Several callers at the same time. They share the questions of a round, and ask the next one at once.
    fn together(
        &mut self,
        table: &mut Table,
        callers: Callers,
        [ours, theirs]: &[Vec<Arc<Mutex<Way>>>; 2],
    ) {
        let mut rates = [Vec::new(), Vec::new()];
        for round in 0..ROUNDS {
            let questions: Vec<_> = (0..OF_ROUND_TOGETHER).map(|_| self.usual()).collect();
            let questions = Arc::new(questions);
            for at in order(2, round) {
                let ways = [ours, theirs][at];
                let began = Instant::now();
                self.one.block_on(all_asked(ways, &questions));
                rates[at].push(OF_ROUND_TOGETHER as f64 / began.elapsed().as_secs_f64());
            }
        }
        let mut ratios: Vec<f64> = rates[0].iter().zip(&rates[1]).map(|(a, b)| a / b).collect();
        let words = callers.words();
        for (name, mut rates) in [
            "EvaluateChecks over the Unix socket",
            "OPA over its REST API",
        ]
        .into_iter()
        .zip(rates)
        {
            rates.sort_unstable_by(f64::total_cmp);
            let what = format!(
                "checks{}, {name}, {words} who ask again at once",
                self.named
            );
            table.figure(&what, rates[ROUNDS / 2], "calls/s");
        }
        ratios.sort_unstable_by(f64::total_cmp);
        let (least, most) = (ratios[0], ratios[ROUNDS - 1]);
        let what = format!(
            "calls a second{}, EvaluateChecks / OPA, {words} ({least:.1} to {most:.1} in {ROUNDS} rounds)",
            self.named
        );
        self.ratio(table, &what, ratios[ROUNDS / 2], callers.goals());
    }

    /// Many objects of one pod: one call for all of them, and one after the other where a call has one object.
    fn batches(&mut self, table: &mut Table) {
        let [mut ours, mut theirs] = [Times::default(), Times::default()];
        let mut ratios = Vec::new();
        for round in 0..ROUNDS {
            let mut times = [Times::default(), Times::default()];
            let batches: Vec<_> = (0..BATCHES_OF_ROUND).map(|_| self.batch()).collect();
            self.one.block_on(async {
                for at in order(2, round) {
                    for batch in &batches {
                        times[at].add(self.ways[at].1.ask_all(batch).await);
                    }
                }
            });
            ratios.push(times[1].median() / times[0].median());
            let [of_ours, of_theirs] = times;
            ours.extend(of_ours);
            theirs.extend(of_theirs);
        }
        for ((name, _), times) in self.ways.iter().zip([ours, theirs]) {
            let what = format!("{BATCH} checks{}, {name}, p50", self.named);
            table.figure(&what, times.median(), "µs");
        }
        ratios.sort_unstable_by(f64::total_cmp);
        let (least, most) = (ratios[0], ratios[ROUNDS - 1]);
        let what = format!(
            "OPA / EvaluateChecks{}, {BATCH} objects ({least:.1} to {most:.1} in {ROUNDS} rounds)",
            self.named
        );
        self.ratio(table, &what, ratios[ROUNDS / 2], Some([8.0, 15.0]));
    }

    /// Objects of one pod, and the expected verdict of each.
    fn batch(&mut self) -> ObjectBatch {
        let first = self.asked + 1;
        self.asked += BATCH;
        ObjectBatch::new(&self.check, first..=self.asked)
    }

    /// An object in one of its states, and the expected verdict.
    fn usual(&mut self) -> (Question, CheckVerdict) {
        let mut verdict = CheckVerdict::Unspecified;
        let question = self.question(|object| {
            verdict = match object["status"]["state"].as_str() {
                Some("approved") => CheckVerdict::Passed,
                Some("rejected") => CheckVerdict::Rejected,
                _ => CheckVerdict::Pending,
            };
        });
        (question, verdict)
    }
}

/// Every caller takes the next question until there is none.
async fn all_asked(ways: &[Arc<Mutex<Way>>], questions: &Arc<Vec<(Question, CheckVerdict)>>) {
    let next = Arc::new(AtomicUsize::new(0));
    let mut callers = JoinSet::new();
    for way in ways {
        let (way, next, questions) = (Arc::clone(way), Arc::clone(&next), Arc::clone(questions));
        callers.spawn(async move {
            let mut way = way.lock().await;
            while let Some((question, verdict)) = questions.get(next.fetch_add(1, Relaxed)) {
                let (said, _) = way.ask(question).await;
                assert_eq!(said, *verdict, "{question:?}");
            }
        });
    }
    callers.join_all().await;
}

/// The possible values of an object's status, and their verdicts.
fn statuses() -> Vec<(Option<Value>, CheckVerdict)> {
    let word = |word: &str| Some(json!({"state": word}));
    let state = |state: Value| Some(json!({"state": state}));
    let (passed, pending) = (CheckVerdict::Passed, CheckVerdict::Pending);
    vec![
        (word("approved"), passed),
        (word("passed"), passed),
        (word("rejected"), CheckVerdict::Rejected),
        (word("pending"), pending),
        (word(""), pending),
        (word("expired"), pending),
        (word("Approved"), pending),
        (word("approved "), pending),
        (word("\u{430}pproved"), pending),
        (word(&"x".repeat(63)), pending),
        (word(&"x".repeat(64)), CheckVerdict::Failed),
        (state(json!(null)), pending),
        (state(json!(true)), CheckVerdict::Failed),
        (state(json!(1)), CheckVerdict::Failed),
        (state(json!(["approved"])), CheckVerdict::Failed),
        (state(json!({"state": "approved"})), CheckVerdict::Failed),
        (Some(json!({})), pending),
        (Some(json!({"State": "approved"})), pending),
        (Some(json!(null)), pending),
        (Some(json!("approved")), pending),
        (Some(json!(["approved"])), pending),
        (None, pending),
    ]
}
