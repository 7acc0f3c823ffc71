//! Runs cargo's test runner and keeps its summary lines, so that a long output still ends with them.

use std::{
    fmt,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use anyhow::Context;

/// The output of the test runner at the end of each test program.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    lines: Vec<String>,
    passed: u32,
    failed: u32,
}

impl Summary {
    /// How many tests ran.
    pub(crate) fn ran(&self) -> u32 {
        self.passed + self.failed
    }

    /// Notes a line of the runner when it sums a program up: `test result: ok. 3 passed; 0 failed; …`.
    pub(crate) fn note(&mut self, line: &str) {
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
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            writeln!(f, "{line}")?;
        }
        if self.ran() > 0 {
            writeln!(f, "{} passed, {} failed", self.passed, self.failed)?;
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
