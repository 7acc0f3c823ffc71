//! Whether each fault still compiles. Faults that stand apart are planted together, so that few builds judge all.

use std::time::Instant;

use anyhow::ensure;

use super::{copy::Copy, fault::Fault, groups, names, seconds, trial};

/// One check of the workspace after every crate changed.
const CHECK: &str = "600s";

/// Fails with the faults that do not compile.
pub(super) fn check(all: &[Fault]) -> anyhow::Result<()> {
    let copy = Copy::refreshed()?;
    let groups = groups::of(all, |file| copy.text(file))?;
    let mut broken = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        let began = Instant::now();
        let before = broken.len();
        groups::narrow(group, &mut broken, &mut |faults| {
            copy.with_all(faults, || checked(&copy))
        })?;
        println!(
            "{}/{}: {} faults, {} do not compile ({} s)",
            number + 1,
            groups.len(),
            group.len(),
            broken.len() - before,
            seconds(began)
        );
    }
    for (fault, why) in &broken {
        println!("{}:\n{why}", fault.name);
    }
    let names = names(broken.iter().map(|(it, _)| *it));
    ensure!(names.is_empty(), "does not compile: {names}");
    println!("{} faults compile", all.len());
    Ok(())
}

fn checked(copy: &Copy) -> anyhow::Result<Result<(), String>> {
    let mut command = trial::cargo(copy, CHECK);
    command.args(["check", "--locked", "--jobs", "2", "--workspace"]);
    command.args(["--all-features", "--lib", "--bins"]);
    trial::built(command)
}
