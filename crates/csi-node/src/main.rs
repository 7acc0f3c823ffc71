//! The CSI node plugin: holds a pod at its volume mount until access is there.

use std::process::ExitCode;

use clap::Parser;
use csi_node::{Args, run};
use service_kit::process::{self, Threads};

/// A mount that hangs keeps its thread. It must not keep other mounts from their threads.
const THREADS: Threads = Threads {
    blocking: 512,
    ..Threads::FEW
};

fn main() -> ExitCode {
    process::main("csi-node", THREADS, run(Args::parse()))
}
