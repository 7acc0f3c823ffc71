//! The node: the process that lives, the calls of the kubelet, and what both leave in the log.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use connectors_api::config::{Config, Knowledge, OnEnable};
use futures::StreamExt;
use prometheus::Registry;
use service_kit::{
    readiness::Readiness,
    shutdown::{Signal, Tasks},
};
use tokio::{
    sync::{mpsc, watch},
    task::AbortHandle,
    time::Instant,
};
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::{
    cluster::{self, Shared},
    disk::{self, Disk, State},
    judge::{self, Verdict},
    truth::Asker,
};
use crate::{
    driver::{Driver, UnpublishError},
    error::PublishError,
    hold_quota::{HoldLimits, HoldQuota},
    proto::csi::{NodePublishVolumeRequest, NodeUnpublishVolumeRequest},
    testing::{self, KUBELET, dice::Dice},
    volume::VolumePath,
};

/// How long a call may be held.
pub(super) const HOLD: Duration = Duration::from_secs(115);
/// Held calls of the node, and of one namespace.
pub(super) const ROOM: HoldLimits = HoldLimits {
    node: 4,
    namespace: 3,
};

/// What the `ConfigMap` says to a process, read by the judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    Unknown,
    Off,
    On(OnEnable),
}

/// What a call of the kubelet is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Publish {
        /// The pod and each connector.
        askers: Vec<Asker>,
        token: String,
        limit: Option<Duration>,
        /// The pod wants to start when it is refused for good.
        error_file: bool,
    },
    Unpublish,
}

/// How a call ended.
#[derive(Debug)]
pub(super) enum Outcome {
    Published(Result<(), PublishError>),
    Unpublished(Result<(), UnpublishError>),
}

/// A call that was answered.
#[derive(Debug)]
pub(super) struct End {
    pub(super) at: Instant,
    pub(super) outcome: Outcome,
    pub(super) state: State,
    pub(super) is_sealed: bool,
    pub(super) files: usize,
}

/// One call of the kubelet.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) process: usize,
    pub(super) place: VolumePath,
    pub(super) kind: Kind,
    pub(super) start: Instant,
    pub(super) before: State,
    /// The kubelet hung up, or the process died.
    pub(super) hung: Option<Instant>,
    pub(super) end: Option<End>,
}

pub(super) type Calls = Arc<Mutex<Vec<Call>>>;

pub(super) type TheDriver = Driver<cluster::OfProcess, cluster::OfProcess, disk::OfProcess>;

/// One process of the driver.
pub(super) struct Process {
    pub(super) driver: Arc<TheDriver>,
    pub(super) number: usize,
    pub(super) registry: Registry,
    switch: watch::Sender<Option<Config>>,
    knowledge: Knowledge,
    /// What the judge read: the switch, and what becomes of volumes.
    enabled: Option<bool>,
    on_enable: OnEnable,
    signals: mpsc::UnboundedSender<Signal>,
}

impl Process {
    fn start(shared: &Arc<Shared>, disk: &Arc<Mutex<Disk>>, number: usize) -> Self {
        let (switch, switched) = watch::channel(None);
        let (_, object) = watch::channel(Some(Ok(())));
        let (signals, signalled) = mpsc::unbounded_channel();
        let registry = Registry::new();
        let tasks = Tasks::new();
        let stop = tasks.stop();
        tokio::spawn(async move {
            let (readiness, _start) = Readiness::starting();
            let signals = UnboundedReceiverStream::new(signalled).boxed();
            tasks.run(signals, &readiness, Duration::from_secs(1)).await
        });
        let of_process = cluster::OfProcess {
            shared: Arc::clone(shared),
            process: number,
        };
        let mounter = Arc::new(disk::OfProcess::new(Arc::clone(disk), number));
        let mut driver = testing::driver(
            (of_process.clone(), of_process, mounter),
            (switched, object),
            stop,
            &registry,
            KUBELET.as_ref(),
            ROOM.node,
        );
        driver.settings.hold = HOLD;
        driver.holds = HoldQuota::new(ROOM);
        Self {
            driver: Arc::new(driver),
            number,
            registry,
            switch,
            knowledge: Knowledge::default(),
            enabled: None,
            on_enable: OnEnable::Keep,
            signals,
        }
    }

    /// The number that a metric has.
    pub(super) fn metric(&self, name: &str) -> f64 {
        let families = self.registry.gather();
        let family = families.iter().find(|family| family.name() == name);
        family.map_or(0.0, |family| family.get_metric()[0].get_gauge().get_value())
    }

    /// Entries of everything that has to be given back, and places that are taken.
    pub(super) fn held(&self) -> [usize; 7] {
        let Driver {
            holds,
            kept,
            outdated,
            asked,
            locks,
            digests,
            memory,
            ..
        } = &*self.driver;
        let taken = ROOM.node - holds.free();
        [
            locks.census(),
            holds.census() + taken,
            kept.census(),
            asked.census(),
            digests.census(),
            memory.census(),
            outdated.census(),
        ]
    }
}

/// Everything there is.
pub(super) struct Node {
    pub(super) shared: Arc<Shared>,
    pub(super) disk: Arc<Mutex<Disk>>,
    pub(super) process: Process,
    pub(super) calls: Calls,
    handles: Vec<AbortHandle>,
    /// What each process knew of the switch, and since when.
    pub(super) gates: Vec<(Instant, usize, Gate)>,
    pub(super) problems: Vec<String>,
}

impl Node {
    pub(super) fn new(seed: u64) -> Self {
        let disk = Arc::new(Mutex::new(Disk::default()));
        let shared = Shared::new(Dice::new(!seed), Arc::clone(&disk));
        let process = Process::start(&shared, &disk, 0);
        Self {
            shared,
            disk,
            process,
            calls: Arc::default(),
            handles: Vec::new(),
            gates: vec![(Instant::now(), 0, Gate::Unknown)],
            problems: Vec::new(),
        }
    }

    pub(super) fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn calls(&self) -> MutexGuard<'_, Vec<Call>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process hears of the `ConfigMap`; one that is gone says nothing.
    pub(super) fn hears(&mut self, data: Option<&BTreeMap<String, String>>) {
        let Some(data) = data else {
            return;
        };
        let process = &mut self.process;
        process.knowledge.learn(data);
        if let Some(config) = process.knowledge.config() {
            process.switch.send_replace(Some(config));
        }
        match data.get("enable-connectors-approval").map(String::as_str) {
            Some("true") => process.enabled = Some(true),
            Some("false") => process.enabled = Some(false),
            _ => {}
        }
        match data.get("on-enable").map(String::as_str) {
            None | Some("Keep") => process.on_enable = OnEnable::Keep,
            Some("Request") => process.on_enable = OnEnable::Request,
            Some("Empty") => process.on_enable = OnEnable::Empty,
            Some(_) => {}
        }
        let gate = match process.enabled {
            None => Gate::Unknown,
            Some(false) => Gate::Off,
            Some(true) => Gate::On(process.on_enable),
        };
        self.gates.push((Instant::now(), process.number, gate));
    }

    /// The process dies, if it did not yet, and another one begins.
    pub(super) fn restart(&mut self) {
        let number = self.process.number + 1;
        self.disk().process = number;
        let now = Instant::now();
        for (call, handle) in self.calls().iter_mut().zip(&self.handles) {
            if call.end.is_none() {
                call.hung.get_or_insert(now);
                handle.abort();
            }
        }
        self.process = Process::start(&self.shared, &self.disk, number);
        self.gates.push((now, number, Gate::Unknown));
    }

    pub(super) fn terminate(&self) {
        // It may be ending already.
        let _ = self.process.signals.send(Signal::Terminate);
    }

    fn begin(&mut self, place: &VolumePath, kind: Kind) -> usize {
        let before = self.disk().state(place);
        let mut calls = self.calls();
        calls.push(Call {
            process: self.process.number,
            place: place.clone(),
            kind,
            start: Instant::now(),
            before,
            hung: None,
            end: None,
        });
        calls.len() - 1
    }

    pub(super) fn publish(
        &mut self,
        place: &VolumePath,
        request: NodePublishVolumeRequest,
        kind: Kind,
    ) -> usize {
        let Kind::Publish { limit, .. } = kind else {
            unreachable!("a publish call");
        };
        let number = self.begin(place, kind);
        let driver = Arc::clone(&self.process.driver);
        let ends = self.ends(number);
        let task = tokio::spawn(async move {
            ends(Outcome::Published(driver.publish(request, limit).await));
        });
        self.handles.push(task.abort_handle());
        number
    }

    pub(super) fn unpublish(&mut self, place: &VolumePath) -> usize {
        let number = self.begin(place, Kind::Unpublish);
        let driver = Arc::clone(&self.process.driver);
        let request = NodeUnpublishVolumeRequest {
            volume_id: place.volume_id(),
            target_path: place.target().display().to_string(),
        };
        let ends = self.ends(number);
        let task = tokio::spawn(async move {
            ends(Outcome::Unpublished(driver.unpublish(&request).await));
        });
        self.handles.push(task.abort_handle());
        number
    }

    /// Notes an answer together with what is at the place in that moment.
    fn ends(&self, number: usize) -> impl FnOnce(Outcome) + Send + 'static {
        let (calls, disk) = (Arc::clone(&self.calls), Arc::clone(&self.disk));
        move |outcome| {
            let mut calls = calls.lock().unwrap_or_else(PoisonError::into_inner);
            let disk = disk.lock().unwrap_or_else(PoisonError::into_inner);
            let call = &mut calls[number];
            let volume = disk.volume(&call.place);
            call.end = Some(End {
                at: Instant::now(),
                outcome,
                state: disk.state(&call.place),
                is_sealed: disk.is_sealed(&call.place),
                files: volume.map_or(0, |volume| volume.content.len()),
            });
        }
    }

    /// Calls that wait for their answer.
    pub(super) fn open(&self) -> Vec<usize> {
        let calls = self.calls();
        let is_open = |call: &Call| call.end.is_none() && call.hung.is_none();
        (0..calls.len()).filter(|at| is_open(&calls[*at])).collect()
    }

    /// The kubelet does not wait any longer.
    pub(super) fn hang_up(&self, number: usize) {
        self.handles[number].abort();
        self.calls()[number].hung = Some(Instant::now());
    }

    pub(super) fn judged(&self) -> Verdict {
        judge::judge(self)
    }
}
