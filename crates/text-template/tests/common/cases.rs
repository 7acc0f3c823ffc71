//! The cases, Go's answers to them, and the rule when both sides agree.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use serde_json::Value;
use text_template::{
    MissingKey, TemplateLimits, TemplateParseProblem, TemplateRenderProblem, TextTemplate,
};

/// The time of `now`: 2026-03-04 15:06:07 UTC.
pub(crate) const NOW: i64 = 1_772_636_767;

/// The three meanings of a missing key, by Go's names; the first one is the usual one here.
pub(crate) const MISSING: [(&str, MissingKey); 3] = [
    ("error", MissingKey::Error),
    ("zero", MissingKey::Zero),
    ("default", MissingKey::NoValue),
];

/// The answer of Go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Text(String),
    /// It is rendered, and not UTF-8.
    Bytes,
    Error(String),
}

impl Answer {
    /// As the program writes it.
    pub(crate) fn of(value: &Value) -> Self {
        match (value["text"].as_str(), value["bytes"].as_bool()) {
            (Some(text), _) => Self::Text(text.to_owned()),
            (None, Some(true)) => Self::Bytes,
            (None, _) => Self::Error(value["error"].as_str().unwrap().to_owned()),
        }
    }
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(name)
}

/// The data of all cases.
pub(crate) fn data() -> Value {
    let text = fs::read_to_string(folder("cases/data.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The cases by topic, in the order of their files.
pub(crate) fn topics() -> BTreeMap<String, Vec<String>> {
    let mut topics = BTreeMap::new();
    for entry in fs::read_dir(folder("cases")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|it| it == "txt") {
            let text = fs::read_to_string(&path).unwrap();
            let cases = text.trim_end_matches('\n').split("\n===\n");
            let topic = path.file_stem().unwrap().to_str().unwrap().to_owned();
            topics.insert(topic, cases.map(ToOwned::to_owned).collect());
        }
    }
    topics
}

/// Where Go's answers about a topic are.
pub(crate) fn recorded(topic: &str) -> PathBuf {
    folder("recorded").join(format!("{topic}.jsonl"))
}

/// The answer of this crate: the text, or the error and whether Go may render the refused output.
fn ours(
    text: &str,
    data: &Value,
    missing: MissingKey,
) -> Result<String, (String, Option<&'static str>)> {
    let limits = TemplateLimits::default();
    let template = TextTemplate::parse("case", text, &limits).map_err(|error| {
        let class = match &error.problem {
            TemplateParseProblem::FunctionLeftOut { .. } => Some("a function that is left out"),
            TemplateParseProblem::LeftOut(what) => Some(*what),
            TemplateParseProblem::Limit(_) => Some("a limit of the text"),
            TemplateParseProblem::Syntax(_) | TemplateParseProblem::UnknownFunction(_) => None,
        };
        (error.to_string(), class)
    })?;
    let now = Timestamp::from_second(NOW).unwrap();
    let rendered = template
        .with_missing_key(missing)
        .render(data, &limits, now);
    rendered.map_err(|error| {
        let class = match &error.problem {
            TemplateRenderProblem::Refused(refusal) => Some(class(refusal)),
            TemplateRenderProblem::Limit(_) => Some("a limit of the rendering"),
            TemplateRenderProblem::MissingKey(_)
            | TemplateRenderProblem::Invalid(_)
            | TemplateRenderProblem::Call { .. } => None,
        };
        (error.to_string(), class)
    })
}

fn class(refusal: &text_template::Refusal) -> &'static str {
    use text_template::Refusal;
    match refusal {
        Refusal::NotUtf8(_) => "a value that is not UTF-8",
        Refusal::NotEncoded(_) => "what is not in the encoding",
        Refusal::Regex { .. } => "a regular expression",
        Refusal::Zone(_) => "a time zone",
        Refusal::Clock(_) => "the clock",
        Refusal::Method(_) => "a method of a time",
        Refusal::Verb { .. } => "a verb of printf",
        Refusal::Json(_) => "a JSON text",
        Refusal::Beyond => "a slice beyond its list",
        Refusal::Change(_) => "a change to a dictionary",
    }
}

/// The class of a refusal of this crate alone, or the difference.
pub(crate) fn compare(
    text: &str,
    data: &Value,
    missing: MissingKey,
    go: &Answer,
) -> Result<Option<&'static str>, String> {
    let ours = ours(text, data, missing);
    let is_right = match (go, &ours) {
        (Answer::Text(wanted), Ok(got)) => wanted == got,
        (Answer::Text(_), Err((_, class))) => {
            return class
                .map(Some)
                .ok_or_else(|| format!("{text:?}\n  Go:   {go:?}\n  here: {ours:?}"));
        }
        (Answer::Error(_) | Answer::Bytes, Ok(_)) => false,
        (Answer::Error(_) | Answer::Bytes, Err(_)) => true,
    };
    if is_right {
        Ok(None)
    } else {
        Err(format!("{text:?}\n  Go:   {go:?}\n  here: {ours:?}"))
    }
}
