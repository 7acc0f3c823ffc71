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

/// Callers in other languages know these from the documentation alone.
#[test]
fn the_limits_and_the_audiences_are_those_of_the_documentation() {
    let read = |path: &str| {
        let path = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
        let text = fs::read_to_string(path).unwrap();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let page = read("docs/evaluation-api.md");
    let audience = format!("a token of audience `{}`", evaluation_api::TOKEN_AUDIENCE);
    assert!(page.contains(&audience));
    let audience = format!(
        "projected volume with the audience `{}`",
        evaluation_api::POD_TOKEN_AUDIENCE
    );
    assert!(page.contains(&audience));
    let most = evaluation_api::MOST_QUESTIONS;
    let most = format!("more than {},{:03} questions", most / 1000, most % 1000);
    assert!(page.contains(&most));
    let longest = evaluation_api::LONGEST_MESSAGE;
    assert!(longest.is_multiple_of(1 << 20));
    let longest = format!("one with objects {} MiB", longest >> 20);
    assert!(page.contains(&longest));
    let calls = format!(
        "messages of `EvaluateChecks` and `ValidatePolicy` in memory | {} |",
        evaluation_api::MOST_OBJECT_CALLS
    );
    assert!(page.contains(&calls));
    let domain = format!("domain `{}`", evaluation_api::refusal::DOMAIN);
    assert!(page.contains(&domain));
    assert_eq!(
        (
            evaluation_api::refusal::FIELD,
            evaluation_api::refusal::NAMESPACE
        ),
        ("field", "namespace")
    );
}
