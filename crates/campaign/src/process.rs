//! The production controller, in this process, with any number of instances.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::stream;
use jiff::SignedDuration;
use prometheus::Registry;
use request_controller::{
    controller::{self, Settings},
    shards::ShardCount,
};
use service_kit::{
    client::bounded,
    clock::{Clock, Now, whole_seconds},
    lease::LeaseTerms,
    readiness::Readiness,
    shutdown::{Signal, Tasks},
};
use testkit::Caller;
use tokio::{
    runtime::Handle,
    sync::mpsc::UnboundedReceiver,
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::{
    evaluator::{Asked, Oracle},
    stage::Stage,
};

/// The pod of the second process of an installation.
pub const OTHER: &str = "other";
/// The time that the kubelet takes to restart a container.
const RESTART: Duration = Duration::from_secs(2);
/// The interval of sweeps.
pub const SWEEP: Duration = Duration::from_mins(5);

/// The processes of a run, and their shared state.
#[derive(Clone)]
pub struct Processes {
    stage: Stage,
    oracle: Oracle,
    retention: SignedDuration,
    sweep_every: Duration,
    shards: [ShardCount; 2],
    running: Arc<Mutex<BTreeMap<String, Running>>>,
}

struct Running {
    /// Its location in the installation: namespace and pod.
    place: (String, String),
    dead: Arc<AtomicBool>,
    task: JoinHandle<()>,
    registry: Registry,
}

impl Processes {
    /// Without any process.
    #[must_use]
    pub fn new(stage: Stage, oracle: Oracle, retention: Duration) -> Self {
        Self {
            stage,
            oracle,
            retention: SignedDuration::try_from(retention).unwrap_or(SignedDuration::MAX),
            sweep_every: SWEEP,
            shards: [ShardCount::ONE; 2],
            running: Arc::default(),
        }
    }

    /// With another interval of sweeps.
    #[must_use]
    pub const fn sweeping(mut self, every: Duration) -> Self {
        self.sweep_every = every;
        self
    }

    /// With shards: as many as the first process knows, and as the other one of the installation knows.
    #[must_use]
    pub const fn sharded(mut self, shards: [ShardCount; 2]) -> Self {
        self.shards = shards;
        self
    }

    /// Starts a process of that pod.
    pub fn start(&self, namespace: &str, pod: &str) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let earlier = running.keys().filter(|it| it.starts_with(pod)).count();
        let process = format!("{pod}.{earlier}");
        let dead = Arc::new(AtomicBool::new(false));
        let caller = Caller::service_account(&process, namespace, "request-controller");
        let settings = Settings {
            client: bounded(self.stage.server.client(&caller)),
            evaluator: Arc::new(Asked {
                oracle: self.oracle.clone(),
                dead: Arc::clone(&dead),
                stage: self.stage.clone(),
            }),
            clock: self.clock(),
            namespace: namespace.to_owned(),
            identity: pod.to_owned(),
            lease: LeaseTerms::default(),
            sweep_every: self.sweep_every,
            retention: self.retention,
            most_waiting: 100,
            shards: self.shards[usize::from(pod == OTHER)],
            lanes: [Handle::current(), Handle::current()],
        };
        let registry = Registry::new();
        let task = tokio::spawn(run(settings, registry.clone()));
        let place = (namespace.to_owned(), pod.to_owned());
        running.insert(
            process,
            Running {
                place,
                dead,
                task,
                registry,
            },
        );
    }

    fn clock(&self) -> Clock {
        let stage = self.stage.clone();
        Arc::new(move || {
            let skew = SignedDuration::from_secs(stage.skew.load(Ordering::SeqCst));
            Now {
                wall: whole_seconds(stage.server.now() + skew),
                mono: Instant::now(),
            }
        })
    }

    /// Kills a process: at once, even in the middle of its work.
    pub fn kill(&self, process: &str) {
        self.stage.server.kill(process);
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(it) = running.get(process) {
            it.dead.store(true, Ordering::SeqCst);
            it.task.abort();
        }
    }

    /// Kills all running processes, and returns them.
    #[must_use]
    pub fn kill_all(&self) -> Vec<String> {
        let alive = self.alive();
        for process in &alive {
            self.kill(process);
        }
        alive
    }

    /// The processes that were not killed.
    #[must_use]
    pub fn alive(&self) -> Vec<String> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let alive = running
            .iter()
            .filter(|(_, it)| !it.dead.load(Ordering::SeqCst));
        alive.map(|(name, _)| name.clone()).collect()
    }

    /// Restarts killed processes, forever.
    pub async fn restart(self, mut killed: UnboundedReceiver<String>) {
        while let Some(process) = killed.recv().await {
            self.kill(&process);
            let processes = self.clone();
            tokio::spawn(async move {
                sleep(RESTART).await;
                processes.start_again(&process);
            });
        }
    }

    /// Starts the successor of a process, in the same location.
    pub fn start_again(&self, process: &str) {
        let place = {
            let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            running.get(process).map(|it| it.place.clone())
        };
        if let Some((namespace, pod)) = place {
            self.start(&namespace, &pod);
        }
    }

    /// The processes that hold a lease.
    #[must_use]
    pub fn leading(&self) -> Vec<String> {
        let leases = self.stage.server.list("leases").into_iter();
        let holders = leases.map(|it| it["spec"]["holderIdentity"].clone());
        let holders: Vec<_> = holders.collect();
        let mut alive = self.alive();
        alive.retain(|process| {
            let pod = process.split('.').next();
            holders.iter().any(|it| it.as_str() == pod)
        });
        alive
    }

    /// Problems inside of processes that were not killed.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let mut complaints = Vec::new();
        for (name, it) in running.iter() {
            if !it.dead.load(Ordering::SeqCst) && it.task.is_finished() {
                complaints.push(format!("process {name} ended by itself"));
            }
            let panics = it.registry.gather().into_iter();
            let panics = panics.filter(|family| family.name().ends_with("panics_total"));
            let count: f64 = panics
                .flat_map(|family| family.get_metric().to_vec())
                .map(|metric| metric.get_counter().get_value())
                .sum();
            if count > 0.0 {
                complaints.push(format!("process {name} panicked {count} times"));
            }
        }
        complaints
    }
}

async fn run(settings: Settings, registry: Registry) {
    let mut tasks = Tasks::new();
    let (readiness, start) = Readiness::starting();
    if controller::start(settings, &registry, &mut tasks, &readiness).is_err() {
        return;
    }
    start.ready();
    let never = stream::pending::<Signal>();
    tasks.run(never, &readiness, Duration::ZERO).await;
}
