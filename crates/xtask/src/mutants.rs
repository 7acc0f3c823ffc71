//! `cargo xtask mutants`: plausible faults, planted one at a time in a copy of the sources. A test has to catch each.
//!
//! Owns: the fault files of `crates/campaign/mutants`, the copy, the trials, and the table of
//! `docs/reliability.md`. Refuses to know: the purpose of the code under test. Invariant: the repository is
//! never changed, but for that table and only with `--write`. A fault that does not compile, or was not run,
//! never counts as caught.

mod campaign;
mod choice;
mod compile;
mod copy;
mod every;
mod fault;
mod fields;
mod groups;
mod independent;
mod table;
mod trial;

#[cfg(test)]
mod tests;

use std::{path::PathBuf, time::Instant};

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use jiff::{Timestamp, civil::Date, tz::TimeZone};

use copy::Copy;
use fault::Fault;
use table::Row;
use trial::Outcome;

/// Faults that a test run tries, all of them in so many packages: the first build of each takes the most time.
const SAMPLE: choice::Sample = choice::Sample {
    faults: 4,
    packages: 1,
};

/// Without arguments every fault is tried
#[derive(Args)]
pub(crate) struct MutantsArgs {
    /// Tries only these, by the names of their files
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Lists the faults and changes nothing
    #[arg(long)]
    list: bool,
    /// Tries no test. `places`: whether each fault can be planted, and is in the table of docs/reliability.md.
    /// `builds`: whether each fault compiles, many planted at once; to run after names have changed
    #[arg(long, conflicts_with_all = ["list", "names"], num_args = 0..=1, require_equals = true,
        default_missing_value = "places")]
    check: Option<Check>,
    /// Writes the rows of the faults that were tried into docs/reliability.md
    #[arg(long, conflicts_with_all = ["list", "check"])]
    write: bool,
    /// Tries the faults with that many plans of the campaign instead, and shows the plan that finds each
    #[arg(long, value_name = "PLANS", conflicts_with_all = ["list", "check"])]
    campaign: Option<usize>,
    /// Tries the faults of files that changed since the branch left `main` (on it, since the last commit), then so many
    /// others, chosen by the commit
    #[arg(long, value_name = "OTHERS", num_args = 0..=1, default_missing_value = "10", conflicts_with_all = ["names", "list", "check"])]
    changed: Option<usize>,
    /// Tries so many faults whose last trial is the longest ago
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["names", "list", "check", "changed", "campaign"])]
    oldest: Option<usize>,
    /// Tries the faults of another folder with all tests of their packages: faults whose author did not look
    /// at the tests. They name none (`tests = []`)
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["names", "list", "check", "write", "campaign", "changed", "oldest"])]
    from: Option<PathBuf>,
    /// Tries every change of an operator, a condition or a result in some packages, or in all. They are compiled into
    /// one program, each behind a switch
    #[arg(long, value_name = "PACKAGE", num_args = 0.., conflicts_with_all = ["names", "list", "check", "write", "campaign", "changed", "oldest", "from"])]
    every_change: Option<Vec<String>>,
    /// Tries only those changes that the last run did not catch
    #[arg(long, requires = "every_change")]
    again: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Check {
    Places,
    Builds,
}

pub(crate) fn run(args: MutantsArgs) -> anyhow::Result<()> {
    let MutantsArgs {
        names,
        list,
        check,
        write,
        campaign,
        changed,
        oldest,
        from,
        every_change,
        again,
    } = args;
    if let Some(packages) = &every_change {
        return every::try_all(&every::Wanted { packages, again });
    }
    if let Some(folder) = from {
        return independent::try_all(&folder);
    }
    let all = fault::all(&e2e::repository())?;
    if list {
        for fault in &all {
            println!("{}  {}  {}", fault.breaks, fault.name, fault.says);
        }
        return Ok(());
    }
    match check {
        None => {}
        Some(Check::Places) => return planted(&all),
        Some(Check::Builds) => return compile::check(&all),
    }
    if let Some(unknown) = names
        .iter()
        .find(|name| all.iter().all(|it| it.name != **name))
    {
        bail!("there is no fault {unknown}; `cargo xtask mutants --list` names them");
    }
    let chosen: Vec<_> = if let Some(others) = changed {
        choice::by_change(&all, others)?
    } else if let Some(count) = oldest {
        choice::by_age(&all, &table::CAUGHT.days(&table::text()?), count)
    } else {
        let named = |it: &&Fault| names.is_empty() || names.contains(&it.name);
        all.iter().filter(named).collect()
    };
    let (table, tried) = if let Some(plans) = campaign {
        (
            &table::FOUND,
            // It takes an hour: the results so far stay when it is ended.
            campaign::try_all(&all, chosen, plans, |tried| {
                if write {
                    table::FOUND.write(tried, &all)?;
                }
                Ok(())
            })?,
        )
    } else {
        let rows = try_all(chosen)?;
        println!("\n{}", table::of(&rows));
        let tried = rows.iter().map(|row| {
            let line = row.outcome.is_caught().then(|| row.to_string());
            (row.fault.name.as_str(), line)
        });
        (&table::CAUGHT, tried.collect())
    };
    if write {
        table.write(&tried, &all)?;
    }
    let bad = tried.iter().filter(|(_, row)| row.is_none());
    let bad: Vec<_> = bad.map(|(name, _)| *name).collect();
    ensure!(bad.is_empty(), "not caught: {}", bad.join(", "));
    Ok(())
}

/// The sample of `cargo xtask test`: some faults, other ones for each commit.
pub(crate) fn test() -> anyhow::Result<()> {
    let all = fault::all(&e2e::repository())?;
    let rows = try_all(choice::by_commit(&all, &SAMPLE)?)?;
    let missed = rows.iter().filter(|row| !row.outcome.is_caught());
    let missed = names(missed.map(|row| row.fault));
    ensure!(missed.is_empty(), "not caught: {missed}");
    Ok(())
}

/// Fails with everything that is wrong with the fault files themselves.
fn planted(all: &[Fault]) -> anyhow::Result<()> {
    let mut problems = Vec::new();
    for fault in all {
        problems.extend(fault.problems(&e2e::repository())?);
    }
    let text = table::text()?;
    problems.extend(table::CAUGHT.problems(&text, all.iter(), table::caught));
    let seen = all.iter().filter(|it| campaign::is_in(it));
    problems.extend(table::FOUND.problems(&text, seen, table::found));
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    println!("{} faults can be planted", all.len());
    Ok(())
}

fn try_all(mut faults: Vec<&Fault>) -> anyhow::Result<Vec<Row<'_>>> {
    // Sorted by package, so that each build is a small one.
    faults.sort_by_key(|it| (&it.package, &it.file, &it.name));
    let copy = Copy::refreshed()?;
    println!("the copy is {}", copy.root().display());
    for (place, tests) in fault::by_place(&faults) {
        let package = place.package;
        let began = Instant::now();
        trial::passes(&copy, place, &tests)
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
        let outcome = copy.with_all(&[fault], || trial::of(&copy, fault))?;
        let row = Row {
            fault,
            outcome,
            seconds: seconds(began),
            tried: today(),
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
    copy.keep()?;
    rows.sort_by_key(|row| row.fault.order());
    Ok(rows)
}

fn names<'a>(faults: impl Iterator<Item = &'a Fault>) -> String {
    let names: Vec<_> = faults.map(|it| it.name.as_str()).collect();
    names.join(", ")
}

#[expect(
    clippy::disallowed_methods,
    reason = "a row of the table has the day of its trial"
)]
fn today() -> Date {
    TimeZone::UTC.to_datetime(Timestamp::now()).date()
}

fn seconds(began: Instant) -> u64 {
    began.elapsed().as_secs()
}
