//! A copy of the sources, in which faults are planted. It outlives runs, so that little is built again.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};
use e2e::Tool;
use xtask_launcher::Store;

use super::fault::Fault;

/// The copy, and where it is built.
pub(super) struct Copy {
    root: PathBuf,
    target: PathBuf,
    /// Two runs would plant into each other's builds.
    _lock: File,
}

impl Copy {
    /// The current files that git tracks or would track. An unchanged file keeps its time, which cargo
    /// compares.
    pub(super) fn refreshed() -> anyhow::Result<Self> {
        let home = e2e::cache_dir().join("mutants");
        fs::create_dir_all(home.join("source"))?;
        let lock = File::create(home.join("lock"))?;
        ensure!(
            lock.try_lock().is_ok(),
            "another run works in {}",
            home.display()
        );
        let copy = Self {
            root: home.join("source"),
            target: home.join("target"),
            _lock: lock,
        };
        let repository = e2e::repository();
        let listed = Tool::new("git")
            .dir(&repository)
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .output()?;
        let mut files = BTreeSet::new();
        for file in listed.split_terminator('\0') {
            let (from, to) = (repository.join(file), copy.root.join(file));
            // Deleted, and git does not know yet.
            if !from.is_file() {
                continue;
            }
            if fs::read(&to).ok() != Some(fs::read(&from)?) {
                let folder = to.parent().context("a file in no folder")?;
                fs::create_dir_all(folder)?;
                fs::copy(&from, &to).with_context(|| to.display().to_string())?;
            }
            files.insert(to);
        }
        remove_others(&copy.root, &files)?;
        Store::of_this_machine().fill_target(&repository, &copy.target)?;
        Ok(copy)
    }

    /// Keeps the dependencies that were compiled here for a copy on a fresh machine.
    pub(super) fn keep(&self) -> anyhow::Result<()> {
        Store::of_this_machine().keep_target(&e2e::repository(), &self.target)?;
        Ok(())
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn target(&self) -> &Path {
        &self.target
    }

    /// The text of a file.
    pub(super) fn text(&self, file: &str) -> anyhow::Result<String> {
        fs::read_to_string(self.root.join(file)).with_context(|| file.to_owned())
    }

    /// Plants a fault. Returns the text as it was.
    fn plant(&self, fault: &Fault) -> anyhow::Result<String> {
        let original = self.text(&fault.file)?;
        fs::write(self.root.join(&fault.file), fault.planted_in(&original)?)?;
        Ok(original)
    }

    /// Does something while these are planted.
    pub(super) fn with_all<T>(
        &self,
        faults: &[&Fault],
        act: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let Some((fault, rest)) = faults.split_first() else {
            return act();
        };
        let original = self.plant(fault)?;
        let outcome = self.with_all(rest, act);
        self.restore(fault, &original)?;
        outcome
    }

    /// Takes a fault out.
    fn restore(&self, fault: &Fault, original: &str) -> io::Result<()> {
        fs::write(self.root.join(&fault.file), original)
    }
}

/// Removes files of an earlier run, and files that the repository no longer has.
fn remove_others(folder: &Path, files: &BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, files)?;
        } else if !files.contains(&path) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}
