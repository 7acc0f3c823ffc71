//! The changes in the repository.

use std::path::{Path, PathBuf};

use anyhow::Context;
use e2e::Tool;

/// The branches to compare with: the remote one, or the local one.
const BRANCHES: [&str; 2] = ["origin/main", "main"];

/// Where this branch left the main one; on it, the last commit of others or, without others, the one before the last.
pub(crate) fn branch_point(root: &Path) -> anyhow::Result<String> {
    let git = |args: &[&str]| Tool::new("git").dir(root).args(args).output();
    let point = BRANCHES
        .iter()
        .find_map(|branch| git(&["merge-base", "HEAD", branch]).ok());
    let point =
        point.context("there is neither origin/main nor main; name a commit with --base")?;
    let head = git(&["rev-parse", "HEAD"])?;
    Ok(if point == head {
        "HEAD".to_owned()
    } else {
        point.trim().to_owned()
    })
}

/// Files that differ from a commit, committed or not, and those that git does not know yet.
pub(crate) fn files(root: &Path, base: &str) -> anyhow::Result<Vec<PathBuf>> {
    let git = |args: &[&str]| Tool::new("git").dir(root).args(args).output();
    let tracked = git(&["diff", "--name-only", "-z", base])
        .with_context(|| format!("the changes since {base}"))?;
    let others = git(&["ls-files", "--others", "--exclude-standard", "-z"])?;
    let files = tracked.split('\0').chain(others.split('\0'));
    Ok(files
        .filter(|file| !file.is_empty())
        .map(PathBuf::from)
        .collect())
}

/// The commit that is checked out.
pub(crate) fn head(root: &Path) -> anyhow::Result<String> {
    let git = Tool::new("git").dir(root).args(["rev-parse", "HEAD"]);
    Ok(git.output()?.trim().to_owned())
}
