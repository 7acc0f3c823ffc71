//! The real program, and its state from outside.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, thread};

use super::files::{Pair, replace};
use super::stage::until;

/// A running evaluation service.
pub(crate) struct Process {
    child: Child,
    dir: PathBuf,
    admin: SocketAddr,
    port: u16,
}

/// The resources that a process holds. They must not grow with every failure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    threads: usize,
    files: usize,
}

/// Connections that are open at one moment and not at another.
const SOME: usize = 12;

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines.len().saturating_sub(60);
            eprintln!(
                "── the end of the service's log\n{}",
                lines[last..].join("\n")
            );
        }
    }
}

impl Process {
    /// Starts the program in a folder with its kubeconfig in it.
    pub(crate) fn start(dir: &Path, pair: &Pair, max_staleness: Duration) -> Self {
        let path = |name: &str| dir.join(name).display().to_string();
        let (admin, port) = (free_port(), free_port());
        write_pair(dir, pair);
        let log = File::create(dir.join("log")).unwrap();
        let child = Command::new(program("evaluation-service"))
            .arg(format!("--kubeconfig={}", path("kubeconfig")))
            .arg(format!("--tls-certificate={}", path("tls.crt")))
            .arg(format!("--tls-key={}", path("tls.key")))
            .arg(format!("--listen-address=127.0.0.1:{port}"))
            .arg(format!("--admin-address=127.0.0.1:{admin}"))
            .arg(format!("--listen-socket={}", path("socket")))
            .arg(format!("--max-staleness={}s", max_staleness.as_secs()))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Self {
            child,
            dir: dir.to_owned(),
            admin: SocketAddr::from(([127, 0, 0, 1], admin)),
            port,
        }
    }

    /// Puts another certificate in the place of the one it serves.
    pub(crate) fn replace_pair(&self, pair: &Pair) {
        write_pair(&self.dir, pair);
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// Waits for words in its log.
    pub(crate) async fn until_logged(&self, words: &str) {
        let what = format!("`{words}` in the log");
        until(&what, || self.log().contains(words).then_some(())).await;
    }

    /// Whether the process says that it may be given work.
    pub(crate) fn is_ready(&self) -> bool {
        self.get("/readyz")
            .is_some_and(|it| it.starts_with("HTTP/1.0 200"))
    }

    fn get(&self, path: &str) -> Option<String> {
        let mut connection = TcpStream::connect(self.admin).ok()?;
        write!(connection, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    /// Whether it holds no more than it did before.
    pub(super) fn holds_no_more_than(&self, before: Held) -> bool {
        let now = self.holds();
        now.threads <= before.threads && now.files <= before.files + SOME
    }

    /// The resources that it holds now.
    pub(super) fn holds(&self) -> Held {
        let count = |what: &str| {
            let folder = format!("/proc/{}/{what}", self.child.id());
            fs::read_dir(folder).unwrap().count()
        };
        Held {
            threads: count("task"),
            files: count("fd"),
        }
    }

    /// It ends when it is told to, and nothing in it has panicked.
    pub(super) async fn end(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let status = until("the process to end", || self.child.try_wait().unwrap()).await;
        assert!(status.success(), "{status}");
        let log = self.log();
        let panics: Vec<&str> = log.lines().filter(|it| it.contains("panicked")).collect();
        assert_eq!(panics, Vec::<&str>::new());
    }
}

/// The key first: a pair that is half replaced is one that the service leaves alone.
fn write_pair(dir: &Path, pair: &Pair) {
    replace(&dir.join("tls.key"), &pair.key);
    replace(&dir.join("tls.crt"), &pair.certificate);
}

/// A program of this workspace, where cargo puts it: beside the folder of this test.
pub(crate) fn program(name: &str) -> PathBuf {
    let test = env::current_exe().unwrap();
    let folder = test.parent().and_then(Path::parent).unwrap();
    let program = folder.join(name);
    assert!(
        program.is_file(),
        "{name} is not built: `cargo xtask test evaluation` does"
    );
    program
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}
