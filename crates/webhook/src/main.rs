//! Admission of access requests, policies, connectors, pipeline runs and pods, and the certificates of the installation.

use std::process::ExitCode;

use clap::Parser;
use service_kit::process::{self, Threads};
use webhook::{Args, run};

fn main() -> ExitCode {
    process::main("webhook", Threads::FEW, run(Args::parse()))
}
