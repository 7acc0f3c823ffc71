//! The processor time of each side.

use std::fs;
use std::time::Duration;

/// The names of the threads of both sides.
pub(crate) const SERVICE: &str = "service";
pub(crate) const CLIENT: &str = "client";

/// The processor time of the threads of this name.
pub(crate) fn worked(name: &str) -> Duration {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let tasks = tasks.map(|task| task.unwrap().path());
    let ours = tasks.filter(|task| fs::read_to_string(task.join("comm")).unwrap().trim() == name);
    let nanoseconds = ours.map(|task| {
        let stat = fs::read_to_string(task.join("schedstat")).unwrap();
        stat.split(' ').next().unwrap().parse::<u64>().unwrap()
    });
    Duration::from_nanos(nanoseconds.sum())
}
