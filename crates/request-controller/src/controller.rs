//! The controller itself, without the parts of the process: arguments, ports and signals.

#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::FutureExt;
use jiff::SignedDuration;
use kube::Client;
use prometheus::Registry;
use service_kit::{
    clock::Clock,
    controller::{
        Leads, leader,
        leader_metrics::{LeaderMetrics, while_leading_each},
        measure,
        queue::{Looked, Pauses, Queue, Shares, Taken, Tenants, Urgency},
        worker::{self, Controller},
    },
    fair::FairLimiter,
    lease::{Election, LeaseTerms, NextShard, ShardPlace, Spread},
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
    shards::{self, JobQueues, LEASE, LeadsNamespace, ShardCount},
    standing::StandingReviews,
    sweep::reads::SweepReads,
    watches::{self, Caches, RequestFeeds},
};

/// The number of concurrent reconciliations of a process. Nearly all of their time they wait for the API server, up to 100 ms for each
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
    /// The number of shards.
    pub shards: ShardCount,
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
        shards,
        lanes,
    } = settings;
    let metrics = Metrics::register(registry)?;
    metrics
        .shards
        .set(shards.get().try_into().unwrap_or(i64::MAX));
    let watch_metrics = WatchMetrics::register(registry)?;
    let world = Arc::new(World::default());
    let queues = Arc::new(JobQueues::new(shards, || queue(Arc::clone(&world))));
    let (caches, all_taken) = Caches::starting();
    let candidate = (&client, namespace.as_str(), identity.as_str());
    let elections = elections(candidate, (lease, &caches.complete), &queues, tasks);
    let leaderships: Vec<_> = elections.iter().map(Election::leadership).collect();
    let leads_shard = leaderships
        .iter()
        .cloned()
        .map(|it| -> Leads { Arc::new(move || it.borrow().is_leader()) });
    let leads_shard: Vec<_> = leads_shard.collect();
    let of_leaders = while_leading_each(registry, &leads_shard)?;
    let leads: LeadsNamespace = Arc::new(move |namespace| (leads_shard[shards.of(namespace)])());
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
        queues,
        live,
        events,
        metrics,
        gauges: of_leaders
            .iter()
            .map(RequestGauges::register)
            .collect::<Result<_, _>>()?,
        clock,
        leads,
        sweeps: SweepReads::default(),
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
    watch(
        tasks,
        &reconciler,
        (readiness, &caches),
        client,
        watch_metrics,
        namespace,
    );
    all_taken.into_iter().for_each(ReadinessPart::ready);
    let leader_metrics = of_leaders.iter().map(LeaderMetrics::register);
    let leader_metrics = leader_metrics.collect::<Result<_, _>>()?;
    let gauges = gauges(Arc::clone(&reconciler), leader_metrics, tasks.stop());
    tasks.spawn_infallible("gauges", gauges);
    for (shard, leadership) in leaderships.into_iter().enumerate() {
        let leading = leader::follow(
            Leading {
                reconciler: Arc::clone(&reconciler),
                shard,
                caches: caches.clone(),
                every: sweep_every,
            },
            leadership,
            readiness.part("first sweep"),
            tasks.stop(),
        );
        tasks.spawn_infallible("leading", leading);
    }
    work(tasks, &reconciler, elections, &lanes);
    Ok(())
}

/// One election for each shard. With more than one, the processes share the shards.
fn elections(
    (client, namespace, identity): (&Client, &str, &str),
    (terms, caches): (LeaseTerms, &Readiness),
    queues: &Arc<JobQueues>,
    tasks: &mut Tasks,
) -> Vec<Election> {
    let shards = queues.shards();
    let spread = (shards != ShardCount::ONE).then(|| {
        let spread = Spread::new(identity, shards.get(), terms);
        let (client, next) = (client.clone(), shards::next_lease());
        let next = NextShard::new(client, namespace, &next, Arc::clone(&spread), terms);
        let next = next.preparing(caches.clone());
        tasks.spawn_infallible("next-shard", next.run(tasks.stop()));
        spread
    });
    let election = |shard| {
        let lease = shards::lease(shard);
        let election = Election::new(client.clone(), namespace, &lease, identity, terms);
        let election = election.preparing(caches.clone());
        let Some(spread) = &spread else {
            return election;
        };
        let queues = Arc::clone(queues);
        election.shared(ShardPlace {
            spread: Arc::clone(spread),
            shard,
            work: Arc::new(move || {
                let queues = Arc::clone(&queues);
                async move { queues.of(shard).ended().await }.boxed()
            }),
        })
    };
    shards.all().map(election).collect()
}

/// The queue of a shard, with shares for the namespaces that cause jobs: none has more than half of a lane's workers.
pub(crate) fn queue(world: Arc<World>) -> Queue<Job> {
    let most = Shares::Each([URGENT_WORKERS / 2, WORKERS / 2]);
    Queue::shared(most, PAUSES, move |job| tenants(&world, job))
}

fn tenants(world: &World, job: &Job) -> Tenants {
    let owner = job.namespace().to_owned();
    let asker = match job {
        Job::Request(name) => world.read().requests.pod_namespace(name),
        Job::Grant(_) | Job::Gate(_) => None,
    };
    Tenants {
        asker: asker.unwrap_or_else(|| owner.clone()),
        owner,
    }
}

/// Starts everything that fills the caches.
fn watch(
    tasks: &mut Tasks,
    reconciler: &Arc<Reconciler>,
    (readiness, caches): (&Readiness, &Caches),
    client: Client,
    metrics: WatchMetrics,
    namespace: String,
) {
    let stop = tasks.stop();
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
    let watches = feeds.start(readiness, caches, stop.clone());
    tasks.spawn_infallible("watches", watches);
    let kinds = dynamic::follow(
        client,
        Arc::clone(world),
        (sink, later(reconciler)),
        metrics,
        stop.clone(),
    );
    tasks.spawn_infallible("check-kinds", kinds);
}

/// Puts jobs into the queues of their shards.
fn sink(reconciler: &Reconciler) -> dynamic::Sink {
    let queues = Arc::clone(&reconciler.queues);
    Arc::new(move |wakes: Wakes| {
        for (job, lane) in wakes {
            queues.wake(job, lane);
        }
    })
}

/// Puts jobs into the queues of their shards after a delay, unless they are woken earlier.
fn later(reconciler: &Reconciler) -> dynamic::Later {
    let queues = Arc::clone(&reconciler.queues);
    Arc::new(move |jobs| {
        for job in jobs {
            queues.wake_after(job, Urgency::Normal, MORE);
        }
    })
}

/// The workers of one lane of a shard.
struct ShardWorkers {
    reconciler: Arc<Reconciler>,
    shard: usize,
    /// Shared by all shards of this process: no more jobs run than with one shard, and no namespace has more of them.
    places: FairLimiter<String>,
}

impl Controller for ShardWorkers {
    type Job = Job;

    fn queue(&self) -> &Queue<Job> {
        self.reconciler.queues.of(self.shard)
    }

    async fn look(&self, taken: &Taken<Job>) -> Looked {
        let Tenants { asker, .. } = tenants(&self.reconciler.world, &taken.job);
        let _place = self.places.take(asker).await;
        self.reconciler.look(taken).await
    }
}

/// Starts the workers and the elections. The leadership of a shard is kept until its workers have ended.
fn work(
    tasks: &mut Tasks,
    reconciler: &Arc<Reconciler>,
    elections: Vec<Election>,
    [urgent, normal]: &[Handle; 2],
) {
    let lanes = [
        (Urgency::Urgent, URGENT_WORKERS, urgent),
        (Urgency::Normal, WORKERS, normal),
    ];
    let lanes = lanes.map(|(urgency, workers, threads)| {
        let places = FairLimiter::new(workers, workers / 2);
        (urgency, workers, threads, places)
    });
    for (shard, election) in elections.into_iter().enumerate() {
        let mut all = Vec::new();
        for (urgency, workers, threads, places) in &lanes {
            let lane = Arc::new(ShardWorkers {
                reconciler: Arc::clone(reconciler),
                shard,
                places: places.clone(),
            });
            all.extend((0..*workers).map(|_| {
                let (lane, urgency, stop) = (Arc::clone(&lane), *urgency, tasks.stop());
                threads.spawn(async move { worker::work(&*lane, &[urgency], stop).await })
            }));
        }
        election.spawn_with(tasks, all);
    }
}

/// Only the leader publishes the event about the deletion of a decided request.
fn deleted(reconciler: Arc<Reconciler>) -> watches::Deleted {
    Arc::new(move |request| {
        reconciler.gone(&request);
        let told = plan::tell::of_deletion(&request);
        let namespace = request.metadata.namespace.as_deref().unwrap_or_default();
        if (reconciler.leads)(namespace) && !told.is_empty() {
            let events = reconciler.events.clone();
            tokio::spawn(async move { events.tell(&request, told).await });
        }
    })
}

/// Updates the gauges of each shard from the caches and its queue.
async fn gauges(reconciler: Arc<Reconciler>, leaders: Vec<LeaderMetrics>, stop: Stop) {
    let measurement = || {
        let Reconciler {
            world,
            queues,
            gauges,
            clock,
            ..
        } = &*reconciler;
        let shards = queues.shards();
        for (shard, (gauges, leader)) in gauges.iter().zip(&leaders).enumerate() {
            let is_ours = |namespace: &str| shards.of(namespace) == shard;
            let (counts, gated) = {
                let state = world.read();
                (state.requests.counts(is_ours), state.gated.count(is_ours))
            };
            gauges.count(counts, gated, clock().wall);
            leader.measure(LEASE, queues.of(shard));
        }
    };
    measure(Duration::from_secs(5), stop, measurement).await;
}
