//! The node as the kubelet sees it: its mounts lie in a mount namespace of their own.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fmt, fs, io,
    path::{Path, PathBuf},
};

/// The mount namespace that volumes are looked for in.
#[derive(Debug, Clone)]
pub struct View {
    mounts: PathBuf,
    root: PathBuf,
}

/// Why the node cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// There is no such process.
    #[error("no kubelet works in {0}")]
    NoKubelet(PathBuf),
    /// Its files cannot be read.
    #[error("cannot read {path}", path = .0.display())]
    Read(PathBuf, #[source] io::Error),
}

/// The state of a target path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Neither a mount nor anything else.
    Nothing,
    /// Something that is not mounted: a directory, empty or not.
    Unmounted,
    /// A mount without a marker file.
    Unmarked,
    /// A mount with all its content.
    Complete,
    /// A mount whose content was taken away.
    Revoked,
    /// A mount that holds an error, and nothing else.
    Rejected,
}

impl Target {
    pub(crate) fn is_mounted(self) -> bool {
        match self {
            Self::Nothing | Self::Unmounted => false,
            Self::Unmarked | Self::Complete | Self::Revoked | Self::Rejected => true,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "nothing",
            Self::Unmounted => "something that is not mounted",
            Self::Unmarked => "a mount that is neither complete nor emptied",
            Self::Complete => "a complete mount",
            Self::Revoked => "an emptied mount",
            Self::Rejected => "an error alone",
        })
    }
}

impl View {
    /// The namespace of a process.
    #[must_use]
    pub fn of_process(id: u32) -> Self {
        let process = Path::new("/proc").join(id.to_string());
        Self::at(process.join("mountinfo"), process.join("root"))
    }

    /// The namespace of the kubelet that works in this directory.
    pub fn of_kubelet(kubelet_dir: &Path) -> Result<Self, ViewError> {
        Self::of_kubelet_among(Path::new("/proc"), kubelet_dir)
    }

    fn of_kubelet_among(processes: &Path, kubelet_dir: &Path) -> Result<Self, ViewError> {
        let wanted = format!("--root-dir={}", kubelet_dir.display());
        let unreadable = |error| ViewError::Read(processes.to_path_buf(), error);
        for entry in fs::read_dir(processes).map_err(unreadable)? {
            let process = entry.map_err(unreadable)?.path();
            // Processes end while they are looked at.
            let Ok(words) = fs::read(process.join("cmdline")) else {
                continue;
            };
            if words
                .split(|byte| *byte == 0)
                .any(|word| word == wanted.as_bytes())
            {
                return Ok(Self::at(process.join("mountinfo"), process.join("root")));
            }
        }
        Err(ViewError::NoKubelet(kubelet_dir.to_path_buf()))
    }

    /// A list of mounts in the format of `/proc/<pid>/mountinfo`, and the directory that its paths begin in.
    #[must_use]
    pub fn at(mounts: PathBuf, root: PathBuf) -> Self {
        Self { mounts, root }
    }

    /// Whether a folder or anything below it is mounted.
    pub fn has_mounts_below(&self, folder: &Path) -> Result<bool, ViewError> {
        let folder = folder.display().to_string();
        Ok(self.mountinfo()?.lines().any(|line| is_at(line, &folder)))
    }

    fn mountinfo(&self) -> Result<String, ViewError> {
        fs::read_to_string(&self.mounts)
            .map_err(|error| ViewError::Read(self.mounts.clone(), error))
    }

    /// The state of a target path.
    pub(crate) fn target(&self, path: &str) -> Result<Target, ViewError> {
        let below_root = self.root.join(path.trim_start_matches('/'));
        // The directory may lie on the way to a pod that is gone by now.
        let exists = match fs::symlink_metadata(&below_root) {
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(ViewError::Read(below_root, error)),
        };
        if !self.mountinfo()?.lines().any(|line| is_at(line, path)) {
            return Ok(if exists {
                Target::Unmounted
            } else {
                Target::Nothing
            });
        }
        let has = |name: &str| below_root.join(".connector").join(name).exists();
        Ok(
            match (has(".complete"), has(".revoked"), has(".rejected")) {
                (true, false, false) => Target::Complete,
                (false, true, false) => Target::Revoked,
                (false, false, true) if is_error_alone(&below_root) => Target::Rejected,
                _ => Target::Unmarked,
            },
        )
    }
}

/// Whether a volume holds an error, its mark and nothing else.
fn is_error_alone(root: &Path) -> bool {
    let names = |folder: &Path| -> BTreeSet<_> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name()).collect()
    };
    let is = |folder: &Path, expected: &[&str]| {
        names(folder) == expected.iter().map(OsString::from).collect()
    };
    is(root, &[".connector", ".error.json"]) && is(&root.join(".connector"), &[".rejected"])
}

/// Whether a line of the list is a mount at or below a path.
fn is_at(line: &str, path: &str) -> bool {
    let Some(place) = line.split(' ').nth(4) else {
        return false;
    };
    let place = unescaped(place);
    let rest = place.strip_prefix(path.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The kernel writes spaces and the like as three octal digits.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let digits = tail
            .get(..3)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        let (byte, tail) = match (first, escaped) {
            (b'\\', Some(byte)) => (byte, tail.get(3..).unwrap_or_default()),
            (byte, _) => (*byte, tail),
        };
        bytes.push(byte);
        rest = tail;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_found_at_or_below_its_path() {
        let line =
            |place: &str| format!("36 35 98:0 / {place} rw,noatime master:1 - tmpfs tmpfs rw");
        for place in ["/a/b", "/a/b/c", "/a/b/"] {
            assert!(is_at(&line(place), "/a/b"), "{place}");
        }
        assert!(is_at(&line("/a\\040b"), "/a b") && is_at(&line("/a/b"), "/a/b/"));
        for place in ["/a", "/a/bc", "/", "/x/a/b"] {
            assert!(!is_at(&line(place), "/a/b"), "{place}");
        }
        assert!(!is_at("", "/a") && !is_at("1 2 3", "/a"));
    }

    #[test]
    fn what_is_at_a_path_is_told_by_mount_and_marks() {
        let dir = tempfile::tempdir().unwrap();
        let view = View::at(dir.path().join("mountinfo"), dir.path().to_path_buf());
        let target = dir.path().join("t");
        assert!(
            view.target("/t").is_err(),
            "without the list of mounts nothing is known"
        );
        fs::write(
            dir.path().join("mountinfo"),
            "1 1 0:1 / /other rw - tmpfs t rw\n",
        )
        .unwrap();
        assert_eq!(view.target("/t").unwrap(), Target::Nothing);
        fs::create_dir(&target).unwrap();
        assert_eq!(view.target("/t").unwrap(), Target::Unmounted);
        fs::write(
            dir.path().join("mountinfo"),
            "1 1 0:1 / /t rw - tmpfs t rw\n",
        )
        .unwrap();
        assert_eq!(view.target("/t").unwrap(), Target::Unmarked);
        fs::create_dir(target.join(".connector")).unwrap();
        fs::write(target.join(".connector/.complete"), "").unwrap();
        assert_eq!(view.target("/t").unwrap(), Target::Complete);
        fs::write(target.join(".connector/.revoked"), "").unwrap();
        assert_eq!(view.target("/t").unwrap(), Target::Unmarked);
        fs::remove_file(target.join(".connector/.complete")).unwrap();
        assert_eq!(view.target("/t").unwrap(), Target::Revoked);
        fs::remove_file(target.join(".connector/.revoked")).unwrap();
        fs::write(target.join(".connector/.rejected"), "").unwrap();
        assert_eq!(view.target("/t").unwrap(), Target::Unmarked);
        fs::write(target.join(".error.json"), "{}").unwrap();
        assert_eq!(view.target("/t").unwrap(), Target::Rejected);
        for more in ["context.token", ".connector/tools_harbor"] {
            fs::write(target.join(more), "").unwrap();
            assert_eq!(view.target("/t").unwrap(), Target::Unmarked, "{more}");
            fs::remove_file(target.join(more)).unwrap();
        }
    }

    #[test]
    fn the_kubelet_is_found_by_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        let process = dir.path().join("7");
        fs::create_dir(&process).unwrap();
        fs::write(process.join("cmdline"), "/bin/kubelet\0--root-dir=/k/one\0").unwrap();
        fs::create_dir(dir.path().join("8")).unwrap();
        let view = View::of_kubelet_among(dir.path(), Path::new("/k/one")).unwrap();
        assert_eq!(view.root, process.join("root"));
        let error = View::of_kubelet_among(dir.path(), Path::new("/k")).unwrap_err();
        assert_eq!(error.to_string(), "no kubelet works in /k");
    }
}
