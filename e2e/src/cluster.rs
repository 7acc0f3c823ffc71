//! A one-node Kubernetes cluster from real components: its start, its end, and its operation.

pub(crate) mod addons;
mod cgroup;
pub(crate) mod components;
pub(crate) mod config;
pub(crate) mod control;
mod dns;
mod down;
mod forward;
pub(crate) mod keeper;
pub(crate) mod layout;
mod namespaces;
pub(crate) mod pki;
pub(crate) mod preflight;
mod settle;
pub(crate) mod supervisor;
pub(crate) mod tools;
mod up;
mod work;

use std::{
    fs::{self, File},
    io,
    path::PathBuf,
};

pub use components::{Component, UnknownComponent};
pub use control::{ComponentState, ControlError, State};
pub use down::DownError;
pub use keeper::KeeperError;
pub use layout::{ClusterName, InvalidClusterName, cache_dir, repository};
pub use pki::PkiError;
pub use preflight::PreflightError;
pub use supervisor::SupervisorError;
pub use tools::{ToolsError, grpcurl, kubectl, opa, prometheus, sanity, template};
pub use up::UpError;
pub use work::WorkError;

use crate::{
    command::{CommandError, Tool},
    images::Archive,
    progress::Progress,
    target::Kubectl,
};
use control::Request;
use layout::Layout;
use pki::WEBHOOK_CALLERS;
use tools::Tools;

/// How this program starts its own internal commands (`keeper`, `supervisor`) as separate processes.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// The program to start.
    pub program: PathBuf,
    /// The words before the internal command.
    pub prefix: Vec<String>,
    /// Whether the cluster ends when the process that brings it up ends.
    pub end_with_parent: bool,
}

/// A local cluster that is up.
#[derive(Debug)]
pub struct Cluster {
    name: ClusterName,
    layout: Layout,
    tools: Tools,
}

impl Cluster {
    /// Brings the cluster up, or finds it up. Remains of an incomplete earlier run are removed first.
    pub fn up(
        name: &ClusterName,
        launcher: &Launcher,
        progress: &Progress,
    ) -> Result<Self, UpError> {
        up::up(name, launcher, progress)
    }

    /// Ends the cluster and removes everything it made. A cluster that is not there is fine.
    pub fn down(name: &ClusterName) -> Result<(), DownError> {
        down::down(name)
    }

    /// Reboots its machine without warning: every process, mount and network is gone, and the components start again on
    /// their files. `before_node` runs when the API server answers and the node has not started.
    pub fn reboot(&self, progress: &Progress, before_node: impl FnOnce()) -> Result<(), UpError> {
        up::reboot(self, progress, before_node)
    }

    /// The cluster if it runs, whole or still coming up.
    pub fn find(name: &ClusterName) -> Result<Option<Self>, UpError> {
        up::find(name)
    }

    /// The names of all clusters that left something here, running or not.
    pub fn names() -> io::Result<Vec<ClusterName>> {
        let entries = match fs::read_dir(layout::clusters_dir()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        // Lock files of work in progress are no clusters, and their names no cluster's names.
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().parse().ok()));
        names.filter_map(Result::transpose).collect()
    }

    /// The state of every component.
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

    /// Whether there is anything of a cluster of this name.
    #[must_use]
    pub fn is_absent(name: &ClusterName) -> bool {
        Layout::of(name).is_absent()
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
        let kubectl = Kubectl::new(self.tools.path("kubectl"), self.layout.kubeconfig());
        // kubectl's cache of this cluster is removed with it.
        kubectl.with_cache(self.layout.path("kubectl-cache"))
    }

    /// The API server's audit log: one JSON event per line.
    #[must_use]
    pub fn audit_log(&self) -> PathBuf {
        self.layout.path("audit.log")
    }

    /// The kubelet's root directory, which is not the customary one: everything of a cluster is in one place.
    #[must_use]
    pub fn kubelet_dir(&self) -> PathBuf {
        self.layout.path("kubelet")
    }

    /// The cluster's network, for a thread that enters it.
    pub fn network(&self) -> io::Result<File> {
        let inside = control::supervisor_pid(&self.layout)?;
        File::open(format!("/proc/{}/ns/net", inside.as_raw_nonzero()))
    }

    /// A certificate or key of the cluster by its file name, as `etcd.crt`.
    #[must_use]
    pub fn pki(&self, file: &str) -> PathBuf {
        PathBuf::from(self.layout.pki(file))
    }

    /// The authority that signs the certificate which the API server shows to our webhook.
    pub(crate) fn webhook_callers(&self) -> Option<String> {
        fs::read_to_string(self.layout.pki(&format!("{WEBHOOK_CALLERS}.crt"))).ok()
    }

    /// Makes an image known to the node.
    pub fn load(&self, archive: &Archive) -> Result<(), CommandError> {
        Tool::ending_with_us("ctr")
            .args([format!("--address={}", self.layout.text("containerd.sock"))])
            .args(["--namespace", "k8s.io", "images", "import"])
            .args([&archive.path])
            .output()
            .map(drop)
    }
}
