//! Ending a cluster in any state, and removing everything it made.

use std::{fs, io, time::Duration};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::{
    cgroup, control, keeper,
    layout::{ClusterName, Layout},
    work::{self, WorkError},
};
use crate::wait::{Deadline, TimedOut, poll};

/// How long processes may take to end once they were told to.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long it waits for processes that others started.
const A_MOMENT: Duration = Duration::from_secs(5);

/// Why a cluster is still there.
#[derive(Debug, thiserror::Error)]
pub enum DownError {
    /// Another `up` or `down` is at work.
    #[error(transparent)]
    Busy(#[from] WorkError),
    /// A process of the cluster could not be found or ended.
    #[error("cannot end the processes of cluster {name}; they belong to root")]
    Process {
        /// The cluster.
        name: ClusterName,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// Its files could not be removed.
    #[error("cannot remove {path}")]
    Files {
        /// The cluster's directory.
        path: std::path::PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// It does not end.
    #[error(transparent)]
    StillThere(#[from] TimedOut),
}

/// Ends the cluster; one that is not there is fine.
pub(super) fn down(name: &ClusterName) -> Result<(), DownError> {
    if Layout::of(name).is_absent() {
        return Ok(cgroup::remove(name)?);
    }
    let _work = work::begin(name)?;
    remove(name)
}

/// The same for a caller that holds the cluster's work lock already.
pub(super) fn remove(name: &ClusterName) -> Result<(), DownError> {
    let layout = Layout::of(name);
    let process = |source| DownError::Process {
        name: name.clone(),
        source,
    };
    // Read before the keeper ends: afterwards the process cannot be identified.
    let supervisor = control::supervisor_pid(&layout).ok();
    if let Some(keeper) = keeper::find(&layout).map_err(process)? {
        signal(keeper, Signal::TERM).map_err(process)?;
        if wait_gone("the keeper's end", keeper).is_err() {
            signal(keeper, Signal::KILL).map_err(process)?;
            wait_gone("the keeper's end", keeper)?;
        }
    }
    if let Some(supervisor) = supervisor {
        // It ends with its keeper, unless that was killed before it had bound the two together.
        signal(supervisor, Signal::KILL).map_err(process)?;
        wait_gone("the supervisor's end", supervisor)?;
    }
    await_the_others(&layout);
    cgroup::remove(name)?;
    match fs::remove_dir_all(layout.root()) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(DownError::Files {
            path: layout.root().to_path_buf(),
            source,
        }),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The supervisor's child processes end with it, but a little later. Another program that names the cluster's
/// files, such as a kubectl, is not waited for longer.
fn await_the_others(layout: &Layout) {
    let root = format!("{}/", layout.root().display());
    let mentions = |entry: &fs::DirEntry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&root)
    };
    let gone = poll(
        "the end of its processes",
        Deadline::after(A_MOMENT),
        || {
            let mut processes = fs::read_dir("/proc").into_iter().flatten().flatten();
            if processes.any(|entry| mentions(&entry)) {
                Err("some live".to_owned())
            } else {
                Ok(())
            }
        },
    );
    // Programs that still live have nothing of the cluster any more.
    drop(gone);
}

fn signal(pid: Pid, signal: Signal) -> io::Result<()> {
    match kill_process(pid, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

fn wait_gone(what: &str, pid: Pid) -> Result<(), TimedOut> {
    poll(what, Deadline::after(PATIENCE), || {
        // A zombie still answers: its state tells that it is over.
        let stat = format!("/proc/{}/stat", pid.as_raw_nonzero());
        let status = fs::read_to_string(stat).unwrap_or_default();
        let zombie = status
            .rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('Z'));
        if zombie || test_kill_process(pid).is_err() {
            Ok(())
        } else {
            Err(format!("process {} lives", pid.as_raw_nonzero()))
        }
    })
}
