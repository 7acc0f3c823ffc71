//! `cargo xtask test`: everything that CI runs, part by part, each with its time.

mod parts;
mod runner;

use std::{cell::OnceCell, path::PathBuf, time::Instant};

use clap::{Args, ValueEnum};
use e2e::{Launcher, images::Image};

use parts::Part;
use runner::Summary;

/// Without arguments everything runs. `unit`, `api`, `gate`, `evaluation` and `e2e` take a filter: `cargo xtask test api subject`
#[derive(Args)]
pub(crate) struct TestArgs {
    /// The part to run; all of them when absent
    part: Option<Part>,
    /// Runs only the tests whose name contains this
    #[arg(requires = "part")]
    filter: Option<String>,
    /// Runs `api`, the pods of `e2e`, `gate` and `evaluation` on an existing cluster instead of a local one; these two
    /// want the chart installed there
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
    if let (Some(part), Some(filter)) = (part, &filter) {
        anyhow::ensure!(
            part.has_tests(),
            "`{part}` has no tests that `{filter}` could choose from; leave the filter out"
        );
    }
    parts::remove_leftovers()?;
    let context = parts::Context {
        filter,
        kubeconfig,
        workload_image,
        launcher,
        target: OnceCell::new(),
    };
    let parts = part.map_or(Part::value_variants().to_vec(), |part| vec![part]);
    let mut report = Report::default();
    for part in parts {
        report.run(part, &context);
    }
    let ended = context.end();
    if let (Some(filter), 0) = (&context.filter, report.summary.ran()) {
        report.failed.push(format!("no test matches `{filter}`"));
    }
    // The test runner's own lines come last, where people and machines look for them.
    println!("\n{}\n\n{}", report.times.join("\n"), report.summary);
    anyhow::ensure!(
        report.failed.is_empty(),
        "failed: {}",
        report.failed.join(", ")
    );
    ended
}

/// What the parts came to.
struct Report {
    began: Instant,
    summary: Summary,
    times: Vec<String>,
    failed: Vec<String>,
}

impl Default for Report {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            summary: Summary::default(),
            times: Vec::new(),
            failed: Vec::new(),
        }
    }
}

impl Report {
    fn run(&mut self, part: Part, context: &parts::Context) {
        let began = Instant::now();
        println!("── {part}");
        let outcome = part.run(context, &mut self.summary);
        let mark = if outcome.is_ok() { "✔" } else { "✘" };
        let line = format!(
            "── {part} {mark} {} (total {})",
            minutes(began),
            minutes(self.began)
        );
        println!("{line}");
        self.times.push(line);
        if let Err(error) = outcome {
            println!("{}", e2e::report(error.as_ref()));
            self.failed.push(part.to_string());
        }
    }
}

fn minutes(began: Instant) -> String {
    format!("{:.1} min", began.elapsed().as_secs_f64() / 60.0)
}
