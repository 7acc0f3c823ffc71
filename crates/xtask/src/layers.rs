//! `cargo xtask layers`: the architecture's rules about dependencies, checked on cargo's resolution.

mod circles;
mod modules;
mod names;
mod words;

use std::{
    collections::BTreeSet,
    fmt, fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use e2e::{Tool, images::Image};

use crate::workspace::{self, Members};

/// Crates that decide and describe: nothing below them may wait for anything outside the process.
const WITHOUT_IO: [&str; 4] = [
    "connectors-api",
    "connector-files",
    "authz",
    "text-template",
];

/// Libraries that do input and output; one of them in a tree is the sign of all others.
const IO_LIBRARIES: [&str; 12] = [
    "async-io",
    "hyper",
    "kube-client",
    "mio",
    "nix",
    "reqwest",
    "rustix",
    "rustls",
    "socket2",
    "tokio",
    "tonic",
    "ureq",
];

/// The modules of the standard library for the same purpose.
const IO_MODULES: [&str; 6] = ["env", "fs", "io", "net", "process", "thread"];

/// The process shell knows processes, not approvals.
const WITHOUT_DOMAIN: [&str; 1] = ["service-kit"];
const DOMAIN: [&str; 3] = ["connectors-api", "authz", "evaluation-api"];

/// A language of others, which the product only uses.
const ALONE: &str = "text-template";

/// The crates of the services, which meet only at custom resources and at the protocol.
pub(crate) fn services() -> [&'static str; Image::SERVICES.len()] {
    Image::SERVICES.map(Image::name)
}

/// The program of users. It ships beside the services, and no crate depends on it either.
pub(crate) const PLUGIN: &str = "kubectl-connectors";

/// Never part of a program that ships.
pub(crate) const FOR_TESTS: [&str; 4] = ["campaign", "e2e", "input-properties", "testkit"];
/// The only crates that may use those: they do not ship either.
const DEVELOPMENT: [&str; 4] = ["campaign", "e2e", "testkit", "xtask"];

/// One broken rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    from: String,
    /// The relation of `from` to `to`.
    verb: &'static str,
    to: String,
    rule: &'static str,
}

const DEPENDS: &str = "depends on";

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            from,
            verb,
            to,
            rule,
        } = self;
        write!(f, "{from} {verb} {to}: {rule}")
    }
}

/// Checks this repository and fails with every broken rule.
pub(crate) fn run() -> anyhow::Result<()> {
    let violations = check(&e2e::repository())?;
    if violations.is_empty() {
        println!("layers: every dependency is allowed");
        return Ok(());
    }
    let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
    anyhow::bail!("the layering is broken:\n  {}", lines.join("\n  "))
}

/// All broken rules of the workspace at a path.
pub(crate) fn check(workspace: &Path) -> anyhow::Result<Vec<Violation>> {
    let members = workspace::members(workspace)?;
    let mut violations = between_members(&members);
    violations.extend(modules::check(workspace)?);
    let modules = modules::of_members(&members)?;
    violations.extend(circles::check(&modules));
    let shipped = modules::shipped(modules);
    violations.extend(names::check(workspace, &shipped)?);
    violations.extend(words::check(&shipped));
    for name in WITHOUT_IO {
        if let Some(member) = members.get(name) {
            violations.extend(input_and_output(workspace, name)?);
            violations.extend(standard_input_and_output(name, &member.dir)?);
        }
    }
    Ok(violations)
}

/// Also indirect dependencies: a helper crate between two services joins them all the same.
fn between_members(members: &Members) -> Vec<Violation> {
    let edges = members.keys().flat_map(|from| {
        reached(members, from)
            .into_iter()
            .map(move |to| (from.as_str(), to))
    });
    edges
        .filter_map(|(from, to)| {
            broken_rule(from, to).map(|rule| Violation {
                from: from.to_owned(),
                verb: DEPENDS,
                to: to.to_owned(),
                rule,
            })
        })
        .collect()
}

pub(crate) fn reached<'a>(members: &'a Members, from: &'a str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(member) = open.pop().and_then(|name| members.get(name)) {
        let new = member
            .ships_with
            .iter()
            .filter(|name| found.insert(name.as_str()));
        open.extend(new.map(String::as_str));
    }
    found
}

fn broken_rule(from: &str, to: &str) -> Option<&'static str> {
    let is_program = services().contains(&to) || to == PLUGIN;
    if is_program && !DEVELOPMENT.contains(&from) {
        return Some("services meet only at custom resources and at the protocol");
    }
    if from == ALONE {
        return Some("the language of templates knows nothing of the product");
    }
    if WITHOUT_DOMAIN.contains(&from) && DOMAIN.contains(&to) {
        return Some("the process shell knows no domain types");
    }
    if FOR_TESTS.contains(&to) && !DEVELOPMENT.contains(&from) {
        return Some("it is for tests and never part of a program that ships");
    }
    None
}

/// `cargo metadata` unifies features over the workspace and would blame the innocent: the tree of one
/// package with its own normal dependencies tells the truth.
fn input_and_output(workspace: &Path, name: &str) -> anyhow::Result<Vec<Violation>> {
    let tree = Tool::new(env!("CARGO"))
        .dir(workspace)
        .args([
            "tree",
            "--package",
            name,
            "--edges",
            "normal",
            "--all-features",
        ])
        .args(["--prefix", "none", "--format", "{p}"])
        .output()
        .with_context(|| format!("the dependencies of {name}"))?;
    let mut found: Vec<&str> = tree
        .lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|library| IO_LIBRARIES.contains(library))
        .collect();
    found.sort_unstable();
    found.dedup();
    let violation = |library: &str| Violation {
        from: name.to_owned(),
        verb: DEPENDS,
        to: library.to_owned(),
        rule: "decisions and types do no input or output",
    };
    Ok(found.into_iter().map(violation).collect())
}

/// The crate's own sources, its tests apart.
fn standard_input_and_output(name: &str, dir: &Path) -> anyhow::Result<Vec<Violation>> {
    let mut violations = Vec::new();
    for source in sources(&dir.join("src"))? {
        let text = modules::code(&fs::read_to_string(&source)?);
        for module in IO_MODULES {
            if text.contains(&format!("std::{module}::"))
                || text.contains(&format!("std::{module};"))
            {
                violations.push(Violation {
                    from: format!("{name} ({})", source.strip_prefix(dir)?.display()),
                    verb: DEPENDS,
                    to: format!("std::{module}"),
                    rule: "decisions and types do no input or output",
                });
            }
        }
    }
    Ok(violations)
}

fn sources(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !path.ends_with("tests.rs")
        {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests;
