//! The driver of the node: its settings, its memory and its processor time.

use std::cell::RefCell;
use std::time::Duration;

use e2e::api::kinds::{CONFIG_MAP, DAEMON_SET, POD};
use e2e::install::NAMESPACE;
use e2e::{ApiClient, Deadline, poll};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::pods::{PATIENCE, Pods};
use crate::support::process::Running;

/// The driver, in its `DaemonSet` and as a process.
const DRIVER: &str = "csi-node";

pub(crate) struct Driver {
    /// The API server, for calls in the namespace of the installation.
    api: ApiClient,
}

impl Driver {
    pub(crate) fn of(pods: &Pods) -> Self {
        let api = pods.api.in_namespace(NAMESPACE);
        Self { api }
    }

    /// Turns the scheduling gate of new pods on or off, and waits until a new pod shows it.
    pub(crate) fn gate(&self, pods: &Pods, word: &str) {
        let fields = json!({"data": {"scheduling-gate": word}});
        self.api
            .patch(CONFIG_MAP, "connectors-config", &fields)
            .unwrap();
        let looks = RefCell::new(Vec::new());
        let seen = || {
            let mut looks = looks.borrow_mut();
            let name = format!("gate-{word}-{}", looks.len()).to_lowercase();
            looks.push(name.clone());
            pods.start(&name, 1);
            let pod = pods.api.get(POD, &name).unwrap().expect("a new pod");
            pods.api.delete_now(POD, &name).unwrap();
            let gates = &pod["spec"]["schedulingGates"];
            let is_gated = gates.as_array().is_some_and(|it| !it.is_empty());
            if is_gated == (word == "Set") {
                Ok(())
            } else {
                Err(pod["spec"].to_string())
            }
        };
        let what = format!("the scheduling gate to be {word}");
        poll(&what, Deadline::after(PATIENCE), seen).unwrap();
        pods.wait_until_gone(&looks.borrow());
    }

    /// Starts the driver with another time for which it holds a call.
    pub(crate) fn hold(&self, time: &str) {
        let set = self.api.get(DAEMON_SET, DRIVER).unwrap();
        let mut template = set.expect("the chart is installed")["spec"]["template"].take();
        let containers = template["spec"]["containers"].as_array_mut().unwrap();
        let args = containers
            .iter_mut()
            .filter_map(|it| it["args"].as_array_mut())
            .flatten();
        let hold = args.filter(|it| it.as_str().is_some_and(|it| it.starts_with("--hold=")));
        for argument in hold {
            *argument = json!(format!("--hold={time}"));
        }
        let fields = json!({"spec": {"template": template}});
        self.api.patch(DAEMON_SET, DRIVER, &fields).unwrap();
        let is_new = |it: &Value| {
            let status = |field: &str| it["status"][field].as_u64().unwrap_or_default();
            let wanted = status("desiredNumberScheduled");
            it["status"]["observedGeneration"] == it["metadata"]["generation"]
                && ["updatedNumberScheduled", "numberAvailable"]
                    .iter()
                    .all(|field| status(field) == wanted)
        };
        let set = (DAEMON_SET, DRIVER);
        self.api
            .wait_for("the new driver", set, PATIENCE, is_new)
            .unwrap();
    }

    /// Waits until so many calls are held.
    pub(crate) fn wait_for_held(&self, calls: usize) {
        let wanted = format!("connectors_mount_held {calls}");
        let look = || {
            let metrics = self.metrics().map_err(|error| error.to_string())?;
            let mut lines = metrics.lines();
            let held = lines.find(|it| it.starts_with("connectors_mount_held "));
            if held == Some(wanted.as_str()) {
                Ok(())
            } else {
                Err(format!("{held:?}"))
            }
        };
        poll("the mounts to be held", Deadline::after(PATIENCE), look).unwrap();
    }

    /// When the driver answered that the volume of a pod is mounted, by its log.
    pub(crate) fn published_at(&self, namespace: &str, pod: &str) -> Timestamp {
        let is_it = |line: &Value| {
            line["message"] == "published" && line["namespace"] == namespace && line["pod"] == pod
        };
        let look = || {
            let log = self.text("/log?tailLines=200");
            let log = log.map_err(|error| error.to_string())?;
            let lines = log
                .lines()
                .filter_map(|it| serde_json::from_str::<Value>(it).ok());
            let mut published = lines.filter(is_it);
            let line = published.next().ok_or_else(|| log.clone())?;
            let at = line["timestamp"].as_str().unwrap_or_default();
            at.parse().map_err(|_| line.to_string())
        };
        let what = format!("the driver to tell of pod {pod}");
        poll(&what, Deadline::after(PATIENCE), look).unwrap()
    }

    fn metrics(&self) -> Result<String, e2e::ApiError> {
        self.text(":9090/proxy/metrics")
    }

    /// A text of the driver's pod, by the rest of its path.
    fn text(&self, rest: &str) -> Result<String, e2e::ApiError> {
        let label = format!("app.kubernetes.io/component={DRIVER}");
        let pods = self.api.list(POD, &label)?;
        let name = pods
            .first()
            .and_then(|it| it["metadata"]["name"].as_str())
            .unwrap_or_default();
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}{rest}");
        self.api.text(&path)
    }
}

/// The resident memory of the driver, in MB.
pub(crate) fn memory() -> f64 {
    let memory = Running::named(DRIVER).into_iter().map(|it| it.memory().0);
    memory.fold(0.0, f64::max)
}

/// The processor time that the driver uses meanwhile.
pub(crate) fn worked_during(act: impl FnOnce()) -> Duration {
    let worked = || -> Duration { Running::named(DRIVER).iter().map(Running::worked).sum() };
    let before = worked();
    act();
    worked().saturating_sub(before)
}
