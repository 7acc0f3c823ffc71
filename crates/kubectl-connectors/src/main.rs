//! The kubectl plugin `kubectl connectors`.

use std::process::ExitCode;

fn main() -> ExitCode {
    kubectl_connectors::main()
}
