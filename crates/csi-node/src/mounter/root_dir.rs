//! A folder as an open descriptor, and the objects below it by path. No path follows links or leaves the file system.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{
        AtFlags, Dir, Mode, OFlags, RenameFlags, ResolveFlags, ftruncate, mkdirat, openat2,
        readlinkat, renameat, renameat_with, symlinkat, unlinkat,
    },
    io::Errno,
};

use service_kit::report;
use tracing::warn;

use super::MountError;

const READABLE: Mode = Mode::from_raw_mode(0o444);
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o755);

/// Takes every step, and gives the first error.
pub(super) fn all(
    steps: impl IntoIterator<Item = Result<(), MountError>>,
) -> Result<(), MountError> {
    steps.into_iter().fold(Ok(()), Result::and)
}

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

    /// Removes a file, or a folder with everything in it. A missing object is no error.
    pub(super) fn remove(&self, path: &str) -> Result<(), MountError> {
        let failed = |error: Errno| self.failed("remove", path, error.into());
        let (parent, name) = match self.parent(path) {
            Ok(parent) => parent,
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        match unlinkat(&parent, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(error) => return Err(failed(error)),
        }
        for name in self.names(path)? {
            self.remove(&format!("{path}/{name}"))?;
        }
        unlinkat(&parent, name, AtFlags::REMOVEDIR).map_err(failed)
    }

    /// The names in a folder. None if it is missing.
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

    /// Makes a folder, if it is missing.
    pub(super) fn folder(&self, path: &str) -> Result<(), MountError> {
        let made = self
            .parent(path)
            .and_then(|(parent, name)| mkdirat(&parent, name, FOLDER_MODE));
        match made {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(self.failed("make", path, error.into())),
        }
    }

    /// Writes a file that all users may read.
    ///
    /// A process with the owner's user id may hold a lease on a file. A call that waits for its end would hold a thread of
    /// the driver.
    pub(super) fn write(&self, path: &str, content: &[u8]) -> Result<(), MountError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NONBLOCK;
        let file = self.open(path, flags, READABLE);
        let file = file.map_err(|error| match error {
            Errno::AGAIN => self.leased(path),
            other => self.failed("make", path, other.into()),
        })?;
        let mut file = File::from(file);
        file.write_all(content)
            .and_then(|()| file.sync_all())
            .map_err(|error| self.failed("write", path, error))
    }

    /// Renames within the file system.
    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), MountError> {
        self.try_rename(from, to)
            .map_err(|error| self.failed("rename", from, error.into()))
    }

    /// The same with the kernel's own error.
    pub(super) fn try_rename(&self, from: &str, to: &str) -> rustix::io::Result<()> {
        let ((old, from), (new, to)) = (self.parent(from)?, self.parent(to)?);
        renameat(&old, from, &new, to)
    }

    /// Exchanges the objects of two names. Neither object loses its name, because the kernel makes no file system
    /// read only that has open objects without names.
    pub(super) fn exchange(&self, one: &str, other: &str) -> Result<(), MountError> {
        let exchanged = || {
            let ((first, one), (second, other)) = (self.parent(one)?, self.parent(other)?);
            renameat_with(&first, one, &second, other, RenameFlags::EXCHANGE)
        };
        exchanged().map_err(|error| self.failed("exchange", one, error.into()))
    }

    /// Makes a symbolic link.
    pub(super) fn link(&self, target: &str, path: &str) -> Result<(), MountError> {
        self.parent(path)
            .and_then(|(parent, name)| symlinkat(target, &parent, name))
            .map_err(|error| self.failed("link", path, error.into()))
    }

    /// The target of a symbolic link. None if there is no such link.
    pub(super) fn linked(&self, path: &str) -> Result<Option<String>, MountError> {
        let target = self
            .parent(path)
            .and_then(|(parent, name)| readlinkat(&parent, name, Vec::new()));
        match target {
            Ok(target) => Ok(Some(target.to_string_lossy().into_owned())),
            Err(Errno::NOENT | Errno::INVAL) => Ok(None),
            Err(error) => Err(self.failed("look at", path, error.into())),
        }
    }

    /// Empties a file, or all files of a folder. A link has no content. A file that cannot be emptied is removed, but for
    /// one with a lease: its readers would keep the content. After an error the other files are empty.
    pub(super) fn truncate(&self, path: &str) -> Result<(), MountError> {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK;
        let file = self.open(path, flags, Mode::empty());
        match file.and_then(|file| ftruncate(&file, 0)) {
            Ok(()) | Err(Errno::NOENT | Errno::LOOP) => Ok(()),
            Err(Errno::ISDIR) => {
                let names = self.names(path)?.into_iter();
                all(names.map(|name| self.truncate(&format!("{path}/{name}"))))
            }
            Err(Errno::AGAIN) => Err(self.leased(path)),
            Err(error) => {
                let error = report(&error);
                let volume = self.path.display();
                warn!(%volume, path, error, "a file cannot be emptied and is removed");
                self.remove(path)
            }
        }
    }

    /// The folder of a path, opened, and the last name.
    fn parent<'p>(&self, path: &'p str) -> rustix::io::Result<(OwnedFd, &'p str)> {
        let (folder, name) = path.rsplit_once('/').unwrap_or((".", path));
        let folder = self.open(folder, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
        Ok((folder, name))
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

    fn leased(&self, path: &str) -> MountError {
        let path = self.path.join(path);
        MountError::Leased { path }
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

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use rustix::fs::fcntl_getfl;

    use super::*;

    fn of(path: &Path) -> RootDir {
        RootDir::new(File::open(path).unwrap().into(), path.to_owned())
    }

    #[test]
    fn no_path_follows_a_link_or_leaves_the_folder_or_its_file_system() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("inside");
        fs::create_dir_all(inside.join("sub")).unwrap();
        fs::write(inside.join("sub/file"), "x").unwrap();
        fs::write(folder.path().join("outside"), "x").unwrap();
        symlink("sub", inside.join("link")).unwrap();
        let root = of(&inside);
        assert_eq!(root.read("sub/file", 9).unwrap(), Some(b"x".to_vec()));
        let node = of(Path::new("/"));
        for (root, path, expected) in [
            (&root, "link/file", Errno::LOOP),
            (&root, "../outside", Errno::XDEV),
            (&node, "proc/version", Errno::XDEV),
        ] {
            let opened = root.open(path, OFlags::RDONLY, Mode::empty());
            assert_eq!(opened.unwrap_err(), expected, "{path}");
        }
    }

    #[test]
    fn the_folder_of_a_name_is_held_by_its_path_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        let root = of(folder.path());
        let (parent, name) = root.parent("sub/file").unwrap();
        assert_eq!(name, "file");
        let flags = fcntl_getfl(&parent).unwrap();
        assert!(
            flags.contains(OFlags::PATH | OFlags::DIRECTORY),
            "{flags:?}"
        );
    }
}
