//! Follows access requests and their approvals, grants access to one pod and revokes it.
//!
//! Owns: the life of an `AccessRequest` from its creation to its deletion, and the Roles and RoleBindings
//! that are written for requests. What was read goes into a pure function ([`plan`]), and what comes out
//! of it is written ([`apply`]), in an order in which a crash leaves less access, never more.
//!
//! Refuses to know: what an approval looks like. It collects the objects that a policy selects and asks
//! the evaluation service what they say.
//!
//! Invariant: nothing is granted but on live reads that are at most five seconds old, for exactly that
//! subject, connector and pod; every managed object stays only while its request, read live, describes
//! it; what was ended never comes back.

#![allow(
    clippy::doc_markdown,
    reason = "the kinds of Kubernetes are plain words here"
)]

pub mod api;
pub mod apply;
pub mod args;
pub mod caches;
pub mod check_kinds;
pub mod dynamic;
pub mod error;
pub mod evaluator;
pub mod events;
pub mod lead;
pub mod metrics;
pub mod observe;
pub mod plan;
pub mod queue;
pub mod reconcile;
pub mod seen;
pub mod sweep;
#[cfg(test)]
mod testing;
pub mod watches;

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use evaluation_api::client::{Client as EvaluationClient, Settings};
use futures::future::join_all;
use kube::Client;
use prometheus::Registry;
use service_kit::{
    admin::Admin,
    args::CommonArgs,
    client, clock,
    lease::{Election, Terms as LeaseTerms},
    readiness::Readiness,
    retry::{Backoff, Policy},
    shutdown::{Outcome, Tasks, signals},
    telemetry,
    tls::{ClientTls, TlsMetrics},
    watches::WatchMetrics,
};
use tokio::{sync::oneshot, time::Instant};

use api::Live;
use apply::{Applier, Clock, Leads, Writes};
use caches::{Wakes, World};
use events::Events;
use metrics::Metrics;
use observe::Observer;
use plan::Terms;
use queue::Lane;
use reconcile::Reconciler;
use seen::Now;
use watches::Feeds;

pub use args::Args;
pub use error::StartError;

/// The leader's lease.
const LEASE: &str = "request-controller";
/// Shorter than the kubelet waits.
const DRAIN: Duration = Duration::from_secs(20);
/// How many requests are looked at at a time.
const WORKERS: usize = 24;
/// How many that hold something, besides.
const URGENT_WORKERS: usize = 12;
/// A look that waits longer for the API server gives its place to another one.
const CALLS: Policy = Policy {
    attempts: 3,
    attempt: Duration::from_secs(3),
    total: Duration::from_secs(6),
    pauses: Backoff::new(Duration::from_millis(50), Duration::from_millis(500)),
};

/// Runs until the process is to end.
pub async fn run(args: Args) -> Result<Outcome, StartError> {
    let every = args.sweep_every();
    let Args {
        common:
            CommonArgs {
                log_filter,
                log_format,
                admin_address,
                kubeconfig,
            },
        namespace,
        identity,
        evaluation_url,
        evaluation_ca,
        evaluation_token,
        sweep_interval: _,
        retention,
        max_requests_per_namespace,
    } = args;
    telemetry::init(&log_filter, log_format)?;
    let registry = Registry::new();
    let metrics = Metrics::register(&registry)?;
    let watch_metrics = WatchMetrics::register(&registry)?;
    let tls = ClientTls::load(evaluation_ca, &["h2"], &TlsMetrics::register(&registry)?)?;
    let (readiness, start) = Readiness::starting();
    Admin::bind(admin_address)
        .await?
        .start(readiness.clone(), registry);
    let signals = signals()?;
    let client = client::connect(kubeconfig.as_deref()).await?;
    let evaluator = EvaluationClient::new(Settings {
        url: evaluation_url,
        tls: tls.config(),
        token_file: evaluation_token,
    })?;

    let terms = LeaseTerms::default();
    let election = Election::new(client.clone(), &namespace, LEASE, &identity, terms);
    let leadership = election.leadership();
    let leads: Leads = Arc::new(move || leadership.borrow().is_leader());
    let events = Events::new(client.clone(), &identity);
    let world = Arc::new(World::default());
    let live = Live::new(client.clone(), CALLS);
    let clock: Clock = Arc::new(now);
    let writes = Writes::new(client.clone(), CALLS, Arc::clone(&leads), metrics.clone());
    let most = usize::try_from(max_requests_per_namespace).unwrap_or(usize::MAX);
    let reconciler = Arc::new(Reconciler {
        observer: Observer::new(
            Arc::clone(&world),
            live.clone(),
            Arc::new(evaluator),
            Arc::clone(&clock),
            most,
        ),
        applier: Applier::new(live.clone(), writes, Arc::clone(&clock), metrics.clone()),
        world,
        queue: Arc::default(),
        live,
        events,
        metrics,
        clock,
        leads,
        terms: Terms {
            retention: retention.get(),
        },
    });
    let mut tasks = Tasks::new();
    tasks.spawn_infallible("evaluation-ca", tls.follow(tasks.stop()));
    let caches = watch(
        &mut tasks,
        &reconciler,
        &readiness,
        client,
        watch_metrics,
        namespace,
    );
    let leading = lead::lead(
        Arc::clone(&reconciler),
        election.leadership(),
        async move { caches.ready().await },
        readiness.part("first sweep"),
        every,
        tasks.stop(),
    );
    tasks.spawn_infallible("leading", leading);
    work(&mut tasks, &reconciler, election);
    start.ready();
    Ok(tasks.run(signals, &readiness, DRAIN).await)
}

/// Starts everything that fills the caches. They are complete when what is returned is ready.
fn watch(
    tasks: &mut Tasks,
    reconciler: &Arc<Reconciler>,
    readiness: &Readiness,
    client: Client,
    metrics: WatchMetrics,
    namespace: String,
) -> Readiness {
    let stop = tasks.stop();
    let (caches, all_taken) = Readiness::starting();
    let both = [readiness, &caches];
    let configured = both.map(|it| it.part("connectors-config"));
    let sink: dynamic::Sink = {
        let queue = Arc::clone(&reconciler.queue);
        Arc::new(move |wakes: Wakes| {
            for (job, lane) in wakes {
                queue.wake(job, lane);
            }
        })
    };
    let world = &reconciler.world;
    let feeds = Feeds {
        client: client.clone(),
        world: Arc::clone(world),
        sink: Arc::clone(&sink),
        deleted: deleted(reconciler.events.clone(), Arc::clone(&reconciler.leads)),
        metrics: metrics.clone(),
        namespace,
        told: reconciler.metrics.clone(),
        configured: Arc::new(Mutex::new(configured.into())),
    };
    tasks.spawn_infallible("watches", feeds.start(both, &stop));
    all_taken.ready();
    let kinds = dynamic::follow(client, Arc::clone(world), sink, metrics, stop.clone());
    tasks.spawn_infallible("check-kinds", kinds);
    let gauges = gauges(Arc::clone(world), reconciler.metrics.clone(), stop);
    tasks.spawn_infallible("gauges", gauges);
    caches
}

/// Starts the workers, and the election that lasts as long as they do.
fn work(tasks: &mut Tasks, reconciler: &Arc<Reconciler>, election: Election) {
    let stop = tasks.stop();
    let timers = {
        let (queue, stop) = (Arc::clone(&reconciler.queue), stop.clone());
        async move {
            tokio::select! {
                () = stop.stopped() => {}
                () = queue.run_timers() => {}
            }
        }
    };
    tasks.spawn_infallible("timers", timers);
    let (working, ended) = oneshot::channel::<Infallible>();
    let workers = lanes().map(|lane| {
        let (reconciler, stop) = (Arc::clone(reconciler), stop.clone());
        tokio::spawn(async move { reconciler.work(lane, stop).await })
    });
    let workers = join_all(workers);
    tasks.spawn("workers", async move {
        let ended = workers.await;
        drop(working);
        ended.into_iter().collect::<Result<(), _>>()
    });
    // The lease is given back when the last write was made.
    let released = async move {
        let _ = ended.await;
    };
    tasks.spawn_infallible("lease", election.run(released));
}

fn lanes() -> impl Iterator<Item = Lane> {
    let urgent = std::iter::repeat_n(Lane::Urgent, URGENT_WORKERS);
    urgent.chain(std::iter::repeat_n(Lane::Normal, WORKERS))
}

/// This moment; the wall clock in whole seconds, as statuses have it.
fn now() -> Now {
    Now {
        wall: plan::whole_seconds(clock::now()),
        mono: Instant::now(),
    }
}

/// That a decision was deleted is told by the leader alone.
fn deleted(events: Events, leads: Leads) -> watches::Deleted {
    Arc::new(move |request| {
        let told = plan::tell::of_deletion(&request);
        if leads() && !told.is_empty() {
            let events = events.clone();
            tokio::spawn(async move { events.tell(&request, told).await });
        }
    })
}

/// Counts what the caches show.
async fn gauges(world: Arc<World>, metrics: Metrics, stop: service_kit::shutdown::Stop) {
    const PERIOD: Duration = Duration::from_secs(5);
    let number = |count: usize| count.try_into().unwrap_or(i64::MAX);
    loop {
        let counts = world.read().requests.counts();
        metrics.pending.set(number(counts.pending));
        metrics.granted.set(number(counts.granted));
        tokio::select! {
            biased;
            () = stop.stopped() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
    }
}
