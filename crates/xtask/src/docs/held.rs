//! Compares quotes of documents with the tree: names of tests, paths, links, counts.

use std::collections::BTreeMap;

use super::tree::{Tree, is_snake};
use crate::page::{self, Page, Piece};

/// A quoted file name with one of these ends must be a file of the tree.
const ENDS: [&str; 6] = [".rs", ".md", ".toml", ".yaml", ".proto", ".txt"];

/// All errors of these pages, a line each: `document:line: error`.
pub(super) fn problems(pages: &[Page], tree: &Tree) -> Vec<String> {
    let anchors: BTreeMap<&str, Vec<String>> = pages
        .iter()
        .map(|it| (it.path.as_str(), it.anchors()))
        .collect();
    let mut problems = Vec::new();
    for page in pages {
        let mut say = |line: usize, what: Option<String>| {
            problems.extend(what.map(|what| format!("{}:{line}: {what}", page.path)));
        };
        for Piece { line, text } in page.code() {
            let is_word = |it: char| it.is_alphanumeric() || it == '_';
            for word in text.split(|it| !is_word(it)) {
                say(line, name(word, text.starts_with("cargo "), tree));
            }
            say(line, path(&text, tree));
        }
        for Piece { line, text } in page.links() {
            say(line, link(&page.path, &text, &anchors, tree));
        }
        for Piece { line, text } in page.prose() {
            for (thing, is) in &tree.counts {
                say(line, count(&text, thing, *is));
            }
        }
    }
    problems
}

/// A name of three words and more is that of a test, or of something else that the tree has. In a command it may be a
/// part of one, by which tests are chosen.
fn name(word: &str, in_command: bool, tree: &Tree) -> Option<String> {
    // Parts of a histogram have names of their own.
    let parts = ["_bucket", "_sum", "_count"];
    let whole = parts.iter().find_map(|part| word.strip_suffix(part));
    let words = word.split('_').filter(|it| !it.is_empty()).count();
    let known = tree.tests.contains(word)
        || tree.names.contains(word)
        || whole.is_some_and(|it| tree.names.contains(it))
        || in_command && tree.tests.iter().any(|it| it.contains(word));
    if words < 3 || !is_snake(word) || known {
        return None;
    }
    let near = nearest(word, tree.tests.iter().chain(&tree.names));
    Some(format!("no test or other name `{word}`{near}"))
}

/// A quoted path of the repository must be there; `*` and `…` stand for anything.
fn path(text: &str, tree: &Tree) -> Option<String> {
    let wanted = text.trim_end_matches('/');
    let (first, rest) = wanted.split_once('/').unwrap_or(("", wanted));
    let in_crate = format!("crates/{wanted}");
    let ends = ENDS.iter().any(|end| wanted.ends_with(end));
    let found = if wanted.contains([' ', '<', '+', '$', '~']) || wanted.starts_with('/') {
        return None;
    } else if !rest.is_empty() && tree.paths.contains(&format!("crates/{first}")) {
        tree.paths.iter().any(|it| is_like(&in_crate, it))
    } else if tree.paths.contains(first) && !rest.is_empty() {
        tree.paths.iter().any(|it| is_like(wanted, it))
    } else if ends {
        // A file whose folder the text names, or the end of a kind of file.
        let end = format!("/{wanted}");
        let kind = wanted.starts_with('.');
        tree.paths
            .iter()
            .any(|it| it == wanted || it.ends_with(&end) || kind && it.ends_with(wanted))
    } else {
        return None;
    };
    let near = nearest(wanted, tree.paths.iter());
    (!found).then(|| format!("no path `{wanted}`{near}"))
}

/// Whether a path matches the written one, where `*` and `…` stand for anything.
fn is_like(written: &str, path: &str) -> bool {
    let parts: Vec<&str> = written.split(['*', '…']).collect();
    let [first, middle @ .., last] = &parts[..] else {
        return written == path;
    };
    let Some(mut rest) = path
        .strip_prefix(first)
        .and_then(|it| it.strip_suffix(last))
    else {
        return false;
    };
    for part in middle {
        let Some((_, after)) = rest.split_once(part) else {
            return false;
        };
        rest = after;
    }
    true
}

/// A link must lead to a file of the tree, and its anchor to a heading there.
fn link(
    from: &str,
    target: &str,
    anchors: &BTreeMap<&str, Vec<String>>,
    tree: &Tree,
) -> Option<String> {
    let Some((file, anchor)) = page::target(from, target) else {
        return Some(format!("the link {target} leads out of the repository"));
    };
    if !tree.paths.contains(&file) {
        let near = nearest(&file, tree.paths.iter());
        return Some(format!("the link {target} leads to no file{near}"));
    }
    let there = anchors.get(file.as_str()).map_or(&[][..], |it| it);
    if anchor.is_empty() || there.iter().any(|it| it == anchor) {
        return None;
    }
    let near = nearest(anchor, there.iter());
    Some(format!("the link {target} leads to no heading{near}"))
}

/// `five services`, `86 scenarios`: the number before a word must be how many there are.
fn count(text: &str, thing: &str, is: usize) -> Option<String> {
    const WORDS: [&str; 13] = [
        "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
        "eleven", "twelve",
    ];
    text.match_indices(thing).find_map(|(at, _)| {
        let word = text[..at]
            .strip_suffix(' ')?
            .rsplit(' ')
            .next()?
            .to_lowercase();
        let word = word.trim_start_matches(['(', '*']);
        let said = WORDS.iter().position(|it| *it == word);
        let said = said.or_else(|| word.replace(',', "").parse().ok())?;
        (said != is).then(|| format!("`{word} {thing}`, but there are {is}"))
    })
}

/// The likely thing, if any is near.
fn nearest<'a>(word: &str, among: impl Iterator<Item = &'a String>) -> String {
    let near = among.map(|it| (strsim::normalized_levenshtein(word, it), it));
    match near.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((likeness, it)) if likeness > 0.5 => format!("; did you mean `{it}`?"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        Tree::of(&BTreeMap::from([
            file("README.md", ""),
            file("docs/a.md", ""),
            file("docs/adr/0001.md", ""),
            file(
                "crates/kit/src/main.rs",
                "#[test]\nfn a_wait_is_ended_by_an_approval() {}\n\"kit_calls_total\"",
            ),
            file("crates/kit/src/plan.rs", ""),
            file("crates/kit/src/a_long_name.rs", ""),
            file("charts/all/templates/kit/workload.yaml", ""),
        ]))
    }

    fn said(text: &str) -> Vec<String> {
        let pages = [
            Page::of("docs/a.md", text),
            Page::of("docs/adr/0001.md", "## Decision taken\n"),
        ];
        problems(&pages, &tree())
    }

    #[test]
    fn names_that_are_there_and_words_that_are_no_names_are_let_through() {
        let text = "## Here\n`a_wait_is_ended_by_an_approval`, `tests::a_wait_is_ended_by_an_approval`, `kit_calls_total`, \
                    `two_words`, `SOME_LOUD_NAME`, \
                    `rate(kit_calls_total_sum[5m])`, `crates/kit/src/a_long_name.rs`, `cargo xtask test gate ended_by_an`, one service, two of one services, \
                    `crates/kit/src/main.rs`, `kit/src`, `crates/*/src`, `crates/…/plan.rs`, `plan.rs`, `docs/`, \
                    `/var/lib/x.rs`, `connectors/<permission>`, `.md`, [a](a.md), [b](adr/0001.md#decision-taken), \
                    [c](#here), [d](../README.md), [e](https://example.com/x.md), [f](adr)\n";
        assert_eq!(said(text), [""; 0]);
    }

    #[test]
    fn a_test_that_is_gone_is_named_with_its_line_and_the_nearest() {
        assert_eq!(
            said("\n\n`a_wait_is_ended_by_approval`\n"),
            [
                "docs/a.md:3: no test or other name `a_wait_is_ended_by_approval`; \
              did you mean `a_wait_is_ended_by_an_approval`?"
            ]
        );
        assert_eq!(
            said("`cargo xtask test gate ended_by_nobody`"),
            ["docs/a.md:1: no test or other name `ended_by_nobody`"]
        );
    }

    #[test]
    fn a_path_that_is_gone_is_named_with_its_line_and_the_nearest() {
        for (text, says) in [
            (
                "`crates/kit/src/plam.rs`",
                "no path `crates/kit/src/plam.rs`; did you mean `crates/kit/src/plan.rs`?",
            ),
            (
                "`kit/src/plam.rs`",
                "no path `kit/src/plam.rs`; did you mean `crates/kit/src/plan.rs`?",
            ),
            ("`observe.rs`", "no path `observe.rs`"),
            (
                "`docs/*/b.md`",
                "no path `docs/*/b.md`; did you mean `docs/a.md`?",
            ),
            (
                "[x](b.md)",
                "the link b.md leads to no file; did you mean `docs/a.md`?",
            ),
            (
                "[x](adr/0001.md#decision)",
                "the link adr/0001.md#decision leads to no heading; did you mean `decision-taken`?",
            ),
            ("[x](#nowhere)", "the link #nowhere leads to no heading"),
            (
                "[x](../../b.md)",
                "the link ../../b.md leads out of the repository",
            ),
        ] {
            assert_eq!(said(text), [format!("docs/a.md:1: {says}")], "{text}");
        }
    }

    #[test]
    fn a_count_that_is_not_so_is_named_with_its_line() {
        assert_eq!(
            said("one services\nand\n\nof the four services"),
            ["docs/a.md:4: `four services`, but there are 1"]
        );
        assert_eq!(
            said("86 scenarios"),
            ["docs/a.md:1: `86 scenarios`, but there are 0"]
        );
        assert_eq!(
            said("1,200 planted faults"),
            ["docs/a.md:1: `1,200 planted faults`, but there are 0"]
        );
    }
}
