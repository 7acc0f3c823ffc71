//! Keeps the standing permissions of access policies in force.

use std::process::ExitCode;

use clap::Parser;
use policy_controller::{Args, run};

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(outcome) => outcome.exit(),
        Err(error) => {
            eprintln!("policy-controller: {}", service_kit::report(&error));
            ExitCode::FAILURE
        }
    }
}
