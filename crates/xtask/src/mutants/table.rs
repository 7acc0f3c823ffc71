//! The tables of `docs/reliability.md`, each between two marks: which test catches a fault, and which plan finds it.

use std::{collections::BTreeMap, fmt, fs, path::PathBuf};

use anyhow::Context;
use jiff::civil::Date;

use super::{
    fault::{Campaign, Fault},
    trial::Outcome,
};

/// A table of faults, with a row for each.
pub(super) struct Table {
    pub(super) begin: &'static str,
    pub(super) end: &'static str,
    head: &'static str,
    /// The command that writes a row.
    command: &'static str,
}

/// By which test each fault is caught.
pub(super) const CAUGHT: Table = Table {
    begin: "<!-- planted faults: written by `cargo xtask mutants --write` -->",
    end: "<!-- planted faults: end -->",
    head: "| fault | breaks | what is wrong | caught by | seconds | tried |\n|---|---|---|---|---|---|\n",
    command: "cargo xtask mutants --write",
};
/// By which plan of the campaign each fault is found.
pub(super) const FOUND: Table = Table {
    begin: "<!-- found by the campaign: written by `cargo xtask mutants --campaign PLANS --write` -->",
    end: "<!-- found by the campaign: end -->",
    head: "| fault | breaks | what the campaign says |\n|---|---|---|\n",
    command: "cargo xtask mutants --campaign 2500 --write",
};

/// A fault that was tried.
pub(super) struct Row<'a> {
    pub(super) fault: &'a Fault,
    pub(super) outcome: Outcome,
    /// Including the build.
    pub(super) seconds: u64,
    /// The day.
    pub(super) tried: Date,
}

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            fault,
            outcome,
            seconds,
            tried,
        } = self;
        let tests: Vec<_> = fault.tests.iter().map(|it| format!("`{it}`")).collect();
        let by = match outcome {
            Outcome::Caught => format!("{} {}", fault.package, tests.join(", ")),
            Outcome::Hung => format!("{} {} (no end)", fault.package, tests.join(", ")),
            Outcome::Survived(_) | Outcome::NotBuilt(_) => outcome.to_string(),
        };
        let start = start(fault);
        let says = &fault.says;
        write!(f, "{start}{says} | {by} | {seconds} | {tried} |")
    }
}

/// How the row of a fault begins in both tables.
pub(super) fn start(fault: &Fault) -> String {
    format!("| `{}` | {} | ", fault.name, fault.breaks)
}

/// The table of these rows.
pub(super) fn of(rows: &[Row<'_>]) -> String {
    let lines: Vec<_> = rows.iter().map(ToString::to_string).collect();
    format!("{}{}", CAUGHT.head, lines.join("\n"))
}

fn path() -> PathBuf {
    e2e::repository().join("docs/reliability.md")
}

/// The document.
pub(super) fn text() -> anyhow::Result<String> {
    fs::read_to_string(path()).with_context(|| path().display().to_string())
}

/// The result of a trial: the new row, or none where the fault was not caught.
pub(super) type Tried<'a> = BTreeMap<&'a str, Option<String>>;

impl Table {
    /// Writes the rows of the tried faults. The rows of other faults stay, and those of no fault go.
    pub(super) fn write(&self, tried: &Tried<'_>, all: &[Fault]) -> anyhow::Result<()> {
        Ok(fs::write(path(), self.with(&text()?, tried, all)?)?)
    }

    pub(super) fn with(
        &self,
        text: &str,
        tried: &Tried<'_>,
        all: &[Fault],
    ) -> anyhow::Result<String> {
        let Self {
            begin, end, head, ..
        } = self;
        let (before, rest) = text
            .split_once(begin)
            .with_context(|| format!("there is no {begin}"))?;
        let (old, after) = rest
            .split_once(end)
            .with_context(|| format!("there is no {end}"))?;
        let old = rows(old);
        let lines = all.iter().filter_map(|fault| {
            let name = fault.name.as_str();
            match tried.get(name) {
                Some(new) => new.clone(),
                None => old.get(name).map(|it| (*it).to_owned()),
            }
        });
        let lines: Vec<_> = lines.collect();
        Ok(format!(
            "{before}{begin}\n{head}{}\n{end}{after}",
            lines.join("\n")
        ))
    }

    /// The rows in the document; none without both marks.
    fn within<'a>(&self, text: &'a str) -> Option<&'a str> {
        let (_, rest) = text.split_once(self.begin)?;
        rest.split_once(self.end).map(|(table, _)| table)
    }

    /// The day of each fault's last trial.
    pub(super) fn days<'a>(&self, text: &'a str) -> BTreeMap<&'a str, Date> {
        let rows = self.within(text).map(rows).unwrap_or_default();
        let day = |row: &str| row.trim_end_matches(" |").rsplit(' ').next()?.parse().ok();
        let days = rows
            .into_iter()
            .filter_map(|(name, row)| Some((name, day(row)?)));
        days.collect()
    }

    /// The differences between the table and the fault files: the row of each of these faults must contain
    /// these texts.
    pub(super) fn problems<'a>(
        &self,
        text: &str,
        all: impl Iterator<Item = &'a Fault>,
        wanted: fn(&Fault) -> Vec<String>,
    ) -> Vec<String> {
        let Some(table) = self.within(text) else {
            return vec![format!("docs/reliability.md: there is no {}", self.begin)];
        };
        let mut rows = rows(table);
        let mut problems = Vec::new();
        for fault in all {
            let name = fault.name.as_str();
            let row = rows.remove(name).unwrap_or_default();
            let is_it = row.starts_with(&start(fault));
            if !is_it || !wanted(fault).iter().all(|it| row.contains(it)) {
                problems.push(format!(
                    "docs/reliability.md: {name} is not as it was tried last: {} {name}",
                    self.command
                ));
            }
        }
        for name in rows.keys() {
            problems.push(format!("docs/reliability.md: there is no fault {name}"));
        }
        problems
    }
}

/// The texts about tests in the row of a fault.
pub(super) fn caught(fault: &Fault) -> Vec<String> {
    let tests = fault.tests.iter().map(|test| format!("`{test}`"));
    tests.chain([format!("| {} | ", fault.says)]).collect()
}

/// The texts about the campaign in the row of a fault.
pub(super) fn found(fault: &Fault) -> Vec<String> {
    match &fault.campaign {
        Campaign::Finds { with } => {
            let with = with.iter().map(|it| format!("`{it}`"));
            with.chain([" by `".to_owned()]).collect()
        }
        Campaign::Blind(why) => vec![why.clone()],
    }
}

/// The rows, by the name of their fault.
fn rows(table: &str) -> BTreeMap<&str, &str> {
    let row = |line| {
        let cell = str::strip_prefix(line, "| `")?;
        cell.split_once('`').map(|(name, _)| (name, line))
    };
    table.lines().filter_map(row).collect()
}
