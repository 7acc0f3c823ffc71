//! A cluster that is judged while it lives.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{ApiServer, Entry, What};
use tokio::time::{Instant, sleep};

use crate::{
    oracle::{Judge, Seen},
    support::{Cluster, Process, reading},
};

/// The finalizer that keeps deleted objects.
pub(crate) const KEEPER: &str = "example.com/keep";
/// The pause between two readings of the log.
const GLANCE: Duration = Duration::from_secs(1);
/// As long as this things are given time to go wrong.
const CALM: Duration = Duration::from_secs(2);

pub(crate) struct Stage {
    pub(crate) cluster: Cluster,
    judge: Judge,
    /// How much of the log the judge has.
    told: usize,
    begun: Instant,
    processes: Vec<Process>,
}

impl Stage {
    /// With the objects of every test, and without garbage collection, which would do the controller's work.
    pub(crate) fn new() -> Self {
        let cluster = Cluster::new();
        cluster.server.collect_garbage(None);
        Self {
            cluster,
            judge: Judge::default(),
            told: 0,
            begun: Instant::now(),
            processes: Vec::new(),
        }
    }

    /// A controller starts. Until it leads, nothing happens.
    pub(crate) fn start(&mut self, name: &str) {
        self.processes.push(self.cluster.start(name));
    }

    pub(crate) fn start_in(&mut self, namespace: &str, name: &str) {
        let process = self.cluster.start_in(namespace, name);
        self.processes.push(process);
    }

    /// The process of that name dies.
    pub(crate) fn kill(&mut self, name: &str) {
        let at = self.processes.iter().position(|it| it.name == name);
        let process = self.processes.remove(at.unwrap());
        self.cluster.kill(&process);
    }

    pub(crate) async fn pass(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            sleep(GLANCE.min(end - Instant::now())).await;
            self.look();
        }
    }

    /// Until everything is as it has to be, or is late.
    pub(crate) async fn settle(&mut self) {
        self.pass(CALM).await;
        while !self.judge.is_settled() && !self.judge.is_late() {
            self.pass(GLANCE).await;
        }
    }

    fn look(&mut self) {
        let log = self.cluster.server.log_since(self.told);
        self.told += log.len();
        self.judge.take(&log, self.begun.elapsed());
        for entry in &log {
            self.replace(entry);
        }
    }

    /// A process that a fault has killed is replaced, as a Deployment would.
    fn replace(&mut self, entry: &Entry) {
        let What::Killed(name) = &entry.what else {
            return;
        };
        let at = self.processes.iter().position(|it| it.name == *name);
        if let Some(at) = at {
            let process = self.processes.remove(at);
            self.cluster.kill(&process);
            self.start(&format!("{name}-successor"));
        }
    }

    pub(crate) const fn judge(&self) -> &Judge {
        &self.judge
    }

    /// Nothing was wrong, and for that long nothing more is written.
    pub(crate) async fn proves_right(mut self, idle: Duration, name: &str) -> Seen {
        self.look();
        let before = self.told;
        self.pass(idle).await;
        let wrong = self.judge.verdict();
        assert!(wrong.is_empty(), "{name}: {wrong:#?}");
        assert!(self.judge.is_settled(), "{name}: something is still due");
        let writes = self.cluster.writes(before);
        assert_eq!(writes, [""; 0], "{name}: while nothing happens");
        self.judge.seen()
    }
}

/// A policy of any namespace.
pub(crate) fn policy(
    cluster: &Cluster,
    place: &str,
    name: &str,
    connector: Value,
    subjects: Value,
) {
    cluster.put(json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
        "metadata": {"name": name, "namespace": place}, "spec": reading(connector, subjects),
    }));
}

/// A connector of any namespace.
pub(crate) fn connector(cluster: &Cluster, place: &str, name: &str, labels: Value) {
    cluster.put(json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "Connector",
        "metadata": {"name": name, "namespace": place, "labels": labels},
        "spec": {"connectorClassName": "harbor"},
    }));
}

/// Deletes it, while a finalizer keeps it.
pub(crate) fn delete_and_keep(server: &ApiServer, plural: &str, place: &str, name: &str) {
    server.change(plural, place, name, |it| {
        it["metadata"]["finalizers"] = json!([KEEPER]);
    });
    server.delete(plural, place, name);
}

/// Nothing keeps it any more.
pub(crate) fn let_go(server: &ApiServer, plural: &str, place: &str, name: &str) {
    server.change(plural, place, name, |it| {
        it["metadata"]["finalizers"] = json!([]);
    });
}
