//! A program of this workspace as a process, and what can be seen of it from outside.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, thread};

use e2e::harness::PATIENCE;
use e2e::install;
use tokio::time::{Instant, sleep};

/// A running service.
pub(crate) struct Running {
    name: String,
    child: Child,
    dir: PathBuf,
    admin: SocketAddr,
}

/// Starts a program with as many open files as a process gets by default. It may allow itself more.
const FEW_FILES: &str = r#"ulimit -S -n 1024; exec "$0" "$@""#;

/// The resources that a process holds. They must not grow with every failure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) threads: usize,
    pub(crate) files: usize,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines.len().saturating_sub(60);
            let name = &self.name;
            eprintln!(
                "── the end of the log of {name}\n{}",
                lines[last..].join("\n")
            );
        }
    }
}

impl Running {
    /// Starts a service in a folder with its kubeconfig in it.
    pub(crate) fn start(name: &str, dir: &Path, arguments: &[String]) -> Self {
        let admin = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let log = File::create(dir.join("log")).unwrap();
        let child = Command::new("sh")
            .args(["-c", FEW_FILES])
            .arg(program(name))
            .envs(install::allocator_settings())
            .arg(format!("--kubeconfig={}", dir.join("kubeconfig").display()))
            .arg(format!("--admin-address={admin}"))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Self {
            name: name.to_owned(),
            child,
            dir: dir.to_owned(),
            admin,
        }
    }

    /// Its log.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// Whether the process says that it may be given work.
    pub(crate) fn is_ready(&self) -> bool {
        self.get("/readyz")
            .is_some_and(|it| it.starts_with("HTTP/1.0 200"))
    }

    /// An answer of its admin server.
    pub(crate) fn get(&self, path: &str) -> Option<String> {
        let mut connection = TcpStream::connect(self.admin).ok()?;
        write!(connection, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    /// Its threads and open files now.
    pub(crate) fn holds(&self) -> Held {
        let count = |what: &str| fs::read_dir(self.proc(what)).unwrap().count();
        Held {
            threads: count("task"),
            files: count("fd"),
        }
    }

    /// A file that the kernel has about it.
    pub(crate) fn proc(&self, name: &str) -> PathBuf {
        Path::new("/proc")
            .join(self.child.id().to_string())
            .join(name)
    }

    /// It ends when it is told to, and nothing in it has panicked.
    pub(crate) async fn end(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let status = until("the process to end", || self.child.try_wait().unwrap()).await;
        assert!(status.success(), "{status}");
        let log = self.log();
        let panics: Vec<&str> = log.lines().filter(|it| it.contains("panicked")).collect();
        assert_eq!(panics, Vec::<&str>::new());
    }
}

/// A program of this workspace, where cargo puts it: beside the folder of this test.
pub(crate) fn program(name: &str) -> PathBuf {
    let test = env::current_exe().unwrap();
    let folder = test.parent().and_then(Path::parent).unwrap();
    let program = folder.join(name);
    assert!(
        program.is_file(),
        "{name} is not built: `cargo xtask test` does before it runs this"
    );
    program
}

/// A free port.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// Waits until a probe has something.
pub(crate) async fn until<T>(what: &str, probe: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, what, probe).await
}

/// The same for a while that the caller chooses.
pub(crate) async fn within<T>(
    limit: Duration,
    what: &str,
    mut probe: impl FnMut() -> Option<T>,
) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {limit:?} for {what}");
        sleep(Duration::from_millis(20)).await;
    }
}
