//! The service beside the API server that it spares, as rows of a table; `cargo xtask bench evaluation` runs it.
//!
//! The same questions to both, in one run, in turn; every answer is compared with the expected one. The
//! service is the release program. The API server is the real one, without an audit log. Its caller is the
//! administrator, who is exempt from priorities.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_precision_loss,
    reason = "a benchmark that cannot go on ends, and figures are rounded"
)]

mod ask;
mod events;
mod grants;
mod service;
#[path = "../support/mod.rs"]
mod support;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evaluation_api::access::{AccessQuestion, Permitted};
use evaluation_api::client::Client as Evaluation;
use futures::future::join_all;
use http::header::ACCEPT;
use http::{Request, StatusCode};
use http_body_util::Full;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use ask::{Asker, Way};
use grants::Question;
use service::{Program, Running};
use support::connection::Connection;
use support::echo::Echo;
use support::load::{self, Caller as _, Times, order};
use support::place::Place;
use support::process::worked_here;
use support::processors::OneProcessor;
use support::table::Table;

const FEW: usize = 10;
const MANY: usize = 10_000;
/// Roles and bindings beside those of the grants, for the figure of memory: 44,000 objects in all.
const OTHERS: usize = 12_000;
/// Questions that are asked in turn.
const QUESTIONS: usize = 1_000;
/// Rounds of one caller, and questions of each.
const ROUNDS: usize = 11;
const OF_ROUND: usize = 150;
const WAYS: usize = 3;
/// The last of them.
const REVIEW: usize = WAYS - 1;
const WAYS_ALONE: usize = 5;
/// Callers at one time, on so many connections.
const CALLERS: usize = 64;
const CONNECTIONS: usize = 8;
/// The length of the load in a round, the number of rounds, and the share of the API server's maximum rate
/// that both get.
const LOAD: Duration = Duration::from_secs(5);
const LOADS: usize = 5;
const SHARE: f64 = 0.7;
/// How many times as many answers the service gives, over TLS and over its socket, and how many times less processor time
/// each of them takes: what must be, and what should be.
const OF_FEW: Bound = Bound {
    musts: [8.0, 15.0],
    aim: 25.0,
};
const OF_MANY: Bound = Bound {
    musts: [80.0, 150.0],
    aim: 300.0,
};
/// The time from a start to readiness.
const READY: [f64; 2] = [2.5, 0.8];
/// How many times as long as the bare lists a start takes.
const BESIDE: [f64; 2] = [1.3, 1.1];
/// Questions of a batch, and callers that send batches.
const BATCH: usize = 128;
const BATCHERS: usize = 4;
const BATCHING: Duration = Duration::from_secs(5);
/// The largest lists of the service.
const LISTS: [&str; 5] = [
    "/apis/rbac.authorization.k8s.io/v1/roles",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/connectors.alauda.io/v1alpha1/accessrequests",
];
/// Starts of the service that are timed.
const STARTS: usize = 5;
/// Questions on a stream beside events of RBAC.
const OPEN: [usize; 2] = [100, 10_000];
/// How long a process is left alone before its memory is looked at.
const IDLE: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let place = Place::enter();
    let program = Program::new(&place);
    let token = place.token("caller");
    let mut bench = Bench {
        one: Builder::new_current_thread().enable_all().build().unwrap(),
        all: Builder::new_multi_thread().enable_all().build().unwrap(),
        table: Table::default(),
        token,
        program,
        place,
    };
    bench.grow(0..FEW);
    let service = bench.program.start();
    bench.compare(&service, FEW, &OF_FEW);
    bench.grow(FEW..MANY);
    bench.compare(&service, MANY, &OF_MANY);
    bench.batches(&service);
    drop(service);
    bench.events();
    bench.sizes();
    bench.table.end()
}

/// Limits of ratios.
struct Bound {
    musts: [f64; 2],
    aim: f64,
}

struct Bench {
    /// For figures of time: one thread, so that nothing is handed from one to another.
    one: Runtime,
    /// For figures of work: as many threads as there are.
    all: Runtime,
    table: Table,
    token: std::path::PathBuf,
    program: Program,
    place: Place,
}

/// The three ways, each with its name, and a caller for each of its connections.
type Ways = [(&'static str, Vec<Asker>); WAYS];

/// The ways of one caller: the service in two ways, the floor of each, and the API server.
type WaysAlone = [(&'static str, Asker); WAYS_ALONE];

impl Bench {
    fn grow(&self, numbers: std::ops::Range<usize>) {
        let began = Instant::now();
        eprintln!("making grants {numbers:?}");
        self.one.block_on(async {
            let client = self.place.client().await;
            grants::make(&client, &self.place.namespace, numbers).await;
        });
        eprintln!("made in {:.0?}", began.elapsed());
    }

    fn ways(&self, service: &Running, questions: &Arc<[Question]>) -> Ways {
        let ways = self.one.block_on(async {
            let tls = (0..CONNECTIONS).map(|_| self.program.over_tls(service, self.token.clone()));
            let socket = (0..CONNECTIONS).map(|_| Program::over_socket(service));
            let service = |client| Way::Service(Box::new(client));
            // HTTP/1.1 carries one call at a time: each caller gets a connection.
            let mut reviews = Vec::new();
            for _ in 0..CALLERS {
                let connection = Connection::to_api_server(&self.place.kubeconfig).await;
                reviews.push(Way::Review(Arc::new(Mutex::new(connection))));
            }
            [
                ("TLS", tls.map(service).collect()),
                ("Unix socket", socket.map(service).collect()),
                ("SubjectAccessReview", reviews),
            ]
        });
        let asker = |way| Asker {
            way,
            questions: Arc::clone(questions),
        };
        ways.map(|(name, ways): (_, Vec<Way>)| (name, ways.into_iter().map(asker).collect()))
    }

    /// The figures of so many bindings of one service account.
    fn compare(&mut self, service: &Running, grants: usize, bound: &Bound) {
        let questions: Arc<[Question]> =
            grants::questions(&self.place.namespace, grants, QUESTIONS).into();
        {
            // The runtime of one thread is where this thread is.
            let _here = OneProcessor::only();
            let service = self.program.start();
            let ways = self.ways(&service, &questions);
            self.one.block_on(prove(&ways));
            let ways = self.alone_with_floors(&ways, &format!("{grants}-beside"));
            self.alone(&ways, grants, "one caller on the service's processor");
        }
        let ways = self.ways(service, &questions);
        self.one.block_on(prove(&ways));
        let alone = self.alone_with_floors(&ways, &format!("{grants}-anywhere"));
        self.alone(&alone, grants, "one caller anywhere");
        self.mixed(&ways, grants);
        // The API server closes connections that are idle for long, and one caller used only the first.
        let ways = self.ways(service, &questions);
        self.crowded(&ways, grants);
        let ways = self.ways(service, &questions);
        self.saturated(service, &ways, grants, bound);
    }

    /// The ways of one caller, and beside them what bytes alone take on the same kinds of connections.
    fn alone_with_floors(&self, ways: &Ways, name: &str) -> WaysAlone {
        let echo = Echo::start(self.place.file(&format!("echo-{name}")));
        let [tls, socket, review] = ways
            .each_ref()
            .map(|(name, askers)| (*name, askers[0].clone()));
        self.one.block_on(async {
            let floor = |connection| Asker {
                way: Way::Echo(Arc::new(Mutex::new(connection))),
                questions: Arc::clone(&review.1.questions),
            };
            let tcp = ("bytes alone over TCP", floor(echo.over_tcp().await));
            let unix = (
                "bytes alone over a Unix socket",
                floor(echo.over_socket().await),
            );
            [tls, socket, tcp, unix, review]
        })
    }

    /// One caller with one question after the other: in each round some questions one way, then the same
    /// another way. Each way is the first in its turn.
    fn alone(&mut self, ways: &WaysAlone, grants: usize, caller: &str) {
        let mut all = [(); WAYS_ALONE].map(|()| Times::default());
        let mut ratios = [(); WAYS_ALONE - 1].map(|()| Vec::new());
        for round in 0..ROUNDS {
            let mut times = [(); WAYS_ALONE].map(|()| Times::default());
            self.one.block_on(async {
                for way in order(WAYS_ALONE, round) {
                    for number in of_round(round) {
                        times[way].add(load::once(&ways[way].1, number).await);
                    }
                }
            });
            let [.., review] = &times;
            for (ratios, ours) in ratios.iter_mut().zip(&times) {
                ratios.push(review.median() / ours.median());
            }
            for (all, times) in all.iter_mut().zip(times) {
                all.extend(times);
            }
        }
        for ((name, _), times) in ways.iter().zip(&all) {
            let what = |figure: &str| {
                format!("{name}, {caller}, {figure}; {grants} bindings of one account")
            };
            self.table.figure(&what("p50"), times.median(), "µs");
            self.table.figure(&what("p99"), times.p99(), "µs");
        }
        // The kernel takes most of this time, so that it has no limit. Beyond the floors no way can be.
        for ((name, _), ratios) in ways.iter().zip(ratios) {
            let (ratio, rounds) = middle(ratios);
            let what = format!(
                "SubjectAccessReview / {name}, p50, {caller}; {grants} bindings ({rounds})"
            );
            self.table.figure(&what, ratio, "×");
        }
    }

    /// Each question every way, so that a question arrives while the API server is still busy with the work
    /// after its own answer.
    fn mixed(&mut self, ways: &Ways, grants: usize) {
        let mut mixed = [(); WAYS].map(|()| Times::default());
        self.one.block_on(async {
            for number in (0..ROUNDS).flat_map(of_round) {
                for way in order(WAYS, number) {
                    let (_, askers) = &ways[way];
                    mixed[way].add(load::once(&askers[0], number).await);
                }
            }
        });
        for ((name, _), times) in ways.iter().zip(&mixed) {
            let what = format!("{name}, each question every way, p50; {grants} bindings");
            self.table.figure(&what, times.median(), "µs");
        }
    }

    /// Many callers, each at its planned times.
    fn crowded(&mut self, ways: &Ways, grants: usize) {
        let callers = |askers: &[Asker]| -> Vec<Asker> {
            askers.iter().cloned().cycle().take(CALLERS).collect()
        };
        let callers = ways.each_ref().map(|(_, askers)| callers(askers));
        let most = self.one.block_on(load::closed_loop(&callers[2], LOAD));
        let rate = (most.rate() * SHARE).floor();
        let mut all = [(); WAYS].map(|()| Times::default());
        let mut ratios = [Vec::new(), Vec::new()];
        for round in 0..LOADS {
            let mut times = [(); WAYS].map(|()| Times::default());
            for way in order(WAYS, round) {
                let load = load::open_loop(&callers[way], rate, LOAD);
                times[way] = self.one.block_on(load);
            }
            let [.., review] = &times;
            for (ratios, ours) in ratios.iter_mut().zip(&times) {
                ratios.push(review.p99() / ours.p99());
            }
            for (all, times) in all.iter_mut().zip(times) {
                all.extend(times);
            }
        }
        let count = all[0].count();
        let what = |name: &str| {
            format!(
                "{name}, {CALLERS} callers, {rate} calls a second, p99 of {count}; {grants} bindings"
            )
        };
        for ((name, _), times) in ways.iter().zip(&all) {
            self.table.figure(&what(name), times.p99() / 1e3, "ms");
        }
        for ((name, _), ratios) in ways.iter().zip(ratios) {
            let (ratio, rounds) = middle(ratios);
            let what = format!(
                "p99 of SubjectAccessReview / of {name} at {CALLERS} callers; {grants} bindings ({rounds})"
            );
            self.table.at_least(&what, ratio, "×", 50.0, 100.0);
        }
    }

    /// Many callers ask again at once. Measures the answers of a second, and the server's processor time for each of them.
    fn saturated(&mut self, service: &Running, ways: &Ways, grants: usize, bound: &Bound) {
        let mut all = [(); WAYS].map(|()| [Vec::new(), Vec::new()]);
        for round in 0..LOADS {
            for way in order(WAYS, round) {
                let (_, askers) = &ways[way];
                let callers: Vec<_> = askers.iter().cloned().cycle().take(CALLERS).collect();
                let worked = || match way {
                    REVIEW => self.place.api_server.worked(),
                    _ => service.process.worked(),
                };
                let before = worked();
                let answers = self.one.block_on(load::closed_loop(&callers, LOAD));
                let worked = answers.share_of(worked().saturating_sub(before));
                let of_answer = worked.as_secs_f64() * 1e6;
                for (values, value) in all[way].iter_mut().zip([answers.rate(), of_answer]) {
                    values.push(value);
                }
            }
        }
        let of = format!("{CALLERS} callers who ask again at once; {grants} bindings");
        for ((name, _), [rates, works]) in ways.iter().zip(&all) {
            self.table
                .figure(&format!("{name}, {of}"), middle(rates.clone()).0, "calls/s");
            let what = format!("processor time of the server for an answer, {name}, {of}");
            self.table.figure(&what, middle(works.clone()).0, "µs");
        }
        let [ours @ .., [rates, works]] = &all;
        let names = ways.iter().map(|(name, _)| name);
        for ((name, [rate, work]), must) in names.zip(ours).zip(bound.musts) {
            let (ratio, rounds) = middle(of_each(rate, rates));
            let what = format!("calls a second, {name} / SubjectAccessReview, {of} ({rounds})");
            self.table.at_least(&what, ratio, "×", must, bound.aim);
            let (ratio, rounds) = middle(of_each(works, work));
            let what = format!(
                "processor time of the server for an answer, SubjectAccessReview / {name}, {of} ({rounds})"
            );
            self.table.at_least(&what, ratio, "×", must, bound.aim);
        }
    }

    /// Many questions at a time.
    fn batches(&mut self, service: &Running) {
        let questions = grants::questions(&self.place.namespace, MANY, BATCH * BATCHERS);
        let worked = || service.process.worked() + worked_here();
        let (began, before) = (Instant::now(), worked());
        let decisions = self.all.block_on(async {
            let mut running = JoinSet::new();
            for questions in questions.chunks(BATCH) {
                let client = Program::over_socket(service);
                running.spawn(batches(client, questions.to_vec()));
            }
            let decisions = running.join_all().await;
            decisions.into_iter().sum::<usize>()
        });
        let (took, worked) = (began.elapsed(), worked().saturating_sub(before));
        let (decisions, cores) = (decisions as f64 / 1e6, 2.0);
        let what = format!("BatchCheckAccess × {BATCH} over the Unix socket, client included");
        self.table.figure(
            &format!("{what}; by the clock"),
            decisions / took.as_secs_f64(),
            "M decisions/s",
        );
        self.table.at_least(
            &format!("{what}; in 2 s of one core's work"),
            decisions * cores / worked.as_secs_f64(),
            "M decisions",
            1.0,
            2.0,
        );
    }

    /// The work for events of grants, which must not grow with the questions that are open beside them.
    fn events(&mut self) {
        let namespace = &self.place.namespace;
        for open in OPEN {
            let service = self.program.start();
            let worked = self.one.block_on(async {
                let admin = self.place.client().await;
                events::processor_time(&admin, namespace, &service, open).await
            });
            let what = format!(
                "its processor time for an event of a Role or RoleBinding; {open} open questions on a stream"
            );
            let worked = worked.as_secs_f64() * 1e3;
            self.table.at_most(&what, worked, "ms", 1.0, 0.1);
        }
    }

    /// The time in which the lists that the service needs come, one beside the other, and nothing is done with them.
    async fn read_lists(&self) -> Duration {
        let mut connections = Vec::new();
        for path in LISTS {
            let connection = Connection::to_api_server(&self.place.kubeconfig).await;
            connections.push((path, connection));
        }
        let began = Instant::now();
        let lists = connections.into_iter().map(async |(path, mut connection)| {
            let request = Request::get(path).header(ACCEPT, "application/json");
            let request = request.body(Full::default()).unwrap();
            let (status, list) = connection.send(request).await;
            assert_eq!(status, StatusCode::OK, "{path}");
            list.len()
        });
        let bytes: usize = join_all(lists).await.into_iter().sum();
        eprintln!("lists of {bytes} bytes");
        began.elapsed()
    }

    /// The memory of the service, and the time of its start.
    fn sizes(&mut self) {
        eprintln!("making other roles and bindings");
        self.one.block_on(async {
            let client = self.place.client().await;
            grants::make_others(&client, &self.place.namespace, 0..OTHERS).await;
        });
        let (mut ready, mut lists) = (Times::default(), Times::default());
        let mut memory = Vec::new();
        for _ in 0..STARTS {
            let service = self.program.start();
            ready.add(service.process.ready_after);
            std::thread::sleep(IDLE);
            memory.push(service.process.memory());
            drop(service);
            // In turn with the starts: the API server's time for its largest lists differs by a factor of two.
            lists.add(self.one.block_on(self.read_lists()));
        }
        memory.sort_unstable_by(|(one, _), (other, _)| one.total_cmp(other));
        let (resident, peak) = memory[STARTS / 2];
        let with = "10,000 requests, 44,000 RBAC objects";
        let table = &mut self.table;
        table.at_most(
            &format!("resident memory; {with}"),
            resident,
            "MB",
            40.0,
            25.0,
        );
        table.figure(&format!("the most that was resident; {with}"), peak, "MB");
        let what = format!("from its start to ready; {with}");
        let [must, aim] = READY;
        table.at_most(&what, ready.median() / 1e6, "s", must, aim);
        let what = format!("its lists by one caller, bytes alone; {with}");
        table.figure(&what, lists.median() / 1e6, "s");
        let what = format!("from its start to ready / these lists; {with}");
        let [must, aim] = BESIDE;
        table.at_most(&what, ready.median() / lists.median(), "×", must, aim);
        let size = Program::size() as f64 / 1e6;
        table.at_most("the program, stripped", size, "MB", 16.0, 10.0);
    }
}

/// The ratio of the median round, and those of the others.
fn middle(mut ratios: Vec<f64>) -> (f64, String) {
    ratios.sort_unstable_by(f64::total_cmp);
    let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
    let rounds = format!("{least:.0} to {most:.0} in {} rounds", ratios.len());
    (ratios[ratios.len() / 2], rounds)
}

/// The ratio of each round.
fn of_each(values: &[f64], others: &[f64]) -> Vec<f64> {
    let pairs = values.iter().zip(others);
    pairs.map(|(value, other)| value / other).collect()
}

/// The questions of a round.
fn of_round(round: usize) -> std::ops::Range<usize> {
    round * OF_ROUND..(round + 1) * OF_ROUND
}

/// Every question, every way: all answers are as expected, and so the same.
async fn prove(ways: &Ways) {
    for number in 0..QUESTIONS {
        for (_, askers) in ways {
            askers[0].call(number).await;
        }
    }
    eprintln!("{QUESTIONS} questions, three ways: no difference");
}

async fn batches(client: Evaluation, questions: Vec<Question>) -> usize {
    let asked: Vec<AccessQuestion> = questions.iter().map(|it| it.asked.clone()).collect();
    let wanted: Vec<bool> = questions.iter().map(|it| it.is_allowed).collect();
    let end = Instant::now() + BATCHING;
    let mut decisions = 0;
    while Instant::now() < end {
        let answers = client.batch_check_access(&asked).await.unwrap();
        let answers = answers.into_iter().map(Result::unwrap);
        assert!(
            answers
                .map(Permitted::is_allowed)
                .eq(wanted.iter().copied())
        );
        decisions += wanted.len();
    }
    decisions
}
