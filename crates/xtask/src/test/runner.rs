//! Runs cargo's test runner and keeps its summary lines and the first words of each failure, so that a long output still
//! ends with them.

use std::{
    fmt,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use anyhow::Context;

/// The tests that the summary quotes, so that a run in which everything fails still ends with its counts.
const MOST_FAILURES: usize = 10;
/// The lines of each, and the characters of each line.
const MOST_LINES: usize = 8;
const LONGEST_LINE: usize = 500;

/// The output of the test runner at the end of each test program.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    lines: Vec<String>,
    passed: u32,
    failed: u32,
    failures: Vec<Failure>,
    /// The next lines are those of the last failure.
    quotes: bool,
}

/// What a test printed first of all that it printed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Failure {
    test: String,
    said: Vec<String>,
}

impl Failure {
    /// Whether it is complete without this line.
    fn ends_before(&self, line: &str) -> bool {
        self.said.len() == MOST_LINES || line == "failures:" || line.starts_with("stack backtrace:")
    }
}

impl Summary {
    /// How many tests ran.
    pub(crate) fn ran(&self) -> u32 {
        self.passed + self.failed
    }

    /// Notes a line of the runner when it sums a program up: `test result: ok. 3 passed; 0 failed; …`.
    pub(crate) fn note(&mut self, line: &str) {
        self.note_failure(line);
        let Some(counts) = line.strip_prefix("test result: ") else {
            return;
        };
        let count = |word: &str| {
            let part = counts.split(['.', ';']).find(|part| part.ends_with(word));
            part.and_then(|part| part.split_whitespace().next()?.parse().ok())
                .unwrap_or(0)
        };
        let (passed, failed) = (count(" passed"), count(" failed"));
        if passed + failed > 0 {
            self.lines.push(line.to_owned());
        }
        self.passed += passed;
        self.failed += failed;
    }

    fn note_failure(&mut self, line: &str) {
        let test = line.strip_prefix("---- ");
        if let Some(test) = test.and_then(|it| it.strip_suffix(" stdout ----")) {
            self.quotes = self.failures.len() < MOST_FAILURES;
            if self.quotes {
                self.failures.push(Failure {
                    test: test.to_owned(),
                    said: Vec::new(),
                });
            }
            return;
        }
        let last = self.failures.last_mut().filter(|_| self.quotes);
        let Some(last) = last else {
            return;
        };
        self.quotes = !last.ends_before(line);
        if self.quotes && !line.is_empty() {
            last.said.push(line.chars().take(LONGEST_LINE).collect());
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            writeln!(f, "{line}")?;
        }
        if self.ran() > 0 {
            writeln!(f, "{} passed, {} failed", self.passed, self.failed)?;
        }
        for Failure { test, said } in &self.failures {
            writeln!(f, "✘ {test}")?;
            for line in said {
                writeln!(f, "  {line}")?;
            }
        }
        Ok(())
    }
}

/// Runs a test command; its output passes through and its counts are added, also when tests fail.
pub(crate) fn run(mut command: Command, summary: &mut Summary) -> anyhow::Result<()> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .context("cargo test")?;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line?;
            println!("{line}");
            summary.note(&line);
        }
    }
    let status = child.wait()?;
    anyhow::ensure!(status.success(), "{} failed ({status})", line_of(&command));
    Ok(())
}

fn line_of(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_ran_and_leaves_out_empty_programs() {
        let mut summary = Summary::default();
        summary.note("running 3 tests");
        summary.note("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.1s");
        summary.note("test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out; finished in 0s");
        summary.note("test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0s");
        assert_eq!(
            (summary.passed, summary.failed, summary.lines.len()),
            (4, 2, 2)
        );
        assert!(summary.to_string().ends_with("\n4 passed, 2 failed\n"));
    }

    #[test]
    fn the_first_words_of_each_failure_come_last() {
        let mut summary = Summary::default();
        for line in [
            "test a ... FAILED",
            "",
            "failures:",
            "",
            "---- a stdout ----",
            "",
            "thread 'a' panicked at a.rs:1:2:",
            "left is not right",
            "stack backtrace:",
            "   0: begin",
            "---- b::c stdout ----",
            "it prints this",
            "failures:",
            "    a",
            "test result: FAILED. 0 passed; 2 failed; 0 ignored",
        ] {
            summary.note(line);
        }
        let shown = "0 passed, 2 failed\n✘ a\n  thread 'a' panicked at a.rs:1:2:\n  left is not right\n✘ b::c\n  it prints \
                     this\n";
        let said = summary.to_string();
        assert!(said.ends_with(shown), "{said}");
    }

    #[test]
    fn failures_are_quoted_up_to_a_limit() {
        let mut summary = Summary::default();
        for test in 0..=MOST_FAILURES {
            summary.note(&format!("---- t{test} stdout ----"));
            for line in 0..=MOST_LINES {
                summary.note(&format!("line {line} {}", "x".repeat(LONGEST_LINE)));
            }
        }
        assert_eq!(summary.failures.len(), MOST_FAILURES);
        for failure in &summary.failures {
            assert_eq!(failure.said.len(), MOST_LINES);
            let mut lengths = failure.said.iter().map(|it| it.chars().count());
            assert!(lengths.all(|it| it == LONGEST_LINE));
        }
    }

    #[test]
    fn says_nothing_when_nothing_ran() {
        assert_eq!(Summary::default().to_string(), "");
    }

    #[test]
    fn what_failed_is_counted_and_named() {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "echo 'test result: FAILED. 2 passed; 1 failed; 0 ignored'; exit 101",
        ]);
        let mut summary = Summary::default();
        let error = run(command, &mut summary).unwrap_err().to_string();
        assert!(error.starts_with("sh -c"), "{error}");
        assert!(summary.to_string().ends_with("\n2 passed, 1 failed\n"));
    }
}
