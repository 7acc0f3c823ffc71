//! A real Kubernetes node on this machine, and its users: the demo and the end-to-end tests.
//!
//! Owns: finding or building the cluster's components, starting and ending them, images made without Docker,
//! waiting on conditions. Refuses to know: how the services decide. The demo and the scenarios use the
//! cluster through its API like all other clients, and [`checker`] knows the promises and none of the code.
//! Invariant: after [`Cluster::down`] nothing that a cluster made is left on the machine: no process, mount,
//! network interface, cgroup or file.

#[cfg(feature = "harness")]
pub mod api;
pub mod checker;
pub mod cli;
pub mod cluster;
mod command;
pub mod demo;
#[cfg(feature = "harness")]
pub mod harness;
mod hex;
pub mod images;
pub mod install;
#[cfg(feature = "harness")]
pub mod pipelines;
mod progress;
mod target;
pub mod tekton;
mod wait;

#[cfg(feature = "harness")]
pub use api::{ApiClient, ApiError, ApiUser};
pub use cluster::{Cluster, ClusterName, Component, Launcher, cache_dir, repository};
pub use command::{CommandError, Tool};
pub use install::{Helm, InstallError};
pub use progress::Progress;
pub use target::{Kubectl, Target};
pub use wait::{Deadline, TimedOut, poll};

/// Set to 1 by `cargo xtask test --long`: tests with a long form run that.
pub const LONG_FORM: &str = "E2E_LONG";

/// An error with everything that led to it, in one line each.
#[must_use]
pub fn report(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let line = cause.to_string();
        // A transparent error repeats its source word for word.
        if !text.ends_with(&line) {
            text.push_str("\n  because ");
            text.push_str(&line);
        }
        source = cause.source();
    }
    text
}
