//! Where things are: the repository, the cache that outlives clusters, and the files of one cluster.

use std::{
    env, fmt,
    path::{self, Path, PathBuf},
    str::FromStr,
};

/// A cluster's name; it becomes part of paths, cgroups and the node's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterName(String);

/// Why a text is no cluster name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "cluster name `{0}` must be 1 to 20 characters a-z, 0-9 or '-', starting and ending with a letter or digit"
)]
pub struct InvalidClusterName(String);

impl ClusterName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name under which the cluster's only node registers.
    #[must_use]
    pub fn node(&self) -> String {
        format!("{}-node", self.0)
    }
}

impl Default for ClusterName {
    fn default() -> Self {
        Self("local".to_owned())
    }
}

impl FromStr for ClusterName {
    type Err = InvalidClusterName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let edge_ok = |c: Option<char>| c.is_some_and(|c| c != '-');
        let valid = text.len() <= 20
            && text.chars().all(allowed)
            && edge_ok(text.chars().next())
            && edge_ok(text.chars().last());
        if valid {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidClusterName(text.to_owned()))
        }
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The root of this repository.
#[must_use]
pub fn repository() -> PathBuf {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_dir.parent().unwrap_or(crate_dir).to_path_buf()
}

/// The directory that outlives clusters and checkouts: built tools and images, keyed by their content.
#[must_use]
pub fn cache_dir() -> PathBuf {
    let base = env::var_os("CONNECTORS_CACHE_DIR").map(PathBuf::from);
    let xdg =
        || env::var_os("XDG_CACHE_HOME").map(|dir| Path::new(&dir).join("connectors-approval"));
    let home = || env::var_os("HOME").map(|dir| Path::new(&dir).join(".cache/connectors-approval"));
    base.or_else(xdg)
        .or_else(home)
        .unwrap_or_else(|| PathBuf::from("/var/cache/connectors-approval"))
}

/// Where the state of all clusters lives.
#[must_use]
pub(crate) fn clusters_dir() -> PathBuf {
    let given = env::var_os(STATE_DIR).map(PathBuf::from);
    let dir = given.unwrap_or_else(|| PathBuf::from("/var/lib/connectors-approval"));
    // The components run in other directories than this process.
    path::absolute(&dir).unwrap_or(dir)
}

/// Moves the state of all clusters.
pub(crate) const STATE_DIR: &str = "CONNECTORS_STATE_DIR";

/// The files of one cluster, all under one directory that `down` removes.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    root: PathBuf,
}

impl Layout {
    pub(crate) fn of(name: &ClusterName) -> Self {
        Self {
            root: clusters_dir().join(name.as_str()),
        }
    }

    #[cfg(test)]
    pub(crate) fn at(root: &Path) -> Self {
        Self {
            root: root.to_path_buf(),
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Whether there is nothing of the cluster.
    pub(crate) fn is_absent(&self) -> bool {
        !self.root.exists() && !self.work_lock().exists()
    }

    /// Any file of the cluster, by its path below the root.
    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.root.join(below)
    }

    /// The same as text, for command lines and configuration files.
    pub(crate) fn text(&self, below: &str) -> String {
        self.path(below).display().to_string()
    }

    pub(crate) fn pki(&self, file: &str) -> String {
        self.text(&format!("pki/{file}"))
    }

    pub(crate) fn log(&self, component: &str) -> PathBuf {
        self.path(&format!("logs/{component}.log"))
    }

    /// Held by the keeper as long as it lives; contains its process id.
    pub(crate) fn keeper_lock(&self) -> PathBuf {
        self.path("keeper.lock")
    }

    /// Held by `up` and `down` while they work; beside the directory, since `down` removes that.
    pub(crate) fn work_lock(&self) -> PathBuf {
        self.root.with_extension("lock")
    }

    /// The tools that the cluster was brought up with.
    pub(crate) fn tools_file(&self) -> PathBuf {
        self.path("tools.json")
    }

    /// Where the supervisor takes requests.
    pub(crate) fn control_socket(&self) -> PathBuf {
        self.path("control.sock")
    }

    /// The loopback port of the forwarder, written when it listens.
    pub(crate) fn port_file(&self) -> PathBuf {
        self.path("api.port")
    }

    /// What a machine holds in memory: the container runtime's state, and the sockets.
    pub(crate) fn lost_when_off(&self) -> [PathBuf; 3] {
        [
            self.control_socket(),
            self.path("containerd.sock"),
            self.path("containerd/state"),
        ]
    }

    /// Written last by `up`: a cluster without it is half made.
    pub(crate) fn ready_marker(&self) -> PathBuf {
        self.path("ready")
    }

    /// The administrator's kubeconfig for tools outside the cluster's network.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.path("kubeconfig")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_fit_everywhere_are_accepted() {
        for name in ["local", "a", "test-2", "a2345678901234567890"] {
            assert_eq!(name.parse::<ClusterName>().unwrap().as_str(), name);
        }
    }

    #[test]
    fn names_that_could_leave_their_place_are_refused() {
        for name in [
            "",
            "-a",
            "a-",
            "A",
            "a/b",
            "..",
            "a b",
            "a23456789012345678901",
        ] {
            assert!(name.parse::<ClusterName>().is_err(), "{name}");
        }
    }
}
