//! The controller itself, without the parts of the process: arguments, ports and signals.

#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::SignedDuration;
use kube::Client;
use prometheus::Registry;
use service_kit::{
    clock::Clock,
    controller::{
        Leads, leader,
        leader_metrics::{LeaderMetrics, while_leading},
        measure,
        queue::{Pauses, Queue, Shares, Tenants, Urgency},
        worker,
    },
    lease::{Election, LeaseTerms},
    readiness::{Readiness, ReadinessPart},
    retry::{Backoff, RetryPolicy},
    shutdown::{Stop, Tasks},
    watches::WatchMetrics,
};
use tokio::runtime::Handle;

use crate::{
    api::Live,
    apply::{Applier, Writes},
    cache::{Job, Wakes, World},
    dynamic,
    evaluator::Evaluator,
    events::Events,
    lead::Leading,
    metrics::{Metrics, RequestGauges},
    observe::Observer,
    plan::{self, Terms},
    reconcile::Reconciler,
    standing::StandingReviews,
    watches::{self, Caches, RequestFeeds},
};

/// The name of the leader's lease, and of this controller in metrics.
const LEASE: &str = "request-controller";
/// The number of concurrent reconciliations. Nearly all of their time they wait for the API server, up to 100 ms for each
/// list and each RoleBinding.
const WORKERS: usize = 64;
/// The backoff of a failed job, or of one whose writes another process undoes each time. Urgent jobs have shorter
/// pauses.
const PAUSES: Pauses = Pauses {
    again: [Duration::from_millis(500), Duration::from_secs(5)],
    urgent_retry: Duration::from_secs(10),
    retry_as: None,
    changes: 16,
};
/// The delay before a granted request is reconciled because another policy may grant as well.
const MORE: Duration = Duration::from_secs(2);
/// The number of additional workers for urgent jobs.
const URGENT_WORKERS: usize = 12;
/// A reconciliation that waits longer for the API server fails, so that its worker is free for another one. After 3 s the
/// API server reads a list from etcd instead of waiting for its cache.
const CALLS: RetryPolicy = RetryPolicy {
    attempts: 3,
    attempt: Duration::from_secs(4),
    total: Duration::from_secs(6),
    pauses: Backoff::new(Duration::from_millis(50), Duration::from_millis(500)),
};

/// The settings of a controller.
pub struct Settings {
    /// The client of the Kubernetes API.
    pub client: Client,
    /// Evaluates the checks of policies.
    pub evaluator: Arc<dyn Evaluator>,
    /// The clock.
    pub clock: Clock,
    /// The namespace of the installation.
    pub namespace: String,
    /// The identity of this replica in the election.
    pub identity: String,
    /// The durations of the lease.
    pub lease: LeaseTerms,
    /// How often everything managed is compared with the requests.
    pub sweep_every: Duration,
    /// How long a decided request is kept after its pod is gone.
    pub retention: SignedDuration,
    /// How many requests of the pods of one namespace may wait at a time in one connector's namespace.
    pub most_waiting: usize,
    /// The runtimes of the workers, indexed by lane.
    pub lanes: [Handle; 2],
}

/// Starts everything: the watches, the election, and the workers, which work while this replica is the leader.
pub fn start(
    settings: Settings,
    registry: &Registry,
    tasks: &mut Tasks,
    readiness: &Readiness,
) -> Result<(), prometheus::Error> {
    let Settings {
        client,
        evaluator,
        clock,
        namespace,
        identity,
        lease,
        sweep_every,
        retention,
        most_waiting,
        lanes,
    } = settings;
    let metrics = Metrics::register(registry)?;
    let watch_metrics = WatchMetrics::register(registry)?;
    let election = Election::new(client.clone(), &namespace, LEASE, &identity, lease);
    let leadership = election.leadership();
    let leads: Leads = Arc::new(move || leadership.borrow().is_leader());
    let of_leader = while_leading(registry, &leads)?;
    let leader_metrics = LeaderMetrics::register(&of_leader)?;
    let world = Arc::new(World::default());
    let live = Live::new(client.clone(), CALLS);
    let (events, sender) = Events::new(client.clone(), &identity);
    tasks.spawn_infallible("events", sender.run(tasks.stop()));
    let writes = Writes::new(client.clone(), CALLS, Arc::clone(&leads), metrics.clone());
    let reconciler = Arc::new(Reconciler {
        observer: Observer::new(
            Arc::clone(&world),
            live.clone(),
            Arc::clone(&evaluator),
            Arc::clone(&clock),
            most_waiting,
        ),
        applier: Applier::new(live.clone(), writes, Arc::clone(&clock), metrics.clone()),
        world: Arc::clone(&world),
        queue: Arc::new(queue(Arc::clone(&world))),
        live,
        events,
        metrics,
        gauges: RequestGauges::register(&of_leader)?,
        clock,
        leads,
        terms: Terms { retention },
        paces: Mutex::default(),
    });
    let asker = StandingReviews {
        world: Arc::clone(&reconciler.world),
        evaluator,
        leads: Arc::clone(&reconciler.leads),
        sink: sink(&reconciler),
        most_waiting,
    };
    tasks.spawn_infallible("standing", asker.run(tasks.stop()));
    let caches = watch(
        tasks,
        &reconciler,
        readiness,
        client,
        watch_metrics,
        namespace,
    );
    let gauges = gauges(Arc::clone(&reconciler), leader_metrics, tasks.stop());
    tasks.spawn_infallible("gauges", gauges);
    let leading = leader::follow(
        Leading {
            reconciler: Arc::clone(&reconciler),
            caches,
            every: sweep_every,
        },
        election.leadership(),
        readiness.part("first sweep"),
        tasks.stop(),
    );
    tasks.spawn_infallible("leading", leading);
    work(tasks, &reconciler, election, &lanes);
    Ok(())
}

/// The queue, with shares for the namespaces that cause jobs: none has more than half of a lane's workers.
pub(crate) fn queue(world: Arc<World>) -> Queue<Job> {
    let most = Shares::Each([URGENT_WORKERS / 2, WORKERS / 2]);
    Queue::shared(most, PAUSES, move |job| {
        let (Job::Request(name) | Job::Grant(name) | Job::Gate(name)) = job;
        let asker = match job {
            Job::Request(name) => world.read().requests.pod_namespace(name),
            Job::Grant(_) | Job::Gate(_) => None,
        };
        Tenants {
            owner: name.namespace.clone(),
            asker: asker.unwrap_or_else(|| name.namespace.clone()),
        }
    })
}

/// Starts everything that fills the caches.
fn watch(
    tasks: &mut Tasks,
    reconciler: &Arc<Reconciler>,
    readiness: &Readiness,
    client: Client,
    metrics: WatchMetrics,
    namespace: String,
) -> Caches {
    let stop = tasks.stop();
    let (caches, all_taken) = Caches::starting();
    let sink = sink(reconciler);
    let world = &reconciler.world;
    let feeds = RequestFeeds {
        client: client.clone(),
        world: Arc::clone(world),
        sink: Arc::clone(&sink),
        deleted: deleted(Arc::clone(reconciler)),
        metrics: metrics.clone(),
        namespace,
        told: reconciler.metrics.clone(),
    };
    let watches = feeds.start(readiness, &caches, stop.clone());
    tasks.spawn_infallible("watches", watches);
    all_taken.into_iter().for_each(ReadinessPart::ready);
    let kinds = dynamic::follow(
        client,
        Arc::clone(world),
        (sink, later(reconciler)),
        metrics,
        stop.clone(),
    );
    tasks.spawn_infallible("check-kinds", kinds);
    caches
}

/// Puts jobs into the queue.
fn sink(reconciler: &Reconciler) -> dynamic::Sink {
    let queue = Arc::clone(&reconciler.queue);
    Arc::new(move |wakes: Wakes| {
        for (job, lane) in wakes {
            queue.wake(job, lane);
        }
    })
}

/// Puts jobs into the queue after a delay, unless they are woken earlier.
fn later(reconciler: &Reconciler) -> dynamic::Later {
    let queue = Arc::clone(&reconciler.queue);
    Arc::new(move |jobs| {
        for job in jobs {
            queue.wake_after(job, Urgency::Normal, MORE);
        }
    })
}

/// Starts the workers and the election. The leadership is kept until the workers have ended.
fn work(
    tasks: &mut Tasks,
    reconciler: &Arc<Reconciler>,
    election: Election,
    threads: &[Handle; 2],
) {
    let [urgent, normal] = threads;
    let workers = workers().map(|urgency| {
        let (reconciler, stop) = (Arc::clone(reconciler), tasks.stop());
        let threads = match urgency {
            Urgency::Urgent => urgent,
            Urgency::Normal => normal,
        };
        threads.spawn(async move { worker::work(&*reconciler, &[urgency], stop).await })
    });
    let workers = workers.collect();
    election.spawn_with(tasks, workers);
}

fn workers() -> impl Iterator<Item = Urgency> {
    let urgent = std::iter::repeat_n(Urgency::Urgent, URGENT_WORKERS);
    urgent.chain(std::iter::repeat_n(Urgency::Normal, WORKERS))
}

/// Only the leader publishes the event about the deletion of a decided request.
fn deleted(reconciler: Arc<Reconciler>) -> watches::Deleted {
    Arc::new(move |request| {
        reconciler.gone(&request);
        let told = plan::tell::of_deletion(&request);
        if (reconciler.leads)() && !told.is_empty() {
            let events = reconciler.events.clone();
            tokio::spawn(async move { events.tell(&request, told).await });
        }
    })
}

/// Updates the gauges from the caches and the queue.
async fn gauges(reconciler: Arc<Reconciler>, leader: LeaderMetrics, stop: Stop) {
    let measurement = || {
        let Reconciler {
            world,
            queue,
            gauges,
            clock,
            ..
        } = &*reconciler;
        let (counts, gated) = {
            let state = world.read();
            (state.requests.counts(), state.gated.count())
        };
        gauges.count(counts, gated, clock().wall);
        leader.measure(LEASE, queue);
    };
    measure(Duration::from_secs(5), stop, measurement).await;
}
