//! Plays Tekton's controllers in one namespace, until it is ended.
//!
//! Owns: the time between two looks. Refuses to know: the controllers themselves ([`e2e::pipelines`]). Invariant: an error
//! of one look is told, and the next look comes.

use std::{path::PathBuf, process::ExitCode, thread, time::Duration};

use clap::Parser;
use e2e::{ApiClient, ApiError, pipelines::Pipelines, report};
use serde_json::Value;

/// Between two looks at the objects of the namespace.
const PAUSE: Duration = Duration::from_millis(100);

/// Plays the controllers of Tekton Pipelines and manual-approval-gate in one namespace. It defines their kinds
#[derive(Parser)]
struct Arguments {
    /// The cluster
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// The namespace
    #[arg(long)]
    namespace: String,
    /// The spec of every pod of a `TaskRun`, as JSON
    #[arg(long, value_name = "JSON", value_parser = |text: &str| serde_json::from_str::<Value>(text))]
    pod_spec: Value,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("error: {}", report(&error));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<std::convert::Infallible, ApiError> {
    let Arguments {
        kubeconfig,
        namespace,
        pod_spec,
    } = arguments;
    let api = ApiClient::connect(&kubeconfig, &namespace)?;
    let pipelines = Pipelines::new(&api, pod_spec)?;
    loop {
        // Objects change while they are looked at; the next look sees them as they are.
        if let Err(error) = pipelines.work() {
            eprintln!("{}", report(&error));
        }
        thread::sleep(PAUSE);
    }
}
