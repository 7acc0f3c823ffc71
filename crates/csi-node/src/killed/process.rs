//! The process: what it does, how it is started, and how it is killed.

use std::{
    env,
    io::{self, BufRead, BufReader, Lines, Write},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio, exit},
    sync::Arc,
    thread::{self, sleep},
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::{
        ptrace::{self, Options},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use prometheus::Registry;
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use service_kit::{
    readiness::Readiness,
    serve::{InUse, UnixSocket},
    shutdown::Tasks,
};
use tokio::{
    runtime::Builder,
    sync::{oneshot, watch},
};

use super::{KUBELET, TEST, cluster::Cluster};
use crate::{
    mounter::Linux,
    server::{DriverIdentity, DriverNode, serve_csi},
    testing::{self, ON},
};

/// The source of all mounts of the driver.
pub(super) const DRIVER: &str = "connectors-csi";
/// How long the driver holds a call without access: about as long as a call takes.
const HOLD: Duration = Duration::from_millis(5);
/// Longer than any life, so that all mounts are the work of one thread.
const IDLE: Duration = Duration::from_hours(1);

/// The socket that the kubelet calls.
pub(super) fn socket(kubelet: &Path) -> PathBuf {
    kubelet.join("plugins/csi.sock")
}

/// In the process: serves the driver until it is killed, or told to end by the end of its input.
pub(super) fn serve(kubelet: &Path) -> ! {
    println!("begins");
    let mut word = String::new();
    io::stdin().read_line(&mut word).unwrap();
    // One thread for all that blocks, so that it can be followed from its first system call on.
    let mut builder = Builder::new_current_thread();
    let builder = builder.enable_all().max_blocking_threads(1);
    let runtime = builder.thread_keep_alive(IDLE).build().unwrap();
    runtime.block_on(async {
        let tasks = Tasks::new();
        let cluster = Cluster::of(kubelet);
        let parts = (cluster.clone(), cluster, Arc::new(Linux::new(DRIVER)));
        let (_switch, switched) = watch::channel(ON);
        let (_object, checked) = watch::channel(Some(Ok(())));
        let registry = Registry::new();
        let state = (switched, checked);
        let mut driver = testing::driver(parts, state, tasks.stop(), &registry, kubelet, 8);
        driver.settings.hold = HOLD;
        driver.take_over();
        let (readiness, _start) = Readiness::starting();
        let identity = DriverIdentity {
            name: DRIVER.to_owned(),
            readiness,
        };
        let socket = UnixSocket::bind(socket(kubelet), InUse::Replace).unwrap();
        let node = DriverNode(Arc::new(driver));
        let serving = tokio::spawn(serve_csi(socket, identity, node, tasks.stop()));
        let thread = tokio::task::spawn_blocking(rustix::thread::gettid);
        println!("mounts with {}", thread.await.unwrap().as_raw_nonzero());
        let (end, ended) = oneshot::channel();
        thread::spawn(move || {
            io::stdin().read_line(&mut word).unwrap();
            end.send(()).unwrap();
        });
        ended.await.unwrap();
        drop(tasks);
        serving.await.unwrap();
    });
    exit(0)
}

/// A process that has not begun.
pub(super) struct Begun {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Begun {
    pub(super) fn new(kubelet: &Path) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "--nocapture", TEST])
            .env(KUBELET, kubelet)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut begun = Self { child, lines };
        begun.said("begins").unwrap();
        begun
    }

    /// What the line says after this word. None when the process ended before.
    fn said(&mut self, word: &str) -> Option<String> {
        self.lines.find_map(|line| {
            let line = line.unwrap();
            Some(line.split_once(word)?.1.trim().to_owned())
        })
    }

    fn begin(&mut self) {
        let mut input = self.child.stdin.as_ref().unwrap();
        input.write_all(b"\n").unwrap();
    }

    /// Lets it begin, up to where it serves.
    pub(super) fn serves(mut self) -> Process {
        self.begin();
        let thread = self.said("mounts with").unwrap().parse().unwrap();
        let pid = rustix::process::Pid::from_child(&self.child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        Process {
            child: self.child,
            thread: Pid::from_raw(thread),
            pidfd: Arc::new(pidfd),
        }
    }

    /// Lets it begin, and kills it after a time. True when it did not serve yet.
    pub(super) fn killed_after(mut self, time: Duration) -> bool {
        self.begin();
        sleep(time);
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.said("mounts with").is_none()
    }
}

/// A process that serves.
pub(super) struct Process {
    child: Child,
    /// The thread that mounts.
    thread: Pid,
    /// To kill it by, which never meets another process.
    pub(super) pidfd: Arc<OwnedFd>,
}

impl Process {
    /// Kills it before the system call of this number that its mounts make after `begin`, unless it is killed sooner.
    pub(super) fn killed_before_call(mut self, number: usize, begin: impl FnOnce()) {
        ptrace::seize(self.thread, Options::PTRACE_O_TRACESYSGOOD).unwrap();
        ptrace::interrupt(self.thread).unwrap();
        assert!(matches!(self.stopped(), Some(WaitStatus::PtraceEvent(..))));
        begin();
        let mut calls = 0;
        // To the beginning of a call, and to its end.
        while self.goes_on() {
            calls += 1;
            if calls == number {
                slay(&self.pidfd);
            }
            if !self.goes_on() {
                break;
            }
        }
        self.child.wait().unwrap();
    }

    /// Kills it after a time from `begin` on.
    pub(super) fn killed_after(mut self, time: Duration, begin: impl FnOnce()) {
        begin();
        sleep(time);
        slay(&self.pidfd);
        self.child.wait().unwrap();
    }

    /// Ends as it should.
    pub(super) fn ends(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }

    /// Up to the next beginning or end of a call. False when the process is dead.
    fn goes_on(&self) -> bool {
        let mut signal = None;
        loop {
            match ptrace::syscall(self.thread, signal.take()) {
                Ok(()) => {}
                Err(Errno::ESRCH) => {
                    // Dead, and its thread not yet waited for.
                    while self.stopped().is_some() {}
                    return false;
                }
                Err(error) => panic!("{error}"),
            }
            match self.stopped() {
                Some(WaitStatus::PtraceSyscall(_)) => return true,
                Some(WaitStatus::Stopped(_, sent)) => signal = Some(sent),
                Some(WaitStatus::PtraceEvent(..)) => {}
                Some(_) | None => return false,
            }
        }
    }

    /// The next stop of the thread. None when there is none any more.
    fn stopped(&self) -> Option<WaitStatus> {
        waitpid(self.thread, Some(WaitPidFlag::__WALL)).ok()
    }
}

/// Kills a process, unless it is dead.
pub(super) fn slay(process: &OwnedFd) {
    let _ = pidfd_send_signal(process, Signal::KILL);
}
