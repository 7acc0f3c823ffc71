//! The cluster's own world: mounts that hide the directories in which programs leave files, and a network.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind, mount_change, mount_move,
};

use super::{config::net, layout::clusters_dir};
use crate::command::{CommandError, Tool};

/// Directories in which programs keep files outside the cluster's own. The cluster needs no existing file
/// there.
const HIDDEN: [&str; 2] = ["/var/lib", "/var/log"];

/// Settings of the whole machine that the kubelet would change permanently.
const SETTINGS: [&str; 6] = [
    "/proc/sys/kernel/keys/root_maxbytes",
    "/proc/sys/kernel/keys/root_maxkeys",
    "/proc/sys/kernel/panic",
    "/proc/sys/kernel/panic_on_oops",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/panic_on_oom",
];

/// Gives this mount namespace directories of its own; they are memory, and end with the last process here.
pub(super) fn private_mounts() -> io::Result<()> {
    let clusters = clusters_dir();
    tmpfs("/run")?;
    // The clusters' directory may lie in a hidden one: held aside, and put back to its place.
    let aside = PathBuf::from("/run/clusters");
    fs::create_dir(&aside)?;
    mount_bind(&clusters, &aside)?;
    for dir in HIDDEN {
        tmpfs(dir)?;
    }
    fs::create_dir_all(&clusters)?;
    mount_move(&aside, &clusters)?;
    for setting in SETTINGS {
        private_copy(Path::new(setting))?;
    }
    // Pods with shared mounts need a shared tree. It is shared among the cluster's processes alone, since
    // `unshare --mount` made this namespace private before.
    Ok(mount_change(
        "/",
        MountPropagationFlags::SHARED | MountPropagationFlags::REC,
    )?)
}

fn tmpfs(dir: &str) -> io::Result<()> {
    let flags = MountFlags::NODEV | MountFlags::NOSUID;
    Ok(mount("tmpfs", dir, "tmpfs", flags, c"mode=755")?)
}

/// A file in the place of a setting: a read gives the machine's value, a write changes nothing outside.
fn private_copy(setting: &Path) -> io::Result<()> {
    if !setting.exists() {
        return Ok(()); // this kernel has no such setting
    }
    let name = setting.display().to_string().replace('/', "_");
    let copy = Path::new("/run").join(name);
    fs::write(&copy, fs::read(setting)?)?;
    Ok(mount_bind(&copy, setting)?)
}

/// A node address on a bridge, and a route for service addresses.
pub(super) fn network() -> Result<(), CommandError> {
    let steps = [
        "link set lo up".to_owned(),
        "link add node0 type bridge".to_owned(),
        format!("addr add {} dev node0", net::NODE_CIDR),
        "link set node0 up".to_owned(),
        // Service addresses need some route before nftables turns them into pods' addresses.
        format!("route add default via {} dev node0", net::NODE_IP),
    ];
    for step in steps {
        Tool::new("ip").args(step.split(' ')).output()?;
    }
    Ok(())
}

/// The node passes packets on between pods.
pub(super) fn forwarding() -> io::Result<()> {
    fs::write("/proc/sys/net/ipv4/ip_forward", "1")
}
