//! Bringing a cluster up, stage by stage. Every stage is printed as it starts; whichever one is interrupted,
//! `down` and a new `up` start from nothing.

use std::{fs, io, process::Command, time::Duration};

use rustix::process::{Signal, kill_process};

use super::{
    Cluster, Component, ControlError, DownError, Launcher, State, addons, config,
    control::{self, Request},
    down, keeper,
    layout::{ClusterName, Layout},
    pki,
    preflight::{self, Machine, PreflightError},
    tools::{Tools, ToolsError},
    work::{self, WorkError},
};
use crate::{
    command::{CommandError, last_lines},
    images::{self, Archive, Image, ImageError, Profile},
    progress::Progress,
    wait::{Deadline, TimedOut, poll},
};

/// How long any one stage may wait; a healthy machine needs a few seconds.
const PATIENCE: Duration = Duration::from_mins(2);
/// The end of a kubelet that called containerd too early.
const NOT_INITIALIZED: &str = "server is not initialized yet";

/// Why there is no cluster.
#[derive(Debug, thiserror::Error)]
pub enum UpError {
    /// The machine lacks something.
    #[error(transparent)]
    Preflight(#[from] PreflightError),
    /// The kubeconfig of an existing cluster.
    #[error("--kubeconfig {file}: cannot be read")]
    Kubeconfig {
        /// The file that was given.
        file: std::path::PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The components could not be built.
    #[error(transparent)]
    Tools(#[from] ToolsError),
    /// The images could not be made.
    #[error(transparent)]
    Images(#[from] ImageError),
    /// Certificates could not be made.
    #[error(transparent)]
    Pki(#[from] pki::PkiError),
    /// A file of the cluster.
    #[error("cannot {what}")]
    Io {
        /// The attempted action.
        what: &'static str,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// Another `up` or `down` is at work.
    #[error(transparent)]
    Busy(#[from] WorkError),
    /// The remains of an earlier run could not be removed.
    #[error("cannot remove what an earlier run left")]
    Leftover(#[from] DownError),
    /// The supervisor did not do as asked.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// A component ended while it was waited for.
    #[error("{component} {how}; the end of its log:\n{log}")]
    ComponentEnded {
        /// Which one.
        component: Component,
        /// Exit code or signal.
        how: String,
        /// Its last lines.
        log: String,
    },
    /// Something did not happen in time.
    #[error(
        "cluster {name} does not come up; its components and the ends of their logs:\n{components}"
    )]
    TimedOut {
        /// The cluster.
        name: ClusterName,
        /// Their states and last messages.
        components: String,
        /// The awaited state.
        #[source]
        source: TimedOut,
    },
    /// kubectl or ctr failed.
    #[error(transparent)]
    Command(#[from] CommandError),
}

pub(super) fn up(
    name: &ClusterName,
    launcher: &Launcher,
    progress: &Progress,
) -> Result<Cluster, UpError> {
    let running = find(name)?;
    if let Some(cluster) = running.filter(|cluster| cluster.layout.ready_marker().exists()) {
        progress.note(&format!("cluster {name} is up already"));
        return Ok(cluster);
    }
    let machine = progress.step("check the machine", preflight::check)?;
    let _work = work::begin(name)?;
    let cluster = Cluster {
        name: name.clone(),
        layout: Layout::of(name),
        tools: progress.step("find the tools", || Tools::ensure(progress))?,
    };
    let archives = progress.step("make the images", || system_images(&cluster.tools))?;
    progress.step("start from nothing", || down::remove(name))?;
    progress.step("write certificates and configuration", || {
        cluster.write_files(&machine)
    })?;
    progress.step("start the supervisor", || cluster.start_keeper(launcher))?;
    progress.step("start etcd", || cluster.start(Component::Etcd))?;
    progress.step("start containerd", || cluster.start(Component::Containerd))?;
    progress.step("start kube-apiserver", || cluster.start_api_server())?;
    progress.step("start the control plane", || {
        cluster.start(Component::KubeControllerManager)?;
        cluster.start(Component::KubeScheduler)
    })?;
    progress.step("load the images", || {
        archives
            .iter()
            .try_for_each(|archive| cluster.load(archive))
    })?;
    progress.step("start the node", || {
        cluster.start_kubelet()?;
        cluster.kubectl().apply(&addons::manifests())?;
        cluster.start(Component::KubeProxy)?;
        cluster.wait_for_node()
    })?;
    progress.step("wait for DNS", || cluster.settle())?;
    fs::write(cluster.layout.ready_marker(), "").map_err(io_error("mark the cluster as ready"))?;
    Ok(cluster)
}

/// Ends every process at once, as the loss of power does, and starts the components again on their files. `before_node` runs
/// when the API server answers and the node has not started.
pub(super) fn reboot(
    cluster: &Cluster,
    progress: &Progress,
    before_node: impl FnOnce(),
) -> Result<(), UpError> {
    let _work = work::begin(&cluster.name)?;
    progress.step("end every process", || cluster.restart_supervisor())?;
    progress.step("start etcd", || cluster.start(Component::Etcd))?;
    progress.step("start kube-apiserver", || cluster.start_api_server())?;
    before_node();
    progress.step("start the control plane", || {
        cluster.start(Component::KubeControllerManager)?;
        cluster.start(Component::KubeScheduler)
    })?;
    progress.step("start the node", || {
        cluster.start(Component::Containerd)?;
        cluster.start_kubelet()?;
        cluster.start(Component::KubeProxy)?;
        cluster.wait_for_node()
    })?;
    progress.step("wait for DNS", || cluster.settle())
}

/// A cluster that runs, whole or still coming up.
pub(super) fn find(name: &ClusterName) -> Result<Option<Cluster>, UpError> {
    let layout = Layout::of(name);
    let keeper = keeper::find(&layout).map_err(io_error("find the cluster's keeper"))?;
    if keeper.is_none() || !layout.kubeconfig().exists() {
        return Ok(None);
    }
    let tools = Tools::of_cluster(&layout)?;
    Ok(Some(Cluster {
        name: name.clone(),
        layout,
        tools,
    }))
}

fn system_images(tools: &Tools) -> Result<Vec<Archive>, ImageError> {
    let mut archives = images::build(&[Image::Pause], Profile::Dev)?;
    archives.push(images::make(Image::Coredns, &tools.path("coredns"))?);
    Ok(archives)
}

impl Cluster {
    fn write_files(&self, machine: &Machine) -> Result<(), UpError> {
        let layout = &self.layout;
        fs::create_dir_all(layout.root()).map_err(io_error("make the cluster's directory"))?;
        self.tools.remember(layout)?;
        pki::write(layout, &self.name.node())?;
        config::write(layout, &self.name, machine).map_err(io_error("write the configuration"))?;
        let server = format!("https://127.0.0.1:{}", config::net::API_PORT);
        for identity in ["controller-manager", "scheduler", "kubelet", "kube-proxy"] {
            let file = layout.path(&format!("{identity}.kubeconfig"));
            pki::write_kubeconfig(layout, identity, &server, &file)?;
        }
        Ok(())
    }

    fn start_keeper(&self, launcher: &Launcher) -> Result<(), UpError> {
        let log = fs::File::create(self.layout.log("keeper")).map_err(io_error("write logs"))?;
        let copy = log.try_clone().map_err(io_error("write logs"))?;
        let lock = keeper::take_lock(&self.layout).map_err(io_error("take the cluster's lock"))?;
        let mut command = Command::new(&launcher.program);
        command
            .args(&launcher.prefix)
            .args(["keeper", "--name", self.name.as_str()]);
        if launcher.end_with_parent {
            command.arg(format!("--end-with-parent={}", std::process::id()));
        }
        let mut keeper = command
            .stdin(lock)
            .stdout(copy)
            .stderr(log)
            .spawn()
            .map_err(io_error("start the keeper"))?;
        let port = self.wait(poll(
            "the supervisor",
            Deadline::after(PATIENCE),
            || match keeper.try_wait() {
                Ok(Some(status)) => Ok(Err(status.to_string())),
                Ok(None) => fs::read_to_string(self.layout.port_file())
                    .map(Ok)
                    .map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            },
        ))?;
        let port = port.map_err(|how| {
            let logs = ["keeper", "supervisor"].map(|log| self.log_tail(log));
            UpError::Io {
                what: "keep the supervisor running",
                source: io::Error::other(format!("{how}: {}", logs.join("\n"))),
            }
        })?;
        let server = format!("https://127.0.0.1:{port}");
        pki::write_kubeconfig(
            &self.layout,
            config::ADMIN,
            &server,
            &self.layout.kubeconfig(),
        )?;
        Ok(())
    }

    /// Has the keeper end the supervisor, and with it every process, and start it again.
    fn restart_supervisor(&self) -> Result<(), UpError> {
        let find = || io_error("find the cluster's processes");
        let before = control::supervisor_pid(&self.layout).map_err(find())?;
        let keeper = keeper::find(&self.layout).map_err(find())?;
        let keeper = keeper.ok_or_else(|| find()(io::ErrorKind::NotFound.into()))?;
        kill_process(keeper, Signal::USR1).map_err(|errno| find()(errno.into()))?;
        self.wait(poll(
            "the next supervisor",
            Deadline::after(PATIENCE),
            || match control::supervisor_pid(&self.layout) {
                Ok(now) if now != before => Ok(()),
                Ok(_) => Err("the earlier one lives".to_owned()),
                Err(error) => Err(error.to_string()),
            },
        ))
    }

    /// Starts a component and waits until it listens.
    fn start(&self, component: Component) -> Result<(), UpError> {
        control::ask(&self.layout, &Request::Start(component))?;
        let what = format!("{component} to listen");
        let state = self.wait(poll(&what, Deadline::after(PATIENCE), || {
            let states = Self::states(&self.name).map_err(|error| error.to_string())?;
            match states
                .into_iter()
                .find(|state| state.component == component)
            {
                Some(found) if found.state.is_up() => Ok(found.state),
                Some(found) if matches!(found.state, State::Ended(_)) => Ok(found.state),
                found => Err(format!("{found:?}")),
            }
        }))?;
        if let State::Ended(how) = state {
            let log = self.log_tail(component.name());
            return Err(UpError::ComponentEnded {
                component,
                how,
                log,
            });
        }
        Ok(())
    }

    /// The socket of containerd takes connections a moment before its runtime service answers. A kubelet that calls in
    /// this moment ends.
    fn start_kubelet(&self) -> Result<(), UpError> {
        let deadline = Deadline::after(PATIENCE);
        loop {
            match self.start(Component::Kubelet) {
                Err(UpError::ComponentEnded { log, .. })
                    if log.contains(NOT_INITIALIZED) && !deadline.passed() => {}
                started => return started,
            }
        }
    }

    fn start_api_server(&self) -> Result<(), UpError> {
        self.start(Component::KubeApiserver)?;
        let kubectl = self.kubectl();
        self.wait(poll(
            "the API server to be ready",
            Deadline::after(PATIENCE),
            || {
                kubectl
                    .run("get --raw /readyz")
                    .map_err(|error| error.to_string())
            },
        ))?;
        Ok(())
    }

    fn wait_for_node(&self) -> Result<(), UpError> {
        let kubectl = self.kubectl();
        let condition = "{.items[*].status.conditions[?(@.type==\"Ready\")].status}";
        let question = format!("get nodes -o jsonpath={condition}");
        self.wait(poll(
            "the node to be Ready",
            Deadline::after(PATIENCE),
            || match kubectl.run(&question) {
                Ok(status) if status == "True" => Ok(()),
                Ok(status) => Err(format!("Ready is `{status}`")),
                Err(error) => Err(error.to_string()),
            },
        ))
    }

    pub(super) fn wait<T>(&self, result: Result<T, TimedOut>) -> Result<T, UpError> {
        result.map_err(|source| UpError::TimedOut {
            name: self.name.clone(),
            components: self.diagnosis(),
            source,
        })
    }

    /// The hints for a cluster that is gone before a user can inspect it.
    fn diagnosis(&self) -> String {
        let states = Self::states(&self.name).unwrap_or_default();
        let texts = states
            .iter()
            .filter(|state| state.state != State::NotStarted)
            .map(|state| {
                let component = state.component;
                format!(
                    "── {component}: {:?}\n{}",
                    state.state,
                    self.log_tail(component.name())
                )
            });
        texts.collect::<Vec<_>>().join("\n")
    }

    fn log_tail(&self, log: &str) -> String {
        last_lines(
            &fs::read_to_string(self.layout.log(log)).unwrap_or_default(),
            15,
        )
    }
}

pub(super) fn io_error(what: &'static str) -> impl FnOnce(io::Error) -> UpError {
    move |source| UpError::Io { what, source }
}
