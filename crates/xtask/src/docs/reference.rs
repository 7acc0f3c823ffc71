//! The reference: pages that are wholly written by the code, and the tests that nothing is left out of them.

mod cells;
mod chart_values;
mod fields;
mod flags;
mod keys;
mod reasons;
mod refusals;
mod rpcs;

use std::fs;

use cells::Table;

/// The pages, by the paths of their files.
const FOLDER: &str = "docs/reference";

/// The first lines of a page, which say where to begin.
fn page(title: &str, intro: &str) -> String {
    format!("<!-- Written by the tests of crates/xtask. Do not edit. -->\n# {title}\n\n{intro}\n")
}

/// With `UPDATE_DOCS` the page is written, otherwise compared.
fn hold(name: &str, text: &str) {
    super::hold_file(&format!("{FOLDER}/{name}"), text);
}

/// Fails with the names of all entries that have no description.
fn all_described<'a>(entries: impl IntoIterator<Item = (&'a str, &'a str)>) {
    let lacking = entries
        .into_iter()
        .filter(|(_, about)| about.trim().is_empty());
    let lacking: Vec<_> = lacking.map(|(name, _)| name).collect();
    assert!(lacking.is_empty(), "without a description: {lacking:?}");
}

#[test]
fn every_page_of_the_reference_is_written_by_a_test() {
    let files = fs::read_dir(e2e::repository().join(FOLDER)).unwrap();
    let files = files.map(|it| it.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<_> = files.collect();
    files.sort();
    let pages = [
        chart_values::PAGE,
        fields::PAGE,
        flags::PAGE,
        reasons::PAGE,
        rpcs::PAGE,
    ];
    assert_eq!(files, pages);
}
