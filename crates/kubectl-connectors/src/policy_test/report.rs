//! The results of tests, and their printed forms.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use crate::exit::ExitWord;
use crate::output::{Colours, Tone, shown};

/// The results of the tests of a directory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestReport {
    /// The cases, in the order of files.
    pub cases: Vec<CaseReport>,
    /// Files and tests that could not be used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<TestProblem>,
    /// How many cases are as expected.
    pub passed: usize,
    /// How many are not.
    pub failed: usize,
}

/// The result of one case.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaseReport {
    /// The file.
    pub file: String,
    /// The line of the case.
    pub line: usize,
    /// The name of the test.
    pub test: String,
    /// The name of the case.
    pub case: String,
    /// Where the answer is another one than expected.
    pub differences: Vec<CaseDifference>,
}

/// A part of an answer that is another one than expected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaseDifference {
    /// The line of the expectation.
    pub line: usize,
    /// The field of the test.
    pub field: String,
    /// The expected value.
    pub expected: String,
    /// The actual value.
    pub found: String,
    /// Why it is so, in the words of the services.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub because: String,
}

/// A file or a test that could not be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestProblem {
    /// The file, or the directory.
    pub file: String,
    /// The line, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The fault.
    pub message: String,
}

/// The form of the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum TestFormat {
    /// For people
    #[default]
    Text,
    /// The Test Anything Protocol, version 14
    Tap,
    /// JUnit's XML, which CI systems show
    Junit,
}

/// How a program should interpret the report.
#[must_use]
pub fn exit(report: &TestReport) -> ExitWord {
    if !report.problems.is_empty() || report.cases.is_empty() {
        ExitWord::Usage
    } else if report.failed > 0 {
        ExitWord::No
    } else {
        ExitWord::Yes
    }
}

/// A file or a test that could not be used, on a line.
pub(super) fn problem_line(problem: &TestProblem, colours: Colours) -> String {
    let place = match problem.line {
        Some(line) => format!("{}:{line}", problem.file),
        None => problem.file.clone(),
    };
    let word = colours.paint(Tone::Bad, "error");
    format!("{}: {word}: {}\n", shown(&place), shown(&problem.message))
}

/// The report for people.
#[must_use]
pub fn text(report: &TestReport, colours: Colours) -> String {
    let mut text = String::new();
    for problem in &report.problems {
        text.push_str(&problem_line(problem, colours));
    }
    for case in &report.cases {
        let name = format!("{}: {}", case.test, case.case);
        if case.differences.is_empty() {
            let _ = writeln!(
                text,
                "{} {}",
                colours.paint(Tone::Good, "ok  "),
                shown(&name)
            );
            continue;
        }
        let _ = writeln!(
            text,
            "{} {}",
            colours.paint(Tone::Bad, "FAIL"),
            shown(&name)
        );
        for difference in &case.differences {
            let _ = writeln!(text, "     {}", shown(&told(case, difference)));
            if !difference.because.is_empty() {
                let because = format!("     {}", difference.because);
                let _ = writeln!(text, "{}", colours.paint(Tone::Dim, &because));
            }
        }
    }
    let _ = writeln!(text, "{} passed, {} failed", report.passed, report.failed);
    text
}

fn told(case: &CaseReport, difference: &CaseDifference) -> String {
    let CaseDifference {
        line,
        field,
        expected,
        found,
        because: _,
    } = difference;
    format!(
        "{}:{line}: {field}: expected {expected}, found {found}",
        case.file
    )
}

/// The report in the Test Anything Protocol.
#[must_use]
pub fn tap(report: &TestReport) -> String {
    let total = report.cases.len() + report.problems.len();
    let mut text = format!("TAP version 14\n1..{total}\n");
    let mut number = 0;
    let mut line = |is_ok: bool, name: &str, details: &[String]| {
        number += 1;
        let word = if is_ok { "ok" } else { "not ok" };
        // A number sign would begin a directive.
        let name = shown(name).replace('\\', "\\\\").replace('#', "\\#");
        let _ = writeln!(text, "{word} {number} - {name}");
        if !details.is_empty() {
            text.push_str("  ---\n  differences:\n");
            for detail in details {
                let _ = writeln!(text, "  - {}", serde_json::Value::from(detail.as_str()));
            }
            text.push_str("  ...\n");
        }
    };
    for problem in &report.problems {
        line(false, &problem.file, std::slice::from_ref(&problem.message));
    }
    for case in &report.cases {
        let details: Vec<_> = case.differences.iter().map(|it| told(case, it)).collect();
        let name = format!("{}: {}", case.test, case.case);
        line(details.is_empty(), &name, &details);
    }
    text
}

/// The report as JUnit's XML.
#[must_use]
pub fn junit(report: &TestReport) -> String {
    let failures = report.failed;
    let errors = report.problems.len();
    let tests = report.cases.len() + errors;
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"policy test\" tests=\"{tests}\" \
         failures=\"{failures}\" errors=\"{errors}\">\n"
    );
    for problem in &report.problems {
        let (file, message) = (escaped(&problem.file), escaped(&problem.message));
        let _ = writeln!(
            text,
            "<testcase classname=\"{file}\" name=\"file\"><error message=\"{message}\"/></testcase>"
        );
    }
    for case in &report.cases {
        let (class, name, file) = (
            escaped(&case.test),
            escaped(&case.case),
            escaped(&case.file),
        );
        let line = case.line;
        let _ = write!(
            text,
            "<testcase classname=\"{class}\" name=\"{name}\" file=\"{file}\" line=\"{line}\">"
        );
        for difference in &case.differences {
            let message = escaped(&told(case, difference));
            let because = escaped(&difference.because);
            let _ = write!(text, "<failure message=\"{message}\">{because}</failure>");
        }
        text.push_str("</testcase>\n");
    }
    text.push_str("</testsuite>\n</testsuites>\n");
    text
}

/// A text of XML. Control characters cannot be written there at all.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for letter in shown(text).chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}
