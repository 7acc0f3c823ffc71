//! The crate and Go's own packages beside each other: `cargo xtask test templates`.
//!
//! The program is named by the environment, because building it is no task of a test.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

#[path = "common/cases.rs"]
mod cases;
#[path = "common/grammar.rs"]
mod grammar;

use std::{
    collections::BTreeMap,
    env, fs,
    io::{Read, Write},
    process::{Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use cases::{Answer, MISSING, NOW, compare, data, recorded, topics};
use grammar::templates;
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use serde_json::{Value, json};

fn question(text: &str, data: &Value, missing: &str) -> Value {
    json!({"Text": text, "Data": data, "Missing": missing, "Now": NOW})
}

/// Go has no limits, so its program gets some. As many questions as this share the time and the output of one process.
const TOGETHER: usize = 200;
const PATIENCE: Duration = Duration::from_secs(20);
const MEMORY_KIB: &str = "4000000";
const OUTPUT: u64 = 64 << 20;

/// The answer of Go when it does not finish within these limits.
const UNFINISHED: &str = "Go takes too much time, memory or output";

/// The answers of Go's program to these questions, in their order.
fn ask(questions: &[Value]) -> Vec<Answer> {
    let mut answers = Vec::new();
    for together in questions.chunks(TOGETHER) {
        if let Some(all) = ask_one_process(together) {
            answers.extend(all);
            continue;
        }
        // One of them takes too much, and each of the others still has its answer.
        for question in together {
            let alone = ask_one_process(std::slice::from_ref(question));
            let unfinished = || vec![Answer::Error(UNFINISHED.to_owned())];
            answers.extend(alone.unwrap_or_else(unfinished));
        }
    }
    answers
}

/// None if the process does not answer all of them within its limits.
fn ask_one_process(questions: &[Value]) -> Option<Vec<Answer>> {
    let program = env::var_os("TEXT_TEMPLATE_ORACLE")
        .expect("TEXT_TEMPLATE_ORACLE names the program: `cargo xtask test templates` sets it");
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -v \"$1\" && exec \"$0\""])
        .arg(program)
        .arg(MEMORY_KIB)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let lines: Vec<String> = questions.iter().map(|it| format!("{it}\n")).collect();
    // A process that ends too early reads no more of them.
    std::thread::spawn(move || input.write_all(lines.concat().as_bytes()));
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = output.take(OUTPUT).read_to_string(&mut text);
        // No thread waits for it any more when it comes too late.
        let _ = sender.send(read.map(|_| text));
    });
    let text = receiver.recv_timeout(PATIENCE).ok().and_then(Result::ok);
    let text = text.filter(|it| u64::try_from(it.len()).unwrap() < OUTPUT);
    if text.is_none() {
        child.kill().unwrap();
    }
    let is_success = child.wait().unwrap().success();
    let text = text.filter(|_| is_success)?;
    let answers = text
        .lines()
        .map(|it| Answer::of(&serde_json::from_str(it).unwrap()));
    let answers: Vec<_> = answers.collect();
    assert_eq!(answers.len(), questions.len());
    Some(answers)
}

/// Compares all, and tells how many only this crate refuses.
fn hold(asked: &[(String, usize)], data: &Value) {
    let questions: Vec<_> = asked
        .iter()
        .map(|(text, missing)| question(text, data, MISSING[*missing].0))
        .collect();
    let answers = ask(&questions);
    let mut refused: BTreeMap<&str, usize> = BTreeMap::new();
    let mut problems = Vec::new();
    for ((text, missing), go) in asked.iter().zip(&answers) {
        match compare(text, data, MISSING[*missing].1, go) {
            Ok(Some(class)) => *refused.entry(class).or_default() += 1,
            Ok(None) => {}
            Err(problem) => problems.push(format!("{}: {problem}", MISSING[*missing].0)),
        }
    }
    let rendered = answers
        .iter()
        .filter(|it| matches!(it, Answer::Text(_)))
        .count();
    println!(
        "{} templates, {rendered} rendered by Go, refused by us alone: {refused:?}",
        asked.len()
    );
    assert!(
        problems.is_empty(),
        "{} differ:\n{}",
        problems.len(),
        problems.join("\n")
    );
}

#[test]
fn every_case_is_rendered_as_go_renders_it_or_refused() {
    let cases = topics().into_values().flatten();
    let mut asked = Vec::new();
    for case in cases {
        let alone = actions(&case).into_iter().filter(|it| *it != case);
        asked.extend(alone.map(|it| (it.to_owned(), 2)));
        asked.extend([0, 1, 2].map(|missing| (case.clone(), missing)));
    }
    hold(&asked, &data());
}

/// The recorded answers for the tests without Go. `UPDATE_RECORDED` writes them.
#[test]
fn what_is_recorded_is_what_go_says() {
    let data = data();
    for (topic, cases) in topics() {
        let questions = cases
            .iter()
            .flat_map(|case| MISSING.map(|it| question(case, &data, it.0)));
        let answers = ask(&questions.collect::<Vec<_>>());
        let mut lines = String::new();
        for (case, answers) in cases.iter().zip(answers.chunks(MISSING.len())) {
            for ((missing, _), answer) in MISSING.iter().zip(answers) {
                assert_ne!(answer, &Answer::Error(UNFINISHED.to_owned()), "{case}");
                // The other two are written where they differ.
                if answer == &answers[0] && *missing != MISSING[0].0 {
                    continue;
                }
                let (kind, said) = match answer {
                    Answer::Text(text) => ("text", json!(text)),
                    Answer::Bytes => ("bytes", json!(true)),
                    Answer::Error(error) => ("error", json!(error)),
                };
                // In this order, regardless of the order for which serde_json is built.
                let (case, missing) = (json!(case), json!(missing));
                lines.push_str(
                    &[
                        "{\"case\":",
                        &case.to_string(),
                        ",\"missing\":",
                        &missing.to_string(),
                        ",\"",
                        kind,
                        "\":",
                        &said.to_string(),
                        "}\n",
                    ]
                    .concat(),
                );
            }
        }
        if env::var_os("UPDATE_RECORDED").is_some() {
            fs::write(recorded(&topic), lines).unwrap();
        } else {
            let now = fs::read_to_string(recorded(&topic)).unwrap_or_default();
            let wanted = "UPDATE_RECORDED=1 cargo xtask test templates writes it";
            assert!(now == lines, "{}: {wanted}", recorded(&topic).display());
        }
    }
}

/// The actions of a case, each alone: an error of one hides the results of the others.
fn actions(case: &str) -> Vec<&str> {
    let actions = case.match_indices("{{").map(|(from, _)| {
        let rest = &case[from..];
        let to = rest.find("}}").map_or(rest.len(), |at| at + 2);
        &rest[..to]
    });
    actions.collect()
}

/// How many templates are made by chance; `TEMPLATES` asks for more.
const COUNT: usize = 6_000;

/// `TEMPLATE_SEED` chooses others.
#[test]
fn random_templates_are_rendered_as_go_renders_them_or_refused() {
    let number = |name: &str| env::var(name).ok().map(|it| it.parse::<u64>().unwrap());
    let seed = number("TEMPLATE_SEED").unwrap_or(1);
    let count = number("TEMPLATES").map_or(COUNT, |it| usize::try_from(it).unwrap());
    println!("TEMPLATE_SEED={seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = templates();
    let asked: Vec<_> = (0..count)
        .map(|place| {
            (
                strategy.new_tree(&mut runner).unwrap().current(),
                place % MISSING.len(),
            )
        })
        .collect();
    let data = data();
    // Go may render a template that this crate refuses, and has no limits: it would count to the largest
    // number.
    let nothing = Answer::Text(String::new());
    let class = |(text, missing): &(String, usize)| {
        compare(text, &data, MISSING[*missing].1, &nothing)
            .ok()
            .flatten()
    };
    let (refused, asked): (Vec<_>, Vec<_>) = asked.into_iter().partition(|it| class(it).is_some());
    let mut classes: BTreeMap<_, usize> = BTreeMap::new();
    for it in &refused {
        *classes.entry(class(it)).or_default() += 1;
    }
    println!("{} are refused: {classes:?}", refused.len());
    // Most of them are about something.
    assert!(refused.len() < count / 20);
    hold(&asked, &data);
}

/// Cases and classes of characters are those of Go's version of Unicode.
#[test]
fn every_character_is_mapped_and_quoted_as_by_go() {
    const TEMPLATE: &str = "{{ upper .c }}{{ lower .c }}{{ title .c }}{{ swapcase .c }}{{ untitle .c }}{{ printf \"%q\" .c }}\
                            {{ js .c }}{{ kebabcase .c }}{{ camelcase .c }}{{ nospace .c }}{{ trim .c }}{{ initials .c }}";
    // Nothing beyond has a case, and all planes above the third are the same.
    let all: Vec<char> = ('\u{80}'..='\u{3ffff}')
        .filter(|it| *it != char::REPLACEMENT_CHARACTER)
        .collect();
    let chunks = all.chunks(256).map(|chunk| {
        let words: Vec<String> = chunk.iter().map(ToString::to_string).collect();
        json!({"c": words.join(" ")})
    });
    let chunks: Vec<Value> = chunks.collect();
    let questions: Vec<_> = chunks
        .iter()
        .map(|it| question(TEMPLATE, it, "error"))
        .collect();
    let mut differ = Vec::new();
    for ((chunk, data), go) in all.chunks(256).zip(&chunks).zip(ask(&questions)) {
        assert!(matches!(go, Answer::Text(_)), "{go:?}");
        if compare(TEMPLATE, data, MISSING[0].1, &go) != Ok(None) {
            differ.push(chunk.to_vec());
        }
    }
    // One by one, to name them.
    let differ = differ.concat();
    let data: Vec<Value> = differ
        .iter()
        .map(|it| json!({"c": it.to_string()}))
        .collect();
    let questions: Vec<_> = data
        .iter()
        .map(|it| question(TEMPLATE, it, "error"))
        .collect();
    let wrong = differ
        .iter()
        .zip(&data)
        .zip(ask(&questions))
        .filter_map(|((it, data), go)| {
            let problem = compare(TEMPLATE, data, MISSING[0].1, &go).err()?;
            Some(format!("{:x} {problem}", u32::from(*it)))
        });
    let wrong: Vec<_> = wrong.collect();
    assert!(
        wrong.is_empty() && differ.is_empty(),
        "{}\n{}",
        differ.len(),
        wrong.join("\n")
    );
}
