//! Runs campaigns from the command line.

use std::{
    process::ExitCode,
    sync::Mutex,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use campaign::{
    campaign::{Done, Going, Undisturbed, chosen, execute, judged, undisturbed},
    enumerate::{self, Family},
    known, model,
    plan::Plan,
    run as play,
};
use clap::Parser;
use tracing::subscriber::with_default;
use tracing_subscriber::EnvFilter;

/// Runs the production request-controller with faults at every point
///
/// Without arguments it runs every plan with one fault: more than a hundred thousand.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask campaign", max_term_width = 100)]
struct Args {
    #[command(flatten)]
    mode: Mode,
    /// With --seeds: the first one
    #[arg(long, value_name = "SEED", default_value_t = 0, requires = "seeds")]
    first: u64,
    /// With --seeds: starts no more runs after this many minutes
    #[arg(long, requires = "seeds")]
    minutes: Option<u64>,
    /// With --plans, or without arguments: only these scenarios
    #[arg(long = "scenario", value_name = "NAME", conflicts_with_all = ["seeds", "plan", "list", "model"])]
    scenarios: Vec<String>,
    /// Starts no more plans after the first failure
    #[arg(long, conflicts_with_all = ["plan", "list", "model"])]
    until_first: bool,
    /// With --plan: the log filter
    #[arg(
        long,
        value_name = "FILTER",
        default_value = "request_controller=debug",
        requires = "plan"
    )]
    log: String,
}

#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct Mode {
    /// A fixed selection of this many plans: the known ones, filled up with plans with one fault
    #[arg(long, value_name = "COUNT")]
    plans: Option<usize>,
    /// This many plans with two to four faults, each derived from a seed
    #[arg(long, value_name = "COUNT")]
    seeds: Option<u64>,
    /// Repeats one plan, by the identifier that a campaign printed, with the log of the controller
    #[arg(long, value_name = "PLAN")]
    plan: Option<String>,
    /// Lists the scenarios, with the number of their plans
    #[arg(long)]
    list: bool,
    /// Explores the model of the protocol: this configuration, or all of them
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "all")]
    model: Option<String>,
}

fn main() -> anyhow::Result<ExitCode> {
    let Args {
        mode,
        first,
        minutes,
        scenarios,
        until_first,
        log,
    } = Args::parse();
    let after_failure = if until_first { Going::Ends } else { Going::On };
    let failed = match mode {
        Mode {
            seeds: Some(seeds), ..
        } => mixed(seeds, first, minutes, after_failure)?,
        Mode {
            plan: Some(plan), ..
        } => again(&plan, &log)?,
        Mode { list: true, .. } => list()?,
        Mode {
            model: Some(name), ..
        } => model(&name)?,
        Mode { plans, .. } => run(plans, &scenarios, after_failure)?,
    };
    Ok(ExitCode::from(u8::from(failed)))
}

fn references(names: &[String]) -> anyhow::Result<Vec<Undisturbed>> {
    let scenarios = chosen(names);
    if scenarios.is_empty() {
        bail!("no scenario is called {names:?}; --list names them");
    }
    undisturbed(&scenarios).map_err(|failures| {
        let failures: Vec<_> = failures.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("without any fault already:\n{}", failures.join("\n"))
    })
}

fn all_singles(references: &[Undisturbed]) -> Vec<(Family, Plan)> {
    let all = references.iter();
    all.flat_map(|it| enumerate::singles(&it.scenario, &it.outcome))
        .collect()
}

fn run(most: Option<usize>, names: &[String], after_failure: Going) -> anyhow::Result<bool> {
    let references = references(names)?;
    let singles = all_singles(&references);
    let mut plans = known::about(&chosen(names))?;
    plans.extend(match most {
        Some(most) => enumerate::some(singles, most.saturating_sub(plans.len())),
        None => singles,
    });
    report(&references, &plans, after_failure)
}

fn mixed(
    seeds: u64,
    first: u64,
    minutes: Option<u64>,
    after_failure: Going,
) -> anyhow::Result<bool> {
    const AT_ONCE: u64 = 200;
    let started = Instant::now();
    let limit = minutes.map(|minutes| Duration::from_secs(60 * minutes));
    let references = references(&[])?;
    let singles = all_singles(&references);
    let (mut failed, mut faults) = (false, 0);
    let mut next = first;
    while next < first + seeds && limit.is_none_or(|limit| started.elapsed() < limit) {
        let until = (next + AT_ONCE).min(first + seeds);
        let plans = (next..until).filter_map(|seed| enumerate::mixed(&singles, seed));
        let plans: Vec<_> = plans.map(|plan| (Family::Mixed, plan)).collect();
        let report = execute(&references, &plans, &progress(after_failure));
        println!("seeds {next} to {}", until - 1);
        println!("{report}");
        failed |= !report.failures.is_empty();
        faults += report.faults;
        if failed && after_failure == Going::Ends {
            break;
        }
        next = until;
    }
    met_some(faults)?;
    Ok(failed)
}

fn report(
    references: &[Undisturbed],
    plans: &[(Family, Plan)],
    after_failure: Going,
) -> anyhow::Result<bool> {
    if plans.is_empty() {
        bail!("no plans");
    }
    let started = Instant::now();
    let report = execute(references, plans, &progress(after_failure));
    println!("{report}");
    println!("{:.1} s", started.elapsed().as_secs_f64());
    met_some(report.faults)?;
    Ok(!report.failures.is_empty())
}

/// Plans that never reach a fault prove nothing.
fn met_some(faults: usize) -> anyhow::Result<()> {
    anyhow::ensure!(
        faults > 0,
        "nothing went wrong in any plan: they prove nothing"
    );
    Ok(())
}

/// Reports the progress from time to time, and each failure at once.
fn progress(after_failure: Going) -> impl Fn(&Done<'_>) -> Going + Sync {
    const PERIOD: Duration = Duration::from_secs(10);
    const SLOW: Duration = Duration::from_secs(5);
    let said = Mutex::new(Instant::now());
    move |done| {
        if let Some(failure) = done.failure {
            println!("{failure}");
        }
        if done.took > SLOW {
            println!("slow: {} took {:?}", done.plan, done.took);
        }
        if let Ok(mut said) = said.lock()
            && said.elapsed() > PERIOD
        {
            *said = Instant::now();
            println!("{} of {} plans", done.of.0, done.of.1);
        }
        match done.failure {
            Some(_) => after_failure,
            None => Going::On,
        }
    }
}

fn again(text: &str, log: &str) -> anyhow::Result<bool> {
    let plan: Plan = text.parse()?;
    let filter = EnvFilter::try_new(log).context("--log")?;
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter);
    let subscriber = subscriber.without_time().finish();
    let (violations, outcome) = if plan.faults.is_empty() {
        // There is no reference run to compare it with.
        let scenarios = chosen(std::slice::from_ref(&plan.scenario));
        let scenario = scenarios.first().context("no such scenario")?;
        let outcome = with_default(subscriber, || play::run(scenario, &plan))?;
        (outcome.violations.clone(), Some(outcome))
    } else {
        let references = references(std::slice::from_ref(&plan.scenario))?;
        let reference = references.first().context("no such scenario")?;
        with_default(subscriber, || judged(reference, &plan))
    };
    if let Some(outcome) = outcome {
        for line in campaign::tell::lines(&outcome.log) {
            println!("{line}");
        }
        println!("{}", outcome.end);
    }
    for violation in &violations {
        println!("{violation}");
    }
    Ok(!violations.is_empty())
}

fn model(wanted: &str) -> anyhow::Result<bool> {
    let all = model::Settings::ALL.into_iter();
    let chosen: Vec<_> = all
        .filter(|(name, _)| wanted == "all" || *name == wanted)
        .collect();
    if chosen.is_empty() {
        let names = model::Settings::ALL.map(|(name, _)| name);
        bail!("no configuration is called {wanted:?}; there are {names:?}");
    }
    let mut failed = false;
    for (name, settings) in chosen {
        let report = model::run(settings);
        println!("{name}: {report}");
        failed |= !report.holds();
    }
    Ok(failed)
}

fn list() -> anyhow::Result<bool> {
    for reference in references(&[])? {
        let plans = enumerate::singles(&reference.scenario, &reference.outcome);
        println!("{:>6}  {}", plans.len(), reference.scenario.name);
    }
    Ok(false)
}
