//! The files of a volume, all reached from the descriptor of its root: no path is resolved twice.
//!
//! `.connector/<namespace>_<name>/<fact>`, and either `.connector/.complete` or `.connector/.revoked`,
//! which are one file under two names: it is renamed, so that there is always exactly one of them.
//!
//! Facts that are taken away lose their content and move to `.connector/.removed`. They keep their files: one that
//! a pod has open, or mounted by a `subPath`, would go on to be read without its name, and the kernel makes no file
//! system read only that has open files without names.
//!
//! A volume that was mounted while nothing was gated has an attribute at its root. Only root of the node
//! can write an attribute of this class, so that no pod can make itself such a volume in the moment in
//! which the file system is writable.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{
        AtFlags, Dir, Mode, OFlags, ResolveFlags, XattrFlags, fgetxattr, fremovexattr, fsetxattr,
        ftruncate, mkdirat, openat2, renameat, unlinkat,
    },
    io::Errno,
};

use service_kit::report;
use tracing::warn;

use super::{MountError, OnDisk, Passage};
use crate::content::{ConnectorFacts, Record};

const FOLDER: &str = ".connector";
const COMPLETE: &str = ".connector/.complete";
const REVOKED: &str = ".connector/.revoked";
const NEW_MARKER: &str = ".connector/.new-marker";
const REMOVED: &str = ".connector/.removed";
const WHILE_OFF: &str = "trusted.connectors.mounted-while-off";
/// No marker of ours is longer.
const LONGEST_MARKER: u64 = 64 * 1024;

const READABLE: Mode = Mode::from_raw_mode(0o444);
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o755);

/// The root of a volume's file system.
#[derive(Debug)]
pub(super) struct VolumeRoot {
    fd: OwnedFd,
    path: PathBuf,
}

impl VolumeRoot {
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

    /// What the markers say. They are never half written: one that cannot be read is somebody else's.
    pub(super) fn found(&self) -> Result<OnDisk, MountError> {
        if let Some(record) = self.marker(COMPLETE)? {
            return Ok(OnDisk::Published(record));
        }
        Ok(self
            .marker(REVOKED)?
            .map_or(OnDisk::Partial, OnDisk::Emptied))
    }

    fn marker(&self, name: &str) -> Result<Option<Record>, MountError> {
        let file = match self.open(name, OFlags::RDONLY, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(self.failed("open", name, error.into())),
        };
        let mut json = String::new();
        let read = File::from(file)
            .take(LONGEST_MARKER)
            .read_to_string(&mut json);
        if let Err(error) = read {
            return Err(self.failed("read", name, error));
        }
        let foreign = |_| MountError::Foreign {
            path: self.path.join(name),
        };
        serde_json::from_str(&json).map(Some).map_err(foreign)
    }

    /// Writes the facts to the side, then moves them to where they are looked for.
    pub(super) fn write_facts(&self, facts: &[ConnectorFacts]) -> Result<(), MountError> {
        self.folder(FOLDER)?;
        self.set_aside()?;
        self.folder(REMOVED)?;
        for facts in facts {
            let folder = format!("{REMOVED}/{}", facts.folder());
            self.folder(&folder)?;
            for (name, content) in facts.files() {
                self.write(&format!("{folder}/{name}"), content.as_bytes())?;
            }
        }
        for facts in facts {
            let from = format!("{REMOVED}/{}", facts.folder());
            let to = format!("{FOLDER}/{}", facts.folder());
            self.rename(&from, &to)?;
        }
        Ok(())
    }

    /// Says that the volume is complete: the last step.
    pub(super) fn complete(&self, record: &Record) -> Result<(), MountError> {
        match renameat(&self.fd, REVOKED, &self.fd, COMPLETE) {
            Ok(()) => return Ok(()),
            Err(Errno::NOENT) => {}
            Err(error) => return Err(self.failed("rename", REVOKED, error.into())),
        }
        // Nobody has seen the volume yet, and nothing was ever taken from it.
        self.remove(REMOVED)?;
        let json = serde_json::to_vec(record)
            .map_err(|error| self.failed("write", NEW_MARKER, error.into()))?;
        self.write(NEW_MARKER, &json)?;
        self.rename(NEW_MARKER, COMPLETE)
    }

    /// Says how the pod comes to the volume. Where the kernel keeps no such attributes it says nothing,
    /// and the volume counts as gated.
    pub(super) fn mark(&self, passage: Passage) -> Result<(), MountError> {
        let marked = match passage {
            Passage::WhileOff => fsetxattr(&self.fd, WHILE_OFF, b"1", XattrFlags::empty()),
            Passage::Gated => fremovexattr(&self.fd, WHILE_OFF),
        };
        match marked {
            Ok(()) | Err(Errno::NODATA) => Ok(()),
            Err(Errno::OPNOTSUPP) => {
                if passage == Passage::WhileOff {
                    warn!(
                        "this kernel keeps no trusted attributes on tmpfs: {}",
                        self.path.display()
                    );
                }
                Ok(())
            }
            Err(error) => Err(self.failed("mark", "", error.into())),
        }
    }

    /// What [`Root::mark`] said.
    pub(super) fn passage(&self) -> Result<Passage, MountError> {
        match fgetxattr(&self.fd, WHILE_OFF, &mut [0_u8; 1]) {
            Ok(_) => Ok(Passage::WhileOff),
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(Passage::Gated),
            Err(error) => Err(self.failed("look at", "", error.into())),
        }
    }

    /// Says that the content is gone, and then takes it away.
    pub(super) fn empty(&self) -> Result<(), MountError> {
        // First: a volume that comes back to its content later has it from another passage.
        self.mark(Passage::Gated)?;
        match renameat(&self.fd, COMPLETE, &self.fd, REVOKED) {
            // Without the first, another call was here before and did not come to its end.
            Ok(()) | Err(Errno::NOENT) => self.set_aside(),
            Err(error) => Err(self.failed("rename", COMPLETE, error.into())),
        }
    }

    /// Takes the content of all facts away, of those as well that a call which did not come to its end was writing.
    fn set_aside(&self) -> Result<(), MountError> {
        for name in self.names(FOLDER)? {
            let path = format!("{FOLDER}/{name}");
            if [COMPLETE, REVOKED, REMOVED].contains(&path.as_str()) {
                continue;
            }
            self.truncate(&path)?;
            self.folder(REMOVED)?;
            match renameat(&self.fd, &path, &self.fd, format!("{REMOVED}/{name}")) {
                Ok(()) => {}
                // It was written twice, which no call does: then this one goes.
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::ISDIR | Errno::NOTDIR) => {
                    self.remove(&path)?;
                }
                Err(error) => return Err(self.failed("rename", &path, error.into())),
            }
        }
        self.truncate(REMOVED)
    }

    /// Empties a file, or all files of a folder. One that cannot be emptied is removed.
    fn truncate(&self, path: &str) -> Result<(), MountError> {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK;
        let file = self.open(path, flags, Mode::empty());
        match file.and_then(|file| ftruncate(&file, 0)) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::ISDIR) => {
                for name in self.names(path)? {
                    self.truncate(&format!("{path}/{name}"))?;
                }
                Ok(())
            }
            Err(error) => {
                let error = report(&error);
                let volume = self.path.display();
                warn!(%volume, path, error, "a file cannot be emptied and is removed");
                self.remove(path)
            }
        }
    }

    /// A file or a folder with everything in it; nothing is fine as well.
    fn remove(&self, path: &str) -> Result<(), MountError> {
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

    fn names(&self, path: &str) -> Result<Vec<String>, MountError> {
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

    fn folder(&self, path: &str) -> Result<(), MountError> {
        match mkdirat(&self.fd, path, FOLDER_MODE) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(self.failed("make", path, error.into())),
        }
    }

    fn write(&self, path: &str, content: &[u8]) -> Result<(), MountError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        let file = self.open(path, flags, READABLE);
        let file = file.map_err(|error| self.failed("make", path, error.into()))?;
        let mut file = File::from(file);
        file.write_all(content)
            .and_then(|()| file.sync_all())
            .map_err(|error| self.failed("write", path, error))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), MountError> {
        renameat(&self.fd, from, &self.fd, to)
            .map_err(|error| self.failed("rename", from, error.into()))
    }

    fn open(&self, path: &str, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
        openat2(
            &self.fd,
            path,
            flags | OFlags::CLOEXEC,
            mode,
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV,
        )
    }

    fn failed(&self, step: &'static str, path: &str, source: io::Error) -> MountError {
        MountError::Step {
            step,
            path: self.path.join(path),
            source,
        }
    }
}
