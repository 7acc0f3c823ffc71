//! The table of contents: `docs/SUMMARY.md`.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;

use crate::page::{self, Page};

const FILE: &str = "docs/SUMMARY.md";

/// The table of contents.
pub(crate) struct Contents {
    /// Its text; its links begin at its folder.
    text: String,
    /// The pages in their order, by their paths in the repository.
    pub(crate) pages: Vec<String>,
}

impl Contents {
    pub(crate) fn read(repository: &Path) -> anyhow::Result<Self> {
        Self::of(&fs::read_to_string(repository.join(FILE)).context(FILE)?)
    }

    fn of(text: &str) -> anyhow::Result<Self> {
        let links = Page::of(FILE, text).links();
        let pages = links.into_iter().map(|link| {
            let target = page::target(FILE, &link.text);
            let (path, _) =
                target.with_context(|| format!("{FILE}:{}: {}", link.line, link.text))?;
            Ok(path)
        });
        Ok(Self {
            text: text.to_owned(),
            pages: pages.collect::<anyhow::Result<_>>()?,
        })
    }

    /// Its text with links that begin at the root of the repository.
    pub(super) fn at_root(&self) -> String {
        let mut parts = self.text.split("](");
        let mut text = parts.next().unwrap_or_default().to_owned();
        for (part, page) in parts.zip(&self.pages) {
            let rest = part.split_once(')').map_or("", |(_, rest)| rest);
            text.extend(["](", page, ")", rest]);
        }
        text
    }

    /// The documents that it lacks, and those that it has twice.
    pub(crate) fn problems(&self, documents: &BTreeSet<String>) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let twice = self.pages.iter().filter(|it| !seen.insert(it.as_str()));
        let mut problems: Vec<String> = twice.map(|it| format!("{FILE} has {it} twice")).collect();
        let missing = documents.iter().filter(|it| !self.pages.contains(*it));
        problems.extend(missing.map(|it| format!("{FILE} lacks {it}")));
        problems
    }
}

/// The pages of `docs`, which a reader must find in the table.
pub(crate) fn documents(repository: &Path) -> anyhow::Result<BTreeSet<String>> {
    let mut documents = BTreeSet::new();
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(repository.join(&folder));
        for entry in entries.with_context(|| folder.display().to_string())? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                folders.push(path);
                continue;
            }
            let path = path.display().to_string();
            if page::is_of(&path, "md") && path != FILE {
                documents.insert(path);
            }
        }
    }
    Ok(documents)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "# Contents\n[All](../README.md)\n\n# Users\n- [A (b)](a.md)\n  - [One](adr/1.md)\n";

    #[test]
    fn links_are_named_from_the_root() {
        let contents = Contents::of(TEXT).unwrap();
        assert_eq!(contents.pages, ["README.md", "docs/a.md", "docs/adr/1.md"]);
        assert_eq!(
            contents.at_root(),
            "# Contents\n[All](README.md)\n\n# Users\n- [A (b)](docs/a.md)\n  - [One](docs/adr/1.md)\n"
        );
        assert!(Contents::of("[x](../../y.md)").is_err());
    }

    #[test]
    fn a_document_is_in_it_once() {
        let problems = |text: &str, documents: &[&str]| {
            let documents = documents.iter().map(|it| (*it).to_owned());
            Contents::of(text).unwrap().problems(&documents.collect())
        };
        assert_eq!(problems(TEXT, &["docs/a.md", "docs/adr/1.md"]), [""; 0]);
        assert_eq!(
            problems("[a](a.md)\n[a](./a.md)\n", &["docs/a.md", "docs/b.md"]),
            [
                "docs/SUMMARY.md has docs/a.md twice",
                "docs/SUMMARY.md lacks docs/b.md"
            ]
        );
    }
}
