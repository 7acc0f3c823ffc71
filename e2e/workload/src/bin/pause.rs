//! Holds a pod's namespaces open: waits for the end, and as the pod's first process collects orphans.

use std::process::ExitCode;

use rustix::process::{WaitOptions, wait};
use signal_hook::{
    consts::{SIGCHLD, SIGINT, SIGTERM},
    iterator::Signals,
};

fn main() -> ExitCode {
    let Ok(mut signals) = Signals::new([SIGCHLD, SIGINT, SIGTERM]) else {
        return ExitCode::FAILURE;
    };
    for signal in signals.forever() {
        if signal != SIGCHLD {
            break;
        }
        // One signal may stand for several ended children.
        while matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {}
    }
    ExitCode::SUCCESS
}
