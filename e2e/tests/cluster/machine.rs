//! What a cluster could leave behind on the machine.

use std::{fs, path::Path};

/// Everything on this machine that belongs to a cluster of this name: processes, mounts, cgroups, files.
pub(crate) fn traces_of(name: &str) -> Vec<String> {
    let mut traces = processes(name);
    traces.extend(mounts(name));
    traces.extend(cgroups(name));
    let dir = state_dir(name);
    if Path::new(&dir).exists() {
        traces.push(format!("directory {dir}"));
    }
    traces
}

/// The network interfaces outside all clusters.
pub(crate) fn interfaces() -> Vec<String> {
    let names = fs::read_dir("/sys/class/net").unwrap();
    let mut names: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn state_dir(name: &str) -> String {
    let base = std::env::var("CONNECTORS_STATE_DIR")
        .unwrap_or_else(|_| "/var/lib/connectors-approval".to_owned());
    format!("{base}/{name}")
}

/// Processes that were started with the cluster's directory or name, or live in its cgroup.
fn processes(name: &str) -> Vec<String> {
    let ours = [
        format!("{}/", state_dir(name)),
        format!("--name {name} "),
        format!("connectors-approval-{name}/"),
    ];
    let me = std::process::id().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let id = entry.file_name().to_string_lossy().into_owned();
        if id.parse::<u32>().is_err() || id == me {
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
            found.push(format!("process {id}: {line}"));
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
