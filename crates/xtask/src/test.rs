//! `cargo xtask test`: everything that CI runs, part by part, each with its time.

mod aside;
mod changed;
mod parts;
mod programs;
mod runner;
mod times;

use std::{cell::OnceCell, env, path::PathBuf, time::Instant};

use anyhow::Context;
use clap::{Args, ValueEnum};
use e2e::{Launcher, images::Image};

use aside::{Aside, Priority};
use parts::{Part, Turn};
use runner::Summary;
use times::{Caches, Documented};
use xtask_launcher::Store;

/// Without arguments everything runs but `tekton`. `unit`, `driver`, `api`, `gate`, `evaluation`, `e2e` and `tekton` take a filter:
/// `cargo xtask test api subject`
#[derive(Args)]
pub(crate) struct TestArgs {
    /// The part to run; all of them when absent
    part: Option<Part>,
    /// Runs only the tests whose name contains this
    #[arg(requires = "part")]
    filter: Option<String>,
    /// Runs the checks that the changes since a commit can affect and that need no cluster, and names the
    /// rest
    #[arg(long, conflicts_with_all = ["part", "kubeconfig"])]
    changed: bool,
    /// With --changed: since this commit; by default since the branch left `main`
    #[arg(long, value_name = "COMMIT", requires = "changed")]
    base: Option<String>,
    /// Tests with a long form run that: figures from more pods, waits of many minutes
    #[arg(long)]
    long: bool,
    /// Runs `api`, the pods of `e2e`, `gate`, `evaluation` and `tekton` on an existing cluster instead of a local one;
    /// the last three want the chart installed there
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The test pods' image, for a cluster that cannot have it from this machine
    #[arg(long, value_name = "IMAGE", requires = "kubeconfig", default_value_t = Image::Workload.reference())]
    workload_image: String,
}

pub(crate) fn run(args: TestArgs, mut launcher: Launcher) -> anyhow::Result<()> {
    // An interrupted run leaves no cluster behind.
    launcher.end_with_parent = true;
    if args.changed {
        return changed::run(args.base.as_deref());
    }
    let TestArgs {
        part,
        filter,
        changed: _,
        base: _,
        long,
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
        long,
        kubeconfig,
        workload_image,
        launcher,
        target: OnceCell::new(),
    };
    let report = match part {
        Some(part) => {
            let mut report = Report::begin(Caches::found()?);
            report.run(part, &context);
            report
        }
        None => everything(&context)?,
    };
    let ended = context.end();
    report.end(&context, part.is_none())?;
    ended
}

/// All parts; those that need no cluster and little of the clock run beside those that wait for one.
fn everything(context: &parts::Context) -> anyhow::Result<Report> {
    let mut report = Report::begin(Caches::found()?);
    // Asked now: the part `build` puts another file there, and the kernel would call this one deleted.
    let xtask = env::current_exe().context("this program's own file")?;
    let all = Part::value_variants().iter().copied();
    let all: Vec<_> = all.filter(|part| part.is_in_every_run()).collect();
    let of_turn = |turn: Turn| {
        let parts = all.iter().copied();
        parts.filter(move |part| part.turn() == turn)
    };
    let mut spare = None;
    for part in of_turn(Turn::Own) {
        if part.is_on_cluster() && spare.is_none() {
            let parts: Vec<_> = of_turn(Turn::Spare).collect();
            spare = Some(Aside::begin(&xtask, &parts, Priority::Lowest)?);
        }
        let parts: Vec<_> = of_turn(Turn::Beside(part)).collect();
        let beside = Aside::begin(&xtask, &parts, Priority::Usual)?;
        report.run(part, context);
        report.ended_aside(beside);
    }
    if let Some(spare) = spare {
        report.ended_aside(spare);
    }
    // All builds of the run exist by now: tests, linter, campaign, fuzzer.
    let kept = Store::of_this_machine().keep(&e2e::repository())?;
    println!("keeping {kept} more compiled dependencies for other clones");
    Ok(report)
}

/// The results of the parts.
struct Report {
    began: Instant,
    caches: Caches,
    summary: Summary,
    /// Minutes of each part.
    times: Vec<(Part, f64)>,
    lines: Vec<String>,
    failed: Vec<String>,
}

impl Report {
    fn begin(caches: Caches) -> Self {
        Self {
            began: Instant::now(),
            caches,
            summary: Summary::default(),
            times: Vec::new(),
            lines: Vec::new(),
            failed: Vec::new(),
        }
    }

    fn run(&mut self, part: Part, context: &parts::Context) {
        let began = Instant::now();
        println!("── {part}");
        let outcome = part.run(context, &mut self.summary);
        self.note(part, minutes(began), outcome, "");
    }

    /// Waits for these parts.
    fn ended_aside(&mut self, aside: Aside) {
        for ended in aside.end() {
            let aside::Ended {
                part,
                minutes,
                outcome,
                output,
            } = ended;
            output.lines().for_each(|line| self.summary.note(line));
            self.note(part, minutes, outcome, ", beside the others");
        }
    }

    fn note(&mut self, part: Part, took: f64, outcome: anyhow::Result<()>, how: &str) {
        let mark = if outcome.is_ok() { "✔" } else { "✘" };
        let budget = part.budget().minutes(self.caches);
        let over = if took > budget { ", OVER" } else { "" };
        let total = minutes(self.began);
        let line = format!(
            "── {part} {mark} {took:.1} min of {budget:.1}{over}{how} (total {total:.1} min)"
        );
        println!("{line}");
        self.lines.push(line);
        self.times.push((part, took));
        if let Err(error) = outcome {
            println!("{}", e2e::report(error.as_ref()));
            self.failed.push(part.to_string());
        }
    }

    /// Prints the results of the parts, and fails when one of them did.
    fn end(mut self, context: &parts::Context, is_whole: bool) -> anyhow::Result<()> {
        if let (Some(filter), 0) = (&context.filter, self.summary.ran()) {
            self.failed.push(format!("no test matches `{filter}`"));
        }
        let whole = minutes(self.began);
        println!();
        for line in &self.lines {
            println!("{line}");
        }
        let documented = Documented::read()?;
        let mut compared: Vec<(String, f64)> = self
            .times
            .iter()
            .map(|(part, took)| (part.to_string(), *took))
            .collect();
        if is_whole {
            compared.push(("whole".to_owned(), whole));
        }
        for (name, took) in compared {
            if let Some(warning) = documented.compare(&name, took, self.caches) {
                println!("{warning}");
            }
        }
        // The test runner's own lines come last, where people and machines look for them.
        println!("\n{}", self.summary);
        if is_whole {
            println!("{}", times::verdict(whole, self.caches).0);
        }
        anyhow::ensure!(self.failed.is_empty(), "failed: {}", self.failed.join(", "));
        Ok(())
    }
}

fn minutes(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() / 60.0
}
