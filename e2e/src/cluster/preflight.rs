//! What the machine must offer, checked before anything is started: one clear message per lack.

use std::fs;

use crate::command::{CommandError, Tool, find_program};

/// Debian's packages that the node needs, with one program of each that shows whether it is there.
const PACKAGES: [(&str, &str); 8] = [
    ("containerd", "containerd"),
    ("runc", "runc"),
    ("containernetworking-plugins", "/usr/lib/cni/ptp"),
    ("nftables", "nft"),
    ("iptables", "iptables"),
    ("iproute2", "ip"),
    ("kmod", "modprobe"),
    ("util-linux", "setpriv"),
];

/// Why a cluster cannot run on this machine.
#[derive(Debug, thiserror::Error)]
pub enum PreflightError {
    /// Namespaces, mounts and cgroups need root.
    #[error(
        "the local cluster needs root: run the same command with sudo, or pass --kubeconfig of an existing cluster"
    )]
    NotRoot,
    /// Nothing builds the cluster's components.
    #[error(
        "Go is not installed (no `go` in PATH), and the cluster's components are built with it: install Go 1.26 or newer"
    )]
    NoGo,
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
        /// What is missing, in words.
        missing: String,
    },
}

/// Checks everything, installs missing Debian packages when that is possible.
pub(crate) fn check() -> Result<(), PreflightError> {
    if !rustix::process::geteuid().is_root() {
        return Err(PreflightError::NotRoot);
    }
    if find_program("go").is_none() {
        return Err(PreflightError::NoGo);
    }
    install_missing()?;
    check_kernel()
}

fn install_missing() -> Result<(), PreflightError> {
    let missing = missing_packages();
    if missing.is_empty() {
        return Ok(());
    }
    let packages = missing.join(" ");
    if find_program("apt-get").is_none() {
        return Err(PreflightError::Packages {
            packages,
            source: None,
        });
    }
    let apt = |args: &[&str]| {
        Tool::new("apt-get")
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
        Ok(_) => Err(PreflightError::Packages {
            packages,
            source: None,
        }),
        Err(error) => Err(PreflightError::Packages {
            packages,
            source: Some(error),
        }),
    }
}

fn missing_packages() -> Vec<&'static str> {
    PACKAGES
        .into_iter()
        .filter(|(_, program)| find_program(program).is_none())
        .map(|(package, _)| package)
        .collect()
}

/// Tries the kernel's features in a network namespace that is gone right after.
fn check_kernel() -> Result<(), PreflightError> {
    let lacks = |missing: &str| PreflightError::Kernel {
        missing: missing.to_owned(),
    };
    // Loading fails where the feature is built in or modules are not allowed; the trials below decide.
    let _ = Tool::new("modprobe")
        .args(["-aq", "overlay", "bridge", "veth", "nf_tables", "nft_nat"])
        .output();
    let filesystems = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !filesystems.lines().any(|line| line.ends_with("\toverlay")) {
        return Err(lacks("no overlay file system"));
    }
    let trials = [
        ("no namespaces", "true"),
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
        let args = ["--net", "--mount", "--pid", "--fork", "sh", "-c", script];
        if Tool::new("unshare").args(args).output().is_err() {
            return Err(lacks(missing));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lack_has_a_message_with_the_way_out() {
        let packages = PreflightError::Packages {
            packages: "runc kmod".to_owned(),
            source: None,
        };
        assert!(
            packages
                .to_string()
                .contains("apt-get install --no-install-recommends runc kmod")
        );
        assert!(PreflightError::NotRoot.to_string().contains("--kubeconfig"));
        assert!(PreflightError::NoGo.to_string().contains("install Go"));
    }
}
