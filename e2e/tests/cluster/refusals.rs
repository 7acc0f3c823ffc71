//! Missing requirements of a machine: one clear message each, and nothing started.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use crate::{
    machine::traces_of,
    running::{PROGRAM, TestCluster},
};

#[test]
fn without_root_it_says_so_and_names_the_ways_out() {
    // The program is copied to where an unprivileged user may read it.
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("local-cluster");
    fs::copy(PROGRAM, &copy).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(&copy);
    let message = refused(command, "noroot");
    assert!(
        message.contains("needs root") && message.contains("--kubeconfig"),
        "{message}"
    );
}

#[test]
fn without_go_it_says_what_to_install() {
    let programs = Programs::new();
    let message = refused(programs.only_these(), "nogo");
    assert!(message.contains("Go is not installed"), "{message}");
}

#[test]
fn with_packages_missing_that_cannot_be_installed_it_names_the_command() {
    let programs = Programs::new();
    programs.add("go", "exit 0");
    programs.link("setpriv");
    programs.link("sh");
    programs.add("apt-get", "echo 'no network' >&2; exit 100");
    let message = refused(programs.only_these(), "nopkg");
    assert!(
        message.contains("apt-get install --no-install-recommends containerd"),
        "{message}"
    );
    assert!(message.contains("no network"), "{message}");
}

#[test]
fn with_a_kernel_that_cannot_bridge_it_names_what_is_missing() {
    let programs = Programs::new();
    programs.add("ip", "echo 'Unknown device type' >&2; exit 2");
    let message = refused(programs.before_the_others(), "nobr");
    assert!(message.contains("no bridge devices"), "{message}");
}

/// A directory of stand-in programs.
struct Programs(tempfile::TempDir);

impl Programs {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn add(&self, name: &str, script: &str) {
        let file = self.0.path().join(name);
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// One of the machine's own programs.
    fn link(&self, name: &str) {
        std::os::unix::fs::symlink(Path::new("/usr/bin").join(name), self.0.path().join(name))
            .unwrap();
    }

    /// The cluster's program, which finds these and the administrator's programs only.
    fn only_these(&self) -> Command {
        command(&self.0.path().display().to_string())
    }

    fn before_the_others(&self) -> Command {
        let path = std::env::var("PATH").unwrap();
        command(&format!("{}:{path}", self.0.path().display()))
    }
}

fn command(path: &str) -> Command {
    assert!(Path::new(PROGRAM).is_absolute());
    let mut command = Command::new(PROGRAM);
    command.env("PATH", path);
    command
}

/// Runs `up`, which must be refused without having started anything; gives the message.
fn refused(mut command: Command, purpose: &str) -> String {
    let cluster = TestCluster::named(purpose); // removes a cluster that should not exist
    let output = command
        .args(["up", "--name", &cluster.name])
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert_eq!(traces_of(&cluster.name), Vec::<String>::new());
    String::from_utf8(output.stderr).unwrap()
}
