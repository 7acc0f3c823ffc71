//! Faults whose author did not look at the tests: all tests of their packages run.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
    path::Path,
    time::Instant,
};

use anyhow::{Context, ensure};

use super::{
    copy::Copy,
    fault, seconds,
    trial::{self, Kind, Said},
};

/// As many tests are named that found a fault.
const NAMED: usize = 3;
/// Packages whose workers run only in the programs of another package: its tests are theirs too.
const TESTED_BY: [(&str, &str); 1] = [("rego-workers", "evaluation-service")];

/// Tries each fault of a folder, and says how many are found.
pub(super) fn try_all(folder: &Path) -> anyhow::Result<()> {
    let mut faults = fault::in_folder(folder)?;
    faults.sort_by_cached_key(|it| (it.package.clone(), it.file.clone(), it.name.clone()));
    let copy = Copy::refreshed()?;
    let mut kinds = BTreeMap::new();
    let packages: BTreeSet<&str> = faults.iter().flat_map(|it| testers(&it.package)).collect();
    for package in packages {
        let began = Instant::now();
        kinds.insert(package, sound(&copy, package)?);
        println!(
            "{package}: all tests pass without any fault, {} s",
            seconds(began)
        );
    }
    let (mut missed, mut broken) = (Vec::new(), Vec::new());
    for (number, fault) in faults.iter().enumerate() {
        let began = Instant::now();
        let asked: Vec<_> = testers(&fault.package)
            .flat_map(|it| {
                kinds
                    .get(it)
                    .into_iter()
                    .flatten()
                    .map(move |kind| (it, *kind))
            })
            .collect();
        let found = copy.with_all(&[fault], || ask(&copy, &asked))?;
        let (number, of) = (number + 1, faults.len());
        let (name, took) = (&fault.name, seconds(began));
        match found {
            Found::By(tests) => println!("{number}/{of} {name}: caught by {tests} ({took} s)"),
            Found::Missed => {
                println!("{number}/{of} {name}: MISSED ({took} s)");
                missed.push(name.as_str());
            }
            Found::NotBuilt(why) => {
                println!("{number}/{of} {name}: does not compile: {why} ({took} s)");
                broken.push(name.as_str());
            }
        }
    }
    let all = faults.len() - broken.len();
    println!("{} of {all} are caught", all - missed.len());
    ensure!(missed.is_empty(), "missed: {}", missed.join(", "));
    ensure!(broken.is_empty(), "no faults yet: {}", broken.join(", "));
    Ok(())
}

/// The kinds of tests that a package has. They have to pass.
fn sound(copy: &Copy, package: &str) -> anyhow::Result<Vec<Kind>> {
    let mut kinds = vec![Kind::Unit];
    if copy
        .root()
        .join("crates")
        .join(package)
        .join("tests")
        .is_dir()
    {
        kinds.push(Kind::Integration);
    }
    for kind in &kinds {
        let said = trial::of_all(copy, package, *kind)?;
        let passes = matches!(&said, Said::Failed(tests) if tests.is_empty());
        ensure!(passes, "{package} without any fault: {said:?}");
    }
    Ok(kinds)
}

/// The packages whose tests are asked about a fault of this one.
fn testers(package: &str) -> impl Iterator<Item = &str> {
    let others = TESTED_BY.iter().filter(move |(of, _)| *of == package);
    iter::once(package).chain(others.map(|(_, by)| *by))
}

/// The result of a fault.
enum Found {
    By(String),
    Missed,
    /// It is no catch, and the others are tried all the same.
    NotBuilt(String),
}

/// Asks all tests of some packages about the fault that is planted.
fn ask(copy: &Copy, asked: &[(&str, Kind)]) -> anyhow::Result<Found> {
    for (package, kind) in asked {
        match trial::of_all(copy, package, *kind).context("the tests")? {
            Said::NotBuilt(why) => return Ok(Found::NotBuilt(why)),
            Said::Hung => return Ok(Found::By("a test that came to no end".to_owned())),
            Said::Failed(tests) if tests.is_empty() => {}
            Said::Failed(tests) => {
                let named: Vec<_> = tests.iter().take(NAMED).map(String::as_str).collect();
                let more = match tests.len().saturating_sub(NAMED) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                return Ok(Found::By(named.join(", ") + &more));
            }
        }
    }
    Ok(Found::Missed)
}
