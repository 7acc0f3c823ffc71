//! The kubectl plugin: why does my pod wait, who can help, what would this policy do?
//!
//! Owns the command line, the reads as its user, and the reports with their one schema. Decisions are those of
//! `connectors-api` and `authz`: the plugin runs the code of the services on what its user may read.
//!
//! Knows no service of the installation. `approve` and `reject` write one approval object as the user; everything else
//! only reads, and access reviews are created and not stored.
//!
//! Invariant: what the user may not read is named, and never counts as absent. No token or secret is in any output.

#![allow(
    clippy::doc_markdown,
    reason = "doc comments become descriptions of the schema, in which the kinds of Kubernetes are plain words"
)]

pub mod answer;
pub mod approval_write;
pub mod args;
mod bindings;
pub mod can_i;
mod completion;
pub mod connect;
pub mod convert;
mod deciding;
pub mod doctor;
pub mod exit;
pub mod explain;
mod explained_words;
pub mod files;
pub mod grants;
pub mod lint;
pub mod modules;
pub mod output;
pub mod policy_test;
pub mod proxy;
pub mod rbac;
pub mod reads;
pub mod report;
pub mod request_word;
pub mod requests;
pub mod run;
pub mod secrecy;
pub mod simulate;
pub mod terms;
#[cfg(test)]
mod testing;
pub mod top;
pub mod unread;
pub mod who_can;
pub mod writes;
pub mod yaml;
mod yaml_weight;

use std::env;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::Parser as _;
use service_kit::{clock, report as chain};

use answer::Consent;
use args::Args;
use exit::ExitWord;
use modules::Modules;
use output::Colours;
use run::{Outcome, RunPlace};

/// The whole program, or one of the processes in which it runs Rego.
#[must_use]
pub fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let Some((first, rest)) = arguments.split_first()
        && first == rego_workers::ARGUMENT
    {
        return rego_workers::run_worker(rest);
    }
    let args = Args::parse();
    let program = match env::current_exe() {
        Ok(program) => program,
        Err(error) => return failed(&chain(&error)),
    };
    let is_coloured = io::stdout().is_terminal() && env::var_os("NO_COLOR").is_none();
    let place = RunPlace {
        modules: Modules::of(program),
        colours: if is_coloured {
            Colours::On
        } else {
            Colours::Off
        },
        now: || clock::whole_seconds(clock::now()),
        print: Box::new(|text| {
            let mut output = io::stdout();
            output.write_all(text.as_bytes()).is_ok() && output.flush().is_ok()
        }),
        ask: Box::new(ask),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(run::run(args, &place)),
        Err(error) => return failed(&chain(&error)),
    };
    told(&outcome)
}

/// Asks the user on the terminal. Only `y` or `yes` is a yes.
fn ask(question: &str) -> Consent {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Consent::NoTerminal;
    }
    let mut terminal = io::stderr();
    let asked = terminal.write_all(question.as_bytes());
    if asked.and_then(|()| terminal.flush()).is_err() {
        return Consent::NoTerminal;
    }
    let mut line = String::new();
    let said = io::stdin().read_line(&mut line).is_ok();
    match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" if said => Consent::Given,
        _ => Consent::Declined,
    }
}

fn failed(why: &str) -> ExitCode {
    told(&Outcome::error(ExitWord::Unknown, why))
}

/// A reader that goes away, such as `head`, is no error.
fn told(outcome: &Outcome) -> ExitCode {
    let _ = io::stdout().write_all(outcome.output.as_bytes());
    let _ = io::stderr().write_all(outcome.errors.as_bytes());
    outcome.exit.into()
}
