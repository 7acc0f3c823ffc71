//! A one-node Kubernetes cluster from real components: up, down, and what is in between.

pub(crate) mod addons;
mod cgroup;
pub(crate) mod components;
pub(crate) mod config;
pub(crate) mod control;
mod dns;
mod forward;
pub(crate) mod keeper;
pub(crate) mod layout;
mod pki;
pub(crate) mod preflight;
pub(crate) mod supervisor;
pub(crate) mod tools;
mod up;

use std::{fs, io, path::PathBuf, time::Duration};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

pub use components::{Component, UnknownComponent};
pub use control::{ComponentState, ControlError, State};
pub use keeper::KeeperError;
pub use layout::{ClusterName, InvalidClusterName, cache_dir, repository};
pub use pki::PkiError;
pub use preflight::PreflightError;
pub use supervisor::SupervisorError;
pub use tools::ToolsError;
pub use up::UpError;

use crate::{
    command::{CommandError, Tool},
    images::Archive,
    progress::Progress,
    target::Kubectl,
    wait::{Deadline, TimedOut, poll},
};
use control::Request;
use layout::Layout;
use tools::Tools;

/// How this program starts its own internal commands (`keeper`, `supervisor`) as separate processes.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// The program to start.
    pub program: PathBuf,
    /// The words before the internal command.
    pub prefix: Vec<String>,
    /// Whether the cluster ends when the process that called `up` ends.
    pub end_with_parent: bool,
}

/// A local cluster that is up.
#[derive(Debug)]
pub struct Cluster {
    name: ClusterName,
    layout: Layout,
    tools: Tools,
}

/// Why a cluster is still there.
#[derive(Debug, thiserror::Error)]
pub enum DownError {
    /// Files could not be read or removed, signals not sent.
    #[error("cannot {what}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// It does not end.
    #[error(transparent)]
    StillThere(#[from] TimedOut),
}

impl Cluster {
    /// Brings the cluster up, or finds it up. What an earlier run left half made is removed first.
    pub fn up(
        name: &ClusterName,
        launcher: &Launcher,
        progress: &Progress,
    ) -> Result<Self, UpError> {
        up::up(name, launcher, progress)
    }

    /// Ends the cluster and removes everything it made. A cluster that is not there is fine.
    pub fn down(name: &ClusterName) -> Result<(), DownError> {
        let layout = Layout::of(name);
        let io = |what| move |source| DownError::Io { what, source };
        // Asked before the keeper goes: afterwards nobody can tell which process it was.
        let supervisor = control::supervisor_pid(&layout).ok();
        if let Some(pid) = keeper::find(&layout).map_err(io("find the cluster's keeper"))? {
            end(pid)?;
        }
        if let Some(pid) = supervisor {
            wait_gone("the supervisor's end", pid)?;
        }
        poll(
            "empty cgroups",
            Deadline::after(Duration::from_secs(10)),
            || cgroup::remove(name).map_err(|error| error.to_string()),
        )?;
        match fs::remove_dir_all(layout.root()) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(DownError::Io {
                what: "remove the cluster's directory",
                source,
            }),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// The cluster if it runs, whole or still coming up.
    pub fn find(name: &ClusterName, progress: &Progress) -> Result<Option<Self>, UpError> {
        up::find(name, progress)
    }

    /// The names of all clusters that left something here, running or not.
    pub fn names() -> io::Result<Vec<ClusterName>> {
        let entries = match fs::read_dir(layout::clusters_dir()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().parse().ok()));
        names.filter_map(Result::transpose).collect()
    }

    /// What every component does.
    pub fn states(name: &ClusterName) -> Result<Vec<ComponentState>, ControlError> {
        control::ask(&Layout::of(name), &Request::Status)
    }

    /// Ends one component as a crash would; it stays down until [`Cluster::restart`].
    pub fn kill(name: &ClusterName, component: Component) -> Result<(), ControlError> {
        control::ask(&Layout::of(name), &Request::Kill(component)).map(drop)
    }

    /// Ends one component in order, if it runs, and starts it again.
    pub fn restart(name: &ClusterName, component: Component) -> Result<(), ControlError> {
        control::ask(&Layout::of(name), &Request::Restart(component)).map(drop)
    }

    /// The log file of one component.
    #[must_use]
    pub fn log(name: &ClusterName, component: Component) -> PathBuf {
        Layout::of(name).log(component.name())
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &ClusterName {
        &self.name
    }

    /// The administrator's kubectl.
    #[must_use]
    pub fn kubectl(&self) -> Kubectl {
        Kubectl::new(self.tools.path("kubectl"), self.layout.kubeconfig())
    }

    /// The API server's audit log: one JSON event per line.
    #[must_use]
    pub fn audit_log(&self) -> PathBuf {
        self.layout.path("audit.log")
    }

    /// Makes an image known to the node.
    pub fn load(&self, archive: &Archive) -> Result<(), CommandError> {
        Tool::new("ctr")
            .args([format!("--address={}", self.layout.text("containerd.sock"))])
            .args(["--namespace", "k8s.io", "images", "import"])
            .args([&archive.path])
            .output()
            .map(drop)
    }
}

fn end(keeper: Pid) -> Result<(), DownError> {
    let signal = |signal| match kill_process(keeper, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(errno) => Err(DownError::Io {
            what: "end the cluster's keeper",
            source: errno.into(),
        }),
    };
    signal(Signal::TERM)?;
    if wait_gone("the keeper's end", keeper).is_err() {
        // The kernel then ends the supervisor, and `down` itself removes the cgroups.
        signal(Signal::KILL)?;
        wait_gone("the keeper's end", keeper)?;
    }
    Ok(())
}

fn wait_gone(what: &str, pid: Pid) -> Result<(), TimedOut> {
    poll(what, Deadline::after(Duration::from_secs(15)), || {
        // A zombie still answers: its state tells that it is over.
        let status =
            fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
        let zombie = status
            .rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('Z'));
        if zombie || test_kill_process(pid).is_err() {
            Ok(())
        } else {
            Err(format!("process {} lives", pid.as_raw_nonzero()))
        }
    })
}
