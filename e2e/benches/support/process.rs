//! A service as it ships: a release program, a process of its own.

use std::env;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use e2e::install;
use rustix::process::{Pid, Signal, kill_process};

/// How long it may take to be ready, or to end.
const PATIENCE: Duration = Duration::from_mins(1);

/// A service, until this is dropped.
pub(crate) struct Process {
    child: Child,
    admin: SocketAddr,
    /// From its start to its being ready.
    pub(crate) ready_after: Duration,
}

/// The release program of this name, which is beside this one.
pub(crate) fn program(name: &str) -> PathBuf {
    let this = env::current_exe().unwrap();
    this.ancestors().nth(2).unwrap().join(name)
}

/// An address without a listener.
pub(crate) fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

impl Process {
    /// Starts a program and waits until it is ready.
    pub(crate) fn start(name: &str, arguments: &[String]) -> Self {
        let admin = free_address();
        let began = Instant::now();
        // It does not outlive this process, however this ends.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "TERM", "--"])
            .arg(program(name))
            .args(arguments)
            .arg(format!("--admin-address={admin}"))
            .arg("--log-filter=warn")
            .envs(install::allocator_settings())
            .stdin(Stdio::null())
            // Its logs are no row of the table.
            .stdout(io::stderr())
            .spawn()
            .unwrap();
        let mut it = Self {
            child,
            admin,
            ready_after: Duration::ZERO,
        };
        while !it.is_ready() {
            assert!(began.elapsed() < PATIENCE, "{name} is not ready");
            let ended = it.child.try_wait().unwrap();
            assert!(ended.is_none(), "{name} ended: {ended:?}");
            sleep(Duration::from_millis(2));
        }
        it.ready_after = began.elapsed();
        it
    }

    /// As the operating system counts it.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its current and its largest resident memory, in MB, without its child processes.
    pub(crate) fn memory(&self) -> (f64, f64) {
        Running(self.child.id()).memory()
    }

    /// The processor time that it has used.
    pub(crate) fn worked(&self) -> Duration {
        Running(self.child.id()).worked()
    }

    fn is_ready(&self) -> bool {
        let answer = || {
            let mut stream = TcpStream::connect(self.admin)?;
            stream.write_all(
                b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
            )?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok::<_, io::Error>(answer)
        };
        answer().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let ended = Pid::from_raw(self.child.id().cast_signed())
            .ok_or(())
            .and_then(|process| kill_process(process, Signal::TERM).map_err(drop));
        let began = Instant::now();
        while ended.is_ok() && began.elapsed() < PATIENCE {
            if self.child.try_wait().is_ok_and(|it| it.is_some()) {
                return;
            }
            sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process on this machine, in any namespaces.
pub(crate) struct Running(u32);

impl Running {
    /// All processes.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let ids = processes.filter_map(|it| it.file_name().to_str()?.parse().ok());
        ids.map(Self)
    }

    /// All that run the program of this name.
    pub(crate) fn named(program: &str) -> Vec<Self> {
        Self::all()
            .filter(|it| {
                // The first argument is the program's path.
                let arguments = it.arguments().unwrap_or_default();
                let path = arguments.split('\0').next().unwrap_or_default();
                path.rsplit('/').next() == Some(program)
            })
            .collect()
    }

    /// Its arguments, each with a zero after it. None of a process that is gone.
    pub(crate) fn arguments(&self) -> Option<String> {
        let line = fs::read(format!("/proc/{}/cmdline", self.0)).ok()?;
        String::from_utf8(line).ok()
    }

    /// Its current and its largest resident memory, in MB.
    pub(crate) fn memory(&self) -> (f64, f64) {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0)).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|it| it.trim_start_matches(':').split_whitespace().next());
            let kib: f64 = number.unwrap().parse().unwrap();
            kib * 1024.0 / 1e6
        };
        (field("VmRSS"), field("VmHWM"))
    }

    /// Its number, as the operating system counts.
    pub(crate) const fn id(&self) -> u32 {
        self.0
    }

    /// The processor time that it has used.
    pub(crate) fn worked(&self) -> Duration {
        self.worked_so_far().unwrap()
    }

    /// The same of a process that may have ended meanwhile.
    pub(crate) fn worked_so_far(&self) -> Option<Duration> {
        worked(&self.0.to_string())
    }
}

/// The processor time of this process.
pub(crate) fn worked_here() -> Duration {
    worked("self").unwrap()
}

/// User and system time, the fourteenth and fifteenth fields, in hundredths of a second.
fn worked(process: &str) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let times = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = times.map(|it| it.parse::<u64>().unwrap()).sum();
    Some(Duration::from_millis(ticks * 10))
}
