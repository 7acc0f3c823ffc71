//! The cluster's commands: the same for `cargo xtask cluster` and for this crate's own binary.

use std::{env, fs, io, os::unix::process::CommandExt, path::PathBuf};

use clap::{Args, Subcommand};

use crate::{
    cluster::{
        Cluster, Component, ControlError, DownError, Launcher, PreflightError, State, UpError,
        keeper, layout::ClusterName, supervisor,
    },
    command::{CommandError, Tool},
    progress::Progress,
};

/// Works with local clusters: real Kubernetes nodes on this machine
#[derive(Debug, Args)]
pub struct ClusterArgs {
    /// The cluster's name; clusters of different names run side by side
    #[arg(long, global = true, default_value_t)]
    pub name: ClusterName,
    /// The command
    #[command(subcommand)]
    pub command: ClusterCommand,
}

/// The commands for a local cluster.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Brings a cluster up (half a minute; the first time some minutes more, to build its components)
    Up,
    /// Ends a cluster and removes everything it made
    Down,
    /// Shows every component of every cluster
    Status,
    /// Runs kubectl as the cluster's administrator: `cluster kubectl -- get pods -A`
    Kubectl {
        /// kubectl's own arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Prints a component's log
    Logs {
        /// The component, for example kubelet
        component: Component,
        /// Continues to print new lines
        #[arg(short, long)]
        follow: bool,
    },
    /// Ends one component at once, as a crash would; it stays down until `restart`
    Kill {
        /// The component, for example kube-apiserver
        component: Component,
    },
    /// Ends one component in order, if it runs, and starts it again
    Restart {
        /// The component, for example kube-apiserver
        component: Component,
    },
    /// Reboots the cluster's machine without warning: every process ends, and starts again on its files
    Reboot,
    /// Internal: keeps a cluster's namespaces
    #[command(hide = true)]
    Keeper {
        /// Ends the cluster when this process, the calling one, ends
        #[arg(long, value_name = "PID")]
        end_with_parent: Option<i32>,
    },
    /// Internal: the first process inside a cluster's namespaces
    #[command(hide = true)]
    Supervisor,
}

/// Why a command failed; every variant speaks for itself.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[allow(
    missing_docs,
    reason = "each variant is the error of one operation and documented there"
)]
pub enum ClusterCommandError {
    Up(#[from] UpError),
    Down(#[from] DownError),
    Control(#[from] ControlError),
    Preflight(#[from] PreflightError),
    Keeper(#[from] keeper::KeeperError),
    Supervisor(#[from] supervisor::SupervisorError),
    Command(#[from] CommandError),
    Io(#[from] io::Error),
    /// There is nothing to speak to.
    #[error("cluster {0} is not up: run `cargo xtask cluster up --name {0}`")]
    NotUp(ClusterName),
}

impl Launcher {
    /// The running program itself, with the words that lead to its cluster commands.
    pub fn this_program(prefix: &[&str]) -> io::Result<Self> {
        Ok(Self {
            program: env::current_exe()?,
            prefix: prefix.iter().map(ToString::to_string).collect(),
            end_with_parent: false,
        })
    }
}

/// Carries out one command.
pub fn run(args: ClusterArgs, launcher: &Launcher) -> Result<(), ClusterCommandError> {
    let ClusterArgs { name, command } = args;
    match command {
        ClusterCommand::Up => up(&name, launcher),
        ClusterCommand::Down => {
            Cluster::down(&name)?;
            println!("cluster {name} is gone");
            Ok(())
        }
        ClusterCommand::Status => status(),
        ClusterCommand::Kubectl { args } => {
            let cluster = find(&name)?;
            // Replaces this process, so that kubectl has the terminal and its exit code is ours.
            Err(cluster.kubectl().command().args(args).exec().into())
        }
        ClusterCommand::Logs { component, follow } => {
            must_exist(&name)?;
            logs(Cluster::log(&name, component), follow)
        }
        ClusterCommand::Kill { component } => {
            must_exist(&name)?;
            Ok(Cluster::kill(&name, component)?)
        }
        ClusterCommand::Restart { component } => {
            must_exist(&name)?;
            Ok(Cluster::restart(&name, component)?)
        }
        ClusterCommand::Reboot => {
            find(&name)?.reboot(&Progress::default(), || {})?;
            println!("cluster {name} is up again");
            Ok(())
        }
        ClusterCommand::Keeper { end_with_parent } => {
            Ok(keeper::run(&name, launcher, end_with_parent)?)
        }
        ClusterCommand::Supervisor => Ok(supervisor::run(&name)?),
    }
}

fn up(name: &ClusterName, launcher: &Launcher) -> Result<(), ClusterCommandError> {
    let progress = Progress::default();
    let cluster = Cluster::up(name, launcher, &progress)?;
    println!("cluster {name} is up ({})", progress.elapsed());
    println!("  kubectl:    cargo xtask cluster kubectl --name {name} -- get pods -A");
    println!("  kubeconfig: {}", cluster.kubectl().kubeconfig().display());
    println!("  end it:     cargo xtask cluster down --name {name}");
    Ok(())
}

fn find(name: &ClusterName) -> Result<Cluster, ClusterCommandError> {
    Cluster::find(name)?.ok_or_else(|| ClusterCommandError::NotUp(name.clone()))
}

fn must_exist(name: &ClusterName) -> Result<(), ClusterCommandError> {
    if Cluster::is_absent(name) {
        return Err(ClusterCommandError::NotUp(name.clone()));
    }
    Ok(())
}

fn status() -> Result<(), ClusterCommandError> {
    if !rustix::process::geteuid().is_root() {
        return Err(PreflightError::NotRoot.into());
    }
    let names = Cluster::names()?;
    if names.is_empty() {
        println!("no cluster (bring one up with `cargo xtask cluster up`)");
    }
    for name in names {
        match Cluster::states(&name) {
            Err(error) => println!("{name}: not running ({error})"),
            Ok(states) => {
                println!("{name}:");
                for state in states {
                    println!("  {:24} {}", state.component.name(), describe(&state.state));
                }
            }
        }
    }
    Ok(())
}

fn describe(state: &State) -> String {
    match state {
        State::NotStarted => "not started".to_owned(),
        State::Running { listening: true } => "running".to_owned(),
        State::Running { listening: false } => "running, not listening yet".to_owned(),
        State::Ended(how) => how.clone(),
    }
}

fn logs(file: PathBuf, follow: bool) -> Result<(), ClusterCommandError> {
    if follow {
        return Ok(Tool::new("tail")
            .args(["-n", "+1", "-F"])
            .args([file])
            .run()?);
    }
    io::copy(&mut fs::File::open(file)?, &mut io::stdout().lock())?;
    Ok(())
}
