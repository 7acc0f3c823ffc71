//! The traces that a cluster could leave on the machine.

use std::{fs, path::Path};

/// Everything on this machine that belongs to a cluster of this name: processes, mounts, cgroups, files.
pub(crate) fn traces_of(name: &str) -> Vec<String> {
    let mut traces: Vec<String> = processes(name)
        .into_iter()
        .map(|(id, line)| format!("process {id}: {line}"))
        .collect();
    traces.extend(mounts(name));
    traces.extend(cgroups(name));
    let dir = state_dir(name);
    for path in [dir.clone(), format!("{dir}.lock")] {
        if Path::new(&path).exists() {
            traces.push(format!("file {path}"));
        }
    }
    traces
}

/// Places where the components keep files by default, and that a cluster must not touch.
const ELSEWHERE: [&str; 9] = [
    "/etc/cni/net.d",
    "/run/containerd",
    "/run/netns",
    "/var/lib/cni",
    "/var/lib/containerd",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/var/log/pods",
    "/usr/libexec/kubernetes",
];

/// The parts of the machine that clusters must not change: network interfaces, other programs' directories,
/// kernel settings.
pub(crate) fn rest_of_the_machine() -> Vec<String> {
    let mut seen: Vec<String> = fs::read_dir("/sys/class/net")
        .unwrap()
        .map(|entry| format!("interface {}", entry.unwrap().file_name().display()))
        .collect();
    seen.sort();
    for place in ELSEWHERE {
        let entries = fs::read_dir(place).map(Iterator::count);
        seen.push(format!("{place}: {:?} entries", entries.ok()));
    }
    for setting in SETTINGS {
        let value = fs::read_to_string(format!("/proc/sys/{setting}")).unwrap_or_default();
        seen.push(format!("{setting} = {}", value.trim()));
    }
    seen
}

/// The kernel settings that a kubelet changes for the whole machine.
pub(crate) const SETTINGS: [&str; 6] = [
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
];

fn state_dir(name: &str) -> String {
    let base = std::env::var("CONNECTORS_STATE_DIR")
        .unwrap_or_else(|_| "/var/lib/connectors-approval".to_owned());
    format!("{base}/{name}")
}

/// Processes that were started with the cluster's directory or name, or live in its cgroup.
pub(crate) fn processes(name: &str) -> Vec<(i32, String)> {
    let ours = [
        format!("{}/", state_dir(name)),
        format!("--name {name} "),
        format!("connectors-approval-{name}/"),
    ];
    let me = std::process::id().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let id = entry.file_name().to_string_lossy().into_owned();
        let Ok(number) = id.parse() else {
            continue;
        };
        if id == me {
            continue;
        }
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        let line = format!("{} ", read("cmdline").replace('\0', " "));
        let zombie = read("stat")
            .rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('Z'));
        let text = format!("{line}\n{}", read("cgroup"));
        if !zombie && ours.iter().any(|mark| text.contains(mark)) {
            found.push((number, line));
        }
    }
    found
}

fn mounts(name: &str) -> Vec<String> {
    let dir = state_dir(name);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    mounts
        .lines()
        .filter(|line| line.contains(&format!("{dir}/")))
        .map(|line| format!("mount {line}"))
        .collect()
}

fn cgroups(name: &str) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .filter(|fields| fields.get(2).is_some_and(|kind| kind.starts_with("cgroup")))
        .map(|fields| format!("{}/connectors-approval-{name}", fields[1]))
        .filter(|dir| Path::new(dir).exists())
        .map(|dir| format!("cgroup {dir}"))
        .collect()
}
