//! One `up` or `down` of a cluster at a time.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::fs::{FlockOperation, flock};

use super::layout::{ClusterName, Layout};
use crate::wait::{Deadline, poll};

/// Why the work on a cluster cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// Another process is working on it.
    #[error("another `up` or `down` of cluster {0} is at work; wait for it, or end it")]
    Busy(ClusterName),
    /// The lock cannot be used.
    #[error("cannot lock {path}; local clusters belong to root")]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
}

/// The right to work on a cluster; it ends with this value, or with the process.
#[derive(Debug)]
pub(super) struct Work {
    path: PathBuf,
    _file: File,
}

impl Drop for Work {
    fn drop(&mut self) {
        // Removed while still held, so that no process finds a file that is about to go; see
        // `is_the_file_at`.
        let _ = fs::remove_file(&self.path);
    }
}

/// Takes the lock, or returns its holder.
pub(super) fn begin(name: &ClusterName) -> Result<Work, WorkError> {
    let path = Layout::of(name).work_lock();
    let failed = |source| WorkError::Lock {
        path: path.clone(),
        source,
    };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    // The holder may be just done.
    let locked = poll("the lock", Deadline::after(Duration::from_secs(1)), || {
        take(&path).transpose().ok_or_else(|| "held".to_owned())
    });
    let file = locked
        .map_err(|_| WorkError::Busy(name.clone()))?
        .map_err(failed)?;
    Ok(Work { path, _file: file })
}

/// None when another process holds it.
fn take(path: &Path) -> io::Result<Option<File>> {
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) if is_the_file_at(&file, path) => Ok(Some(file)),
        Ok(()) | Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// A holder that ends removes the file: a lock on a removed file excludes no other process.
fn is_the_file_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(ours), Ok(theirs)) => (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino()),
        (Err(_), _) | (_, Err(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_nothing_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.lock");
        let first = take(&path).unwrap().unwrap();
        assert!(take(&path).unwrap().is_none(), "held");
        drop(Work {
            path: path.clone(),
            _file: first,
        });
        assert!(!path.exists());
        assert!(take(&path).unwrap().is_some(), "free again");
    }

    #[test]
    fn a_lock_on_a_removed_file_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.lock");
        let file = take(&path).unwrap().unwrap();
        assert!(is_the_file_at(&file, &path));
        fs::remove_file(&path).unwrap();
        assert!(!is_the_file_at(&file, &path));
    }
}
