//! The place of the driver's socket: taken without a moment without a listener.

use std::{
    fs, io,
    os::unix::{
        fs::{FileTypeExt as _, MetadataExt as _},
        net::UnixStream,
    },
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use tokio::net::UnixListener;

/// The names that are used beside the driver's.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// Where the kubelet calls.
    pub(crate) public: PathBuf,
    /// Where the driver is called.
    pub(crate) driver: PathBuf,
    ours: PathBuf,
}

impl Place {
    pub(crate) fn of(socket: &Path) -> Self {
        let beside = |word: &str| {
            let mut name = socket.as_os_str().to_owned();
            name.push(word);
            PathBuf::from(name)
        };
        Self {
            public: socket.to_path_buf(),
            driver: beside(".driver"),
            ours: beside(".recorder"),
        }
    }

    /// Repairs the place after a recorder that ended without giving it back.
    pub(crate) fn repair(&self) -> io::Result<()> {
        let dead = matches!(UnixStream::connect(&self.public), Err(error) if error.kind() == io::ErrorKind::ConnectionRefused);
        if dead && self.driver.exists() {
            fs::rename(&self.driver, &self.public)?;
        }
        Ok(())
    }

    /// Takes the place if a socket is there that is not ours; a driver that starts anew puts its own there.
    pub(crate) fn take(
        &self,
        ours: Option<Identity>,
    ) -> io::Result<Option<(UnixListener, Identity)>> {
        match identity(&self.public)? {
            Some(found) if Some(found) != ours => {}
            Some(_) | None => return Ok(None),
        }
        remove(&self.ours)?;
        let listener = UnixListener::bind(&self.ours)?;
        let Some(identity) = identity(&self.ours)? else {
            return Ok(None);
        };
        match renameat_with(CWD, &self.ours, CWD, &self.public, RenameFlags::EXCHANGE) {
            Ok(()) => {}
            // The driver is just removing its own.
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        fs::rename(&self.ours, &self.driver)?;
        Ok(Some((listener, identity)))
    }

    /// Gives the place back to the driver, unless another process has taken it.
    pub(crate) fn give_back(&self, ours: Identity) -> io::Result<()> {
        if identity(&self.public)? == Some(ours) {
            fs::rename(&self.driver, &self.public)?;
        }
        remove(&self.ours)
    }
}

/// The identity of a socket, independent of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity(u64, u64);

fn identity(path: &Path) -> io::Result<Option<Identity>> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => Ok(Some(Identity(found.dev(), found.ino()))),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
