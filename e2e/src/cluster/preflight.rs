//! The requirements for the machine, checked before anything is started: one clear message for each missing
//! one.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::layout::{STATE_DIR, clusters_dir, repository};
use crate::command::{CommandError, Tool, find_program};

/// The packages that the node needs, by Debian's names, with a program of each that shows that it is there.
const PACKAGES: [(&str, &str); 7] = [
    ("containerd", "containerd"),
    ("runc", "runc"),
    ("nftables", "nft"),
    ("iptables", "iptables"),
    ("iproute2", "ip"),
    ("kmod", "modprobe"),
    ("util-linux", "setpriv"),
];
/// The packages with the clients of tools that tests start in pods.
const CLIENT_PACKAGES: [(&str, &str); 2] = [("curl", "curl"), ("git", "git")];
const CNI_PACKAGE: &str = "containernetworking-plugins";
/// Where distributions, and CNI itself, put the plugins.
const CNI_DIRS: [&str; 3] = ["/usr/lib/cni", "/usr/libexec/cni", "/opt/cni/bin"];
const CNI_PLUGINS: [&str; 4] = ["host-local", "loopback", "portmap", "ptp"];

/// The longest socket path that the kernel accepts, and the longest path that components add below the
/// clusters' directory.
const LONGEST_SOCKET: usize = 107;
const BELOW_STATE_DIR: usize =
    "/12345678901234567890/kubelet/plugins/connectors-csi/csi.sock".len();

/// The free space that images, logs and volumes of a node need, in MiB.
const ROOM: u64 = 2048;

/// The facts about the machine that a node needs.
#[derive(Debug)]
pub(crate) struct Machine {
    /// Where the CNI plugins are.
    pub(crate) cni_dir: PathBuf,
}

/// Why a cluster cannot run on this machine.
#[derive(Debug, thiserror::Error)]
pub enum PreflightError {
    /// Namespaces, mounts and cgroups need root.
    #[error(
        "the local cluster needs root: run `sudo env \"PATH=$PATH\" \"HOME=$HOME\" cargo xtask …`, or pass --kubeconfig of an existing cluster"
    )]
    NotRoot,
    /// Root in a container without the rights of root.
    #[error(
        "this root may not make namespaces (CAP_SYS_ADMIN is missing): run the container with --privileged, or pass --kubeconfig of an existing cluster"
    )]
    NoNamespaces(#[source] CommandError),
    /// Nothing builds the cluster's components.
    #[error(
        "Go is not installed (no `go` in PATH), and the cluster's components are built with it: install Go 1.26 or newer"
    )]
    NoGo,
    /// Go is there and refuses.
    #[error("this Go cannot build the cluster's components: install Go 1.26 or newer")]
    Go(#[source] CommandError),
    /// Packages are missing and cannot be installed.
    #[error(
        "missing programs: run `apt-get install --no-install-recommends {packages}` (or your distribution's equivalent)"
    )]
    Packages {
        /// The packages' names, separated by blanks.
        packages: String,
        /// Why installing them ourselves failed.
        #[source]
        source: Option<CommandError>,
    },
    /// The kernel lacks something.
    #[error(
        "this kernel cannot run a node: {missing}; a stock Debian, Ubuntu or Fedora kernel can"
    )]
    Kernel {
        /// The missing requirement, in words.
        missing: &'static str,
        /// The error of the trial.
        #[source]
        source: Option<CommandError>,
    },
    /// Pods need cgroups.
    #[error("no cgroups can be made: {0}")]
    NoCgroups(&'static str),
    /// Sockets have short names.
    #[error(
        "{STATE_DIR}={path} is too long: sockets below it would pass the kernel's limit; choose a shorter path"
    )]
    StateDirTooLong {
        /// The directory.
        path: PathBuf,
    },
    /// A full disk fails in many ways, and each looks like an error of the product.
    #[error(
        "the disk of {path} has {free} MiB free, and a node needs {ROOM}: remove old builds (`cargo clean`), or choose another disk with {STATE_DIR}"
    )]
    DiskFull {
        /// The directory of clusters, or the first one above it that exists.
        path: PathBuf,
        /// The free space for this user.
        free: u64,
    },
    /// A file that tells about the machine.
    #[error("cannot read {path}")]
    Unreadable {
        /// Which file.
        path: &'static str,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
}

/// Checks everything, installs missing Debian packages when that is possible.
pub(crate) fn check() -> Result<Machine, PreflightError> {
    if !rustix::process::geteuid().is_root() {
        return Err(PreflightError::NotRoot);
    }
    check_state_dir(clusters_dir())?;
    check_room(&clusters_dir(), ROOM)?;
    check_go()?;
    install(missing_packages)?;
    check_cgroups()?;
    check_kernel()?;
    let cni_dir = cni_dir().ok_or(PreflightError::Packages {
        packages: CNI_PACKAGE.to_owned(),
        source: None,
    })?;
    Ok(Machine { cni_dir })
}

fn check_state_dir(path: PathBuf) -> Result<(), PreflightError> {
    if path.as_os_str().len() + BELOW_STATE_DIR > LONGEST_SOCKET {
        return Err(PreflightError::StateDirTooLong { path });
    }
    Ok(())
}

/// A disk that cannot be asked is no reason to refuse.
fn check_room(dir: &Path, needed: u64) -> Result<(), PreflightError> {
    let Some(there) = dir.ancestors().find(|it| it.exists()) else {
        return Ok(());
    };
    let Ok(disk) = rustix::fs::statvfs(there) else {
        return Ok(());
    };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize) >> 20;
    if free < needed {
        let path = there.to_owned();
        return Err(PreflightError::DiskFull { path, free });
    }
    Ok(())
}

fn check_go() -> Result<(), PreflightError> {
    if find_program("go").is_none() {
        return Err(PreflightError::NoGo);
    }
    // In the module's own folder Go compares itself with the version that the module asks for.
    let module = repository().join("e2e/tools/kubernetes");
    let version = Tool::new("go").dir(module).args(["env", "GOVERSION"]);
    version.output().map(drop).map_err(PreflightError::Go)
}

/// Installs the clients of tools where they are missing.
pub(crate) fn install_clients() -> Result<(), PreflightError> {
    install(|| missing_of(&CLIENT_PACKAGES))
}

/// Installs the packages that are missing, and looks again.
fn install(missing_packages: impl Fn() -> Vec<&'static str>) -> Result<(), PreflightError> {
    let missing = missing_packages();
    if missing.is_empty() {
        return Ok(());
    }
    let failed = |source| PreflightError::Packages {
        packages: missing.join(" "),
        source,
    };
    if find_program("apt-get").is_none() || find_program("setpriv").is_none() {
        return Err(failed(None));
    }
    let apt = |args: &[&str]| {
        Tool::ending_with_us("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(["--quiet", "--yes"])
            .args(args)
            .output()
    };
    let mut install = vec!["install", "--no-install-recommends"];
    install.extend(&missing);
    // Package lists may be absent or old; only then is the slow update worth its time.
    let result = apt(&install).or_else(|_| apt(&["update"]).and_then(|_| apt(&install)));
    match result {
        Ok(_) if missing_packages().is_empty() => Ok(()),
        Ok(_) => Err(failed(None)),
        Err(error) => Err(failed(Some(error))),
    }
}

/// The packages whose program is not there.
fn missing_of(packages: &[(&'static str, &str)]) -> Vec<&'static str> {
    let packages = packages.iter();
    let missing = packages.filter(|(_, program)| find_program(program).is_none());
    missing.map(|(package, _)| *package).collect()
}

fn missing_packages() -> Vec<&'static str> {
    let mut missing = missing_of(&PACKAGES);
    if cni_dir().is_none() {
        missing.push(CNI_PACKAGE);
    }
    missing
}

fn cni_dir() -> Option<PathBuf> {
    let has_all = |dir: &&Path| CNI_PLUGINS.iter().all(|plugin| dir.join(plugin).is_file());
    CNI_DIRS
        .iter()
        .map(Path::new)
        .find(has_all)
        .map(Path::to_path_buf)
}

fn check_cgroups() -> Result<(), PreflightError> {
    let path = "/proc/self/mounts";
    let mounts =
        fs::read_to_string(path).map_err(|source| PreflightError::Unreadable { path, source })?;
    let cgroups: Vec<&str> = mounts
        .lines()
        .filter(|line| line.contains(" cgroup"))
        .collect();
    if cgroups.is_empty() {
        return Err(PreflightError::NoCgroups(
            "no cgroup file system is mounted",
        ));
    }
    let read_only = |line: &&str| {
        line.split(' ')
            .nth(3)
            .is_some_and(|options| options.starts_with("ro"))
    };
    if cgroups.iter().any(read_only) {
        return Err(PreflightError::NoCgroups(
            "the cgroup file system is mounted read-only; run the container with --privileged",
        ));
    }
    Ok(())
}

/// Tries the kernel's features in namespaces that are gone right after.
fn check_kernel() -> Result<(), PreflightError> {
    let lacks = |missing, source| PreflightError::Kernel { missing, source };
    let inside = |script| {
        let args = ["--net", "--mount", "--pid", "--fork", "sh", "-c", script];
        Tool::new("unshare").args(args).output()
    };
    inside("true").map_err(PreflightError::NoNamespaces)?;
    // Loading fails where the feature is built in or modules are not allowed; the trials below decide.
    let _ = Tool::new("modprobe")
        .args(["-aq", "overlay", "bridge", "veth", "nf_tables", "nft_nat"])
        .output();
    let path = "/proc/filesystems";
    let filesystems =
        fs::read_to_string(path).map_err(|source| PreflightError::Unreadable { path, source })?;
    if !filesystems.lines().any(|line| line.ends_with("\toverlay")) {
        return Err(lacks("no overlay file system", None));
    }
    let trials = [
        ("no bridge devices", "ip link add trial0 type bridge"),
        (
            "no veth devices",
            "ip link add trial0 type veth peer name trial1",
        ),
        (
            "no nf_tables NAT",
            "nft 'add table ip trial; add chain ip trial c { type nat hook postrouting priority 0; }'",
        ),
    ];
    for (missing, script) in trials {
        inside(script).map_err(|error| lacks(missing, Some(error)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_directory_must_leave_room_for_socket_names() {
        check_state_dir(PathBuf::from("/var/lib/connectors-approval")).unwrap();
        let long = PathBuf::from(format!("/{}", "a".repeat(60)));
        let message = check_state_dir(long).unwrap_err().to_string();
        assert!(
            message.starts_with("CONNECTORS_STATE_DIR=/aaa"),
            "{message}"
        );
    }

    #[test]
    fn a_disk_without_room_is_named_with_what_to_do() {
        let dir = std::env::temp_dir().join("not-there/yet");
        check_room(&dir, 0).unwrap();
        let message = check_room(&dir, u64::MAX).unwrap_err().to_string();
        assert!(message.starts_with("the disk of /"), "{message}");
        assert!(message.contains("MiB free, and a node needs"), "{message}");
        check_room(Path::new(""), u64::MAX).unwrap();
    }
}
