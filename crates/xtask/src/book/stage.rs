//! The sources of the book: its pages, and the files that they link to, under their paths in the repository.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::Context;

use super::Contents;
use crate::page::{self, Page};

/// Writes the sources into a new folder.
pub(super) fn stage(repository: &Path, contents: &Contents, into: &Path) -> anyhow::Result<()> {
    let mut files = BTreeSet::new();
    let mut problems = Vec::new();
    for path in &contents.pages {
        let text = fs::read_to_string(repository.join(path)).with_context(|| path.clone())?;
        let page = Page::of(path, &text);
        for link in page.links() {
            match linked(repository, contents, &page.path, &link.text) {
                Ok(file) => files.extend(file),
                Err(why) => {
                    problems.push(format!(
                        "{path}:{}: the link {} {why}",
                        link.line, link.text
                    ));
                }
            }
        }
        files.insert(path.clone());
    }
    anyhow::ensure!(problems.is_empty(), "{}", problems.join("\n"));
    for path in &files {
        let target = into.join(path);
        fs::create_dir_all(target.parent().unwrap_or(into))?;
        fs::copy(repository.join(path), target).with_context(|| path.clone())?;
    }
    Ok(fs::write(into.join("SUMMARY.md"), contents.at_root())?)
}

/// The file to put beside the pages so that a link leads to it; a page is there already.
fn linked(
    repository: &Path,
    contents: &Contents,
    page: &str,
    link: &str,
) -> Result<Option<String>, &'static str> {
    let (file, _) = page::target(page, link).ok_or("leaves the repository")?;
    if contents.pages.contains(&file) {
        Ok(None)
    } else if !repository.join(&file).is_file() {
        Err("leads to no file; name a file of the folder")
    } else if page::is_of(&file, "md") {
        Err("leads to a page that docs/SUMMARY.md lacks")
    } else {
        Ok(Some(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(page: &str) -> tempfile::TempDir {
        let repository = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("docs/SUMMARY.md", "[All](../README.md)\n- [A](a.md)\n"),
            ("README.md", "[a](docs/a.md#x)"),
            ("docs/a.md", page),
            ("docs/b.md", ""),
            ("docs/pictures/a.svg", "<svg/>"),
            ("charts/values.yaml", "a: 1"),
            ("charts/other.yaml", "b: 2"),
        ] {
            let path = repository.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        repository
    }

    fn staged(page: &str) -> Result<tempfile::TempDir, String> {
        let repository = repository(page);
        let contents = Contents::read(repository.path()).unwrap();
        let into = tempfile::tempdir().unwrap();
        stage(repository.path(), &contents, into.path()).map_err(|error| error.to_string())?;
        Ok(into)
    }

    #[test]
    fn linked_files_lie_beside_the_pages_and_links_stay() {
        let page = "[v](../charts/values.yaml) ![p](pictures/a.svg) [web](https://example.com)";
        let staged = staged(page).unwrap();
        let read = |path: &str| fs::read_to_string(staged.path().join(path));
        assert_eq!(read("docs/a.md").unwrap(), page);
        assert_eq!(read("charts/values.yaml").unwrap(), "a: 1");
        assert_eq!(read("docs/pictures/a.svg").unwrap(), "<svg/>");
        assert_eq!(
            read("SUMMARY.md").unwrap(),
            "[All](README.md)\n- [A](docs/a.md)\n"
        );
        assert!(read("charts/other.yaml").is_err());
    }

    #[test]
    fn a_link_that_the_book_cannot_follow_is_named_with_its_line() {
        for (link, why) in [
            ("../charts", "leads to no file; name a file of the folder"),
            ("c.md", "leads to no file; name a file of the folder"),
            ("b.md", "leads to a page that docs/SUMMARY.md lacks"),
            ("../../x", "leaves the repository"),
        ] {
            let error = staged(&format!("\n[x]({link})")).unwrap_err();
            assert_eq!(error, format!("docs/a.md:2: the link {link} {why}"));
        }
    }
}
