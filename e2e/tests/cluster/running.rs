//! The cluster's own program as a test drives it.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Output, Stdio},
};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_local-cluster");

/// A cluster of a test; it is taken down when the test ends, however it ends.
pub(crate) struct TestCluster {
    pub(crate) name: String,
}

impl TestCluster {
    /// The name contains the id of the run, so that it meets no other cluster, and so that the next run finds
    /// the remains of an interrupted one.
    pub(crate) fn named(purpose: &str) -> Self {
        Self {
            name: format!("e2e-{}-{purpose}", std::process::id()),
        }
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .args(["--name", &self.name])
            .args(words)
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Runs a command that must succeed; gives its output.
    pub(crate) fn must(&self, words: &[&str]) -> String {
        let output = self.run(words);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Starts `up` and follows the names of its stages as it prints them.
    pub(crate) fn start_up(&self) -> Up {
        Up::start(self.command(&["up"]))
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        let _ = self.run(&["down"]);
    }
}

/// A running `up`.
pub(crate) struct Up {
    pub(crate) child: Child,
    lines: Box<dyn Iterator<Item = String>>,
}

impl Up {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        Self {
            child,
            lines: Box::new(lines.map_while(Result::ok)),
        }
    }

    /// The name of the next stage, as soon as it starts; none when `up` has ended.
    pub(crate) fn next_stage(&mut self) -> Option<String> {
        self.lines
            .find_map(|line| line.trim().strip_suffix(" …").map(str::to_owned))
    }

    /// Ends `up` as a crash would.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
