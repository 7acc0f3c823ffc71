//! `cargo xtask test --changed`: the checks that a change can affect and that need no cluster, in minutes.
//!
//! The crates that the change touches are tested; the crates that use them are compiled and linted. The rest
//! is named with the command that runs it.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use super::{
    minutes,
    parts::{self, Part},
    programs,
    runner::Summary,
};
use crate::{
    changes, crdgen, layers, page, protogen,
    workspace::{self, Members},
};

/// The crates and checks that a change affects.
#[derive(Debug, Default, PartialEq, Eq)]
struct Choice {
    /// Crates whose own files changed.
    changed: BTreeSet<String>,
    /// Those, and the crates that use them.
    dependents: BTreeSet<String>,
    /// Every crate may be concerned.
    all: bool,
    /// Parts that this run leaves out although the change may break them.
    left: BTreeSet<Part>,
}

pub(super) fn run(base: Option<&str>) -> anyhow::Result<()> {
    let began = Instant::now();
    let root = e2e::repository();
    let base = match base {
        Some(base) => base.to_owned(),
        None => changes::branch_point(&root)?,
    };
    let files = changes::files(&root, &base)?;
    if files.is_empty() {
        println!("nothing has changed since {base}");
        return Ok(());
    }
    let members = workspace::members(&root)?;
    let choice = choose(&members, &root, &files);
    println!("{} files have changed since {base}", files.len());
    let mut summary = Summary::default();
    let outcome = choice.carry_out(&mut summary);
    println!("\n{summary}{:.1} min", minutes(began));
    println!("{}", choice.told());
    outcome
}

fn choose(members: &Members, root: &Path, files: &[PathBuf]) -> Choice {
    let mut choice = Choice::default();
    for file in files {
        let owner = members
            .iter()
            .filter(|(_, member)| root.join(file).starts_with(&member.dir))
            .max_by_key(|(_, member)| member.dir.components().count());
        if let Some((name, _)) = owner {
            choice.changed.insert(name.clone());
        }
        let begins = |with: &str| file.starts_with(with);
        choice.all |= begins("Cargo.toml") || begins("Cargo.lock") || begins("rust-toolchain.toml");
        if begins("Cargo.lock") || begins("deny.toml") {
            choice.left.insert(Part::Deny);
        }
        if begins("fuzz") || begins("crates/input-properties") {
            choice.left.insert(Part::Fuzz);
        }
        if begins("charts") || begins("e2e/cases") || begins("e2e/tests/api") {
            choice.left.extend([Part::Api, Part::Gate]);
        }
        if begins("e2e/src") {
            choice
                .left
                .extend([Part::Api, Part::Gate, Part::Evaluation, Part::E2e]);
        }
        if begins("e2e/tests/driver") || begins("e2e/tools/sanity") {
            choice.left.insert(Part::Driver);
        }
        // The commands of these documents are run there.
        let is_played = begins("docs/how-to") || begins("docs/tutorial.md");
        if is_played || begins("e2e/tests/gate") || begins("e2e/recorder") {
            choice.left.insert(Part::Gate);
        }
        if begins("docs") || page::is_of(&file.to_string_lossy(), "md") {
            choice.left.insert(Part::Book);
        }
        // Documents are held to the tree, and the tree's files to documents, by tests of this crate.
        choice.changed.insert(env!("CARGO_PKG_NAME").to_owned());
    }
    choice.dependents = workspace::dependents(members, &choice.changed);
    for (name, parts) in [
        ("request-controller", [Part::Campaign, Part::Gate]),
        ("policy-controller", [Part::Gate, Part::Gate]),
        ("webhook", [Part::Api, Part::Gate]),
        ("csi-node", [Part::Driver, Part::Gate]),
        ("evaluation-service", [Part::Evaluation, Part::Gate]),
        ("connectors-api", [Part::Api, Part::Fuzz]),
        ("text-template", [Part::Templates, Part::Templates]),
    ] {
        if choice.all || choice.dependents.contains(name) {
            choice.left.extend(parts);
        }
    }
    choice
}

impl Choice {
    fn carry_out(&self, summary: &mut Summary) -> anyhow::Result<()> {
        parts::cargo("fmt --all --check")?;
        layers::run()?;
        crdgen::run(true).and(protogen::run(true))?;
        let linted = packages(&self.dependents, self.all);
        parts::clippy(&linted)?;
        if self.all || self.dependents.contains("e2e") {
            parts::clippy_of_cluster_tests()?;
        }
        let tested = packages(&self.changed, self.all);
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .current_dir(e2e::repository())
            .args(["test", "--locked", "--all-features"])
            .args(tested.split(' '));
        programs::run(cargo, None, summary)
    }

    /// The checks that were run, and those that were not.
    fn told(&self) -> String {
        let list = |names: &BTreeSet<String>| {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            names.join(", ")
        };
        let mut text = if self.all {
            "tested: every crate".to_owned()
        } else {
            format!("tested: {}", list(&self.changed))
        };
        let untested: BTreeSet<String> = &self.dependents - &self.changed;
        if !self.all && !untested.is_empty() {
            text += "\nonly compiled and linted: ";
            text += &list(&untested);
            text += "\n  their tests: cargo xtask test unit";
        }
        text +=
            "\nwhether a test needs each guard of the changed files: cargo xtask mutants --changed";
        if !self.left.is_empty() {
            text += "\nnot run, and this change may break it:";
            for part in &self.left {
                text += "\n  cargo xtask test ";
                text += &part.to_string();
            }
        }
        text
    }
}

fn packages(names: &BTreeSet<String>, all: bool) -> String {
    if all {
        return "--workspace".to_owned();
    }
    let packages: Vec<String> = names
        .iter()
        .map(|name| format!("--package {name}"))
        .collect();
    packages.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(files: &[&str]) -> Choice {
        let root = e2e::repository();
        let members = workspace::members(&root).unwrap();
        let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
        choose(&members, &root, &files)
    }

    #[test]
    fn a_file_concerns_its_crate_and_all_that_use_it() {
        let choice = chosen(&["crates/request-controller/src/plan.rs"]);
        assert!(choice.changed.contains("request-controller"));
        assert!(!choice.changed.contains("campaign"));
        assert!(choice.dependents.contains("campaign"));
        assert!(!choice.dependents.contains("webhook"));
        assert_eq!(choice.left, BTreeSet::from([Part::Campaign, Part::Gate]));
        assert!(choice.told().contains("only compiled and linted: campaign"));
        assert!(choice.told().contains("cargo xtask test gate"));
    }

    /// The innermost crate has the file.
    #[test]
    fn a_crate_inside_another_ones_folder_is_a_crate_of_its_own() {
        let choice = chosen(&["e2e/recorder/src/lib.rs"]);
        assert!(choice.changed.contains("csi-recorder"));
        assert!(!choice.changed.contains("e2e"));
    }

    #[test]
    fn a_document_is_held_to_the_tree_and_breaks_no_service() {
        let choice = chosen(&["docs/policies.md"]);
        assert_eq!(choice.changed, BTreeSet::from(["xtask".to_owned()]));
        assert_eq!(choice.left, BTreeSet::from([Part::Book]));
        let choice = chosen(&["docs/how-to/registry.md"]);
        assert_eq!(choice.left, BTreeSet::from([Part::Book, Part::Gate]));
    }

    #[test]
    fn another_dependency_concerns_everything() {
        let choice = chosen(&["Cargo.lock"]);
        assert!(choice.all);
        assert!(choice.left.contains(&Part::Deny) && choice.left.contains(&Part::Gate));
        assert_eq!(packages(&choice.changed, choice.all), "--workspace");
    }

    #[test]
    fn the_chart_is_tried_on_a_cluster() {
        let choice = chosen(&["charts/connectors-approval/values.yaml"]);
        assert!(choice.left.contains(&Part::Api) && choice.left.contains(&Part::Gate));
    }
}
