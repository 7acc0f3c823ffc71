//! The real program, and its state from outside.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::files::{Pair, replace};
use super::program::{Held, Running, free_port, until};

/// A running evaluation service.
pub(crate) struct Process {
    running: Running,
    dir: PathBuf,
    port: u16,
}

/// Connections that are open at one moment and not at another.
const SOME: usize = 12;

impl Process {
    /// Starts the program in a folder with its kubeconfig in it.
    pub(crate) fn start(dir: &Path, pair: &Pair, max_staleness: Duration) -> Self {
        let path = |name: &str| dir.join(name).display().to_string();
        let port = free_port();
        write_pair(dir, pair);
        let arguments = [
            format!("--tls-certificate={}", path("tls.crt")),
            format!("--tls-key={}", path("tls.key")),
            format!("--listen-address=127.0.0.1:{port}"),
            format!("--listen-socket={}", path("socket")),
            format!("--max-staleness={}s", max_staleness.as_secs()),
        ];
        Self {
            running: Running::start("evaluation-service", dir, &arguments),
            dir: dir.to_owned(),
            port,
        }
    }

    /// Puts another certificate in the place of the one it serves.
    pub(crate) fn replace_pair(&self, pair: &Pair) {
        write_pair(self.dir(), pair);
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Waits for words in its log.
    pub(crate) async fn until_logged(&self, words: &str) {
        let what = format!("`{words}` in the log");
        until(&what, || self.running.log().contains(words).then_some(())).await;
    }

    /// Whether the process says that it may be given work.
    pub(crate) fn is_ready(&self) -> bool {
        self.running.is_ready()
    }

    /// Whether it holds no more than it did before.
    pub(super) fn holds_no_more_than(&self, before: Held) -> bool {
        let now = self.holds();
        now.threads <= before.threads && now.files <= before.files + SOME
    }

    /// The resources that it holds now.
    pub(super) fn holds(&self) -> Held {
        self.running.holds()
    }

    /// It ends when it is told to, and nothing in it has panicked.
    pub(super) async fn end(self) {
        self.running.end().await;
    }
}

/// The key first: a pair that is half replaced is one that the service leaves alone.
fn write_pair(dir: &Path, pair: &Pair) {
    replace(&dir.join("tls.key"), &pair.key);
    replace(&dir.join("tls.crt"), &pair.certificate);
}
