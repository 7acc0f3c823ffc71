//! `docs/evaluation-api.md` must have a row for each word that callers may see, and `docs/troubleshooting.md`
//! a remedy for each.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::collections::BTreeSet;
use std::fs;

use connectors_api::validate::FindingCode;
use evaluation_api::refusal::Reason;

#[test]
fn every_word_has_its_row_and_every_row_its_word() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/evaluation-api.md");
    let text = fs::read_to_string(path).unwrap();
    let row = |line: &str| {
        let (word, _) = line.strip_prefix("| `")?.split_once('`')?;
        let is_word = word
            .bytes()
            .all(|byte| byte.is_ascii_alphabetic() || byte == b'_');
        is_word.then(|| word.to_owned())
    };
    let rows: Vec<String> = text.lines().filter_map(row).collect();
    let words = Reason::ALL.iter().map(|reason| reason.as_str());
    let words = words.chain(FindingCode::ALL.iter().map(|code| code.as_str()));
    let words: BTreeSet<String> = words.map(str::to_owned).collect();
    assert_eq!(rows.iter().cloned().collect::<BTreeSet<_>>(), words);
    assert_eq!(rows.len(), words.len());
}

#[test]
fn there_is_something_to_do_about_every_refusal() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/troubleshooting.md");
    let text = fs::read_to_string(path).unwrap();
    let section = text
        .split_once("## What the evaluation service refuses")
        .unwrap()
        .1;
    let section = section.split("\n## ").next().unwrap();
    let cells = section
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let words: Vec<&str> = cells.flat_map(|(words, _)| words.split(", ")).collect();
    for reason in Reason::ALL {
        let word = format!("`{}`", reason.as_str());
        let count = words.iter().filter(|it| **it == word).count();
        assert_eq!(count, 1, "{word}");
    }
}
