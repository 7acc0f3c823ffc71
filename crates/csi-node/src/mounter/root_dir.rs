//! A folder as an open descriptor, and what is below it by path: no link is followed and the file system is not left.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, Dir, Mode, OFlags, ResolveFlags, mkdirat, openat2, renameat, unlinkat},
    io::Errno,
};

use super::MountError;

const READABLE: Mode = Mode::from_raw_mode(0o444);
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o755);

/// An open folder.
#[derive(Debug)]
pub(super) struct RootDir {
    fd: OwnedFd,
    path: PathBuf,
}

impl RootDir {
    /// Of an open folder; the path is for messages.
    pub(super) const fn new(fd: OwnedFd, path: PathBuf) -> Self {
        Self { fd, path }
    }

    /// The open folder.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Where it is, for messages.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The beginning of a file, at most so many bytes. None if there is no such file.
    pub(super) fn read(&self, path: &str, most: usize) -> Result<Option<Vec<u8>>, MountError> {
        let file = match self.open(path, OFlags::RDONLY, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(self.failed("open", path, error.into())),
        };
        let mut content = Vec::new();
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        let read = File::from(file).take(most).read_to_end(&mut content);
        read.map_err(|error| self.failed("read", path, error))?;
        Ok(Some(content))
    }

    /// A file or a folder with everything in it; nothing is fine as well.
    pub(super) fn remove(&self, path: &str) -> Result<(), MountError> {
        match unlinkat(&self.fd, path, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(error) => return Err(self.failed("remove", path, error.into())),
        }
        for name in self.names(path)? {
            self.remove(&format!("{path}/{name}"))?;
        }
        unlinkat(&self.fd, path, AtFlags::REMOVEDIR)
            .map_err(|error| self.failed("remove", path, error.into()))
    }

    /// The names in a folder; none if it is not there.
    pub(super) fn names(&self, path: &str) -> Result<Vec<String>, MountError> {
        let failed = |error: Errno| self.failed("list", path, error.into());
        let folder = match self.open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()) {
            Ok(folder) => folder,
            Err(Errno::NOENT) => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut names = Vec::new();
        for entry in Dir::read_from(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy();
            if name != "." && name != ".." {
                names.push(name.into_owned());
            }
        }
        Ok(names)
    }

    /// Makes a folder, if it is not there.
    pub(super) fn folder(&self, path: &str) -> Result<(), MountError> {
        match mkdirat(&self.fd, path, FOLDER_MODE) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(self.failed("make", path, error.into())),
        }
    }

    /// Writes a file that everybody may read.
    pub(super) fn write(&self, path: &str, content: &[u8]) -> Result<(), MountError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        let file = self.open(path, flags, READABLE);
        let file = file.map_err(|error| self.failed("make", path, error.into()))?;
        let mut file = File::from(file);
        file.write_all(content)
            .and_then(|()| file.sync_all())
            .map_err(|error| self.failed("write", path, error))
    }

    /// Renames within the file system.
    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), MountError> {
        renameat(&self.fd, from, &self.fd, to)
            .map_err(|error| self.failed("rename", from, error.into()))
    }

    /// Opens a file or folder.
    pub(super) fn open(
        &self,
        path: &str,
        flags: OFlags,
        mode: Mode,
    ) -> rustix::io::Result<OwnedFd> {
        openat2(
            &self.fd,
            path,
            flags | OFlags::CLOEXEC,
            mode,
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV,
        )
    }

    /// The error of a step.
    pub(super) fn failed(&self, step: &'static str, path: &str, source: io::Error) -> MountError {
        MountError::Step {
            step,
            path: self.path.join(path),
            source,
        }
    }
}
