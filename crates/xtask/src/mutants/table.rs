//! The table of faults: printed, and in `docs/reliability.md` between two marks.

use std::{collections::BTreeMap, fmt, fs, path::PathBuf};

use anyhow::Context;

use super::{fault::Fault, trial::Outcome};

const BEGIN: &str = "<!-- planted faults: written by `cargo xtask mutants --write` -->";
const END: &str = "<!-- planted faults: end -->";
const HEAD: &str =
    "| fault | breaks | what is wrong | caught by | seconds |\n|---|---|---|---|---|\n";

/// A fault that was tried.
pub(super) struct Row<'a> {
    pub(super) fault: &'a Fault,
    pub(super) outcome: Outcome,
    /// With what had to be built.
    pub(super) seconds: u64,
}

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            fault,
            outcome,
            seconds,
        } = self;
        let tests: Vec<_> = fault.tests.iter().map(|it| format!("`{it}`")).collect();
        let by = match outcome {
            Outcome::Caught => format!("{} {}", fault.package, tests.join(", ")),
            Outcome::Hung => format!("{} {} (no end)", fault.package, tests.join(", ")),
            Outcome::Survived(_) | Outcome::NotBuilt(_) => outcome.to_string(),
        };
        let Fault {
            name, breaks, says, ..
        } = fault;
        write!(f, "| `{name}` | {breaks} | {says} | {by} | {seconds} |")
    }
}

/// The table of these rows.
pub(super) fn of(rows: &[Row<'_>]) -> String {
    let lines: Vec<_> = rows.iter().map(ToString::to_string).collect();
    format!("{HEAD}{}", lines.join("\n"))
}

fn path() -> PathBuf {
    e2e::repository().join("docs/reliability.md")
}

/// The document.
pub(super) fn text() -> anyhow::Result<String> {
    fs::read_to_string(path()).with_context(|| path().display().to_string())
}

/// Writes the rows of what was caught; those of other faults stay, and those of no fault go.
pub(super) fn write(tried: &[Row<'_>], all: &[Fault]) -> anyhow::Result<()> {
    let text = text()?;
    let new: BTreeMap<&str, String> = tried
        .iter()
        .filter(|row| row.outcome.is_caught())
        .map(|row| (row.fault.name.as_str(), row.to_string()))
        .collect();
    Ok(fs::write(path(), with(&text, tried, &new, all)?)?)
}

pub(super) fn with(
    text: &str,
    tried: &[Row<'_>],
    new: &BTreeMap<&str, String>,
    all: &[Fault],
) -> anyhow::Result<String> {
    let (before, rest) = text
        .split_once(BEGIN)
        .with_context(|| format!("there is no {BEGIN}"))?;
    let (old, after) = rest
        .split_once(END)
        .with_context(|| format!("there is no {END}"))?;
    let old = rows(old);
    let was_tried = |name: &str| tried.iter().any(|row| row.fault.name == name);
    let lines = all.iter().filter_map(|fault| {
        let name = fault.name.as_str();
        let kept = old
            .get(name)
            .filter(|_| !was_tried(name))
            .map(|it| (*it).to_owned());
        new.get(name).cloned().or(kept)
    });
    let lines: Vec<_> = lines.collect();
    Ok(format!(
        "{before}{BEGIN}\n{HEAD}{}\n{END}{after}",
        lines.join("\n")
    ))
}

/// The rows, by the name of their fault.
fn rows(table: &str) -> BTreeMap<&str, &str> {
    let row = |line| {
        let cell = str::strip_prefix(line, "| `")?;
        cell.split_once('`').map(|(name, _)| (name, line))
    };
    table.lines().filter_map(row).collect()
}

/// Where the table is not what the fault files say.
pub(super) fn problems(text: &str, all: &[Fault]) -> Vec<String> {
    let table = text
        .split_once(BEGIN)
        .and_then(|(_, rest)| rest.split_once(END));
    let Some((table, _)) = table else {
        return vec!["docs/reliability.md: there is no table of planted faults".to_owned()];
    };
    let rows = rows(table);
    let mut problems = Vec::new();
    for fault in all {
        let Fault {
            name, breaks, says, ..
        } = fault;
        let start = format!("| `{name}` | {breaks} | {says} | ");
        let row = rows
            .get(name.as_str())
            .filter(|row| row.starts_with(&start));
        let names = |test: &String| row.is_some_and(|row| row.contains(&format!("`{test}`")));
        if !fault.tests.iter().all(names) {
            problems.push(format!(
                "docs/reliability.md: {name} is not as it was tried last: cargo xtask mutants --write {name}"
            ));
        }
    }
    let is_known = |name: &str| all.iter().any(|fault| fault.name == name);
    for name in rows.keys().filter(|name| !is_known(name)) {
        problems.push(format!("docs/reliability.md: there is no fault {name}"));
    }
    problems
}
