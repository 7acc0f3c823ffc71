//! `cargo xtask bench`: the figures of docs/performance.md, all of one run.
//!
//! Owns: which programs make a table. Each program prints its rows and fails when a figure misses what it must be.

use std::{fs, thread};

use clap::{Args, ValueEnum};
use e2e::Tool;

/// Figures belong to a machine: nothing else should run on it meanwhile
#[derive(Args)]
pub(crate) struct BenchArgs {
    /// What is measured
    subject: Subject,
}

#[derive(Clone, Copy, ValueEnum)]
enum Subject {
    /// Access decisions, in the process
    Authz,
}

/// A benchmark of a crate, optimised as what ships is.
struct Program {
    package: &'static str,
    name: &'static str,
}

/// In the order of the table.
const AUTHZ: [Program; 2] = [
    Program {
        package: "authz",
        name: "time",
    },
    Program {
        package: "authz",
        name: "memory",
    },
];

pub(crate) fn run(args: &BenchArgs) -> anyhow::Result<()> {
    let programs = match args.subject {
        Subject::Authz => &AUTHZ,
    };
    for program in programs {
        program.run(&["--no-run"])?;
    }
    println!("{}\n", machine());
    println!("| what | is | must | aim |\n|---|---|---|---|");
    let missed: Vec<&str> = programs
        .iter()
        .filter(|program| program.run(&[]).is_err())
        .map(|program| program.name)
        .collect();
    anyhow::ensure!(
        missed.is_empty(),
        "missed figures of: {}",
        missed.join(", ")
    );
    Ok(())
}

impl Program {
    fn run(&self, more: &[&str]) -> anyhow::Result<()> {
        let Self { package, name } = self;
        let cargo = Tool::ending_with_us(env!("CARGO")).dir(e2e::repository());
        let bench = ["bench", "--locked", "--quiet"];
        let which = ["--package", package, "--bench", name];
        Ok(cargo.args(bench).args(which).args(more).run()?)
    }
}

/// What the figures were taken on, in words.
fn machine() -> String {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then_some(value.trim())
    });
    format!("{cores} cores, {}", model.unwrap_or("unknown processor"))
}
