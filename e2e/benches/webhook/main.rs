//! The webhook, called directly and by a real API server, as rows of a table; `cargo xtask bench webhook` runs it.
//!
//! The webhook is the release program and asks the API server its own questions. Every answer is compared
//! with the expected one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_precision_loss,
    reason = "a benchmark that cannot go on ends, and figures are rounded"
)]

mod calls;
mod installed;
mod stand_in;
#[path = "../support/mod.rs"]
mod support;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use e2e::{Deadline, poll};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;

use calls::{AUTHOR, Around, BytesAlone, Call, Direct, Kind, POD, Reviewer};
use installed::{Installed, Replica};
use stand_in::StandIn;
use support::connection::Connection;
use support::echo::Echo;
use support::load::{self, Caller, Times};
use support::place::Place;
use support::table::Table;

/// Calls a second: to the webhook directly, and through the API server.
const ALONE: f64 = 1_000.0;
const THROUGH: f64 = 100.0;
/// How long each is under load in a round, and how many rounds there are.
const LOAD: Duration = Duration::from_secs(4);
const ROUNDS: usize = 5;
/// The calls before, for connections and caches. They do not count.
const BEFORE: Duration = Duration::from_millis(500);
/// Calls at one time.
const CALLERS: usize = 64;
/// How long the API server may take to know a service account, or a pod.
const PATIENCE: Duration = Duration::from_mins(1);

/// A figure of times.
type Figure = fn(&Times) -> f64;

/// The reported figures of times.
const FIGURES: [(&str, Figure); 2] = [("p50", Times::median), ("p99", Times::p99)];

fn main() -> ExitCode {
    let place = Place::enter();
    let beside = format!("{}-without", place.namespace);
    place.kubectl.create_namespace(&beside, &[]).unwrap();
    let mut bench = Bench {
        around: around(&place, &place.namespace),
        beside: around(&place, &beside),
        installed: Installed::new(&place),
        place: &place,
        one: Builder::new_current_thread().enable_all().build().unwrap(),
        table: Table::default(),
    };
    let connector = Kind::Connector.object(&bench.around, 0);
    bench.installed.wait(&connector);
    bench.alone();
    bench.with_server();
    bench.through();
    bench.memory();
    let Bench { table, .. } = bench;
    let words = format!("delete namespace {beside} --wait=false");
    place.kubectl.run(&words).unwrap();
    table.end()
}

struct Bench<'a> {
    /// The objects in the namespace with the webhook, and in that without.
    around: Around,
    beside: Around,
    installed: Installed<'a>,
    place: &'a Place,
    /// One thread, so that nothing is handed from one to another.
    one: Runtime,
    table: Table,
}

impl Bench<'_> {
    /// Called directly, at fixed times, with a stand-in for the API server.
    fn alone(&mut self) {
        let stand_in = StandIn::start(self.place);
        let replica = Replica::beside(self.place, &stand_in.kubeconfig);
        let echo = Echo::start(self.place.file("echo"));
        let mut all = Kind::ALL.map(|kind| (kind, Vec::new()));
        let mut bytes = Vec::new();
        for _ in 0..ROUNDS {
            for (kind, rounds) in &mut all {
                let before = stand_in.answered();
                let (count, times) = self.reviews(&replica, *kind);
                let asked = stand_in.answered() - before;
                let all = count * kind.questions(&self.around).len();
                // A warning is not worth a wait: some connectors of a burst go without a look at their class.
                let skipped = matches!(kind, Kind::Connector).then_some(all / 50);
                let expected = all - skipped.unwrap_or(0)..=all;
                assert!(expected.contains(&asked), "{kind:?}: {asked} of {all}");
                rounds.push(times);
            }
            bytes.push(self.bytes_alone(&echo));
        }
        for (kind, rounds) in all {
            for (name, of, must, aim) in [
                ("p50", Times::median as Figure, 0.7, 0.4),
                ("p99", Times::p99, 5.0, 3.0),
            ] {
                let (middle, range) = over(&rounds, of);
                let what = format!("{}, {ALONE} a second, {name} ({range})", kind.words());
                self.table.at_most(&what, middle, "ms", must, aim);
            }
        }
        for (name, of) in FIGURES {
            let (middle, range) = over(&bytes, of);
            let what = format!("bytes alone over TCP, {ALONE} a second, {name} ({range})");
            self.table.figure(&what, middle, "ms");
        }
    }

    /// The same with the API server, which is asked the same directly in turn.
    fn with_server(&mut self) {
        let replica = Replica::beside(self.place, &self.place.kubeconfig);
        let mut all = Kind::ALL.map(|kind| (kind, [Times::default(), Times::default()]));
        for _ in 0..ROUNDS {
            for (kind, [reviews, answers]) in &mut all {
                reviews.extend(self.reviews(&replica, *kind).1);
                answers.extend(self.direct(*kind, Call::Questions, &self.around, ALONE));
            }
        }
        let (_, most) = replica.process.memory();
        let what = format!("the most that was resident, with {CALLERS} reviews at a time");
        self.table.figure(&what, most, "MB");
        for (kind, [reviews, answers]) in all {
            let waits_for = kind.waits_for();
            for (figure, of) in FIGURES {
                let what = format!(
                    "{}, with {waits_for} by the API server, {ALONE} a second, {figure}",
                    kind.words()
                );
                self.table.figure(&what, of(&reviews) / 1e3, "ms");
                let what = format!(
                    "{waits_for}, asked of the API server directly, {ALONE} a second, {figure}"
                );
                self.table.figure(&what, of(&answers) / 1e3, "ms");
            }
        }
    }

    /// Reviews of one kind, as API servers ask for them, and how many there were with those that do not count.
    fn reviews(&self, replica: &Replica<'_>, kind: Kind) -> (usize, Times) {
        self.one.block_on(async {
            let connections = replica.connect(CALLERS).await;
            let reviewer = |connection| Reviewer {
                kind,
                connection: Arc::new(Mutex::new(connection)),
                around: self.around.clone(),
            };
            let callers: Vec<_> = connections.into_iter().map(reviewer).collect();
            loaded(&callers, ALONE).await
        })
    }

    /// What any call costs at this rate.
    fn bytes_alone(&self, echo: &Echo) -> Times {
        self.one.block_on(async {
            let mut callers = Vec::new();
            for _ in 0..CALLERS {
                let connection = Arc::new(Mutex::new(echo.over_tcp().await));
                callers.push(BytesAlone(connection));
            }
            loaded(&callers, ALONE).await.1
        })
    }

    /// Calls of the API server.
    fn direct(&self, kind: Kind, call: Call, around: &Around, rate: f64) -> Times {
        self.one.block_on(async {
            let mut callers = Vec::new();
            for _ in 0..CALLERS {
                let connection = Connection::to_api_server(&self.place.kubeconfig).await;
                callers.push(Direct {
                    kind,
                    call,
                    connection: Arc::new(Mutex::new(connection)),
                    around: around.clone(),
                });
            }
            loaded(&callers, rate).await.1
        })
    }

    /// Through the API server, in turn in a namespace that has the webhook and in one that has not.
    fn through(&mut self) {
        for kind in Kind::ALL {
            let mut all = [Times::default(), Times::default()];
            for _ in 0..ROUNDS {
                for (times, around) in all.iter_mut().zip([&self.around, &self.beside]) {
                    times.extend(self.direct(kind, Call::Creation, around, THROUGH));
                }
            }
            let [with, without] = &all;
            for (figure, of) in FIGURES {
                let what = |how| {
                    format!("{kind:?} created, {THROUGH} a second, {how} the webhook, {figure}")
                };
                self.table.figure(&what("without"), of(without) / 1e3, "ms");
                self.table.figure(&what("with"), of(with) / 1e3, "ms");
            }
        }
    }

    fn memory(&mut self) {
        let (resident, most) = self.installed.replica.process.memory();
        let table = &mut self.table;
        let what =
            format!("resident memory, after {THROUGH} objects a second through the API server");
        table.at_most(&what, resident, "MB", 15.0, 10.0);
        table.figure("the most that was resident", most, "MB");
    }
}

/// So many calls a second, of which the first do not count, and the number of all.
async fn loaded(callers: &[impl Caller], rate: f64) -> (usize, Times) {
    let before = load::open_loop(callers, rate, BEFORE).await;
    let times = load::open_loop(callers, rate, LOAD).await;
    (before.count() + times.count(), times)
}

/// The middle of the figures of all rounds, in milliseconds, and the least and the most of them as text.
fn over(rounds: &[Times], of: Figure) -> (f64, String) {
    let mut figures: Vec<f64> = rounds.iter().map(|it| of(it) / 1e3).collect();
    figures.sort_by(f64::total_cmp);
    let (least, most) = (figures[0], figures[ROUNDS - 1]);
    let range = format!("{least:.1} to {most:.1} in {ROUNDS} rounds");
    (figures[ROUNDS / 2], range)
}

/// A pod that waits, and an author with the rights of one.
fn around(place: &Place, namespace: &str) -> Around {
    let kubectl = &place.kubectl;
    let run = |words: &str| kubectl.run(&format!("--namespace {namespace} {words}"));
    let node = kubectl.run("get nodes -o jsonpath={.items[0].metadata.name}");
    let node = node.unwrap();
    // Its image does not exist, and must not be pulled: it waits.
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": POD, "namespace": namespace},
        "spec": {
            "nodeName": node, "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "it", "image": "none.example.com/none", "imagePullPolicy": "Never"}],
        },
    });
    let made = || {
        kubectl
            .apply(&pod.to_string())
            .map_err(|error| error.to_string())
    };
    poll("a pod", Deadline::after(PATIENCE), made).unwrap();
    let role = "create role author --verb=create,update --resource=connectors.connectors.alauda.io";
    run(role).unwrap();
    let binding = format!("create rolebinding author --role=author --user={AUTHOR}");
    run(&binding).unwrap();
    let pod_uid = run(&format!("get pod {POD} -o jsonpath={{.metadata.uid}}"));
    Around {
        namespace: namespace.to_owned(),
        node,
        pod_uid: pod_uid.unwrap(),
    }
}
