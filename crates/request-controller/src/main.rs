//! Follows access requests and their approvals, grants access to one pod and revokes it.

use std::process::ExitCode;

use clap::Parser;
use request_controller::{Args, run};
use service_kit::process::{self, Threads};
use tikv_jemallocator::Jemalloc;

/// Requests come and go by thousands. This allocator gives the memory of those that went back to the kernel.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    process::main("request-controller", Threads::FEW, run(Args::parse()))
}
