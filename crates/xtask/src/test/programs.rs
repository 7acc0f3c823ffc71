//! Test programs that need no cluster, several at a time.
//!
//! Many of them wait more than they compute, so that one after the other would leave the processors idle. The
//! output of a program is shown when it fails; of the others one line with its time.

use std::{
    io::BufRead,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use serde::Deserialize;

use super::runner::Summary;

/// Programs at the same time; each runs as many tests at a time as there are processors.
const SIDE_BY_SIDE: usize = 3;

/// A compiled test program.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    /// The package and the target, as people know them.
    name: String,
    file: PathBuf,
    /// Where cargo would start it.
    package_dir: PathBuf,
}

/// One message of cargo, as far as it is about a test program.
#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    manifest_path: PathBuf,
    #[serde(default)]
    executable: Option<PathBuf>,
    #[serde(default)]
    target: Option<TargetOf>,
    #[serde(default)]
    profile: Option<ProfileOf>,
}

#[derive(Deserialize)]
struct TargetOf {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct ProfileOf {
    test: bool,
}

/// Compiles the tests that `cargo test` would run with this selection, and runs them.
pub(crate) fn run(
    cargo: Command,
    filter: Option<&str>,
    summary: &mut Summary,
) -> anyhow::Result<()> {
    let mut programs = compiled(cargo)?;
    // Integration tests take longest: begun last, one of them would run alone at the end.
    programs.sort_by_key(|it| it.name.ends_with(" lib"));
    let next = AtomicUsize::new(0);
    let ended = Mutex::new((summary, Vec::new()));
    let work = || {
        while let Some(program) = programs.get(next.fetch_add(1, Ordering::SeqCst)) {
            let began = Instant::now();
            let output = program.run(filter);
            let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
            let (summary, failed) = &mut *ended;
            if !tell(program, output, began.elapsed(), summary) {
                failed.push(program.name.clone());
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(work);
        }
    });
    let (_, failed) = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    anyhow::ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// Prints the result of a program. Returns whether it succeeded.
fn tell(
    program: &Program,
    output: std::io::Result<Output>,
    took: Duration,
    summary: &mut Summary,
) -> bool {
    let name = &program.name;
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            println!(
                "  {name} ✘ cannot start {}: {error}",
                program.file.display()
            );
            return false;
        }
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let before = summary.ran();
    said.lines().for_each(|line| summary.note(line));
    let ran = summary.ran() - before;
    let seconds = took.as_secs_f64();
    let succeeded = output.status.success();
    if !succeeded {
        println!("{said}\n{}", String::from_utf8_lossy(&output.stderr));
        println!("  {name} ✘ {} after {seconds:.1} s", output.status);
    } else if ran > 0 {
        println!("  {name} ✔ {ran} tests, {seconds:.1} s");
    }
    succeeded
}

fn compiled(mut cargo: Command) -> anyhow::Result<Vec<Program>> {
    let mut child = cargo
        .args(["--no-run", "--message-format=json-render-diagnostics"])
        .stdout(Stdio::piped())
        .spawn()
        .context("cargo test --no-run")?;
    let mut programs = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        for line in std::io::BufReader::new(stdout).lines() {
            programs.extend(program_of(&line?)?);
        }
    }
    let status = child.wait()?;
    anyhow::ensure!(status.success(), "the tests do not compile ({status})");
    anyhow::ensure!(!programs.is_empty(), "cargo named no test program");
    Ok(programs)
}

/// The test program that a message of cargo is about, if it is about one.
fn program_of(message: &str) -> anyhow::Result<Option<Program>> {
    let message: Message = serde_json::from_str(message).context("a message of cargo")?;
    let is_test = message.profile.is_some_and(|profile| profile.test);
    let (Some(file), Some(target), true) = (message.executable, message.target, is_test) else {
        return Ok(None);
    };
    anyhow::ensure!(
        message.reason == "compiler-artifact",
        "cargo calls a test program {:?}",
        message.reason
    );
    let package_dir = message.manifest_path.parent().map(Path::to_path_buf);
    let package_dir = package_dir.context("a package without a folder")?;
    let package = package_dir.file_name().unwrap_or_default();
    let package = package.to_string_lossy();
    let name = match target.kind.first().map(String::as_str) {
        Some("lib") => format!("{package} lib"),
        Some(kind) => format!("{package} {kind} {}", target.name),
        None => format!("{package} {}", target.name),
    };
    Ok(Some(Program {
        name,
        file,
        package_dir,
    }))
}

impl Program {
    fn run(&self, filter: Option<&str>) -> std::io::Result<Output> {
        Command::new(&self.file)
            .args(filter)
            .current_dir(&self.package_dir)
            .env("CARGO_MANIFEST_DIR", &self.package_dir)
            .stdin(Stdio::null())
            .output()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_program_is_found_in_what_cargo_says() {
        let message = r#"{"reason":"compiler-artifact","manifest_path":"/r/crates/authz/Cargo.toml",
            "target":{"kind":["test"],"name":"spec"},"profile":{"test":true},"executable":"/t/spec-1"}"#;
        let wanted = Program {
            name: "authz test spec".to_owned(),
            file: "/t/spec-1".into(),
            package_dir: "/r/crates/authz".into(),
        };
        assert_eq!(program_of(message).unwrap(), Some(wanted));
    }

    #[test]
    fn libraries_programs_and_other_messages_are_no_test_programs() {
        for message in [
            r#"{"reason":"build-finished","success":true}"#,
            r#"{"reason":"compiler-artifact","manifest_path":"/r/Cargo.toml","target":{"kind":["lib"],"name":"a"},
                "profile":{"test":false},"executable":null}"#,
            r#"{"reason":"compiler-artifact","manifest_path":"/r/Cargo.toml","target":{"kind":["bin"],"name":"a"},
                "profile":{"test":false},"executable":"/t/a"}"#,
        ] {
            assert_eq!(program_of(message).unwrap(), None, "{message}");
        }
        assert!(program_of("no JSON").is_err());
    }

    fn shell(script: &str) -> Program {
        let dir = tempfile::tempdir().unwrap().keep();
        let file = dir.join("program");
        std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&file, mode).unwrap();
        Program {
            name: "x".to_owned(),
            file,
            package_dir: dir,
        }
    }

    #[test]
    fn a_program_that_fails_is_told_from_one_that_succeeds_and_both_are_counted() {
        let passes = shell("echo 'test result: ok. 2 passed; 0 failed; 0 ignored'");
        let fails = shell("echo 'test result: FAILED. 1 passed; 1 failed; 0 ignored'; exit 101");
        let mut summary = Summary::default();
        assert!(tell(
            &passes,
            passes.run(None),
            Duration::ZERO,
            &mut summary
        ));
        assert!(!tell(&fails, fails.run(None), Duration::ZERO, &mut summary));
        assert_eq!(summary.ran(), 4);
        let missing = Program {
            file: "/no/such/program".into(),
            ..shell("")
        };
        let outcome = missing.run(None);
        assert!(!tell(&missing, outcome, Duration::ZERO, &mut summary));
    }

    #[test]
    fn a_filter_reaches_the_program() {
        let program = shell(r#"[ "$1" = subject ] && [ "$CARGO_MANIFEST_DIR" = "$PWD" ]"#);
        assert!(program.run(Some("subject")).unwrap().status.success());
        assert!(!program.run(None).unwrap().status.success());
    }
}
