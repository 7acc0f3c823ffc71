//! Admission of access requests, and the certificates of the installation.

use std::process::ExitCode;

use clap::Parser;

#[tokio::main]
async fn main() -> ExitCode {
    match webhook::run(webhook::Args::parse()).await {
        Ok(outcome) => outcome.exit(),
        Err(error) => {
            // Logs may be what could not be set up.
            eprintln!("webhook: {}", service_kit::report(&error));
            ExitCode::FAILURE
        }
    }
}
