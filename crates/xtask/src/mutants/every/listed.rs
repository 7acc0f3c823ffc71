//! The changes that `cargo mutants` would make, one at a time.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, bail, ensure};
use e2e::Tool;
use serde::Deserialize;

use crate::pinned_tool::PinnedTool;

/// It knows what is worth changing: this task only compiles its changes together.
const CARGO_MUTANTS: PinnedTool = PinnedTool {
    name: "cargo-mutants",
    version: "27.1.0",
    features: &[],
};

/// One change of the sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    /// Its number in the program that has all of them, from one.
    pub(super) number: u32,
    /// What it does, and where.
    pub(super) name: String,
    pub(super) package: String,
    pub(super) file: String,
    pub(super) genre: Genre,
    /// What stands there instead; empty where something is left out.
    pub(super) replacement: String,
    pub(super) start: Place,
}

/// A place in a text, both counted from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

/// The kinds of changes, in the words of `cargo mutants`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) enum Genre {
    /// A function returns this at once.
    FnValue,
    BinaryOperator,
    UnaryOperator,
    /// A guard is always or never true.
    MatchArmGuard,
    /// An arm is never taken.
    MatchArm,
    /// A field has the value of the structure's base.
    StructField,
}

#[derive(Deserialize)]
struct Listed {
    name: String,
    package: String,
    file: String,
    genre: Genre,
    replacement: String,
    span: Span,
}

#[derive(Deserialize)]
struct Span {
    start: Place,
}

/// All changes of a checkout, by their files.
pub(super) fn all(root: &Path) -> anyhow::Result<BTreeMap<String, Vec<Change>>> {
    let listed = Tool::new(CARGO_MUTANTS.program()?)
        .dir(root)
        .args(["mutants", "--list", "--json"])
        .output()?;
    read(&listed)
}

fn read(listed: &str) -> anyhow::Result<BTreeMap<String, Vec<Change>>> {
    let listed: Vec<Listed> = serde_json::from_str(listed).context("cargo mutants --list")?;
    ensure!(!listed.is_empty(), "cargo mutants lists no change");
    let mut files: BTreeMap<String, Vec<Change>> = BTreeMap::new();
    for (index, it) in listed.into_iter().enumerate() {
        let Ok(number) = u32::try_from(index + 1) else {
            bail!("cargo mutants lists too many changes");
        };
        files.entry(it.file.clone()).or_default().push(Change {
            number,
            name: it.name,
            package: it.package,
            file: it.file,
            genre: it.genre,
            replacement: it.replacement,
            start: it.span.start,
        });
    }
    Ok(files)
}
