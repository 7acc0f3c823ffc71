//! The files of a volume, all reached from the descriptor of its root: no path is resolved twice.
//!
//! `.connector/<namespace>_<name>/<fact>`, and either `.connector/.complete` or `.connector/.revoked`. These are one
//! file under two names. It is renamed, so exactly one of them always exists. A volume with an error always has only
//! `.error.json` and the marker `.connector/.rejected`.
//!
//! Removed facts lose their content and move to `.connector/.removed`. They keep their files, because a pod may have
//! one open, or mounted by a `subPath`. It would stay readable without its name, and the kernel makes no file system
//! read only that has open files without names.
//!
//! A volume that was mounted while nothing was gated has an attribute at its root. Only root of the node can write an
//! attribute of this class. So no pod can make itself such a volume in the moment in which the file system is
//! writable.

use connector_files::ERROR_FILE;
use rustix::{
    fs::{XattrFlags, fgetxattr, fremovexattr, fsetxattr, fstatvfs},
    io::Errno,
};
use tracing::warn;

use super::{
    MountError, OnDisk, Passage,
    file_sets::{FILES, FOLDER, FileSets},
    root_dir::{RootDir, all},
};
use crate::{
    content::{ConnectorFacts, Content, INODE, Record},
    error_file::ErrorFile,
};

const COMPLETE: &str = ".connector/.complete";
const REVOKED: &str = ".connector/.revoked";
const REJECTED: &str = ".connector/.rejected";
const NEW_MARKER: &str = ".connector/.new-marker";
const REMOVED: &str = ".connector/.removed";
/// The earlier facts, each in a file of its own.
const SPARE_FACTS: &str = ".connector/.spare-facts";
/// The one file of that kind in a volume of an earlier version.
const SPARE_FACT: &str = ".connector/.new-fact";
const WHILE_OFF: &str = "trusted.connectors.mounted-while-off";
/// No marker of ours is longer.
const LONGEST_MARKER: usize = 64 * 1024;

/// The root of a volume's file system.
#[derive(Debug)]
pub(super) struct VolumeRoot(pub(super) RootDir);

impl VolumeRoot {
    /// The state by the markers. A marker is never half written. One that cannot be read belongs to another program.
    pub(super) fn found(&self) -> Result<OnDisk, MountError> {
        if let Some(record) = self.marker(COMPLETE)? {
            return Ok(OnDisk::Published(record));
        }
        if let Some(record) = self.marker(REVOKED)? {
            return Ok(OnDisk::Emptied(record));
        }
        Ok(self
            .marker(REJECTED)?
            .map_or(OnDisk::Partial, OnDisk::Rejected))
    }

    /// The memory that the files of the volume take, in bytes.
    pub(super) fn memory(&self) -> Result<usize, MountError> {
        let stat = fstatvfs(self.0.fd());
        let stat = stat.map_err(|error| self.0.failed("look at", "", error.into()))?;
        let pages = stat.f_blocks.saturating_sub(stat.f_bfree);
        let inodes = stat.f_files.saturating_sub(stat.f_ffree);
        let bytes = |count: u64, size: u64| {
            usize::try_from(count.saturating_mul(size)).unwrap_or(usize::MAX)
        };
        let inodes = usize::try_from(inodes).unwrap_or(usize::MAX);
        Ok(bytes(pages, stat.f_frsize).saturating_add(inodes.saturating_mul(INODE)))
    }

    /// Writes the one file of a volume whose pod was refused.
    pub(super) fn write_error(&self, error: &ErrorFile) -> Result<(), MountError> {
        self.0.folder(FOLDER)?;
        self.0.write(ERROR_FILE, error.text().as_bytes())
    }

    /// Marks the volume as one that contains only an error: the last step.
    pub(super) fn rejected(&self, record: &Record) -> Result<(), MountError> {
        self.write_marker(record, REJECTED)
    }

    fn marker(&self, name: &str) -> Result<Option<Record>, MountError> {
        let Some(json) = self.0.read(name, LONGEST_MARKER)? else {
            return Ok(None);
        };
        let foreign = |_| MountError::Foreign {
            path: self.0.path().join(name),
        };
        serde_json::from_slice(&json).map(Some).map_err(foreign)
    }

    /// Writes the whole content of a volume.
    pub(super) fn write_content(&self, content: &Content) -> Result<(), MountError> {
        self.write_facts(&content.facts)?;
        FileSets(&self.0).put(&content.files)
    }

    /// True if no part of this content is newer than the volume.
    pub(super) fn holds(&self, content: &Content) -> Result<bool, MountError> {
        for facts in &content.facts {
            for (name, fact) in facts.lively() {
                if !self.has_fact(facts, name, fact)? {
                    return Ok(false);
                }
            }
        }
        FileSets(&self.0).hold(&content.files)
    }

    /// Writes the parts of this content that are newer than the volume.
    pub(super) fn renew(&self, content: &Content) -> Result<(), MountError> {
        for facts in &content.facts {
            for (name, fact) in facts.lively() {
                if !self.has_fact(facts, name, fact)? {
                    self.exchange_fact(facts, name, fact)?;
                }
            }
        }
        FileSets(&self.0).put(&content.files)
    }

    /// Writes a fact to the side, and then exchanges it. The earlier one stays as it is until the next one is written,
    /// because a program may be reading it.
    fn exchange_fact(
        &self,
        facts: &ConnectorFacts,
        name: &str,
        fact: &str,
    ) -> Result<(), MountError> {
        let folder = facts.folder();
        let spare = format!("{SPARE_FACTS}/{folder}_{name}");
        self.0.folder(SPARE_FACTS)?;
        self.0.write(&spare, fact.as_bytes())?;
        self.0
            .exchange(&spare, &format!("{FOLDER}/{folder}/{name}"))
    }

    fn has_fact(&self, facts: &ConnectorFacts, name: &str, fact: &str) -> Result<bool, MountError> {
        let path = format!("{FOLDER}/{}/{name}", facts.folder());
        let there = self.0.read(&path, LONGEST_MARKER)?;
        Ok(there.as_deref() == Some(fact.as_bytes()))
    }

    /// Writes the facts beside their places, then moves them there.
    fn write_facts(&self, facts: &[ConnectorFacts]) -> Result<(), MountError> {
        self.0.folder(FOLDER)?;
        self.set_aside()?;
        self.0.folder(REMOVED)?;
        for facts in facts {
            let folder = format!("{REMOVED}/{}", facts.folder());
            self.0.folder(&folder)?;
            for (name, content) in facts.files() {
                self.0
                    .write(&format!("{folder}/{name}"), content.as_bytes())?;
            }
        }
        for facts in facts {
            let from = format!("{REMOVED}/{}", facts.folder());
            let to = format!("{FOLDER}/{}", facts.folder());
            self.0.rename(&from, &to)?;
        }
        Ok(())
    }

    /// Marks the volume as complete: the last step.
    pub(super) fn complete(&self, record: &Record) -> Result<(), MountError> {
        match self.0.try_rename(REVOKED, COMPLETE) {
            Ok(()) => return Ok(()),
            Err(Errno::NOENT) => {}
            Err(error) => return Err(self.0.failed("rename", REVOKED, error.into())),
        }
        // No pod has seen the volume yet, and nothing was ever removed from it.
        self.0.remove(REMOVED)?;
        self.write_marker(record, COMPLETE)
    }

    /// Writes a marker, which appears at once and whole.
    fn write_marker(&self, record: &Record, marker: &str) -> Result<(), MountError> {
        let json = serde_json::to_vec(record)
            .map_err(|error| self.0.failed("write", NEW_MARKER, error.into()))?;
        self.0.write(NEW_MARKER, &json)?;
        self.0.rename(NEW_MARKER, marker)
    }

    /// Records how the pod comes to the volume. If the kernel stores no such attributes, nothing is recorded, and the
    /// volume counts as gated.
    pub(super) fn mark(&self, passage: Passage) -> Result<(), MountError> {
        let marked = match passage {
            Passage::WhileOff => fsetxattr(self.0.fd(), WHILE_OFF, b"1", XattrFlags::empty()),
            Passage::Gated => fremovexattr(self.0.fd(), WHILE_OFF),
        };
        match marked {
            Ok(()) | Err(Errno::NODATA) => Ok(()),
            Err(Errno::OPNOTSUPP) => {
                if passage == Passage::WhileOff {
                    warn!(
                        "this kernel keeps no trusted attributes on tmpfs: {}",
                        self.0.path().display()
                    );
                }
                Ok(())
            }
            Err(error) => Err(self.0.failed("mark", "", error.into())),
        }
    }

    /// The passage that [`Root::mark`] recorded.
    pub(super) fn passage(&self) -> Result<Passage, MountError> {
        match fgetxattr(self.0.fd(), WHILE_OFF, &mut [0_u8; 1]) {
            Ok(_) => Ok(Passage::WhileOff),
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(Passage::Gated),
            Err(error) => Err(self.0.failed("look at", "", error.into())),
        }
    }

    /// Records the removal of the content, and then removes it.
    pub(super) fn empty(&self) -> Result<(), MountError> {
        // First, because a volume that later gets its content back has it from another passage.
        self.mark(Passage::Gated)?;
        match self.0.try_rename(COMPLETE, REVOKED) {
            // If the first marker is missing, an earlier call did not come to its end.
            Ok(()) | Err(Errno::NOENT) => self.set_aside(),
            Err(error) => Err(self.0.failed("rename", COMPLETE, error.into())),
        }
    }

    /// Removes the content of all facts and files, also of those that an unfinished call was writing.
    fn set_aside(&self) -> Result<(), MountError> {
        // One file with a lease keeps no other file.
        let mut emptied = vec![FileSets(&self.0).clear()];
        for name in self.0.names(FOLDER)? {
            let path = format!("{FOLDER}/{name}");
            // The content of files is removed already.
            if [COMPLETE, REVOKED, REMOVED, FILES].contains(&path.as_str()) {
                continue;
            }
            emptied.push(self.0.truncate(&path));
            if [SPARE_FACTS, SPARE_FACT].contains(&path.as_str()) {
                continue;
            }
            self.0.folder(REMOVED)?;
            match self.0.try_rename(&path, &format!("{REMOVED}/{name}")) {
                Ok(()) => {}
                // It was written twice, which no call does. So this copy is removed.
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::ISDIR | Errno::NOTDIR) => {
                    self.0.remove(&path)?;
                }
                Err(error) => return Err(self.0.failed("rename", &path, error.into())),
            }
        }
        emptied.push(self.0.truncate(REMOVED));
        all(emptied)
    }
}
