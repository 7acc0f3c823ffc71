//! `cargo xtask book`: the documents as a book with one table of contents and a search.
//!
//! Its pages keep the paths that they have in the repository, and the files that they link to lie beside them. So every
//! link of a page works in the book as it works on a git host.

mod built;
mod contents;
mod stage;

use std::{fs, path::Path, process::Command};

use anyhow::Context;

pub(crate) use contents::{Contents, documents};

use crate::pinned_tool::PinnedTool;

/// Only `build` is needed, and the search in its output.
const MDBOOK: PinnedTool = PinnedTool {
    name: "mdbook",
    version: "0.5.4",
    features: &["--no-default-features", "--features", "search"],
};

/// The settings of the book.
const SETTINGS: &str = "docs/book.toml";

/// Builds the book, checks its links, and says where it is.
pub(crate) fn run() -> anyhow::Result<()> {
    let repository = e2e::repository();
    let (sources, book) = ["target/book-sources", "target/book"]
        .map(|it| repository.join(it))
        .into();
    let contents = Contents::read(&repository)?;
    let problems = contents.problems(&documents(&repository)?);
    anyhow::ensure!(problems.is_empty(), "{}", problems.join("\n"));
    remove(&sources)?;
    stage::stage(&repository, &contents, &sources.join("src"))?;
    fs::copy(repository.join(SETTINGS), sources.join("book.toml")).context(SETTINGS)?;
    build(&sources, &book)?;
    let problems = built::problems(&book)?;
    anyhow::ensure!(
        problems.is_empty(),
        "{} of the book lead nowhere:\n{}",
        problems.len(),
        problems.join("\n")
    );
    println!("the book is {}", book.join("index.html").display());
    Ok(())
}

/// A warning of mdBook is a failure: it is about a page that does not look as it is meant to.
fn build(sources: &Path, book: &Path) -> anyhow::Result<()> {
    let output = Command::new(MDBOOK.program()?)
        .args(["build", "--dest-dir"])
        .arg(book)
        .arg(sources)
        .env("MDBOOK_LOG", "warn")
        .output()
        .context("mdbook")?;
    let told = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(
        output.status.success() && told.trim().is_empty(),
        "mdbook ({}): {told}",
        output.status
    );
    Ok(())
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    if folder.is_dir() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    Ok(())
}
