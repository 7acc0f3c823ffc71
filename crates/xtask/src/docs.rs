//! What the documentation promises about words that the code owns, and whether what it quotes is in the tree.

mod held;
mod page;
mod tree;

use std::{env, fmt::Write, fs, path::Path};

use connectors_api::{policy_reason, reason::Ready};

use page::Page;
use tree::Tree;

/// The pages that are held to the tree.
fn pages(repository: &Path) -> Vec<Page> {
    let mut paths = vec!["README.md".to_owned(), "CHANGELOG.md".to_owned()];
    for folder in ["docs", "docs/adr", "examples/access-client"] {
        for entry in fs::read_dir(repository.join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") {
                paths.push(format!("{folder}/{name}"));
            }
        }
    }
    paths.sort();
    let pages = paths.iter().map(|path| {
        let text = fs::read_to_string(repository.join(path)).unwrap();
        Page::of(path, &text)
    });
    pages.collect()
}

#[test]
fn every_test_path_and_count_that_a_document_quotes_is_in_the_tree() {
    let repository = e2e::repository();
    let problems = held::problems(&pages(&repository), &Tree::read(&repository));
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

fn troubleshooting() -> String {
    let path = e2e::repository().join("docs/troubleshooting.md");
    fs::read_to_string(path).unwrap()
}

#[test]
fn every_word_of_a_policys_status_and_events_is_explained() {
    let text = troubleshooting();
    let (_, section) = text.split_once("## What a policy says").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let rows = |of: &str, word: &str| {
        let rows = section.lines().filter(|line| line.starts_with("| `"));
        let rows = rows.map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
        rows.filter(|cells| match of {
            "" => cells.len() == 4 && cells[1].contains(&format!("`{word}`")),
            of => {
                cells.len() == 5
                    && cells[1].contains(&format!("`{of}`"))
                    && cells[2] == format!("`{word}`")
            }
        })
        .count()
    };
    for word in policy_reason::ConnectorsMatched::ALL {
        assert_eq!(rows("ConnectorsMatched", word.as_str()), 1, "{word}");
    }
    for word in policy_reason::PermissionSynced::ALL {
        assert_eq!(rows("PermissionSynced", word.as_str()), 1, "{word}");
    }
    for word in policy_reason::ChecksValid::ALL {
        assert_eq!(rows("ChecksValid", word.as_str()), 1, "{word}");
    }
    for word in policy_reason::Ready::ALL {
        assert_eq!(rows("Ready", word.as_str()), 1, "{word}");
    }
    for word in policy_reason::Event::ALL {
        assert_eq!(rows("", word.as_str()), 1, "{word}");
    }
}

/// People look up the word that they see in `status`.
#[test]
fn every_reason_has_its_row_in_troubleshooting() {
    let text = troubleshooting();
    let rows = text.lines().filter_map(|line| {
        let cell = line.strip_prefix("| `")?;
        cell.split_once('`').map(|(word, _)| word)
    });
    let rows: Vec<&str> = rows.collect();
    for reason in Ready::ALL {
        let count = rows.iter().filter(|row| **row == reason.as_str()).count();
        assert_eq!(count, 1, "{reason}");
    }
}

/// The cases are tried on a real cluster, with the webhook and without it.
#[test]
fn the_tables_of_refusals_are_those_of_the_cases() {
    const END: &str = "<!-- cases: end -->";
    let repository = e2e::repository();
    let path = repository.join("docs/policies.md");
    for file in [
        "e2e/cases/webhook/policies.yaml",
        "e2e/cases/webhook/requests.yaml",
    ] {
        let begin = format!("<!-- cases: {file} -->\n");
        let cases = fs::read_to_string(repository.join(file)).unwrap();
        let cases: serde_json::Value = serde_yaml::from_str(&cases).unwrap();
        let mut table = "| what is refused | in these words | by |\n|---|---|---|\n".to_owned();
        for case in cases["cases"].as_array().unwrap() {
            let [name, message, by] =
                ["name", "message", "held-by"].map(|it| case[it].as_str().unwrap());
            writeln!(table, "| {name} | {message} | {by} |").unwrap();
        }
        let text = fs::read_to_string(&path).unwrap();
        let (before, rest) = text.split_once(&begin).unwrap();
        let (now, after) = rest.split_once(END).unwrap();
        if env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&path, format!("{before}{begin}{table}{END}{after}")).unwrap();
        } else {
            assert_eq!(
                now, table,
                "UPDATE_DOCS=1 cargo test -p xtask docs writes it"
            );
        }
    }
}
