//! The store: one folder for each set of versions and options, its large files shared by hard links.

use std::{
    collections::BTreeSet,
    env,
    fs::{self, File, FileTimes},
    hash::{DefaultHasher, Hasher},
    io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use crate::units;

/// The files that affect all dependencies together. Each dependency has a hash of its own beside that.
const DECIDE: [&str; 5] = [
    "Cargo.lock",
    "Cargo.toml",
    "fuzz/Cargo.lock",
    "fuzz/Cargo.toml",
    "rust-toolchain.toml",
];
/// Sets that are kept: the current one, and those of other branches.
const SETS: usize = 3;
/// How long a set is kept that no clone uses.
const KEPT: Duration = Duration::from_hours(14 * 24);

/// Compiled dependencies of earlier clones.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
}

impl Store {
    /// The store in this machine's cache directory.
    #[must_use]
    pub fn of_this_machine() -> Self {
        let variable = |name| env::var_os(name).map(PathBuf::from);
        let cache = variable("CONNECTORS_CACHE_DIR")
            .or_else(|| variable("XDG_CACHE_HOME").map(|it| it.join("connectors-approval")))
            .or_else(|| variable("HOME").map(|it| it.join(".cache/connectors-approval")))
            .unwrap_or_else(|| PathBuf::from("/var/cache/connectors-approval"));
        Self::at(cache.join("compiled"))
    }

    /// The store in this folder.
    #[must_use]
    pub fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// Where it is.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether it has the set that this repository wants.
    pub fn has(&self, repository: &Path) -> io::Result<bool> {
        Ok(self.root.join(key(repository)?).is_dir())
    }

    /// Copies the store's dependencies into the repository's target directory, once for each set, unless it has others of
    /// its own. Returns their number.
    pub fn fill(&self, repository: &Path) -> io::Result<usize> {
        self.fill_target(repository, &target_of(repository))
    }

    /// The same for another target directory, in which a copy of the repository is built.
    pub fn fill_target(&self, repository: &Path, target: &Path) -> io::Result<usize> {
        let key = key(repository)?;
        let mark = target.join(format!(".compiled-{key}"));
        if mark.is_file() {
            return Ok(0);
        }
        let Some(set) = self.best(&key)? else {
            return Ok(0);
        };
        let _lock = self.lock()?;
        // Nothing in the store is the workspace's own.
        let own = BTreeSet::new();
        let units = if fits(target, &set, &own)? {
            copy(&set, target, &own)?
        } else {
            0
        };
        used_now(&set)?;
        fs::create_dir_all(target)?;
        fs::write(mark, "")?;
        Ok(units)
    }

    /// Copies the dependencies of the repository's target directory into the store, in place of a set that does not fit
    /// to them. Returns the number of new ones.
    pub fn keep(&self, repository: &Path) -> io::Result<usize> {
        let (_lock, set, own) = self.open(repository)?;
        let target = target_of(repository);
        if !fits(&target, &set, &own)? {
            fs::remove_dir_all(&set)?;
        }
        self.add(&target, &set, &own)
    }

    /// The same from another target directory, in which a copy of the repository is built. Nothing is copied to a set that
    /// does not fit.
    pub fn keep_target(&self, repository: &Path, target: &Path) -> io::Result<usize> {
        let (_lock, set, own) = self.open(repository)?;
        if !fits(target, &set, &own)? {
            return Ok(0);
        }
        self.add(target, &set, &own)
    }

    /// The lock, the set that a repository wants, and the packages that do not belong there.
    fn open(&self, repository: &Path) -> io::Result<(File, PathBuf, BTreeSet<String>)> {
        fs::create_dir_all(&self.root)?;
        let lock = self.lock()?;
        let set = self.root.join(key(repository)?);
        Ok((lock, set, units::own_packages(repository)?))
    }

    fn add(&self, target: &Path, set: &Path, own: &BTreeSet<String>) -> io::Result<usize> {
        let units = copy(target, set, own)?;
        used_now(set)?;
        self.forget(now(set)?)?;
        Ok(units)
    }

    /// The set of this key, else the one that was used last: some of its dependencies will fit.
    fn best(&self, key: &str) -> io::Result<Option<PathBuf>> {
        let exact = self.root.join(key);
        if exact.is_dir() {
            return Ok(Some(exact));
        }
        Ok(self.sets()?.pop().map(|(_, set)| set))
    }

    /// All sets, the one that was used last at the end.
    fn sets(&self) -> io::Result<Vec<(SystemTime, PathBuf)>> {
        let mut sets = Vec::new();
        for name in units::names(&self.root)? {
            let set = self.root.join(name);
            if set.is_dir() {
                sets.push((now(&set)?, set));
            }
        }
        sets.sort();
        Ok(sets)
    }

    fn forget(&self, now: SystemTime) -> io::Result<()> {
        let sets = self.sets()?;
        let surplus = sets.len().saturating_sub(SETS);
        for (at, (used, set)) in sets.iter().enumerate() {
            let age = now.duration_since(*used).unwrap_or_default();
            if at < surplus || age > KEPT {
                fs::remove_dir_all(set)?;
            }
        }
        Ok(())
    }

    /// One clone at a time; released when the file is closed, also by a crash.
    fn lock(&self) -> io::Result<File> {
        let lock = File::create(self.root.join("lock"))?;
        lock.lock()?;
        Ok(lock)
    }
}

/// The name of the set that a repository wants.
fn key(repository: &Path) -> io::Result<String> {
    let mut hasher = DefaultHasher::new();
    for file in DECIDE {
        let text = fs::read(repository.join(file))?;
        hasher.write_usize(text.len());
        hasher.write(&text);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

fn target_of(repository: &Path) -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository.join("target"), PathBuf::from)
}

/// Whether the compiled files that both have are the same. Dependencies of two target directories do not go together: some
/// contain the path of their directory, and cargo compiles again what is older than something that it depends on.
fn fits(target: &Path, set: &Path, own: &BTreeSet<String>) -> io::Result<bool> {
    for profile in units::profiles(set)? {
        let (target, set) = (target.join(&profile), set.join(&profile));
        for entry in units::of_dependencies(&target, own)? {
            let (ours, kept) = (target.join(&entry), set.join(&entry));
            if ours.is_file() && kept.is_file() && version(&ours)? != version(&kept)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// The version of a file, by which it is told from others.
fn version(file: &Path) -> io::Result<(u64, SystemTime)> {
    let data = fs::metadata(file)?;
    Ok((data.len(), data.modified()?))
}

/// Copies dependencies from one target directory to another. Existing files stay.
fn copy(from: &Path, to: &Path, own: &BTreeSet<String>) -> io::Result<usize> {
    let mut copied = 0;
    for profile in units::profiles(from)? {
        let entries = units::of_dependencies(&from.join(&profile), own)?;
        let mut new = Vec::new();
        for entry in entries {
            let (from, to) = (
                from.join(&profile).join(&entry),
                to.join(&profile).join(&entry),
            );
            if !to.exists() {
                place(&from, &to)?;
                new.push(entry);
            }
        }
        copied += units::count(&new);
    }
    Ok(copied)
}

/// A file is linked: compilers write a new file and rename it. A folder is copied: cargo writes its records in place.
fn place(from: &Path, to: &Path) -> io::Result<()> {
    let parent = to.parent().unwrap_or(to);
    fs::create_dir_all(parent)?;
    if from.is_file() && fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    // A partial copy is never visible: it gets its name when it is complete.
    let unfinished = to.with_extension(format!("unfinished-{}", std::process::id()));
    copy_all(from, &unfinished)?;
    fs::rename(&unfinished, to)
}

/// Copies with the times, which cargo compares.
fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    let data = fs::metadata(from)?;
    if data.is_dir() {
        fs::create_dir_all(to)?;
        for name in units::names(from)? {
            copy_all(&from.join(&name), &to.join(&name))?;
        }
        return Ok(());
    }
    fs::copy(from, to)?;
    let times = FileTimes::new().set_modified(data.modified()?);
    File::open(to)?.set_times(times)
}

/// The time at which a set was used last.
fn now(set: &Path) -> io::Result<SystemTime> {
    fs::metadata(set)?.modified()
}

/// Leaves the time of this use, as the file system tells it.
fn used_now(set: &Path) -> io::Result<()> {
    fs::create_dir_all(set)?;
    let mark = set.join("used");
    fs::write(&mark, "")?;
    let times = FileTimes::new().set_modified(fs::metadata(&mark)?.modified()?);
    File::open(set)?.set_times(times)
}

#[cfg(test)]
mod tests;
