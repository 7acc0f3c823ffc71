//! The evaluation service, and the workers that it starts for Rego.

use std::process::ExitCode;

fn main() -> ExitCode {
    evaluation_service::main()
}
