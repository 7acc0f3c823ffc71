//! `convert`: each case is a file, with the objects that it becomes and with what is told about it.
//!
//! Adding a case is adding a file to `tests/convert`, with its flags in the first line. `UPDATE_CASES` writes the other two, for the author to read.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use clap::Parser as _;
use kubectl_connectors::answer::Consent;
use kubectl_connectors::args::Args;
use kubectl_connectors::convert::{NoteWord, RefusalWord};
use kubectl_connectors::modules::Modules;
use kubectl_connectors::output::Colours;
use kubectl_connectors::run::{self, Outcome, RunPlace};
use serde_json::{Value, json};

use crate::cluster::{CHANGES, start};
use crate::documents::page_has;

/// The templates that the cases refer to.
pub(crate) const TEMPLATES: &str = "templates.yaml";

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/convert")
}

/// The cases by their name.
fn cases() -> BTreeSet<String> {
    let files = fs::read_dir(directory()).unwrap();
    let names = files.map(|it| it.unwrap().file_name().into_string().unwrap());
    let names = names.filter_map(|it| it.strip_suffix(".yaml").map(str::to_owned));
    names
        .filter(|it| it != "templates" && !it.contains(".after"))
        .collect()
}

pub(crate) async fn plugin(args: &[&str]) -> Outcome {
    let args = ["kubectl-connectors"].iter().chain(args);
    let place = RunPlace {
        modules: Modules::of(PathBuf::from(env!("CARGO_BIN_EXE_kubectl-connectors"))),
        colours: Colours::Off,
        now: start,
        print: Box::new(|_| true),
        ask: Box::new(|_| Consent::NoTerminal),
    };
    run::run(Args::try_parse_from(args).unwrap(), &place).await
}

pub(crate) fn path(file: &str) -> String {
    directory().join(file).to_str().unwrap().to_owned()
}

/// The files are told by their name.
fn bare(text: &str) -> String {
    text.replace(&format!("{}/", directory().display()), "")
}

fn text_of(file: &str) -> String {
    fs::read_to_string(directory().join(file)).unwrap_or_default()
}

/// The flags that a case asks for in its first line: `# convert FLAG…`.
fn flags(case: &str) -> impl Iterator<Item = &str> {
    let first = case.lines().next().unwrap_or_default();
    let flags = first.strip_prefix("# convert ").unwrap_or_default();
    flags.split_whitespace()
}

/// Compares a file with what it should hold. A file that should hold nothing should not be there.
fn compare(file: &str, found: &str) -> Option<String> {
    if env::var_os("UPDATE_CASES").is_some() {
        if found.is_empty() {
            let _ = fs::remove_file(directory().join(file));
        } else {
            fs::write(directory().join(file), found).unwrap();
        }
    }
    let kept = text_of(file);
    (kept != found).then(|| format!("{file}: expected\n{kept}\nfound\n{found}"))
}

#[tokio::test]
async fn each_case_becomes_what_is_written_beside_it() {
    let cases = cases();
    assert!(cases.len() >= 100, "{}", cases.len());
    let mut wrong = Vec::new();
    for name in cases {
        let file = path(&format!("{name}.yaml"));
        let text = text_of(&format!("{name}.yaml"));
        let (file, templates) = (file.as_str(), path(TEMPLATES));
        let args: Vec<_> = ["convert", file, &templates]
            .into_iter()
            .chain(flags(&text))
            .collect();
        let outcome = plugin(&args).await;
        let told = bare(&outcome.errors);
        wrong.extend(compare(&format!("{name}.after.yaml"), &outcome.output));
        wrong.extend(compare(&format!("{name}.told.txt"), &told));
        let code = outcome.exit.code();
        let is_refused = name.starts_with("refused") || name == "one-of-two-refused";
        if (code != 0) != is_refused {
            wrong.push(format!("{name}: ended with {code}"));
        }
        // A refused object is left out whole.
        if name.starts_with("refused") && !outcome.output.is_empty() {
            wrong.push(format!("{name}: printed {}", outcome.output));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn converted() -> impl Iterator<Item = String> {
    let names = cases().into_iter().map(|it| format!("{it}.after.yaml"));
    names.filter(|it| directory().join(it).exists())
}

/// The webhook runs the same code.
#[tokio::test]
async fn no_converted_policy_has_an_error() {
    let mut seen = 0;
    for file in converted() {
        if text_of(&file).contains("kind: AccessPolicy") {
            let outcome = plugin(&["policy", "lint", &path(&file)]).await;
            assert_eq!(outcome.exit.code(), 0, "{file}: {}", outcome.output);
            seen += 1;
        }
    }
    assert!(seen >= 25, "{seen}");
}

#[tokio::test]
async fn what_is_converted_stays_as_it_is_when_it_is_converted_again() {
    for file in converted() {
        let outcome = plugin(&["convert", &path(&file)]).await;
        assert_eq!(outcome.output, text_of(&file), "{}", outcome.errors);
    }
}

#[test]
fn every_word_has_a_case() {
    let told: Vec<_> = cases()
        .iter()
        .map(|it| text_of(&format!("{it}.told.txt")))
        .collect();
    let notes = NoteWord::ALL.iter().map(|it| it.as_str());
    for word in notes.chain(RefusalWord::ALL.iter().map(|it| it.as_str())) {
        let shown = format!("[{word}]");
        assert!(told.iter().any(|it| it.contains(&shown)), "{word}");
    }
}

/// The rules of a module decide as they did: they are run here on check objects.
#[tokio::test]
async fn an_adapted_module_decides_as_before() {
    let of_the_object = "\
package check
default result = {\"status\": \"Unknown\"}
result = {\"status\": \"True\"} { input.status.phase == \"Done\" }
result = {\"status\": \"False\"} { input.status.phase == \"Failed\" }
";
    let wrapped = of_the_object.replace("input.status", "input.object.status");
    let silent = of_the_object.replace("default result = {\"status\": \"Unknown\"}\n", "");
    let odd = of_the_object.replace("\"True\"", "\"Approved\"");
    for (module, phase, access) in [
        (of_the_object, json!("Done"), "Granted"),
        (of_the_object, json!("Running"), "Waits"),
        (of_the_object, json!("Failed"), "Refused"),
        (of_the_object, json!(null), "Waits"),
        (&wrapped, json!("Done"), "Granted"),
        (&wrapped, json!("Running"), "Waits"),
        (&wrapped, json!("Failed"), "Refused"),
        (&silent, json!("Done"), "Granted"),
        (&silent, json!("Running"), "Waits"),
        (&odd, json!("Done"), "Waits"),
    ] {
        let objects = [json!({"status": {"phase": phase}})];
        assert_eq!(decided(module, &objects).await, access, "{phase}: {module}");
    }
}

/// Without a module the conditions decide there, and one object that passes is enough.
#[tokio::test]
async fn conditions_and_several_objects_decide_as_before() {
    let conditions = |conditions: &[(&str, &str)]| {
        let conditions = conditions
            .iter()
            .map(|(kind, status)| json!({"type": kind, "status": status}));
        json!({"status": {"state": "approved", "conditions": conditions.collect::<Vec<_>>()}})
    };
    for (objects, access) in [
        (vec![conditions(&[("Ready", "True")])], "Granted"),
        (vec![conditions(&[("Succeeded", "True")])], "Granted"),
        (
            vec![conditions(&[("Other", "False"), ("Ready", "True")])],
            "Granted",
        ),
        (vec![conditions(&[("Ready", "False")])], "Refused"),
        (vec![conditions(&[("Ready", "Unknown")])], "Waits"),
        (
            vec![conditions(&[("Ready", "True"), ("Succeeded", "Unknown")])],
            "Waits",
        ),
        (vec![conditions(&[("Other", "True")])], "Waits"),
        (vec![conditions(&[])], "Waits"),
        (vec![json!({"status": {"state": "approved"}})], "Waits"),
        (vec![json!({"status": {"conditions": "Ready"}})], "Waits"),
        (
            vec![
                conditions(&[("Ready", "False")]),
                conditions(&[("Ready", "True")]),
            ],
            "Granted",
        ),
    ] {
        assert_eq!(decided("", &objects).await, access, "{objects:?}");
    }
}

/// What the pod gets by the converted policy of a check with this module, when there are these check objects.
async fn decided(module: &str, objects: &[Value]) -> String {
    let place = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| {
        let path = place.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let policy = json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
        "metadata": {"name": "p", "namespace": "team-a"},
        "spec": {"checkGrantedPermission": {"spec": {
            "roleTemplate": {"ref": {"configMap": {"name": "connectors-use-connectors-proxy-in-pod"}}},
            "checks": [{"name": "change", "spec": {
                "selector": {
                    "objectRef": {"apiVersion": CHANGES, "kind": "ChangeRequest"},
                    "matchLabels": {"pod": "{.object.metadata.name}"},
                },
                "state": {"rego": module},
            }}],
        }}},
    });
    let policy = write("before.json", policy.to_string());
    let outcome = plugin(&["convert", &policy, &path(TEMPLATES)]).await;
    assert_eq!(outcome.exit.code(), 0, "{}", outcome.errors);
    fs::remove_file(&policy).unwrap();
    write("policy.yaml", outcome.output);
    let mut all = vec![
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "build-1", "namespace": "team-a"},
            "spec": {"serviceAccountName": "builder"}}),
        json!({"apiVersion": "connectors.alauda.io/v1alpha1", "kind": "Connector",
            "metadata": {"name": "harbor", "namespace": "team-a"}, "spec": {"connectorClassName": "oci"}}),
    ];
    for (number, object) in objects.iter().enumerate() {
        let mut object = object.clone();
        object["apiVersion"] = json!(CHANGES);
        object["kind"] = json!("ChangeRequest");
        object["metadata"] = json!({"name": format!("c{number}"), "namespace": "team-a", "labels": {"pod": "build-1"}});
        all.push(object);
    }
    let all: Vec<_> = all
        .iter()
        .map(|it| serde_yaml::to_string(it).unwrap())
        .collect();
    write("world.yaml", all.join("---\n"));
    let test = "apiVersion: cli.connectors.alauda.io/v1\nkind: PolicyTest\ncases:\n- {name: x, pod: team-a/build-1, \
                connector: team-a/harbor, permission: proxy, expect: {access: NoPolicy}}\n";
    write("test.yaml", test.to_owned());
    let outcome = plugin(&["policy", "test", place.path().to_str().unwrap()]).await;
    let (_, found) = outcome
        .output
        .split_once("expected NoPolicy, found ")
        .unwrap_or_else(|| panic!("{}", outcome.output));
    found.lines().next().unwrap().to_owned()
}

/// A program reads one report from standard output, and the exit code.
#[test]
fn standard_input_is_converted_and_programs_get_one_report() {
    let run = |args: &[&str], text: &str| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_kubectl-connectors"))
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        let run = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(run.stdout), text(run.stderr), run.status.code())
    };
    let pod = text_of("volume-of-a-pod.yaml");
    let (output, errors, code) = run(&["convert", "-"], &pod);
    assert_eq!(output, text_of("volume-of-a-pod.after.yaml"));
    assert!(
        errors.starts_with("stdin:17:7: note: spec.volumes[1].csi.volumeAttributes: "),
        "{errors}"
    );
    assert_eq!(code, Some(0));
    let (output, errors, code) = run(
        &["convert", "-", "-o", "json"],
        &pod.replace("payments/", "a/b/"),
    );
    let report: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(report["kind"], "Conversion");
    assert_eq!(report["objects"], json!([]));
    let refusal = &report["refusals"][0];
    assert_eq!(
        (&refusal["word"], &refusal["line"]),
        (&json!("VolumeUnreadable"), &json!(17))
    );
    assert_eq!((errors.as_str(), code), ("", Some(1)));
}

/// A directory is read with those below it, and templates count in the namespace that the command line names.
#[tokio::test]
async fn a_directory_is_converted_with_the_templates_of_another_namespace() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("system")).unwrap();
    let templates = text_of(TEMPLATES).replace("connectors-system", "elsewhere");
    fs::write(place.path().join("system/templates.yaml"), templates).unwrap();
    let case = "every-connector";
    fs::write(
        place.path().join("p.yaml"),
        text_of(&format!("{case}.yaml")),
    )
    .unwrap();
    let directory = place.path().to_str().unwrap();
    let outcome = plugin(&["convert", directory]).await;
    assert_eq!(outcome.exit.code(), 1, "{}", outcome.errors);
    let outcome = plugin(&["convert", directory, "--system-namespace", "elsewhere"]).await;
    assert_eq!(
        outcome.output,
        text_of(&format!("{case}.after.yaml")),
        "{}",
        outcome.errors
    );
}

#[test]
fn the_words_of_the_documentation_are_those_of_the_conversion() {
    let mut table = "| word | access | meaning |\n|---|---|---|\n".to_owned();
    for word in NoteWord::ALL {
        let effect = match word.effect().as_str() {
            "note" => "",
            effect => effect,
        };
        writeln!(
            table,
            "| `{}` | {effect} | {} |",
            word.as_str(),
            word.about().trim()
        )
        .unwrap();
    }
    page_has("convert notes", &table);
    let mut table = "| word | refused |\n|---|---|\n".to_owned();
    for word in RefusalWord::ALL {
        writeln!(table, "| `{}` | {} |", word.as_str(), word.about().trim()).unwrap();
    }
    page_has("convert refusals", &table);
}

/// What a reader of the page sees is what a case says.
#[test]
fn the_example_of_the_documentation_is_a_case() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md"))
        .unwrap();
    let (_, rest) = page.split_once("$ kubectl connectors convert policies.yaml templates.yaml > converted.yaml\n```\n```text\n").unwrap();
    let (shown, _) = rest.split_once("```").unwrap();
    let told = text_of("one-of-two-refused.told.txt");
    assert_eq!(
        shown,
        told.replace("one-of-two-refused.yaml", "policies.yaml")
    );
}
