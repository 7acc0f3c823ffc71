//! Keeps the standing permissions of access policies in force.

use std::process::ExitCode;

use clap::Parser;
use policy_controller::{Args, run};
use service_kit::process::{self, Threads};

fn main() -> ExitCode {
    process::main("policy-controller", Threads::FEW, run(Args::parse()))
}
