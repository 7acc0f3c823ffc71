//! The content of the repository: files, tests, names, and the numbers of things that documents count.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use crate::{layers, page::is_of};

/// The files of the repository, by path and text, without build results.
pub(super) fn files(repository: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    collect(repository, "", &mut files);
    files
}

/// A source file of a crate, without its tests.
pub(super) struct SourceCode<'a> {
    /// The crate.
    pub(super) member: &'a str,
    /// The path below `src`.
    pub(super) file: &'a str,
    pub(super) code: &'a str,
}

/// The sources of all crates. Files that only tests use are left out.
pub(super) fn sources(files: &BTreeMap<String, String>) -> Vec<SourceCode<'_>> {
    let sources = files.iter().filter_map(|(path, text)| {
        let (member, file) = path.strip_prefix("crates/")?.split_once("/src/")?;
        let mut segments = file.split('/');
        let is_test = segments.any(|it| it.starts_with("test")) || file.starts_with("oracle");
        let is_code = is_of(file, "rs") && !is_test;
        // Of a file with tests, the part before them.
        let code = text.split("#[cfg(test)]\nmod tests {").next()?;
        let code = code.split("#[test]").next()?;
        is_code.then_some(SourceCode { member, file, code })
    });
    sources.collect()
}

/// Those of the crates that ship.
pub(super) fn shipped(files: &BTreeMap<String, String>) -> Vec<SourceCode<'_>> {
    let mut shipped = sources(files);
    shipped.retain(|it| {
        let is_for_tests = layers::FOR_TESTS.contains(&it.member);
        !is_for_tests && !it.member.starts_with("xtask")
    });
    shipped
}

/// The repository, as far as documents speak of it.
#[derive(Default)]
pub(super) struct Tree {
    /// Files and folders, by their paths.
    pub(super) paths: BTreeSet<String>,
    /// Names of tests.
    pub(super) tests: BTreeSet<String>,
    /// Other names that documents quote: of files, strings of the services (metrics among them), words of the protocols.
    pub(super) names: BTreeSet<String>,
    /// The numbers of things that a document may count.
    pub(super) counts: BTreeMap<&'static str, usize>,
}

impl Tree {
    /// The tree that has these files, by path and text.
    pub(super) fn of(files: &BTreeMap<String, String>) -> Self {
        let mut tree = Self::default();
        let (mut services, mut scenarios, mut faults) = (0, 0, 0);
        for (path, text) in files {
            for (end, _) in path.match_indices('/') {
                tree.paths.insert(path[..end].to_owned());
            }
            tree.paths.insert(path.clone());
            let segments = path.split(['/', '.']);
            tree.names.extend(segments.map(ToOwned::to_owned));
            if is_of(path, "rs") {
                tree.tests.extend(tests(text));
            }
            if path.starts_with("crates/") && path.contains("/src/") {
                let strings = text.split('"').filter(|it| is_snake(it));
                tree.names.extend(strings.map(ToOwned::to_owned));
            }
            if is_of(path, "proto") {
                let words = text.split(|it: char| !it.is_alphanumeric() && it != '_');
                tree.names.extend(words.map(ToOwned::to_owned));
            }
            let folders: Vec<&str> = path.split('/').collect();
            match folders[..] {
                ["charts", _, "templates", name, "workload.yaml"] => {
                    services +=
                        usize::from(files.contains_key(&format!("crates/{name}/src/main.rs")));
                }
                ["crates", "campaign", "src", "scenario", _] => scenarios += array_lengths(text),
                ["crates", "campaign", "mutants", file] if is_of(file, "toml") => faults += 1,
                _ => {}
            }
        }
        tree.counts.insert("services", services);
        tree.counts.insert("scenarios", scenarios);
        tree.counts.insert("planted faults", faults);
        tree
    }
}

/// Whether a text can be the name of a function, a metric or a field.
pub(super) fn is_snake(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'_')
}

/// The functions that have an attribute whose last word is `test`.
fn tests(text: &str) -> Vec<String> {
    let mut tests = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("//") {
            continue;
        }
        if let Some(attribute) = line.strip_prefix("#[") {
            let path = attribute.split(['(', ']']).next().unwrap_or_default();
            is_test |= path.rsplit("::").next() == Some("test");
        } else if let Some((_, rest)) = line.split_once("fn ") {
            if is_test {
                tests.extend(rest.split(['(', '<']).next().map(ToOwned::to_owned));
            }
            is_test = false;
        }
    }
    tests
}

/// Of the lists of scenarios in a file.
fn array_lengths(text: &str) -> usize {
    let lengths = text.split("[Scenario; ").skip(1);
    let lengths = lengths.filter_map(|it| it.split_once(']')?.0.parse::<usize>().ok());
    lengths.sum()
}

fn collect(folder: &Path, prefix: &str, files: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = format!("{prefix}{name}");
        if entry.file_type().unwrap().is_dir() {
            if name != ".git" && name != "target" {
                collect(&entry.path(), &format!("{path}/"), files);
            }
        } else {
            // A file that is no text, like the fuzzer's corpus, exists with an empty text.
            let text = fs::read(entry.path()).unwrap_or_default();
            files.insert(path, String::from_utf8(text).unwrap_or_default());
        }
    }
}

#[test]
fn tests_names_and_counts_are_read_from_files() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let tree = Tree::of(&BTreeMap::from([
        file(
            "crates/kit/src/main.rs",
            "register(\"kit_calls_total\", \"Calls of it\")",
        ),
        file(
            "crates/kit/src/lib.rs",
            "#[test]\nfn first_of_all() {}\n#[tokio::test(flavor = \"x\")]\n#[ignore]\npub(crate) async fn second_of_all() {}\n\
             #[cfg(test)]\nmod tests {\n    fn no_test_at_all() {}\n}\n",
        ),
        file("charts/all/templates/kit/workload.yaml", ""),
        file("charts/all/templates/admission/workload.yaml", ""),
        file("proto/a.proto", "string fresh_as_of = 1;"),
        file(
            "crates/campaign/src/scenario/a.rs",
            "const A: [Scenario; 4] = [];\nconst B: [Scenario; 3] = [];",
        ),
        file("crates/campaign/mutants/one.toml", ""),
    ]));
    assert!(
        tree.tests.iter().eq(["first_of_all", "second_of_all"]),
        "{:?}",
        tree.tests
    );
    assert!(tree.names.contains("kit_calls_total") && tree.names.contains("fresh_as_of"));
    assert!(tree.paths.contains("crates/kit/src") && tree.paths.contains("proto/a.proto"));
    let counts: Vec<_> = tree.counts.into_iter().collect();
    assert_eq!(
        counts,
        [("planted faults", 1), ("scenarios", 7), ("services", 1)]
    );
}
