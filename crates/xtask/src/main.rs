//! Every development task of the project. `cargo xtask help` lists them.

mod bench;
mod book;
mod campaign;
mod changes;
mod crdgen;
mod demo;
#[cfg(test)]
mod docs;
mod fuzz;
mod images;
mod layers;
mod mutants;
mod page;
mod pinned_tool;
mod protogen;
mod test;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use e2e::{Launcher, cli::ClusterArgs};

/// Development tasks of Connectors Approval
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Plays the story on a real Kubernetes node on this machine, which stays up for exploring
    Demo(demo::DemoArgs),
    /// Runs every check and test, exactly as CI does; or one part of it
    Test(test::TestArgs),
    /// Brings local clusters up and down and looks into them
    Cluster(ClusterArgs),
    /// Makes the container images as OCI archives, offline
    Images,
    /// Writes the CRDs that are generated from the Rust types, into the chart
    Crdgen {
        /// Changes nothing, fails when a file differs from the types
        #[arg(long)]
        check: bool,
    },
    /// Writes the code of the gRPC protocols, generated from proto/
    Protogen {
        /// Changes nothing, fails when a file differs from the protocols
        #[arg(long)]
        check: bool,
    },
    /// Makes a book of the documents in target/book, with a search, and checks its links
    Book,
    /// Checks which crate may depend on which (docs/architecture.md)
    Layers,
    /// Breaks the request-controller at every point of every scenario; `--help` behind it says how
    #[command(disable_help_flag = true)]
    Campaign {
        /// The arguments of the campaign
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Measures, and prints the table of docs/performance.md
    Bench(bench::BenchArgs),
    /// Tries random inputs on all code that reads foreign input
    Fuzz(fuzz::FuzzArgs),
    /// Plants faults in a copy of the sources, one at a time, and fails when the tests do not see one
    Mutants(mutants::MutantsArgs),
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", e2e::report(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> anyhow::Result<()> {
    let launcher = Launcher::this_program(&["cluster"])?;
    match task {
        Task::Demo(args) => demo::run(args, &launcher),
        Task::Test(args) => test::run(args, launcher),
        Task::Cluster(args) => Ok(e2e::cli::run(args, &launcher)?),
        Task::Images => images::run(),
        Task::Crdgen { check } => crdgen::run(check),
        Task::Protogen { check } => protogen::run(check),
        Task::Book => book::run(),
        Task::Layers => layers::run(),
        Task::Campaign { arguments } => campaign::run(&arguments),
        Task::Bench(args) => bench::run(&args),
        Task::Fuzz(args) => fuzz::run(&args),
        Task::Mutants(args) => mutants::run(args),
    }
}
