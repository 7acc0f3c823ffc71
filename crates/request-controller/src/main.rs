//! Follows access requests and their approvals, grants access to one pod and revokes it.

use std::process::ExitCode;

use clap::Parser;
use request_controller::{Args, run};
use service_kit::process::{self, Threads};

fn main() -> ExitCode {
    process::main("request-controller", Threads::FEW, run(Args::parse()))
}
