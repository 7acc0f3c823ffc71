//! Process 1 of a cluster: it lives in the cluster's own network, mount and process namespaces and is the
//! parent of everything there. When it ends, however it ends, the kernel ends everything else.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufRead, BufReader, Write},
    os::unix::{net::UnixListener, process::CommandExt},
    process::{Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process};
use signal_hook::{consts::SIGCHLD, iterator::Signals};

use super::{
    components::Component,
    control::{ComponentState, Reply, Request, State},
    layout::{ClusterName, Layout},
    namespaces,
    tools::{Tools, ToolsError},
};
use crate::{
    command::CommandError,
    wait::{Deadline, poll},
};

/// How long a component may take to end in order before it is killed.
const GRACE: Duration = Duration::from_secs(10);

/// Why the supervisor could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// The internal command was run by hand.
    #[error(
        "this is an internal command: it must be the first process of a namespace; use `cluster up`"
    )]
    NotFirstProcess,
    /// Mounts, sockets, files.
    #[error("cannot {what}")]
    Io {
        /// The attempted action.
        what: String,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The file with the paths of the tools is missing.
    #[error(transparent)]
    Tools(#[from] ToolsError),
    /// The network could not be set up.
    #[error("cannot set up the cluster's network")]
    Network(#[source] CommandError),
}

/// Runs until killed: prepares the namespaces, then takes requests.
pub(crate) fn run(name: &ClusterName) -> Result<(), SupervisorError> {
    if std::process::id() != 1 {
        return Err(SupervisorError::NotFirstProcess);
    }
    let layout = Layout::of(name);
    let tools = Tools::of_cluster(&layout)?;
    namespaces::private_mounts().map_err(io_error("make the cluster's mounts"))?;
    namespaces::network().map_err(SupervisorError::Network)?;
    namespaces::forwarding().map_err(io_error("switch forwarding on"))?;

    let children = Arc::new(Children {
        commands: Component::ALL
            .into_iter()
            .map(|component| (component, component.command(&layout, name, &tools)))
            .collect(),
        path: search_path(&tools),
        layout,
        running: Mutex::default(),
    });
    let signals = Signals::new([SIGCHLD]).map_err(io_error("watch for ended processes"))?;
    let reaper = Arc::clone(&children);
    thread::spawn(move || reaper.reap_forever(signals));

    let socket = children.layout.control_socket();
    let listener = UnixListener::bind(&socket).map_err(io_error("listen for requests"))?;
    for stream in listener.incoming() {
        let children = Arc::clone(&children);
        // A broken connection concerns the asker alone.
        thread::spawn(move || stream.and_then(|stream| children.serve(&stream)));
    }
    Ok(())
}

/// Components look up helpers (runc, mount, nft) by name.
fn search_path(tools: &Tools) -> String {
    let system = [
        "/usr/local/sbin",
        "/usr/local/bin",
        "/usr/sbin",
        "/usr/bin",
        "/sbin",
        "/bin",
    ];
    let built = tools.dirs().iter().map(|dir| dir.display().to_string());
    built
        .chain(system.map(str::to_owned))
        .collect::<Vec<_>>()
        .join(":")
}

struct Children {
    layout: Layout,
    commands: BTreeMap<Component, Vec<String>>,
    path: String,
    running: Mutex<BTreeMap<Component, Process>>,
}

enum Process {
    Running(Pid),
    Ended(String),
}

impl Children {
    fn table(&self) -> MutexGuard<'_, BTreeMap<Component, Process>> {
        // Every change of the table is a single insert, so it is whole even after a panic.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, stream: &std::os::unix::net::UnixStream) -> io::Result<()> {
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        let reply = match serde_json::from_str(&line) {
            Ok(request) => self.carry_out(&request),
            Err(error) => Reply::Refused(format!("unreadable request: {error}")),
        };
        let mut answer = serde_json::to_vec(&reply)?;
        answer.push(b'\n');
        (&*stream).write_all(&answer)
    }

    fn carry_out(&self, request: &Request) -> Reply {
        let result = match *request {
            Request::Status => Ok(()),
            Request::Start(component) => self.start(component),
            Request::Kill(component) => self.kill(component),
            Request::Restart(component) => self.end(component).and_then(|()| self.start(component)),
        };
        match result {
            Ok(()) => Reply::States(self.states()),
            Err(error) => Reply::Refused(error),
        }
    }

    fn start(&self, component: Component) -> Result<(), String> {
        let mut table = self.table();
        if let Some(Process::Running(_)) = table.get(&component) {
            return Err(format!("{component} runs already"));
        }
        let pid = self
            .spawn(component)
            .map_err(|error| format!("cannot start {component}: {error}"))?;
        // The reaper takes the same lock, so a process that ends at once is still found in the table.
        table.insert(component, Process::Running(pid));
        Ok(())
    }

    fn spawn(&self, component: Component) -> io::Result<Pid> {
        let command_line = self.commands.get(&component).map_or(&[][..], Vec::as_slice);
        let (program, flags) = command_line
            .split_first()
            .ok_or_else(|| io::Error::other("no command line"))?;
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.layout.log(component.name()))?;
        let child = Command::new(program)
            .args(flags)
            .env_clear()
            .env("PATH", &self.path)
            .env("HOME", self.layout.root())
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()?;
        Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?)
            .ok_or_else(|| io::Error::other("no process id"))
    }

    /// Ends a component in order, by force when it takes too long; one that does not run is fine.
    fn end(&self, component: Component) -> Result<(), String> {
        if !self.runs(component) {
            return Ok(());
        }
        self.signal(component, Signal::TERM)?;
        self.wait_for_end(component)
            .or_else(|_| self.kill(component))
    }

    /// Ends a component at once.
    fn kill(&self, component: Component) -> Result<(), String> {
        self.signal(component, Signal::KILL)?;
        self.wait_for_end(component)
    }

    fn wait_for_end(&self, component: Component) -> Result<(), String> {
        let what = format!("the end of {component}");
        poll(&what, Deadline::after(GRACE), || {
            if self.runs(component) {
                Err("it still runs".to_owned())
            } else {
                Ok(())
            }
        })
        .map_err(|error| error.to_string())
    }

    fn runs(&self, component: Component) -> bool {
        matches!(self.table().get(&component), Some(Process::Running(_)))
    }

    fn signal(&self, component: Component, signal: Signal) -> Result<(), String> {
        match self.table().get(&component) {
            Some(Process::Running(pid)) => kill_process(*pid, signal)
                .map_err(|error| format!("cannot signal {component}: {error}")),
            Some(Process::Ended(_)) | None => Err(format!("{component} does not run")),
        }
    }

    fn states(&self) -> Vec<ComponentState> {
        let table = self.table();
        let state = |component: Component| match table.get(&component) {
            None => State::NotStarted,
            Some(Process::Running(_)) => State::Running {
                listening: component.listens(&self.layout),
            },
            Some(Process::Ended(how)) => State::Ended(how.clone()),
        };
        Component::ALL
            .into_iter()
            .map(|component| ComponentState {
                component,
                state: state(component),
            })
            .collect()
    }

    /// Collects every ended process: the components, and the orphans that process 1 inherits.
    fn reap_forever(&self, mut signals: Signals) {
        for _ in signals.forever() {
            let mut table = self.table();
            while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
                let ended = table.values_mut().find(
                    |process| matches!(process, Process::Running(running) if *running == pid),
                );
                if let Some(process) = ended {
                    *process = Process::Ended(how_it_ended(status));
                }
            }
        }
    }
}

fn how_it_ended(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

fn io_error(what: &str) -> impl FnOnce(io::Error) -> SupervisorError {
    let what = what.to_owned();
    move |source| SupervisorError::Io { what, source }
}
