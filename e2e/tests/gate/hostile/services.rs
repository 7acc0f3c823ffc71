//! The state of our own processes from outside.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use e2e::{api::kinds::POD, install::NAMESPACE};
use serde_json::Value;

use crate::support::{Gate, name, uid};

/// One of our pods.
pub(super) struct ServicePod {
    pub(super) name: String,
    pub(super) restarts: u64,
    /// Bytes in memory now, and at most until now; none where the node is another machine.
    pub(super) resident: Option<[u64; 2]>,
    /// Processor time that it has used.
    pub(super) processor: Duration,
    /// Bytes that its container asks the scheduler for.
    pub(super) requested: u64,
}

impl ServicePod {
    pub(super) fn all(gate: &Gate) -> Vec<Self> {
        let api = gate.api().in_namespace(NAMESPACE);
        api.list(POD, "").unwrap().iter().map(Self::of).collect()
    }

    fn of(pod: &Value) -> Self {
        let name = name(pod);
        // The service comes first, a registrar beside it.
        let memory = &pod["spec"]["containers"][0]["resources"]["requests"]["memory"];
        let mebibytes = memory.as_str().unwrap().strip_suffix("Mi").unwrap();
        let status = pod["status"]["containerStatuses"].as_array().unwrap();
        let process = process(&uid(pod), &component(pod));
        Self {
            restarts: status
                .iter()
                .map(|it| it["restartCount"].as_u64().unwrap())
                .sum(),
            resident: process.as_deref().and_then(resident),
            processor: process.as_deref().and_then(processor).unwrap_or_default(),
            requested: mebibytes.parse::<u64>().unwrap() << 20,
            name,
        }
    }
}

/// Which of the services runs in a pod.
fn component(pod: &Value) -> String {
    let component = &pod["metadata"]["labels"]["app.kubernetes.io/component"];
    component.as_str().unwrap().to_owned()
}

/// The process that runs in a pod: its control group has the pod's UID, its arguments the program.
fn process(pod_uid: &str, program: &str) -> Option<PathBuf> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let is_own = |folder: &PathBuf| {
        let groups = fs::read_to_string(folder.join("cgroup")).unwrap_or_default();
        let arguments = fs::read(folder.join("cmdline")).unwrap_or_default();
        let first = arguments.split(|byte| *byte == 0).next();
        let first = String::from_utf8_lossy(first.unwrap_or_default()).into_owned();
        groups.replace('_', "-").contains(pod_uid) && first.ends_with(program)
    };
    processes.map(|it| it.path()).find(is_own)
}

/// Bytes in memory, now and at most.
fn resident(process: &Path) -> Option<[u64; 2]> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    let bytes = |field: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(field))?;
        let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(kibibytes << 10)
    };
    Some([bytes("VmRSS:")?, bytes("VmHWM:")?])
}

/// User and system time, in the hundredths of a second that Linux counts.
fn processor(process: &Path) -> Option<Duration> {
    let text = fs::read_to_string(process.join("stat")).ok()?;
    // The name may have spaces and ends with the last bracket; the twelfth and thirteenth after it are the times.
    let (_, fields) = text.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(str::parse::<u64>);
    let ticks = times.next()?.ok()? + times.next()?.ok()?;
    Some(Duration::from_millis(ticks * 10))
}
