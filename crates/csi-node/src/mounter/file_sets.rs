//! The files at the root of a volume. They change all at once.
//!
//! Two folders contain sets of files, `.connector/.files/a` and `b`. The link `current` names the set in use, the
//! link `spare` the other. Each file at the root is a link through `current`. So one exchange of the two links brings
//! a whole new set. A name that the new set does not have goes before, and a name of the new set alone comes after, so
//! that no name leads to an emptied file. A reader that opens `.connector/.files/current` as a folder reads one set to its end. The
//! previous set stays until the next one is written.
//!
//! Every file here always has a name: files are written in place, and a file that is no longer in the set is emptied.
//! A pod could keep a nameless file open for ever. The kernel makes no file system with such a file read only.

use std::collections::BTreeSet;

use connector_files::{FileSet, MOST_BYTES};

use super::{
    MountError,
    root_dir::{RootDir, all},
};

/// The folder of all files of the driver.
pub(super) const FOLDER: &str = ".connector";
/// The folder of the sets.
pub(super) const FILES: &str = ".connector/.files";
const CURRENT: &str = ".connector/.files/current";
const SPARE: &str = ".connector/.files/spare";
/// The folders of the sets.
const SETS: [&str; 2] = ["a", "b"];

/// The files of a volume.
pub(super) struct FileSets<'a>(pub(super) &'a RootDir);

impl FileSets<'_> {
    /// Writes the unused set, and then switches to it.
    pub(super) fn put(&self, files: &FileSet) -> Result<(), MountError> {
        let root = self.0;
        let [first, second] = SETS;
        let current = self.current()?;
        if current.is_none() {
            if files.is_empty() {
                return Ok(());
            }
            root.folder(FILES)?;
            for set in SETS {
                root.folder(&folder(set))?;
            }
            root.remove(CURRENT)?;
            root.link(second, CURRENT)?;
        }
        let next = if current.as_deref() == Some(first) {
            second
        } else {
            first
        };
        self.write(next, files)?;
        if root.linked(SPARE)?.as_deref() != Some(next) {
            root.remove(SPARE)?;
            root.link(next, SPARE)?;
        }
        // First, because the next set may have an emptied file of that name.
        self.unlink_others(files)?;
        root.exchange(SPARE, CURRENT)?;
        self.link(files)
    }

    /// True if the set in use is this one, and is linked.
    pub(super) fn hold(&self, files: &FileSet) -> Result<bool, MountError> {
        let names: BTreeSet<String> = files.iter().map(|(name, _)| name.to_owned()).collect();
        let Some(current) = self.current()? else {
            return Ok(files.is_empty());
        };
        if self.links()? != names {
            return Ok(false);
        }
        let there: BTreeSet<String> = self.0.names(&folder(&current))?.into_iter().collect();
        for name in there.union(&names) {
            let path = format!("{}/{name}", folder(&current));
            let content = self.0.read(&path, MOST_BYTES + 1)?.unwrap_or_default();
            // A file of an earlier set is empty.
            let expected = files.get(name).unwrap_or_default();
            if content != expected.as_bytes() || !there.contains(name) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Removes everything: the links at the root, and the content of both sets.
    pub(super) fn clear(&self) -> Result<(), MountError> {
        if self.current()?.is_none() {
            return Ok(());
        }
        self.unlink_others(&FileSet::default())?;
        all(SETS.map(|set| self.write(set, &FileSet::default())))
    }

    /// Writes the files of a set in place, and empties all other files in its folder.
    fn write(&self, set: &str, files: &FileSet) -> Result<(), MountError> {
        let folder = folder(set);
        let names = self.0.names(&folder)?.into_iter();
        let others = names.filter(|name| files.get(name).is_none());
        all(others.map(|name| self.0.truncate(&format!("{folder}/{name}"))))?;
        for (name, content) in files.iter() {
            self.0
                .write(&format!("{folder}/{name}"), content.as_bytes())?;
        }
        Ok(())
    }

    /// Removes the links at the root that a set does not have.
    fn unlink_others(&self, files: &FileSet) -> Result<(), MountError> {
        for name in self.links()? {
            if files.get(&name).is_none() {
                self.0.remove(&name)?;
            }
        }
        Ok(())
    }

    /// Makes the missing links at the root to a set in use.
    fn link(&self, files: &FileSet) -> Result<(), MountError> {
        let there = self.links()?;
        for (name, _) in files.iter().filter(|(name, _)| !there.contains(*name)) {
            self.0.link(&target(name), name)?;
        }
        Ok(())
    }

    /// The names of our links at the root.
    fn links(&self) -> Result<BTreeSet<String>, MountError> {
        let mut links = BTreeSet::new();
        for name in self.0.names(".")? {
            if self.0.linked(&name)?.as_deref() == Some(target(&name).as_str()) {
                links.insert(name);
            }
        }
        Ok(links)
    }

    /// The folder of the set in use.
    fn current(&self) -> Result<Option<String>, MountError> {
        let current = self.0.linked(CURRENT)?;
        Ok(current.filter(|it| SETS.contains(&it.as_str())))
    }
}

fn folder(set: &str) -> String {
    format!("{FILES}/{set}")
}

fn target(name: &str) -> String {
    format!("{CURRENT}/{name}")
}
