//! The members of a workspace and their dependencies on each other, as cargo knows them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use anyhow::Context;
use e2e::Tool;
use serde::Deserialize;

/// A member of the workspace.
pub(crate) struct Member {
    pub(crate) dir: PathBuf,
    /// The members that it uses in a build that ships.
    pub(crate) ships_with: Vec<String>,
    /// Those, and the members that its tests use.
    pub(crate) uses: Vec<String>,
}

/// All members by name.
pub(crate) type Members = BTreeMap<String, Member>;

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `dev`, `build`, or absent for a normal one.
    kind: Option<String>,
    /// Only dependencies inside the workspace have one.
    path: Option<String>,
}

/// The members of the workspace at a path.
pub(crate) fn members(workspace: &Path) -> anyhow::Result<Members> {
    let text = Tool::new(env!("CARGO"))
        .dir(workspace)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()?;
    let metadata: Metadata = serde_json::from_str(&text).context("cargo metadata")?;
    let member = |package: Package| {
        let inside = package.dependencies.iter().filter(|it| it.path.is_some());
        let names = |ships: bool| {
            let chosen = inside.clone();
            let chosen = chosen.filter(|it| !ships || it.kind.as_deref() != Some("dev"));
            chosen.map(|it| it.name.clone()).collect()
        };
        let (ships_with, uses) = (names(true), names(false));
        let dir = package.manifest_path.parent().map(Path::to_path_buf);
        let dir = dir.unwrap_or_default();
        let member = Member {
            dir,
            ships_with,
            uses,
        };
        (package.name, member)
    };
    Ok(metadata.packages.into_iter().map(member).collect())
}

/// The members that use one of these, directly or through others, these included.
pub(crate) fn dependents(members: &Members, of: &BTreeSet<String>) -> BTreeSet<String> {
    let mut found = of.clone();
    loop {
        let more: Vec<String> = members
            .iter()
            .filter(|(name, _)| !found.contains(*name))
            .filter(|(_, member)| member.uses.iter().any(|used| found.contains(used)))
            .map(|(name, _)| name.clone())
            .collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}
