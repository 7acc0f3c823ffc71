//! The command line and the schema, as they are documented.

use std::process::Command;
use std::sync::Mutex;
use std::{env, fs, path::PathBuf};

use clap::{CommandFactory as _, Parser as _};
use kubectl_connectors::args::Args;
use kubectl_connectors::exit::ExitWord;
use serde_json::Value;

use crate::schema::problems;

fn path(of: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(of)
}

pub(crate) fn plugin(args: &[&str]) -> (String, Option<i32>) {
    let program = env!("CARGO_BIN_EXE_kubectl-connectors");
    let run = Command::new(program).args(args).output().unwrap();
    (String::from_utf8(run.stdout).unwrap(), run.status.code())
}

/// One table is written at a time.
static PAGE: Mutex<()> = Mutex::new(());

/// The page holds this table between the marks of a name. `UPDATE_DOCS` writes it.
pub(crate) fn page_has(name: &str, table: &str) {
    let _held = PAGE.lock().unwrap();
    let path = path("../../docs/cli.md");
    let page = fs::read_to_string(&path).unwrap();
    let (begin, end) = (
        format!("<!-- {name} -->\n"),
        format!("<!-- {name}: end -->"),
    );
    let (before, rest) = page.split_once(&begin).unwrap();
    let (now, after) = rest.split_once(&end).unwrap();
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{before}{begin}{table}{end}{after}")).unwrap();
    } else {
        assert_eq!(
            now, table,
            "UPDATE_DOCS=1 cargo test -p kubectl-connectors documentation writes it"
        );
    }
}

/// Programs rely on the schema. A change of it is a decision: `UPDATE_DOCS` writes the file.
#[test]
fn the_schema_is_the_one_that_is_kept() {
    let (schema, code) = plugin(&["schema"]);
    assert_eq!(code, Some(0));
    let path = path("schema/v1.json");
    if env::var_os("UPDATE_DOCS").is_some() {
        let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let before = fs::read_to_string(&path).unwrap();
        // What was written before stays.
        assert_eq!(
            problems(&parsed(&before), &parsed(&schema)),
            Vec::<String>::new()
        );
        fs::write(&path, schema).unwrap();
    } else {
        let kept = fs::read_to_string(&path).unwrap();
        assert_eq!(
            schema, kept,
            "within v1 fields may be added; UPDATE_DOCS=1 cargo test -p kubectl-connectors schema writes the file"
        );
    }
}

fn examples(of: &str) -> Vec<String> {
    let lines = of.lines().map(str::trim);
    let commands = lines.filter_map(|it| it.strip_prefix("kubectl connectors "));
    let commands = commands.map(|it| it.split(" && ").next().unwrap_or_default());
    commands.map(str::to_owned).collect()
}

fn parses(example: &str) -> bool {
    let words = example.split_whitespace();
    Args::try_parse_from(["kubectl-connectors"].into_iter().chain(words)).is_ok()
}

#[test]
fn every_command_has_examples_and_each_of_them_parses() {
    let mut commands = vec![Args::command()];
    let mut seen = 0;
    while let Some(command) = commands.pop() {
        commands.extend(command.get_subcommands().cloned());
        let name = command.get_name().to_owned();
        let help = command.get_after_help().map(ToString::to_string);
        let examples = examples(&help.unwrap_or_default());
        for example in &examples {
            assert!(parses(example), "{example}");
        }
        let is_plain = [
            "kubectl-connectors",
            "policy",
            "completion",
            "__complete",
            "schema",
            "version",
        ];
        assert!(
            !examples.is_empty() || is_plain.contains(&name.as_str()),
            "{name}"
        );
        seen += examples.len();
    }
    assert!(seen >= 10, "{seen}");
}

#[test]
fn every_command_of_the_documentation_parses_and_its_exit_codes_are_those_of_the_code() {
    let page = fs::read_to_string(path("../../docs/cli.md")).unwrap();
    let lines = page.lines().map(|it| it.trim_start_matches("$ "));
    let lines: Vec<_> = lines
        .map(|it| it.split(" | ").next().unwrap_or_default())
        .collect();
    let documented = examples(&lines.join("\n"));
    assert!(documented.len() >= 3, "{documented:?}");
    for example in documented {
        assert!(parses(&example), "{example}");
    }
    for word in ExitWord::ALL {
        let row = format!("| {} | {} |", word.code(), word.about());
        assert!(page.contains(&row), "{row}");
    }
}

#[test]
fn a_wrong_command_line_and_a_cluster_that_is_not_there_have_codes_of_their_own() {
    assert_eq!(plugin(&["explain"]).1, Some(2));
    assert_eq!(plugin(&["explain", "secret/x"]).1, Some(2));
    let nowhere = ["requests", "--kubeconfig", "/no/such/file"];
    assert_eq!(plugin(&nowhere).1, Some(3));
    assert_eq!(
        plugin(&["version"]),
        (
            format!("kubectl-connectors {}\n", env!("CARGO_PKG_VERSION")),
            Some(0)
        )
    );
    assert!(plugin(&["completion", "bash"]).0.contains("who-can"));
    let (told, code) = plugin(&["__complete", "--", "-n", "team-a", "who"]);
    let line = told.lines().next().unwrap_or_default();
    assert_eq!((line.split('\t').next(), code), (Some("who-can"), Some(0)));
}
