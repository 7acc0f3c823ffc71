//! The process outside the cluster's namespaces: it starts the supervisor and forwards a loopback port to the
//! API server. Asked to reboot, it ends the supervisor and starts it again on the same files. When the supervisor has ended, it removes the cgroups, which namespaces do not clean up.

use std::{
    fs::{self, File},
    io,
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

use rustix::{
    fs::{FlockOperation, flock},
    process::{Pid, Signal, getppid, set_parent_process_death_signal, setsid},
};
use signal_hook::{
    consts::{SIGINT, SIGTERM, SIGUSR1},
    iterator::Signals,
};

use super::{
    Launcher, cgroup,
    config::net,
    control,
    forward::Forwarder,
    layout::{ClusterName, Layout},
};
use crate::{
    command::search_path,
    wait::{Deadline, poll},
};

/// Why the keeper could not keep a cluster.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}")]
pub struct KeeperError {
    what: &'static str,
    #[source]
    source: io::Error,
}

/// Runs until the supervisor ends or a signal asks to end it. Standard input is the cluster's lock, taken by
/// the process that started this one: at no moment does a keeper live without it.
pub(crate) fn run(
    name: &ClusterName,
    launcher: &Launcher,
    parent: Option<i32>,
) -> Result<(), KeeperError> {
    let layout = Layout::of(name);
    if let Some(parent) = parent {
        set_parent_process_death_signal(Some(Signal::TERM))
            .map_err(|errno| error("follow the parent's end")(errno.into()))?;
        // It may have ended before that; an orphan has another parent by now.
        if getppid().map(Pid::as_raw_nonzero).map(i32::from) != Some(parent) {
            return Ok(());
        }
    }
    // A session of its own: neither Ctrl-C nor a closed terminal reaches the cluster.
    setsid().map_err(|errno| error("leave the terminal")(errno.into()))?;
    // Written before anything is made, so that a process which finds the lock held also finds the process to
    // end.
    fs::write(layout.keeper_lock(), std::process::id().to_string())
        .map_err(error("write its process id"))?;
    let signals = Signals::new([SIGTERM, SIGINT, SIGUSR1]).map_err(error("watch for signals"))?;

    let kept = cgroup::create(name)
        .map_err(error("make the cluster's cgroups"))
        .and_then(|()| keep(&layout, name, launcher, signals));
    let removed = cgroup::remove(name).map_err(io::Error::other);
    kept.and(removed.map_err(error("remove the cluster's cgroups")))
}

/// The signals' effect on the supervisor.
#[derive(Default)]
struct Asked {
    /// To start it again once it has ended.
    reboot: AtomicBool,
    /// To stay ended.
    end: AtomicBool,
    /// The process to kill; zero before there is one.
    process: AtomicU32,
}

/// Starts the supervisor and stays until it has ended, or starts it again when that was asked for.
fn keep(
    layout: &Layout,
    name: &ClusterName,
    launcher: &Launcher,
    mut signals: Signals,
) -> Result<(), KeeperError> {
    let asked = Arc::new(Asked::default());
    let heard = Arc::clone(&asked);
    thread::spawn(move || {
        for signal in signals.forever() {
            let effect = if signal == SIGUSR1 {
                &heard.reboot
            } else {
                &heard.end
            };
            effect.store(true, Ordering::SeqCst);
            // `unshare` takes its child, process 1 of the cluster, with it.
            kill(heard.process.load(Ordering::SeqCst));
        }
    });
    let target = SocketAddr::from(([127, 0, 0, 1], net::API_PORT));
    let forwarder = Forwarder::listen(target).map_err(error("listen for the API server"))?;
    loop {
        let mut supervisor =
            start_supervisor(layout, name, launcher).map_err(error("start the supervisor"))?;
        asked.process.store(supervisor.id(), Ordering::SeqCst);
        let forwarding = if asked.end.load(Ordering::SeqCst) {
            kill(supervisor.id());
            Ok(())
        } else {
            forward_api(layout, &forwarder, &mut supervisor)
        };
        if forwarding.is_err() {
            kill(supervisor.id());
        }
        supervisor
            .wait()
            .map_err(error("wait for the supervisor"))?;
        // The number may be another process's from now on.
        asked.process.store(0, Ordering::SeqCst);
        forwarding.map_err(error("forward to the API server"))?;
        if asked.end.load(Ordering::SeqCst) || !asked.reboot.swap(false, Ordering::SeqCst) {
            return Ok(());
        }
        turn_off(layout, name).map_err(error("make the machine ready for its next start"))?;
    }
}

/// Removes all that a machine loses when it is off: cgroups, and the files in `/run`. Processes, mounts and the network have
/// gone with the namespaces.
fn turn_off(layout: &Layout, name: &ClusterName) -> io::Result<()> {
    cgroup::remove(name).map_err(io::Error::other)?;
    cgroup::create(name)?;
    for lost in layout.lost_when_off() {
        let removed = if lost.is_dir() {
            fs::remove_dir_all(&lost)
        } else {
            fs::remove_file(&lost)
        };
        if let Err(error) = removed
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
    }
    Ok(())
}

/// The chain of death: `setpriv` binds `unshare` to us, `unshare` binds the supervisor to itself.
fn start_supervisor(layout: &Layout, name: &ClusterName, launcher: &Launcher) -> io::Result<Child> {
    let log = File::options()
        .create(true)
        .append(true)
        .open(layout.log("supervisor"))?;
    Command::new("setpriv")
        .env("PATH", search_path())
        .args(["--pdeathsig", "KILL", "unshare"])
        .args([
            "--net",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "--",
        ])
        .arg(&launcher.program)
        .args(&launcher.prefix)
        .args(["supervisor", "--name", name.as_str()])
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
}

fn forward_api(layout: &Layout, forwarder: &Forwarder, supervisor: &mut Child) -> io::Result<()> {
    let inside = poll(
        "the supervisor",
        Deadline::after(Duration::from_secs(20)),
        || match supervisor.try_wait() {
            Ok(Some(status)) => Ok(Err(io::Error::other(format!(
                "the supervisor ended: {status}"
            )))),
            Ok(None) | Err(_) => control::supervisor_pid(layout)
                .map(Ok)
                .map_err(|error| error.to_string()),
        },
    )
    .map_err(io::Error::other)??;
    forwarder.lead_into(inside)?;
    // Moved into place whole: a reader sees no half number.
    let unfinished = layout.port_file().with_extension("unfinished");
    fs::write(&unfinished, forwarder.port().to_string())?;
    fs::rename(unfinished, layout.port_file())
}

fn kill(id: u32) {
    if let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        // It may have ended by itself a moment ago.
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

/// Takes the cluster's lock. The holder is the cluster's keeper, or about to start it.
pub(crate) fn take_lock(layout: &Layout) -> io::Result<File> {
    let file = File::options()
        .create(true)
        .write(true)
        .truncate(false)
        .open(layout.keeper_lock())?;
    // A process that checks for a living keeper holds it for a moment.
    poll(
        "the cluster's lock",
        Deadline::after(Duration::from_secs(1)),
        || try_lock(file.as_fd()).map_err(|error| error.to_string()),
    )
    .map_err(io::Error::other)?;
    // Only now: before, the number in it may be a living keeper's.
    file.set_len(0)?;
    Ok(file)
}

/// The keeper of a cluster, if one lives.
pub(crate) fn find(layout: &Layout) -> io::Result<Option<Pid>> {
    let file = match File::open(layout.keeper_lock()) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // A keeper that is just starting holds the lock a moment before it has written its number.
    poll(
        "the keeper's process id",
        Deadline::after(Duration::from_secs(10)),
        || match try_lock(file.as_fd()) {
            Ok(()) => Ok(None),
            Err(_) => read_pid(&layout.keeper_lock()).map(Some),
        },
    )
    .map_err(io::Error::other)
}

fn read_pid(path: &Path) -> Result<Pid, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let number = text.trim().parse().ok();
    number
        .and_then(Pid::from_raw)
        .ok_or_else(|| format!("`{text}`"))
}

fn try_lock(file: BorrowedFd<'_>) -> io::Result<()> {
    Ok(flock(file, FlockOperation::NonBlockingLockExclusive)?)
}

fn error(what: &'static str) -> impl FnOnce(io::Error) -> KeeperError {
    move |source| KeeperError { what, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keeper_is_found_as_long_as_the_lock_is_held() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::at(dir.path());
        assert_eq!(find(&layout).unwrap(), None);
        let held = take_lock(&layout).unwrap();
        fs::write(layout.keeper_lock(), "42").unwrap();
        assert_eq!(find(&layout).unwrap(), Pid::from_raw(42));
        drop(held);
        assert_eq!(find(&layout).unwrap(), None);
    }
}
