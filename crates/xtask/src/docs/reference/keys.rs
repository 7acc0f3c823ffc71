//! The keys of labels, annotations and the like, read from the constants of the code that ships.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Table, all_described,
    cells::{code, prose},
};
use crate::{
    docs::tree::{self, SourceCode},
    page::is_of,
};

/// The groups whose keys are the product's own.
const GROUPS: [&str; 2] = ["connectors.alauda.io/", "connectors.cpaas.io/"];
/// A key of Kubernetes that the product writes.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

pub(super) fn table() -> Table {
    let files = tree::files(&e2e::repository());
    let keys = keys(&tree::shipped(&files));
    all_described(
        keys.iter()
            .map(|(key, about)| (key.as_str(), about.as_str())),
    );
    let mut table = Table::new(&["key", "meaning"]);
    for (key, about) in keys {
        table.row(&[code(&key), prose(&about)]);
    }
    table
}

/// The keys that constants name, each with the comments of its constants.
fn keys(sources: &[SourceCode<'_>]) -> BTreeMap<String, String> {
    let mut keys: BTreeMap<String, String> = BTreeMap::new();
    for source in sources {
        let mut comment = String::new();
        let mut lines = source.code.lines().map(str::trim);
        while let Some(line) = lines.next() {
            if let Some(text) = line.strip_prefix("///") {
                comment += text;
                continue;
            }
            let about = std::mem::take(&mut comment);
            if !(line.starts_with("const ") || line.starts_with("pub") && line.contains(" const "))
            {
                continue;
            }
            let mut statement = line.to_owned();
            while !statement.ends_with([';', '{']) {
                let Some(next) = lines.next() else { break };
                statement += next;
            }
            for text in statement.split('"').skip(1).step_by(2) {
                let text = text.split('=').next().unwrap_or_default();
                if text == MANAGED_BY || named(text).next().is_some_and(|it| it == text) {
                    let known = keys.entry(text.to_owned()).or_default();
                    known.extend((!known.is_empty()).then_some(' '));
                    known.push_str(about.trim());
                }
            }
        }
    }
    keys
}

/// The keys in a text. The version of an API is none.
fn named(text: &str) -> impl Iterator<Item = &str> {
    GROUPS.into_iter().flat_map(move |group| {
        text.match_indices(group).filter_map(move |(at, _)| {
            let before = text[..at].chars().next_back();
            let word = text[at + group.len()..]
                .split(|it: char| !it.is_alphanumeric() && it != '-')
                .next()?;
            let is_whole = !before.is_some_and(|it| it.is_alphanumeric() || ".-/".contains(it));
            let is_version = word
                .strip_prefix('v')
                .is_some_and(|it| it.starts_with(|first: char| first.is_ascii_digit()));
            let is_key = is_whole && !is_version && !word.is_empty();
            is_key.then(|| &text[at..at + group.len() + word.len()])
        })
    })
}

#[test]
fn every_key_that_the_code_or_the_chart_names_has_its_row() {
    let files = tree::files(&e2e::repository());
    let sources = tree::shipped(&files);
    let known: BTreeSet<String> = keys(&sources).into_keys().collect();
    assert!(known.len() > 10, "{known:?}");
    let chart = files.iter().filter(|(path, _)| {
        path.starts_with("charts/")
            && (is_of(path, "yaml") || is_of(path, "tpl") || is_of(path, "txt"))
    });
    let texts = sources
        .iter()
        .map(|it| it.code)
        .chain(chart.map(|(_, text)| text.as_str()));
    let lacking: BTreeSet<&str> = texts
        .flat_map(named)
        .filter(|it| !known.contains(*it))
        .collect();
    assert!(
        lacking.is_empty(),
        "without a documented constant: {lacking:?}"
    );
}

#[test]
fn keys_are_read_from_constants_with_their_comments() {
    let code = "/// Label of a: one.\npub const A: &str = \"connectors.alauda.io/a\";\n\
                /// Two\n/// lines.\nconst B: [&str; 2] = [\n    \"connectors.cpaas.io/b\",\n    \"connectors.alauda.io/b=true\",\n];\n\
                const V: &str = \"connectors.alauda.io/v1alpha1\";\nconst O: &str = \"cli.connectors.alauda.io/x\";\n";
    let found = keys(&[SourceCode {
        member: "kit",
        file: "lib.rs",
        code,
    }]);
    let expected = [
        ("connectors.alauda.io/a", "Label of a: one."),
        ("connectors.alauda.io/b", "Two lines."),
        ("connectors.cpaas.io/b", "Two lines."),
    ];
    assert_eq!(
        found,
        expected
            .map(|(key, about)| (key.to_owned(), about.to_owned()))
            .into()
    );
    let text = "x connectors.alauda.io/creator, apis/connectors.alauda.io/v1 connectors.alauda.io/… \"connectors.cpaas.io/a-b\"";
    assert_eq!(
        named(text).collect::<Vec<_>>(),
        ["connectors.alauda.io/creator", "connectors.cpaas.io/a-b"]
    );
}
