//! The commands of the documents for callers, run.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, thread, time::Duration};

use e2e::{Deadline, Progress, cluster, harness::PATIENCE, poll, repository};
use serde_json::Value;

use crate::support::{
    program,
    session::{self, Said, Shell},
    undisturbed,
};

/// All that stands in the documentation is in the answer; an answer may say more.
fn holds(answer: &Value, documented: &Value) -> bool {
    match (answer, documented) {
        (Value::Object(answer), Value::Object(documented)) => documented
            .iter()
            .all(|(key, value)| answer.get(key).is_some_and(|it| holds(it, value))),
        (Value::Array(answer), Value::Array(documented)) => documented
            .iter()
            .all(|value| answer.iter().any(|it| holds(it, value))),
        (answer, documented) => answer == documented,
    }
}

/// Programs as a person has them in the `PATH`, for the cluster of this run.
fn tools(dir: &Path) -> String {
    let kubectl = env::var("E2E_KUBECTL").expect("run it with `cargo xtask test evaluation`");
    let grpcurl = cluster::grpcurl(&Progress::default()).unwrap();
    symlink(kubectl, dir.join("kubectl")).unwrap();
    symlink(grpcurl, dir.join("grpcurl")).unwrap();
    format!("{}:{}", dir.display(), env::var("PATH").unwrap())
}

/// The documents name one port of this machine; another run may be at the same.
fn wait_for_port(port: u16) {
    poll(
        "the port of the documents",
        Deadline::after(PATIENCE),
        || {
            TcpListener::bind(("127.0.0.1", port))
                .map(drop)
                .map_err(|error| error.to_string())
        },
    )
    .unwrap();
}

#[test]
fn what_the_documents_tell_to_ask_with_grpcurl_is_answered_as_they_say() {
    let _server = undisturbed();
    let text = fs::read_to_string(repository().join("docs/evaluation-api.md")).unwrap();
    let blocks = session::blocks(session::section(&text, "## From the command line"));
    assert!(blocks.len() >= 7, "{}", blocks.len());
    let dir = tempfile::tempdir().unwrap();
    let environment = [
        ("PATH", tools(dir.path()).into()),
        ("KUBECONFIG", env::var_os("E2E_KUBECONFIG").unwrap()),
    ];
    wait_for_port(8443);
    let shell = Shell {
        folder: dir.path(),
        environment: &environment,
        // Jobs are the target of `kill %1`.
        first: "set -mu",
        limit: Duration::from_mins(3),
    };
    let Said { outputs, errors } = shell.run(&blocks);
    for (block, output) in blocks.iter().zip(outputs) {
        let commands = &block.commands;
        let Some((language, expected)) = &block.expected else {
            continue;
        };
        if language == "json" {
            let last = output.find('{').map_or("", |start| &output[start..]);
            let answer: Value = serde_json::from_str(last)
                .unwrap_or_else(|error| panic!("{commands}{error}: {output}{errors}"));
            let documented: Value = serde_json::from_str(expected).unwrap();
            assert!(
                holds(&answer, &documented),
                "{commands}{answer}\nand not\n{documented}"
            );
        } else {
            for line in expected.lines() {
                let is_said = output.contains(line) || errors.contains(line);
                assert!(is_said, "`{line}` is not in\n{commands}{output}{errors}");
            }
        }
    }
}

/// The output of an example that is run with its one command, in this environment.
fn play(example: &str, environment: &[(&str, &Path)]) -> String {
    let kubectl = env::var("E2E_KUBECTL").expect("run it with `cargo xtask test evaluation`");
    let kubeconfig = env::var("E2E_KUBECONFIG").unwrap();
    let _server = undisturbed();
    let mut child = Command::new(repository().join("examples").join(example).join("run"))
        .env("KUBECTL", format!("{kubectl} --kubeconfig {kubeconfig}"))
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Go compiles its libraries once for all runs on this machine.
    let deadline = Deadline::after(Duration::from_mins(5));
    while child.try_wait().unwrap().is_none() {
        if deadline.passed() {
            child.kill().unwrap();
        }
        thread::sleep(Duration::from_millis(100));
    }
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{errors}");
    said
}

#[test]
fn the_example_does_what_it_shows_with_its_one_command() {
    // It was built with everything else; cargo would build it once more with other features.
    let said = play(
        "access-client",
        &[("ACCESS_CLIENT", &program("access-client"))],
    );
    let lines: Vec<&str> = said.lines().collect();
    let begin = |line: &str, words: &str| line.starts_with(words);
    for (after, expected) in [
        ("── may builder use harbor?", &["yes: "][..]),
        (
            "── several at once",
            &[
                "access-client-example/harbor: yes: ",
                "access-client-example/gitlab: no: ",
                "kube-system/harbor: not known: NAMESPACE_FORBIDDEN: ",
            ],
        ),
        (
            "── a call that is refused",
            &["not known: NAMESPACE_FORBIDDEN"],
        ),
    ] {
        let at = lines.iter().position(|line| begin(line, after)).unwrap();
        for (line, words) in lines[at + 1..].iter().zip(expected) {
            assert!(begin(line, words), "`{words}` is not in\n{said}");
        }
    }
    let at = lines
        .iter()
        .position(|line| begin(line, "── an answer that is followed"));
    let answers = lines[at.unwrap()..]
        .iter()
        .filter_map(|line| line.split_once(": "));
    let words: Vec<&str> = answers.map(|(word, _)| word).collect();
    assert_eq!(words, ["yes", "no", "yes"], "{said}");
}

#[test]
fn the_service_in_front_of_a_tool_lets_pods_in_by_their_tokens() {
    let said = play("review-token-go", &[]);
    for (after, expected) in [
        (
            "── a pod that may use the connector",
            "review-token-example/builder may use the connector\n200",
        ),
        (
            "── a pod that may not",
            "this pod may not use the connector now\n403",
        ),
        (
            "── a token for another audience",
            "the token is not valid, not for the audience connectors.alauda.io, or not a pod's\n401",
        ),
        (
            "── no token",
            "show your pod's token for the audience connectors.alauda.io as `Authorization: Bearer …`\n401",
        ),
        (
            "── the first pod, once the permission is gone",
            "this pod may not use the connector now\n403",
        ),
        (
            "── any pod, while nobody answers: silence is no yes",
            "access cannot be checked at the moment\n503",
        ),
    ] {
        let (_, answer) = said.split_once(after).unwrap_or_else(|| panic!("{said}"));
        let answer = answer.split("──").next().unwrap();
        assert!(answer.contains(expected), "{after}: {answer}");
    }
}

#[test]
fn an_answer_may_say_more_than_the_documents_and_not_less() {
    let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let answer = value(r#"{"a": {"b": 1, "c": [{"d": 2, "e": 3}]}}"#);
    assert!(holds(&answer, &value(r#"{"a": {"c": [{"e": 3}]}}"#)));
    for wrong in [
        r#"{"a": {"b": 2}}"#,
        r#"{"x": 1}"#,
        r#"{"a": {"c": [{"d": 3}]}}"#,
    ] {
        assert!(!holds(&answer, &value(wrong)), "{wrong}");
    }
}
