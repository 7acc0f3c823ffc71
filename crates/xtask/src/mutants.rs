//! `cargo xtask mutants`: plausible faults, planted one at a time in a copy of the sources. A test has to catch each.
//!
//! Owns: the fault files of `crates/campaign/mutants`, the copy, the trials, and the table of `docs/reliability.md`.
//! Refuses to know: what the code under test does. Invariant: the repository is never changed, but for that table and
//! only with `--write`; what does not compile, or was not run, is never a catch.

mod campaign;
mod copy;
mod fault;
mod fields;
mod table;
mod trial;

#[cfg(test)]
mod tests;

use std::time::Instant;

use anyhow::{Context, bail, ensure};
use clap::Args;

use copy::Copy;
use fault::Fault;
use table::Row;
use trial::Outcome;

/// Without arguments every fault is tried
#[derive(Args)]
pub(crate) struct MutantsArgs {
    /// Tries only these, by the names of their files
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Lists the faults and changes nothing
    #[arg(long)]
    list: bool,
    /// Only looks whether each fault can still be planted, and is in the table of docs/reliability.md
    #[arg(long, conflicts_with = "list")]
    check: bool,
    /// Writes the rows of the faults that were tried into docs/reliability.md
    #[arg(long, conflicts_with_all = ["list", "check"])]
    write: bool,
    /// Tries the faults with that many plans of the campaign instead, and shows the plan that finds each
    #[arg(long, value_name = "PLANS", conflicts_with_all = ["list", "check", "write"])]
    campaign: Option<usize>,
}

pub(crate) fn run(args: MutantsArgs) -> anyhow::Result<()> {
    let MutantsArgs {
        names,
        list,
        check,
        write,
        campaign,
    } = args;
    let all = fault::all(&e2e::repository())?;
    if list {
        for fault in &all {
            println!("{}  {}  {}", fault.breaks, fault.name, fault.says);
        }
        return Ok(());
    }
    if check {
        return planted(&all);
    }
    if let Some(unknown) = names
        .iter()
        .find(|name| all.iter().all(|it| it.name != **name))
    {
        bail!("there is no fault {unknown}; `cargo xtask mutants --list` names them");
    }
    let chosen = all
        .iter()
        .filter(|it| names.is_empty() || names.contains(&it.name));
    if let Some(plans) = campaign {
        return campaign::try_all(chosen.collect(), plans);
    }
    let rows = try_all(chosen.collect())?;
    println!("\n{}", table::of(&rows));
    if write {
        table::write(&rows, &all)?;
    }
    let bad: Vec<_> = rows.iter().filter(|row| !row.outcome.is_caught()).collect();
    ensure!(
        bad.is_empty(),
        "not caught: {}",
        bad.iter()
            .map(|row| row.fault.name.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    );
    Ok(())
}

/// Fails with everything that is wrong with the fault files themselves.
fn planted(all: &[Fault]) -> anyhow::Result<()> {
    let mut problems = Vec::new();
    for fault in all {
        problems.extend(fault.problems(&e2e::repository())?);
    }
    problems.extend(table::problems(&table::text()?, all));
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    println!("{} faults can be planted", all.len());
    Ok(())
}

fn try_all(mut faults: Vec<&Fault>) -> anyhow::Result<Vec<Row<'_>>> {
    // By what has to be built again, so that each build is a small one.
    faults.sort_by_key(|it| (&it.package, &it.file, &it.name));
    let copy = Copy::refreshed()?;
    println!("the copy is {}", copy.root().display());
    for (package, tests) in fault::by_package(&faults) {
        let began = Instant::now();
        trial::passes(&copy, package, &tests)
            .with_context(|| format!("{package} without any fault"))?;
        println!(
            "{package}: {} tests pass without any fault, {} s",
            tests.len(),
            seconds(began)
        );
    }
    let mut rows = Vec::new();
    for (number, fault) in faults.iter().enumerate() {
        let began = Instant::now();
        let original = copy.plant(fault)?;
        let outcome = trial::of(&copy, fault);
        copy.restore(fault, &original)?;
        let row = Row {
            fault,
            outcome: outcome?,
            seconds: seconds(began),
        };
        println!(
            "{}/{} {}: {} ({} s)",
            number + 1,
            faults.len(),
            fault.name,
            row.outcome,
            row.seconds
        );
        if let Outcome::NotBuilt(why) = &row.outcome {
            println!("{why}");
        }
        rows.push(row);
    }
    rows.sort_by_key(|row| row.fault.order());
    Ok(rows)
}

fn seconds(began: Instant) -> u64 {
    began.elapsed().as_secs()
}
