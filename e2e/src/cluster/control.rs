//! The conversation with the supervisor: one JSON line each way over a socket in the cluster's directory.

use std::{
    io::{self, BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    time::Duration,
};

use rustix::{net::sockopt::socket_peercred, process::Pid};
use serde::{Deserialize, Serialize};

use super::{components::Component, layout::Layout};

/// The requests to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Request {
    /// Tell the state of every component.
    Status,
    /// Start a component that does not run.
    Start(Component),
    /// End a component at once, as a crash would.
    Kill(Component),
    /// End a component in order, then start it again.
    Restart(Component),
}

/// The supervisor's answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reply {
    /// The state of every component after the request was carried out.
    States(Vec<ComponentState>),
    /// Why it could not be carried out.
    Refused(String),
}

/// One component as the supervisor sees it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ComponentState {
    /// Which one.
    pub component: Component,
    /// Its state.
    pub state: State,
}

/// The state of a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Never started, or not yet.
    NotStarted,
    /// Running.
    Running {
        /// Whether it takes connections yet.
        listening: bool,
    },
    /// Ended; the words tell how.
    Ended(String),
}

impl State {
    /// Whether the component is there for others.
    #[must_use]
    pub fn is_up(&self) -> bool {
        *self == Self::Running { listening: true }
    }
}

/// Why the supervisor did not answer.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The socket has no listener: the cluster does not run.
    #[error(
        "the cluster's supervisor does not answer; is the cluster up? (`cargo xtask cluster up`)"
    )]
    Unreachable(#[source] io::Error),
    /// It answered something that this version does not understand.
    #[error("the cluster's supervisor gave an unreadable answer")]
    Garbled(#[source] serde_json::Error),
    /// It could not carry out the request.
    #[error("{0}")]
    Refused(String),
}

/// Asks the supervisor of a cluster.
pub(crate) fn ask(layout: &Layout, request: &Request) -> Result<Vec<ComponentState>, ControlError> {
    let exchange = || -> io::Result<String> {
        let mut stream = UnixStream::connect(layout.control_socket())?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        stream.write_all(&line)?;
        let mut reply = String::new();
        BufReader::new(stream).read_line(&mut reply)?;
        Ok(reply)
    };
    let reply = exchange().map_err(ControlError::Unreachable)?;
    match serde_json::from_str(&reply).map_err(ControlError::Garbled)? {
        Reply::States(states) => Ok(states),
        Reply::Refused(why) => Err(ControlError::Refused(why)),
    }
}

/// The supervisor's process id as this process sees it: the kernel tells the id of the peer.
pub(crate) fn supervisor_pid(layout: &Layout) -> io::Result<Pid> {
    let stream = UnixStream::connect(layout.control_socket())?;
    Ok(socket_peercred(&stream)?.pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_that_is_not_up_is_named_as_such() {
        let dir = tempfile::tempdir().unwrap();
        let error = ask(&Layout::at(dir.path()), &Request::Status).unwrap_err();
        assert!(error.to_string().contains("cargo xtask cluster up"));
    }
}
