//! The promises of the documentation about words that the code owns, and the check of its quotes.

mod held;
mod metrics;
mod monitoring;
mod pictures;
mod reference;
mod spans;
mod tree;

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fmt::Write,
    fs,
    path::Path,
};

use connectors_api::{
    class_reason::ClassEvent, lineage::LineageReason, policy_reason, reason::Ready,
};

use crate::{
    book::{self, Contents},
    page::Page,
};
use tree::Tree;

/// The pages that are held to the tree: those of the book, and its table of contents.
fn pages(repository: &Path) -> Vec<Page> {
    let mut paths = Contents::read(repository).unwrap().pages;
    paths.push("docs/SUMMARY.md".to_owned());
    let pages = paths.iter().map(|path| {
        let text = fs::read_to_string(repository.join(path)).unwrap();
        Page::of(path, &text)
    });
    pages.collect()
}

#[test]
fn every_document_is_in_the_table_of_contents() {
    let repository = e2e::repository();
    let contents = Contents::read(&repository).unwrap();
    let documents = book::documents(&repository).unwrap();
    assert!(documents.len() > 20, "{documents:?}");
    assert_eq!(contents.problems(&documents), Vec::<String>::new());
}

#[test]
fn every_test_path_and_count_that_a_document_quotes_is_in_the_tree() {
    let repository = e2e::repository();
    let problems = held::problems(&pages(&repository), &Tree::of(&tree::files(&repository)));
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
    for word in ClassEvent::ALL {
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

#[test]
fn every_reason_of_a_lineage_is_explained() {
    let page = troubleshooting();
    let rows: Vec<_> = page.lines().filter(|it| it.starts_with("| `")).collect();
    for reason in LineageReason::ALL {
        let word = format!("`{reason}`");
        let is_told = |row: &&str| row.split(" | ").next().is_some_and(|it| it.contains(&word));
        assert!(rows.iter().any(is_told), "{reason}");
    }
}

/// The text between two marks of a page is generated. With `UPDATE_DOCS` it is written, otherwise compared.
fn hold(page: &str, begin: &str, end: &str, table: &str) {
    let path = e2e::repository().join(page);
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(begin).unwrap();
    let (now, after) = rest.split_once(end).unwrap();
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{before}{begin}{table}{end}{after}")).unwrap();
    } else {
        assert_eq!(
            now, table,
            "{page}: UPDATE_DOCS=1 cargo test -p xtask docs writes it"
        );
    }
}

/// The same of a whole file, by its path in the repository.
fn hold_file(path: &str, text: &str) {
    let file = e2e::repository().join(path);
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
    }
    assert!(
        fs::read_to_string(&file).is_ok_and(|it| it == text),
        "{path}: UPDATE_DOCS=1 cargo test -p xtask docs writes it"
    );
}

#[test]
fn the_table_of_metrics_is_that_of_the_code() {
    let files = tree::files(&e2e::repository());
    let table = metrics::table(&metrics::families(&files));
    hold(
        "docs/operate.md",
        "<!-- metrics -->\n",
        "<!-- metrics: end -->",
        &table,
    );
}

#[test]
fn the_functions_of_templates_are_those_of_the_code() {
    let mut table = "| topic | functions |\n|---|---|\n".to_owned();
    let functions = text_template::functions();
    for topic in functions.chunk_by(|one, other| one.topic == other.topic) {
        let usages: Vec<_> = topic.iter().map(|it| format!("`{}`", it.usage)).collect();
        writeln!(table, "| {} | {} |", topic[0].topic, usages.join(", ")).unwrap();
    }
    let page = "docs/templates.md";
    hold(
        page,
        "<!-- functions -->\n",
        "<!-- functions: end -->",
        &table,
    );
    let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, why) in text_template::functions_left_out() {
        reasons.entry(why).or_default().push(format!("`{name}`"));
    }
    let mut table = "| because | left out |\n|---|---|\n".to_owned();
    for (why, names) in reasons {
        writeln!(table, "| {why} | {} |", names.join(", ")).unwrap();
    }
    hold(
        page,
        "<!-- left out -->\n",
        "<!-- left out: end -->",
        &table,
    );
}

/// Figures are measured and written in one place only.
#[test]
fn the_figures_of_sizing_are_those_of_the_measurement() {
    let read = |page: &str| fs::read_to_string(e2e::repository().join(page)).unwrap();
    let measured = ["docs/performance.md", "docs/reliability.md"].map(read);
    let operate = read("docs/operate.md");
    let (_, sizing) = operate.split_once("## Sizing\n").unwrap();
    let (sizing, _) = sizing.split_once("| limit | value of the chart").unwrap();
    let rows: Vec<&str> = sizing
        .lines()
        .filter(|line| line.starts_with('|'))
        .collect();
    assert!(rows.len() > 20, "{rows:?}");
    for row in rows {
        let mut lines = measured.iter().flat_map(|page| page.lines());
        assert!(
            lines.any(|line| line.starts_with(row)),
            "neither performance.md nor reliability.md has a row `{row}`"
        );
    }
}

/// The requests of the chart stand beside the measured memory.
#[test]
fn the_requested_memory_of_sizing_is_that_of_the_chart() {
    let read = |page: &str| fs::read_to_string(e2e::repository().join(page)).unwrap();
    let values = read("charts/connectors-approval/values.yaml");
    let values: serde_json::Value = serde_yaml::from_str(&values).unwrap();
    let operate = read("docs/operate.md");
    let head = "| process | resident at most | requested |\n|---|---|---|\n";
    let (_, table) = operate.split_once(head).unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let mut services = BTreeSet::new();
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let (service, requested) = (cells[1], cells[3]);
        let mut words = service.split('-');
        let first = words.next().unwrap_or_default().to_owned();
        let key = words.fold(first, |key, word| {
            let (initial, rest) = word.split_at(1);
            key + &initial.to_uppercase() + rest
        });
        let memory = &values[&key]["resources"]["requests"]["memory"];
        let memory = memory.as_str().unwrap_or_default();
        assert_eq!(requested.replace(" MiB", "Mi"), memory, "{service}");
        services.insert(service);
    }
    assert_eq!(services, crate::layers::services().into_iter().collect());
}

/// `cargo xtask demo` plays them, so they work.
#[test]
fn the_objects_of_the_readme_are_those_of_the_demo() {
    let repository = e2e::repository();
    let read = |path: &str| fs::read_to_string(repository.join(path)).unwrap();
    let objects = |text: &str| {
        let documents = text.split("\n---\n");
        let objects = documents.map(|it| serde_yaml::from_str::<serde_json::Value>(it).unwrap());
        objects.collect::<Vec<_>>()
    };
    let readme = read("README.md");
    let (_, block) = readme.split_once("```yaml\n").unwrap();
    let (block, _) = block.split_once("```\n").unwrap();
    let demo = [
        objects(&read("e2e/demo/connector.yaml")).remove(1),
        objects(&read("e2e/demo/policy.yaml")).remove(0),
    ];
    assert_eq!(objects(block), demo);
    let pod = objects(&read("e2e/demo/pod.yaml")).remove(0);
    let (_, volume) = readme.split_once("`csi: ").unwrap();
    let (volume, _) = volume.split_once('`').unwrap();
    assert_eq!(objects(volume)[0], pod["volumes"][0]["csi"]);
    // The demo waits for this event.
    let words = readme.split_whitespace().collect::<Vec<_>>().join(" ");
    let event = format!("Normal AccessPending {}…", e2e::demo::WAITING_EVENT);
    assert!(words.contains(&event), "{event}");
}

/// The cases are tried on a real cluster, with the webhook and without it.
#[test]
fn the_tables_of_refusals_are_those_of_the_cases() {
    const END: &str = "<!-- cases: end -->";
    let repository = e2e::repository();
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
        hold("docs/policies.md", &begin, END, &table);
    }
}
