//! The files at the root of a volume, which change all at once.
//!
//! Each set of files is a folder of its own, `.connector/.files/a` or `b`. The link `current` names the one that counts,
//! and each file at the root is a link through it. So one rename brings a whole new set, and a reader that opens
//! `.connector/.files/current` as a folder reads one set to its end. The set before stays until the next one is
//! written.

use std::collections::BTreeSet;

use connector_files::{FileSet, MOST_BYTES};
use rustix::{
    fs::{AtFlags, readlinkat, symlinkat, unlinkat},
    io::Errno,
};

use super::{MountError, root_dir::RootDir};

/// The folder of everything that is ours.
pub(super) const FOLDER: &str = ".connector";

const FILES: &str = ".connector/.files";
const CURRENT: &str = ".connector/.files/current";
const NEW_CURRENT: &str = ".connector/.files/.new-current";
/// The folders that take turns.
const SETS: [&str; 2] = ["a", "b"];

/// The files of a volume.
pub(super) struct FileSets<'a>(pub(super) &'a RootDir);

impl FileSets<'_> {
    /// Writes a set to the side, and then makes it the one that counts.
    pub(super) fn put(&self, files: &FileSet) -> Result<(), MountError> {
        let root = self.0;
        let current = self.current()?;
        if current.is_none() && files.is_empty() {
            return Ok(());
        }
        let [first, second] = SETS;
        let next = if current.as_deref() == Some(first) {
            second
        } else {
            first
        };
        let folder = format!("{FILES}/{next}");
        root.folder(FILES)?;
        root.remove(&folder)?;
        root.folder(&folder)?;
        for (name, content) in files.iter() {
            root.write(&format!("{folder}/{name}"), content.as_bytes())?;
        }
        root.remove(NEW_CURRENT)?;
        symlinkat(next, root.fd(), NEW_CURRENT)
            .map_err(|error| root.failed("link", NEW_CURRENT, error.into()))?;
        root.rename(NEW_CURRENT, CURRENT)?;
        self.link(files)
    }

    /// True if the set that counts is this one, and is linked.
    pub(super) fn hold(&self, files: &FileSet) -> Result<bool, MountError> {
        let names: BTreeSet<String> = files.iter().map(|(name, _)| name.to_owned()).collect();
        let Some(current) = self.current()? else {
            return Ok(files.is_empty() && self.links()?.is_empty());
        };
        let folder = format!("{FILES}/{current}");
        let there: BTreeSet<String> = self.0.names(&folder)?.into_iter().collect();
        if there != names || self.links()? != names {
            return Ok(false);
        }
        for (name, content) in files.iter() {
            let there = self.0.read(&format!("{folder}/{name}"), MOST_BYTES + 1)?;
            if there.as_deref() != Some(content.as_bytes()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes the links at the root away. The sets go with everything else in the folder.
    pub(super) fn unlink(&self) -> Result<(), MountError> {
        self.link(&FileSet::default())
    }

    /// Makes the links at the root those of a set.
    fn link(&self, files: &FileSet) -> Result<(), MountError> {
        let root = self.0;
        let there = self.links()?;
        for (name, _) in files.iter().filter(|(name, _)| !there.contains(*name)) {
            // Something else of the name is nobody's: pods cannot write here.
            root.remove(name)?;
            symlinkat(target(name), root.fd(), name)
                .map_err(|error| root.failed("link", name, error.into()))?;
        }
        for name in there.iter().filter(|name| files.get(name).is_none()) {
            unlinkat(root.fd(), name.as_str(), AtFlags::empty())
                .map_err(|error| root.failed("remove", name, error.into()))?;
        }
        Ok(())
    }

    /// The names of our links at the root.
    fn links(&self) -> Result<BTreeSet<String>, MountError> {
        let names = self.0.names(".")?.into_iter();
        let is_ours = |name: &String| {
            let link = readlinkat(self.0.fd(), name.as_str(), Vec::new());
            link.is_ok_and(|link| link.as_bytes() == target(name).as_bytes())
        };
        Ok(names
            .filter(|name| name != FOLDER && is_ours(name))
            .collect())
    }

    /// The folder of the set that counts.
    fn current(&self) -> Result<Option<String>, MountError> {
        match readlinkat(self.0.fd(), CURRENT, Vec::new()) {
            Ok(link) => {
                let link = link.to_string_lossy().into_owned();
                Ok(SETS.contains(&link.as_str()).then_some(link))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(self.0.failed("look at", CURRENT, error.into())),
        }
    }
}

fn target(name: &str) -> String {
    format!("{CURRENT}/{name}")
}
