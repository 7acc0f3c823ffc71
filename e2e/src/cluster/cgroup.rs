//! The cgroup that holds all pods of one cluster, in every hierarchy of the machine.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use super::layout::ClusterName;
use crate::wait::{Deadline, TimedOut, poll};

/// The controllers that the kubelet requires.
const CONTROLLERS: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];
const PATIENCE: Duration = Duration::from_secs(10);

/// Below this cgroup the kubelet makes everything else.
pub(crate) fn root(name: &ClusterName) -> String {
    format!("/connectors-approval-{name}")
}

/// Makes the cluster's cgroup in every mounted hierarchy, as the kubelet expects to find it.
pub(crate) fn create(name: &ClusterName) -> io::Result<()> {
    for hierarchy in hierarchies()? {
        let dir = hierarchy.dir.join(root(name).trim_start_matches('/'));
        fs::create_dir_all(&dir)?;
        match hierarchy.kind {
            Kind::Unified if has_controllers(&hierarchy.dir) => {
                delegate_controllers(&hierarchy.dir, &dir)?;
            }
            // An empty cpuset accepts no process, and children do not inherit it by themselves.
            Kind::Cpuset => {
                for file in ["cpuset.cpus", "cpuset.mems"] {
                    fs::write(dir.join(file), fs::read(hierarchy.dir.join(file))?)?;
                }
            }
            Kind::Unified | Kind::Other => {}
        }
    }
    Ok(())
}

/// Removes the cgroups of [`create`] and of the kubelet. The kernel empties the cgroups a moment after the
/// last process is gone, so this waits.
pub(crate) fn remove(name: &ClusterName) -> Result<(), TimedOut> {
    poll("empty cgroups", Deadline::after(PATIENCE), || {
        remove_now(name).map_err(|error| error.to_string())
    })
}

fn remove_now(name: &ClusterName) -> io::Result<()> {
    for hierarchy in hierarchies()? {
        remove_tree(&hierarchy.dir.join(root(name).trim_start_matches('/')))?;
    }
    Ok(())
}

enum Kind {
    Unified,
    Cpuset,
    Other,
}

struct Hierarchy {
    dir: PathBuf,
    kind: Kind,
}

fn hierarchies() -> io::Result<Vec<Hierarchy>> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    Ok(mounts.lines().filter_map(parse_mount).collect())
}

fn parse_mount(line: &str) -> Option<Hierarchy> {
    let mut fields = line.split(' ');
    let (_, dir, fs_type, options) = (
        fields.next()?,
        fields.next()?,
        fields.next()?,
        fields.next()?,
    );
    let kind = match fs_type {
        "cgroup2" => Kind::Unified,
        "cgroup" if options.split(',').any(|option| option == "cpuset") => Kind::Cpuset,
        "cgroup" => Kind::Other,
        _ => return None,
    };
    Some(Hierarchy {
        dir: PathBuf::from(dir),
        kind,
    })
}

/// Beside version 1 the unified hierarchy may be mounted too, without any controller.
fn has_controllers(dir: &Path) -> bool {
    fs::read_to_string(dir.join("cgroup.controllers")).is_ok_and(|text| text.contains("cpu"))
}

/// In a unified hierarchy a controller works in a cgroup only when its parent hands it down.
fn delegate_controllers(parent: &Path, dir: &Path) -> io::Result<()> {
    for level in [parent, dir] {
        let file = level.join("cgroup.subtree_control");
        let handed_down = fs::read_to_string(&file)?;
        for controller in CONTROLLERS {
            if !handed_down
                .split_whitespace()
                .any(|word| word == controller)
            {
                fs::write(&file, format!("+{controller}")).map_err(|error| {
                    io::Error::other(format!(
                        "{}: cannot hand down `{controller}`: {error}",
                        file.display()
                    ))
                })?;
            }
        }
    }
    Ok(())
}

fn remove_tree(dir: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    // A cgroup's files belong to the kernel: the directory goes by itself or not at all.
    match fs::remove_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_kinds_of_hierarchy_and_nothing_else() {
        let unified = parse_mount("cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0").unwrap();
        assert!(matches!(unified.kind, Kind::Unified));
        let cpuset = parse_mount("cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0").unwrap();
        assert!(matches!(cpuset.kind, Kind::Cpuset));
        let cpu =
            parse_mount("cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0").unwrap();
        assert!(matches!(cpu.kind, Kind::Other));
        assert_eq!(cpu.dir, Path::new("/sys/fs/cgroup/cpu,cpuacct"));
        assert!(parse_mount("tmpfs /sys/fs/cgroup tmpfs rw 0 0").is_none());
        assert!(parse_mount("").is_none());
    }

    #[test]
    fn hands_down_what_is_not_handed_down_yet_and_names_what_cannot_be() {
        let dir = tempfile::tempdir().unwrap();
        let (parent, child) = (dir.path().join("p"), dir.path().join("p/c"));
        fs::create_dir_all(&child).unwrap();
        fs::write(
            parent.join("cgroup.subtree_control"),
            "cpu cpuset memory pids io\n",
        )
        .unwrap();
        fs::write(child.join("cgroup.subtree_control"), "cpu cpuset memory\n").unwrap();
        delegate_controllers(&parent, &child).unwrap();
        let read = |level: &Path| fs::read_to_string(level.join("cgroup.subtree_control")).unwrap();
        assert_eq!(read(&parent), "cpu cpuset memory pids io\n", "left alone");
        assert_eq!(read(&child), "+pids");

        let error = delegate_controllers(&parent, &dir.path().join("none")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn removes_nested_directories_and_accepts_none() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("a");
        fs::create_dir_all(root.join("b/c")).unwrap();
        remove_tree(&root).unwrap();
        assert!(!root.exists());
        remove_tree(&root).unwrap();
    }
}
