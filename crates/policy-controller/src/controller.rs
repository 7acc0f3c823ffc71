//! The controller itself, without the parts of a process: no arguments, no ports, no signals.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

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
    readiness::Readiness,
    retry::{Backoff, RetryPolicy},
    shutdown::{Stop, Tasks},
    watches::WatchMetrics,
};

use tokio::time::Instant;

use crate::{
    apply::Applier,
    cache::{Job, World},
    checks::{
        facts::{CheckFacts, Validator},
        inspector::Inspector,
        rights::{self, RightsChanges},
    },
    classes::ClassTeller,
    events::Events,
    lead::Leading,
    metrics::{Metrics, PolicyGauges},
    observe::Observer,
    plan::tell,
    reconcile::Reconciler,
    seen::{MostSelected, OwnerPolicy},
    watches::{self, PolicyFeeds},
};

/// The leader's lease, and this controller in metrics.
const LEASE: &str = "policy-controller";
/// How many policies are looked at at a time. Nearly all of their time they wait for the API server: up to 100 ms for a
/// list, for a Role and for a RoleBinding. Each has one write on its way at most.
const WORKERS: usize = 64;
/// Of these, the workers that are left to urgent jobs.
const URGENT_WORKERS: usize = WORKERS / 4;
/// The limit of workers that one namespace keeps busy.
const SHARES: Shares = Shares::Together(WORKERS / 2);
/// A policy that failed, or that another process undoes each time, is looked at twice a second at most. A failed look
/// may have left something to take back.
const PAUSES: Pauses = Pauses {
    again: [Duration::from_millis(500); 2],
    urgent_retry: Duration::from_mins(2),
    retry_as: Some(Urgency::Urgent),
    changes: 0,
};
/// A look that waits longer for the API server gives its place to another one.
pub(crate) const CALLS: RetryPolicy = RetryPolicy {
    attempts: 3,
    attempt: Duration::from_secs(3),
    total: Duration::from_secs(6),
    pauses: Backoff::new(Duration::from_millis(50), Duration::from_millis(500)),
};

/// The parts that a controller is given.
pub struct Settings {
    /// The Kubernetes API.
    pub client: Client,
    /// The validator of Rego.
    pub validator: Arc<dyn Validator>,
    /// Tells the time.
    pub clock: Clock,
    /// The namespace of the installation.
    pub namespace: String,
    /// The identity of this process among the replicas.
    pub identity: String,
    /// How long leadership lasts.
    pub lease: LeaseTerms,
    /// How often everything managed is compared with the policies.
    pub sweep_every: Duration,
    /// How many subjects the selectors of one policy may find.
    pub most_selected: MostSelected,
}

/// Starts everything: the watches, the election, and the workers of the leader.
pub fn start(
    settings: Settings,
    registry: &Registry,
    tasks: &mut Tasks,
    readiness: &Readiness,
) -> Result<(), prometheus::Error> {
    let Settings {
        client,
        validator,
        clock,
        namespace,
        identity,
        lease,
        sweep_every,
        most_selected,
    } = settings;
    let metrics = Metrics::register(registry)?;
    let watch_metrics = WatchMetrics::register(registry)?;
    let election = Election::new(client.clone(), &namespace, LEASE, &identity, lease);
    let leadership = election.leadership();
    let leads: Leads = Arc::new(move || leadership.borrow().is_leader());
    let of_leader = while_leading(registry, &leads)?;
    let gauges = Gauges {
        policies: PolicyGauges::register(&of_leader)?,
        leader: LeaderMetrics::register(&of_leader)?,
    };
    let (events, sender) = Events::new(client.clone(), &identity);
    tasks.spawn_infallible("events", sender.run(tasks.stop()));
    let observer = Observer::new(client.clone(), CALLS, most_selected);
    let reconciler = Arc::new(Reconciler {
        world: Arc::new(World::of(most_selected)),
        queue: Arc::new(queue()),
        applier: Applier::new(
            client.clone(),
            CALLS,
            observer.clone(),
            Arc::clone(&leads),
            metrics.clone(),
        ),
        observer,
        unseen: Mutex::default(),
        inspections: Arc::default(),
        events,
        metrics,
        clock,
        leads,
    });
    let stop = tasks.stop();
    let checks = Checking {
        client: client.clone(),
        validator,
        namespace: namespace.clone(),
        metrics: watch_metrics.clone(),
    };
    checks.start(tasks, &reconciler);
    let classes = ClassTeller {
        client: client.clone(),
        events: reconciler.events.clone(),
        leads: Arc::clone(&reconciler.leads),
        metrics: watch_metrics.clone(),
    };
    tasks.spawn_infallible("classes", classes.run(tasks.stop()));
    let (caches, all_taken) = Readiness::starting();
    let feeds = PolicyFeeds {
        client,
        namespace: namespace.into(),
        world: Arc::clone(&reconciler.world),
        queue: Arc::clone(&reconciler.queue),
        deleted: deleted(reconciler.events.clone(), Arc::clone(&reconciler.leads)),
        metrics: watch_metrics,
    };
    tasks.spawn_infallible("watches", feeds.start(&[readiness, &caches], &stop));
    all_taken.ready();
    let leading = leader::follow(
        Leading {
            reconciler: Arc::clone(&reconciler),
            caches: caches.clone(),
            every: sweep_every,
        },
        election.leadership(),
        readiness.part("first sweep"),
        tasks.stop(),
    );
    tasks.spawn_infallible("leading", leading);
    let follow = gauges.follow(Arc::clone(&reconciler), stop);
    tasks.spawn_infallible("gauges", follow);
    work(tasks, &reconciler, election.preparing(caches));
    Ok(())
}

/// A queue whose workers are shared among the namespaces of the policies.
pub(crate) fn queue() -> Queue<Job> {
    Queue::shared(SHARES, PAUSES, |job: &Job| Tenants::one(&job.namespace))
}

/// The parts for the inspection of policies' checks.
struct Checking {
    client: Client,
    validator: Arc<dyn Validator>,
    namespace: String,
    metrics: WatchMetrics,
}

impl Checking {
    /// Starts beside all other tasks: no task waits for it.
    fn start(self, tasks: &mut Tasks, reconciler: &Arc<Reconciler>) {
        let Self {
            client,
            validator,
            namespace,
            metrics,
        } = self;
        let rights = RightsChanges::since(Instant::now());
        let follow = rights::follow(client.clone(), metrics, rights.clone(), tasks.stop());
        tasks.spawn_infallible("rights", follow);
        let inspector = Inspector {
            world: Arc::clone(&reconciler.world),
            queue: Arc::clone(&reconciler.queue),
            inspections: Arc::clone(&reconciler.inspections),
            facts: CheckFacts::new(client, CALLS, validator, namespace, rights.clone()),
            leads: Arc::clone(&reconciler.leads),
            rights,
        };
        tasks.spawn_infallible("checks", inspector.run(tasks.stop()));
    }
}

/// Starts the workers, and the election that lasts as long as they do.
fn work(tasks: &mut Tasks, reconciler: &Arc<Reconciler>, election: Election) {
    let workers = workers().map(|urgencies| {
        let (reconciler, stop) = (Arc::clone(reconciler), tasks.stop());
        tokio::spawn(async move { worker::work(&*reconciler, urgencies, stop).await })
    });
    let workers = workers.collect();
    election.spawn_with(tasks, workers);
}

/// The urgencies that each worker takes.
fn workers() -> impl Iterator<Item = &'static [Urgency]> {
    let urgent = std::iter::repeat_n(&Urgency::ALL[..1], URGENT_WORKERS);
    urgent.chain(std::iter::repeat_n(
        &Urgency::ALL[..],
        WORKERS - URGENT_WORKERS,
    ))
}

/// Only the leader writes the event about a deleted policy.
fn deleted(events: Events, leads: Leads) -> watches::Deleted {
    Arc::new(move |name, gone| {
        let status = gone.policy().and_then(|it| it.status.as_ref());
        let told = status.and_then(tell::of_deletion).filter(|_| leads());
        if let Some(told) = told {
            let (events, uid) = (events.clone(), gone.uid);
            tokio::spawn(async move { events.tell(&OwnerPolicy { name, uid }, vec![told]).await });
        }
    })
}

/// The metrics of the cluster, which the leader shows.
struct Gauges {
    policies: PolicyGauges,
    leader: LeaderMetrics,
}

impl Gauges {
    /// Sets the gauges of the caches and the queue.
    async fn follow(self, reconciler: Arc<Reconciler>, stop: Stop) {
        let measurement = || {
            let Reconciler { world, queue, .. } = &*reconciler;
            let policies = world.read().policies().try_into().unwrap_or(i64::MAX);
            self.policies.policies.set(policies);
            self.leader.measure(LEASE, queue);
        };
        measure(Duration::from_secs(5), stop, measurement).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workers_are_shared_as_the_documents_say() {
        let of = |urgency| workers().filter(|it| it.contains(&urgency)).count();
        assert_eq!(of(Urgency::Urgent), WORKERS);
        assert_eq!(of(Urgency::Normal), WORKERS * 3 / 4);
        assert_eq!(SHARES, Shares::Together(WORKERS / 2));
    }
}
