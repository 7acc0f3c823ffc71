//! The check of the built book: every link in it leads to a file of it, and to an anchor there.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::Context;

use crate::page;

/// The attributes by which a page leads to files.
const LEADS: [&str; 2] = ["href", "src"];

/// A page of the book.
#[derive(Debug, Default, PartialEq)]
struct BuiltPage {
    /// Its anchors.
    anchors: BTreeSet<String>,
    /// The targets of its links, pictures, styles and scripts, without those of other sites.
    links: Vec<String>,
}

/// The links that lead nowhere, a line each, and a search that is missing.
pub(super) fn problems(book: &Path) -> anyhow::Result<Vec<String>> {
    let mut files = BTreeMap::new();
    collect(book, "", &mut files)?;
    let mut problems = Vec::new();
    for (path, page) in &files {
        for link in page.iter().flat_map(|it| &it.links) {
            problems.extend(broken(path, link, &files).map(|why| format!("{path}: {link} {why}")));
        }
    }
    if !files.keys().any(|it| it.starts_with("searchindex")) {
        problems.push("the search has no index".to_owned());
    }
    Ok(problems)
}

fn broken(from: &str, link: &str, files: &BTreeMap<String, Option<BuiltPage>>) -> Option<String> {
    let Some((file, anchor)) = page::target(from, link) else {
        return Some("leaves the book".to_owned());
    };
    match files.get(&file) {
        None => Some(format!("leads to {file}, which is not there")),
        Some(Some(page)) if !anchor.is_empty() && !page.anchors.contains(anchor) => {
            Some(format!("leads to no anchor of {file}"))
        }
        Some(_) => None,
    }
}

/// All files below a folder, those that are pages with their content.
fn collect(
    folder: &Path,
    prefix: &str,
    files: &mut BTreeMap<String, Option<BuiltPage>>,
) -> anyhow::Result<()> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let entry = entry?;
        let path = format!("{prefix}{}", entry.file_name().display());
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), &format!("{path}/"), files)?;
            continue;
        }
        let page = if page::is_of(&path, "html") {
            let text = fs::read_to_string(entry.path()).with_context(|| path.clone())?;
            Some(BuiltPage::of(&text))
        } else {
            None
        };
        files.insert(path, page);
    }
    Ok(())
}

impl BuiltPage {
    /// Reads the tags of a page. Comments and scripts are passed over: they may hold anything.
    fn of(html: &str) -> Self {
        let mut page = Self::default();
        let mut rest = html;
        while let Some((_, after)) = rest.split_once('<') {
            rest = if let Some(comment) = after.strip_prefix("!--") {
                behind(comment, "-->")
            } else {
                let (tag, behind_it) = tag(after);
                page.add(&tag);
                match tag.name {
                    "script" => behind(behind_it, "</script"),
                    "style" => behind(behind_it, "</style"),
                    _ => behind_it,
                }
            };
        }
        page
    }

    fn add(&mut self, tag: &Tag<'_>) {
        for (name, value) in &tag.attributes {
            let value = value.replace("&amp;", "&");
            if *name == "id" {
                self.anchors.insert(value);
            } else if LEADS.contains(name) && !page::leaves(&value) {
                self.links.push(value);
            }
        }
    }
}

/// A tag at its beginning.
struct Tag<'a> {
    name: &'a str,
    attributes: Vec<(&'a str, &'a str)>,
}

/// A tag and the text behind it; its `<` is read already.
fn tag(text: &str) -> (Tag<'_>, &str) {
    let (name, mut rest) = word(text);
    let mut attributes = Vec::new();
    loop {
        rest = rest.trim_start_matches(|it: char| it.is_whitespace() || it == '/');
        if rest.is_empty() {
            break;
        }
        if let Some(behind) = rest.strip_prefix('>') {
            rest = behind;
            break;
        }
        let (name, after) = word(rest);
        if let Some(value) = after.strip_prefix('=') {
            let (value, after) = quoted(value);
            attributes.push((name, value));
            rest = after;
        } else {
            // An attribute without a value, or a character that belongs to none.
            rest = if name.is_empty() {
                after
                    .get(after.chars().next().map_or(0, char::len_utf8)..)
                    .unwrap_or_default()
            } else {
                after
            };
        }
    }
    (Tag { name, attributes }, rest)
}

/// The name of a tag or of an attribute, and the text behind it.
fn word(text: &str) -> (&str, &str) {
    let end =
        text.find(|it: char| it.is_whitespace() || matches!(it, '=' | '>' | '/' | '"' | '\''));
    text.split_at(end.unwrap_or(text.len()))
}

/// The value of an attribute, and the text behind it.
fn quoted(text: &str) -> (&str, &str) {
    for quote in ['"', '\''] {
        if let Some(value) = text.strip_prefix(quote) {
            return value.split_once(quote).unwrap_or((value, ""));
        }
    }
    let end = text.find(|it: char| it.is_whitespace() || it == '>');
    text.split_at(end.unwrap_or(text.len()))
}

fn behind<'a>(text: &'a str, mark: &str) -> &'a str {
    text.split_once(mark).map_or("", |(_, after)| after)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A closing tag begins with a slash, so that it has no name here.
    #[test]
    fn anchors_and_links_are_read_from_the_tags() {
        let page = BuiltPage::of(
            "<!doctype html><!-- <a href='no'> --><script src=\"a.js\">if (1 < 2) x = '<a href=\"no\">';</script>\
             <h2 id=\"one\"><a class=header href=\"#one\">1</a></h2><img alt=\"a > b\" src='p.svg'/><input disabled>\
             <a href=\"b.html?a=1&amp;b#two\">2</a><a href=\"https://example.com\">3</a><code>&lt;a href=\"no\"</code>",
        );
        assert_eq!(page.links, ["a.js", "#one", "p.svg", "b.html?a=1&b#two"]);
        assert!(page.anchors.iter().eq(["one"]), "{:?}", page.anchors);
    }

    fn book(files: &[(&str, &str)]) -> Vec<String> {
        let book = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = book.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        problems(book.path()).unwrap()
    }

    #[test]
    fn a_book_is_refused_whose_links_lead_nowhere() {
        let there = [
            ("searchindex-1.js", ""),
            ("values.yaml", ""),
            ("docs/b.html", "<h1 id='here'>"),
            ("docs/p.svg", "<svg/>"),
        ];
        let with = |page: &str| book(&[&there[..], &[("docs/a.html", page)]].concat());
        for good in [
            "b.html",
            "b.html#here",
            "../docs/b.html",
            "../values.yaml",
            "p.svg",
            "https://example.com/x",
            "mailto:a@example.com",
        ] {
            assert_eq!(with(&format!("<a href=\"{good}\">")), [""; 0], "{good}");
        }
        for (tag, why) in [
            (
                "<a href='c.html'>",
                "c.html leads to docs/c.html, which is not there",
            ),
            (
                "<a href='b.html#gone'>",
                "b.html#gone leads to no anchor of docs/b.html",
            ),
            (
                "<a href='#here'>",
                "#here leads to no anchor of docs/a.html",
            ),
            (
                "<a href='b.md'>",
                "b.md leads to docs/b.md, which is not there",
            ),
            ("<a href='..'>", ".. leads to , which is not there"),
            ("<a href='../../x'>", "../../x leaves the book"),
            (
                "<img src='q.svg'>",
                "q.svg leads to docs/q.svg, which is not there",
            ),
        ] {
            assert_eq!(with(tag), [format!("docs/a.html: {why}")], "{tag}");
        }
    }

    #[test]
    fn a_book_without_a_search_is_refused() {
        assert_eq!(book(&[("index.html", "")]), ["the search has no index"]);
    }
}
