//! Running other programs: one way to start them, one form of error.

use std::{
    env,
    ffi::{OsStr, OsString},
    io,
    path::PathBuf,
    process::{Command, ExitStatus, Stdio},
};

/// Why a program did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The program could not be started at all.
    #[error("cannot start `{line}`")]
    Start {
        /// The command line as a person would type it.
        line: String,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The program ran and failed.
    #[error("`{line}` failed ({status}): {output}")]
    Failed {
        /// The command line as a person would type it.
        line: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of its output.
        output: String,
    },
}

/// Lets a program end with the process that started it.
///
/// The starter may have ended before the kernel knows of that wish; an orphan has another parent by then, and
/// does not begin. The starter's process id follows as `$0`, then the program.
const END_WITH_US: [&str; 7] = [
    "setpriv",
    "--pdeathsig",
    "KILL",
    "--",
    "sh",
    "-c",
    r#"[ "$PPID" = "$0" ] && exec "$@""#,
];

/// A program about to be run to its end.
#[derive(Debug)]
pub struct Tool(Command);

impl Tool {
    /// A program by name (looked up in `PATH`) or path.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(program);
        command.stdin(Stdio::null()).env("PATH", search_path());
        Self(command)
    }

    /// A program that must not go on when this process ends, however it ends: a build, an installation.
    pub fn ending_with_us(program: impl AsRef<OsStr>) -> Self {
        let [setpriv, flags @ ..] = END_WITH_US;
        let us = std::process::id().to_string();
        Self::new(setpriv).args(flags).args([us]).args([program])
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.0.args(args);
        self
    }

    /// Sets one environment variable.
    #[must_use]
    pub fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        self.0.env(key, value);
        self
    }

    /// Keeps one variable of our own environment from the program.
    #[must_use]
    pub fn without_env(mut self, key: &str) -> Self {
        self.0.env_remove(key);
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn dir(mut self, dir: impl AsRef<std::path::Path>) -> Self {
        self.0.current_dir(dir);
        self
    }

    /// Runs to the end, collects standard output, fails on a bad exit.
    pub fn output(mut self) -> Result<String, CommandError> {
        let line = self.line();
        let output = self.0.output().map_err(|source| CommandError::Start {
            line: line.clone(),
            source,
        })?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let mut text = String::from_utf8_lossy(&output.stderr).into_owned();
        if text.trim().is_empty() {
            text = String::from_utf8_lossy(&output.stdout).into_owned();
        }
        Err(CommandError::Failed {
            line,
            status: output.status,
            output: last_lines(&text, 20),
        })
    }

    /// Runs to the end with our own standard output and error, fails on a bad exit.
    pub fn run(mut self) -> Result<(), CommandError> {
        let line = self.line();
        let status = self.0.status().map_err(|source| CommandError::Start {
            line: line.clone(),
            source,
        })?;
        if status.success() {
            Ok(())
        } else {
            let output = "see its output above".to_owned();
            Err(CommandError::Failed {
                line,
                status,
                output,
            })
        }
    }

    /// The command itself, for cases that this type does not cover.
    #[must_use]
    pub fn into_command(self) -> Command {
        self.0
    }

    fn line(&self) -> String {
        let words = std::iter::once(self.0.get_program()).chain(self.0.get_args());
        // A command that is shown to users does not bind the program's life to ours.
        let unbound = if self.0.get_program() == END_WITH_US[0] {
            END_WITH_US.len() + 1
        } else {
            0
        };
        words
            .skip(unbound)
            .map(|part| part.to_string_lossy())
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// Where programs are looked up: `PATH`, then the administrator's directories, which some shells leave out.
pub(crate) fn search_path() -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let dirs = env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    // Joining fails for a directory with a colon in its name, which no part of a PATH can have.
    env::join_paths(dirs).unwrap_or(path)
}

/// A program's file, found as the ones that are run are found.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    env::split_paths(&search_path())
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

/// The last `count` lines of a text, so that an error shows the cause and not the whole log.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let skipped = lines.len().saturating_sub(count);
    lines
        .into_iter()
        .skip(skipped)
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_program_is_named_with_its_output() {
        let error = Tool::new("sh")
            .args(["-c", "echo broken >&2; exit 3"])
            .output()
            .unwrap_err();
        let text = error.to_string();
        assert!(text.contains("exit 3"), "{text}");
        assert!(text.ends_with("broken"), "{text}");
    }

    #[test]
    fn a_program_that_ends_with_us_is_named_as_a_person_would_type_it() {
        let error = Tool::ending_with_us("false")
            .args(["x"])
            .output()
            .unwrap_err();
        assert!(error.to_string().starts_with("`false x` failed"), "{error}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = Tool::new("no-such-program-here").output().unwrap_err();
        assert_eq!(error.to_string(), "cannot start `no-such-program-here`");
    }

    #[test]
    fn programs_are_found_by_name_and_by_path() {
        assert!(find_program("sh").is_some());
        assert!(find_program("/bin/sh").is_some());
        assert!(find_program("no-such-program-here").is_none());
    }

    #[test]
    fn last_lines_of_empty_and_short_texts() {
        assert_eq!(last_lines("", 3), "");
        assert_eq!(last_lines("a\nb\n", 3), "a\nb");
        assert_eq!(last_lines("a\nb\nc\nd\n", 2), "c\nd");
    }
}
