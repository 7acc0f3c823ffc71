//! The webhook, called directly and by a real API server, as rows of a table; `cargo xtask bench webhook` runs it.
//!
//! The webhook is the release program and asks the API server what it has to ask. Every answer is compared with what it
//! is to be.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_precision_loss,
    reason = "a benchmark that cannot go on ends, and figures are rounded"
)]

mod calls;
mod installed;
#[path = "../support/mod.rs"]
mod support;

use std::process::ExitCode;
use std::time::Duration;

use e2e::{Deadline, poll};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

use calls::{AUTHOR, Around, Creator, Kind, POD, Reviewer};
use installed::Installed;
use support::load::{self, Times};
use support::place::Place;
use support::table::Table;

/// Calls a second, for whom nothing is between, and through the API server.
const ALONE: f64 = 1_000.0;
const THROUGH: f64 = 100.0;
/// How long each is under load in a round, and how many rounds there are.
const LOAD: Duration = Duration::from_secs(4);
const ROUNDS: usize = 5;
/// What is done before, for connections and caches; it does not count.
const BEFORE: Duration = Duration::from_millis(500);
/// Calls at one time, over the connections of so many API servers.
const CALLERS: usize = 64;
const SERVERS: usize = 3;
/// How long the API server may take to know a service account, or a pod.
const PATIENCE: Duration = Duration::from_mins(1);

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
    bench.through();
    bench.memory();
    let Bench { table, .. } = bench;
    let words = format!("delete namespace {beside} --wait=false");
    place.kubectl.run(&words).unwrap();
    table.end()
}

struct Bench<'a> {
    /// What is in the namespace with the webhook, and in that without.
    around: Around,
    beside: Around,
    installed: Installed<'a>,
    place: &'a Place,
    /// One thread, so that nothing is handed from one to another.
    one: Runtime,
    table: Table,
}

impl Bench<'_> {
    /// Called directly, at fixed times.
    fn alone(&mut self) {
        let mut all = Kind::ALL.map(|kind| (kind, Times::default()));
        for _ in 0..ROUNDS {
            for (kind, times) in &mut all {
                let more = self.one.block_on(async {
                    let mut reviewers = Vec::new();
                    for _ in 0..SERVERS {
                        reviewers.push(Reviewer {
                            kind: *kind,
                            connection: self.installed.connect().await,
                            around: self.around.clone(),
                        });
                    }
                    let callers = reviewers.into_iter().cycle().take(CALLERS);
                    let callers: Vec<_> = callers.collect();
                    load::open_loop(&callers, ALONE, BEFORE).await;
                    load::open_loop(&callers, ALONE, LOAD).await
                });
                times.extend(more);
            }
        }
        for (kind, times) in all {
            let what = |figure| format!("{}, {ALONE} a second, {figure}", kind.words());
            let table = &mut self.table;
            table.at_most(&what("p50"), times.median() / 1e3, "ms", 0.7, 0.4);
            table.at_most(&what("p99"), times.p99() / 1e3, "ms", 5.0, 3.0);
        }
    }

    /// Through the API server, in turn in a namespace that has the webhook and in one that has not.
    fn through(&mut self) {
        for kind in Kind::ALL {
            let mut all = [Times::default(), Times::default()];
            for _ in 0..ROUNDS {
                for (times, around) in all.iter_mut().zip([&self.around, &self.beside]) {
                    let more = self.one.block_on(async {
                        let creator = Creator {
                            kind,
                            client: self.place.client().await,
                            around: around.clone(),
                        };
                        let callers = vec![creator; CALLERS];
                        load::open_loop(&callers, THROUGH, BEFORE).await;
                        load::open_loop(&callers, THROUGH, LOAD).await
                    });
                    times.extend(more);
                }
            }
            let [with, without] = &all;
            for (figure, of) in [
                ("p50", Times::median as fn(&Times) -> f64),
                ("p99", Times::p99),
            ] {
                let what = |how| {
                    format!("{kind:?} created, {THROUGH} a second, {how} the webhook, {figure}")
                };
                self.table.figure(&what("without"), of(without) / 1e3, "ms");
                self.table.figure(&what("with"), of(with) / 1e3, "ms");
            }
        }
    }

    fn memory(&mut self) {
        let (resident, most) = self.installed.process.memory();
        let table = &mut self.table;
        table.at_most(
            "resident memory, after all of that",
            resident,
            "MB",
            15.0,
            10.0,
        );
        table.figure("the most that was resident", most, "MB");
    }
}

/// A pod that waits, and an author with the rights of one.
fn around(place: &Place, namespace: &str) -> Around {
    let kubectl = &place.kubectl;
    let run = |words: &str| kubectl.run(&format!("--namespace {namespace} {words}"));
    let node = kubectl.run("get nodes -o jsonpath={.items[0].metadata.name}");
    let node = node.unwrap();
    // Nobody has its image, and nobody may pull it: it waits.
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
