//! Tests that mount. Each runs once more as a process of its own with a mount namespace of its own, so that nothing of it
//! is seen outside and nothing is left when it fails. Only root can do that; for others these tests fail, unless they are
//! told to be left out.

use std::{
    env,
    process::{Command, Stdio},
};

use rustix::process::geteuid;

const INSIDE: &str = "CSI_NODE_TEST_INSIDE";
/// Leaves the mount tests out of a run without root.
const UNPRIVILEGED: &str = "CSI_NODE_TEST_UNPRIVILEGED";

/// Whether to go on with the test of this full name: inside the namespace. Outside, the test is run inside and must
/// succeed.
pub(crate) fn inside(test: &str) -> bool {
    if env::var_os(INSIDE).is_some() {
        return true;
    }
    if !geteuid().is_root() {
        // A test that proves nothing does not pass, unless the variable leaves it out.
        assert!(
            env::var_os(UNPRIVILEGED).is_some(),
            "only root can mount: run the tests as root, or set {UNPRIVILEGED}=1 to leave {test} out"
        );
        return false;
    }
    // The folders that the test mounts on cannot be removed inside. They are empty when the namespace is gone.
    let folders = tempfile::tempdir().unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg(test)
        .env(INSIDE, "1")
        .env("TMPDIR", folders.path())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    // A test that is not found there would succeed as well.
    let said = String::from_utf8_lossy(&output.stdout);
    // Each line is marked, so that it does not count as one of the runner outside.
    let marked = format!("| {}", said.replace('\n', "\n| "));
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{test} failed inside its namespace:\n{marked}"
    );
    println!("{marked}");
    false
}
