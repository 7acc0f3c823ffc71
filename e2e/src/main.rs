//! The local cluster on its own, without the rest of the project's tasks.

use std::process::ExitCode;

use clap::Parser;
use e2e::{
    Launcher,
    cli::{self, ClusterArgs},
};

/// Real Kubernetes clusters on this machine
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    cluster: ClusterArgs,
}

fn main() -> ExitCode {
    let Arguments { cluster } = Arguments::parse();
    let result = Launcher::this_program(&[])
        .map_err(Into::into)
        .and_then(|launcher| cli::run(cluster, &launcher));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", e2e::report(&error));
            ExitCode::FAILURE
        }
    }
}
