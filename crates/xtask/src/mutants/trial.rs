//! Runs the tests of one package in the copy, within a time limit.

use std::{
    collections::BTreeSet,
    env, fmt,
    path::PathBuf,
    process::{Command, Output},
};

use anyhow::{Context, ensure};
use e2e::Progress;

use super::{
    copy::Copy,
    fault::{Fault, Place},
};

/// No named test takes a tenth of that, beside other work at the lowest priority either.
const TESTS: &str = "180";
/// All tests of a package, one that hangs included.
const ALL_TESTS: &str = "600";
/// A first build of everything, on a machine that others use too.
pub(super) const BUILD: &str = "1800";
/// The exit codes of `timeout` when the time was up, and when the program had to be killed.
const OUT_OF_TIME: [i32; 2] = [124, 137];

/// The result of a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Every named test failed.
    Caught,
    /// The tests came to no end.
    Hung,
    /// These tests passed.
    Survived(Vec<String>),
    /// It does not compile; the end of the compiler's output.
    NotBuilt(String),
}

impl Outcome {
    pub(super) fn is_caught(&self) -> bool {
        match self {
            Self::Caught | Self::Hung => true,
            Self::Survived(_) | Self::NotBuilt(_) => false,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Caught => f.write_str("caught"),
            Self::Hung => f.write_str("caught, by a test that came to no end"),
            Self::Survived(passed) => write!(f, "SURVIVED {}", passed.join(", ")),
            Self::NotBuilt(_) => f.write_str("DOES NOT COMPILE"),
        }
    }
}

/// The output of the test runner.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ran {
    /// How many tests it began with.
    pub(super) begun: usize,
    /// Those that passed.
    pub(super) passed: BTreeSet<String>,
    /// Those that failed.
    pub(super) failed: BTreeSet<String>,
}

/// Which tests of a package are run together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Those beside the code.
    Unit,
    /// Those of the folder `tests`.
    Integration,
}

/// The result of all tests of one kind.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// These failed; none, if nothing is wrong.
    Failed(BTreeSet<String>),
    /// They came to no end.
    Hung,
    /// It does not compile; the end of the compiler's output.
    NotBuilt(String),
}

impl Ran {
    pub(super) fn read(output: &str) -> Self {
        let mut ran = Self::default();
        // The output of a failed test may contain that of another runner.
        let mut is_quoted = false;
        for line in output.lines() {
            match line {
                "failures:" => is_quoted = true,
                line if line.starts_with("test result: ") => is_quoted = false,
                _ => {}
            }
            if is_quoted {
                continue;
            }
            if let Some(rest) = line.strip_prefix("running ") {
                let count = rest.split(' ').next();
                ran.begun += count.and_then(|it| it.parse().ok()).unwrap_or(0);
            } else if let Some(name) = line
                .strip_prefix("test ")
                .and_then(|it| it.strip_suffix(" ... ok"))
            {
                ran.passed.insert(name.to_owned());
            } else if let Some(name) = line
                .strip_prefix("test ")
                .and_then(|it| it.strip_suffix(" ... FAILED"))
            {
                ran.failed.insert(name.to_owned());
            }
        }
        ran
    }
}

/// Tries the fault that is planted.
pub(super) fn of(copy: &Copy, fault: &Fault) -> anyhow::Result<Outcome> {
    if let Err(problem) = build(copy, fault.place())? {
        return Ok(Outcome::NotBuilt(problem));
    }
    let tests: Vec<_> = fault.tests.iter().map(String::as_str).collect();
    let output = test(copy, fault.place(), &tests)?;
    if output
        .status
        .code()
        .is_some_and(|code| OUT_OF_TIME.contains(&code))
    {
        return Ok(Outcome::Hung);
    }
    let ran = Ran::read(&String::from_utf8_lossy(&output.stdout));
    ensure!(
        ran.begun == tests.len(),
        "{}: {} of {} tests were run",
        fault.name,
        ran.begun,
        tests.len()
    );
    let passed: Vec<_> = tests
        .iter()
        .filter(|it| ran.passed.contains(**it))
        .map(|it| (*it).to_owned())
        .collect();
    Ok(if passed.is_empty() {
        Outcome::Caught
    } else {
        Outcome::Survived(passed)
    })
}

/// Fails unless all these tests are there and pass.
pub(super) fn passes(copy: &Copy, place: Place<'_>, tests: &BTreeSet<&str>) -> anyhow::Result<()> {
    if let Err(problem) = build(copy, place)? {
        anyhow::bail!("it does not compile: {problem}");
    }
    let tests: Vec<_> = tests.iter().copied().collect();
    let output = test(copy, place, &tests)?;
    let ran = Ran::read(&String::from_utf8_lossy(&output.stdout));
    let missing: Vec<_> = tests
        .iter()
        .filter(|it| !ran.passed.contains(**it))
        .copied()
        .collect();
    ensure!(
        missing.is_empty(),
        "failed, or not there: {}",
        missing.join(", ")
    );
    Ok(())
}

/// What tests of the packages read from the environment: the program of Go's that renders the same templates.
pub(super) fn variables() -> anyhow::Result<Vec<(&'static str, PathBuf)>> {
    let template = e2e::cluster::template(&Progress::default())?;
    Ok(vec![("TEXT_TEMPLATE_ORACLE", template)])
}

/// Runs all tests of one kind.
pub(super) fn of_all(copy: &Copy, package: &str, kind: Kind) -> anyhow::Result<Said> {
    let chosen = match kind {
        Kind::Unit => ["--lib", "--package"],
        Kind::Integration => ["--test=*", "--package"],
    };
    let with = |limit| {
        let mut command = cargo(copy, limit);
        command.args(["test", "--locked", "--jobs", "2", "--all-features"]);
        command.arg("--no-fail-fast");
        command.args(chosen).arg(package);
        command
    };
    let mut build = with(BUILD);
    build.arg("--no-run");
    if let Err(problem) = built(build)? {
        return Ok(Said::NotBuilt(problem));
    }
    let mut tests = with(ALL_TESTS);
    if kind == Kind::Integration {
        tests.envs(variables()?);
    }
    let output = tests.output().context("cargo test")?;
    let code = output.status.code();
    if code.is_some_and(|code| OUT_OF_TIME.contains(&code)) {
        return Ok(Said::Hung);
    }
    let ran = Ran::read(&String::from_utf8_lossy(&output.stdout));
    ensure!(
        output.status.success() || !ran.failed.is_empty(),
        "{package}: the tests ended without a word: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(Said::Failed(ran.failed))
}

fn build(copy: &Copy, place: Place<'_>) -> anyhow::Result<Result<(), String>> {
    let mut command = cargo_test(copy, place, BUILD);
    command.arg("--no-run");
    built(command)
}

/// Runs a build. Returns the end of its output, if it fails.
pub(super) fn built(mut command: Command) -> anyhow::Result<Result<(), String>> {
    let output = command.output().context("cargo")?;
    if output.status.success() {
        return Ok(Ok(()));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<_> = said.lines().collect();
    let end = lines.len().saturating_sub(40);
    Ok(Err(lines.get(end..).unwrap_or_default().join("\n")))
}

fn test(copy: &Copy, place: Place<'_>, tests: &[&str]) -> anyhow::Result<Output> {
    let mut command = cargo_test(copy, place, TESTS);
    command
        .args(["--", "--exact", "--test-threads", "2"])
        .args(tests);
    command.output().context("cargo test")
}

fn cargo_test(copy: &Copy, place: Place<'_>, limit: &str) -> Command {
    let mut command = cargo(copy, limit);
    command.args(["test", "--locked", "--jobs", "2", "--all-features"]);
    command.args(["--package", place.package]);
    match place.program {
        None => command.arg("--lib"),
        Some(program) => command.args(["--test", program]),
    };
    command
}

/// `timeout` ends everything that cargo has started as well: when time is up, and when this program ends.
pub(super) fn cargo(copy: &Copy, limit: &str) -> Command {
    let mut command = Command::new("setpriv");
    // Cargo's variables for this program would cause other builds to compile again.
    let ours = env::vars_os().map(|(key, _)| key).filter(|key| {
        let key = key.to_string_lossy();
        key.starts_with("CARGO_PKG_") || key.starts_with("CARGO_MANIFEST_")
    });
    for key in ours {
        command.env_remove(key);
    }
    command
        .current_dir(copy.root())
        .env("CARGO_TARGET_DIR", copy.target())
        // Backtraces are not needed here, and linking takes most of the time.
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        // That something was found is enough; the smallest example is not looked for.
        .env("PROPTEST_MAX_SHRINK_ITERS", "0")
        .args(["--pdeathsig", "TERM", "--"])
        .args(["timeout", "--kill-after", "5", limit])
        .arg(env!("CARGO"));
    command
}
