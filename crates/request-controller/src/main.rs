//! Follows access requests and their approvals, grants access to one pod and revokes it.

use std::process::ExitCode;

use clap::Parser;
use request_controller::{Args, run};

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(outcome) => outcome.exit(),
        Err(error) => {
            eprintln!("request-controller: {}", service_kit::report(&error));
            ExitCode::FAILURE
        }
    }
}
