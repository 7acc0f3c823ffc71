//! The CSI node plugin: holds a pod at its volume mount until access is there.

use std::process::ExitCode;

use clap::Parser;

#[tokio::main]
async fn main() -> ExitCode {
    match csi_node::run(csi_node::Args::parse()).await {
        Ok(outcome) => outcome.exit(),
        Err(error) => {
            // Logging itself may be what did not start.
            eprintln!("csi-node: {}", service_kit::report(&error));
            ExitCode::FAILURE
        }
    }
}
