//! `cargo xtask test`: everything that CI runs, part by part, each with its time.

mod parts;
mod runner;

use std::{cell::OnceCell, path::PathBuf, time::Instant};

use clap::{Args, ValueEnum};
use e2e::{Launcher, images::Image};

use parts::Part;
use runner::Summary;

/// Without arguments everything runs. `unit`, `api` and `e2e` take a filter: `cargo xtask test api subject`
#[derive(Args)]
pub(crate) struct TestArgs {
    /// The part to run; all of them when absent
    part: Option<Part>,
    /// Runs only the tests whose name contains this
    #[arg(requires = "part")]
    filter: Option<String>,
    /// Runs `api` and the pods of `e2e` on an existing cluster instead of a local one
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The test pods' image, for a cluster that cannot have it from this machine
    #[arg(long, value_name = "IMAGE", requires = "kubeconfig", default_value_t = Image::Workload.reference())]
    workload_image: String,
}

pub(crate) fn run(args: TestArgs, mut launcher: Launcher) -> anyhow::Result<()> {
    // An interrupted run leaves no cluster behind.
    launcher.end_with_parent = true;
    let TestArgs {
        part,
        filter,
        kubeconfig,
        workload_image,
    } = args;
    let context = parts::Context {
        filter,
        kubeconfig,
        workload_image,
        launcher,
        target: OnceCell::new(),
    };
    let parts = part.map_or(Part::value_variants().to_vec(), |part| vec![part]);
    let began = Instant::now();
    let mut summary = Summary::default();
    let mut times = Vec::new();
    let mut failed = Vec::new();
    for part in parts {
        let began = Instant::now();
        println!("── {part}");
        let outcome = part.run(&context);
        let minutes = minutes(began);
        match outcome {
            Ok(ran) => {
                println!("── {part} ✔ {minutes}");
                summary.add(ran);
            }
            Err(error) => {
                println!("── {part} ✘ {minutes}: {}", e2e::report(error.as_ref()));
                failed.push(part.to_string());
            }
        }
        times.push(format!("{part} {minutes}"));
    }
    let ended = context.end();
    println!("\n{}\ntotal {}\n", times.join(", "), minutes(began));
    print!("{summary}");
    if failed.is_empty() {
        ended
    } else {
        anyhow::bail!("failed: {}", failed.join(", "))
    }
}

fn minutes(began: Instant) -> String {
    format!("{:.1} min", began.elapsed().as_secs_f64() / 60.0)
}
