//! Explanations in a cluster with many requests.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::Parser as _;
use kube::Client;
use kube::client::Body;
use kubectl_connectors::answer::Consent;
use kubectl_connectors::args::Args;
use kubectl_connectors::connect::Connection;
use kubectl_connectors::modules::Modules;
use kubectl_connectors::output::Colours;
use kubectl_connectors::run::{self, RunPlace};
use testkit::Caller;
use tokio::runtime::Builder;

use crate::cluster::{Cluster, pod, start};
use crate::median;
use crate::table::Table;

const FEW: usize = 10;
const MANY: usize = 10_000;
/// Explanations of a figure.
const ROUNDS: usize = 11;

/// The calls of an explanation, and the time until their answers.
#[derive(Clone, Copy, Default)]
struct ApiCalls {
    count: usize,
    time: Duration,
}

pub(crate) fn explanations(table: &mut Table) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let mut own = Vec::new();
    for requests in [FEW, MANY] {
        let (time, calls) = runtime.block_on(explained(requests));
        let what = format!("explain beyond its API calls, p50; {requests} requests");
        if requests == MANY {
            table.at_most(&what, time, "ms", 300.0, 100.0);
        } else {
            table.figure(&what, time, "ms");
        }
        table.figure(
            &format!("API calls of explain; {requests} requests"),
            calls as f64,
            "",
        );
        own.push(time);
    }
    let ratio = own[1] / own[0];
    table.at_most(
        "explain beyond its API calls: time at 10000 / at 10 requests",
        ratio,
        "×",
        3.0,
        2.0,
    );
}

/// The time beyond the API calls, and the number of calls, in a cluster with so many requests.
async fn explained(requests: usize) -> (f64, usize) {
    let cluster = Cluster::waiting();
    for number in 1..requests {
        let name = format!("other-{number}");
        cluster.put(pod(&name));
        cluster.request(&name);
    }
    let mut own = Vec::new();
    let mut count = 0;
    for _ in 0..ROUNDS {
        let calls = Arc::new(Mutex::new(ApiCalls::default()));
        let begun = Instant::now();
        explain(&cluster, &calls).await;
        let whole = begun.elapsed();
        let ApiCalls { count: made, time } = *calls.lock().unwrap();
        own.push(whole.saturating_sub(time));
        count = made;
    }
    (median(own), count)
}

async fn explain(cluster: &Cluster, calls: &Arc<Mutex<ApiCalls>>) {
    let client = cluster.server.client(&Caller::admin());
    let calls = Arc::clone(calls);
    let timed = tower::service_fn(move |request: http::Request<Body>| {
        let (client, calls) = (client.clone(), Arc::clone(&calls));
        async move {
            let begun = Instant::now();
            let answer = client.send(request).await;
            let mut calls = calls.lock().unwrap();
            calls.count += 1;
            calls.time += begun.elapsed();
            answer
        }
    });
    let args = [
        "kubectl-connectors",
        "explain",
        "pod/build-1",
        "-n",
        "team-a",
    ];
    let Args { common, command } = Args::try_parse_from(args).unwrap();
    let connection = Connection {
        client: Client::new(timed, "default"),
        namespace: "team-a".to_owned(),
        user: None,
    };
    let place = RunPlace {
        modules: Modules::of(cluster.program.clone()),
        colours: Colours::Off,
        now: start,
        print: Box::new(|_| true),
        ask: Box::new(|_| Consent::NoTerminal),
    };
    let outcome = Box::pin(run::ask(&command, &common, connection, &place)).await;
    assert!(outcome.output.contains("waits"), "{outcome:?}");
}
