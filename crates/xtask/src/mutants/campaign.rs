//! The campaign in place of the named tests: does the controller, with the guard taken out, break a promise in
//! any of its plans?

use std::time::Instant;

use anyhow::{Context, ensure};

use super::{copy::Copy, fault::Fault, trial};

/// More than any number of plans takes that is worth trying for each fault.
const RUN: &str = "1200";
/// What the campaign runs, besides itself.
const PACKAGES: [&str; 4] = [
    "connectors-api",
    "evaluation-api",
    "request-controller",
    "service-kit",
];

/// Tries the faults that are in what the campaign runs, and fails if it does not find one.
pub(super) fn try_all(faults: Vec<&Fault>, plans: usize) -> anyhow::Result<()> {
    let mut faults = faults;
    faults.retain(|it| PACKAGES.contains(&it.package.as_str()));
    faults.sort_by_key(|it| (&it.package, &it.file, &it.name));
    ensure!(
        !faults.is_empty(),
        "none of these is in what the campaign runs"
    );
    let copy = Copy::refreshed()?;
    println!("the copy is {}", copy.root().display());
    let began = Instant::now();
    let found = found(&copy, plans)?;
    ensure!(
        found.is_none(),
        "without any fault: {}",
        found.unwrap_or_default()
    );
    println!(
        "{plans} plans hold without any fault, {} s",
        began.elapsed().as_secs()
    );
    let mut missed = Vec::new();
    for (number, fault) in faults.iter().enumerate() {
        let began = Instant::now();
        let original = copy.plant(fault)?;
        let outcome = self::found(&copy, plans);
        copy.restore(fault, &original)?;
        let outcome = outcome.with_context(|| fault.name.clone())?;
        println!(
            "{}/{} {} ({}): {} ({} s)",
            number + 1,
            faults.len(),
            fault.name,
            fault.breaks,
            outcome.as_deref().unwrap_or("NOT FOUND"),
            began.elapsed().as_secs(),
        );
        if outcome.is_none() {
            missed.push(fault.name.as_str());
        }
    }
    ensure!(missed.is_empty(), "not found: {}", missed.join(", "));
    Ok(())
}

/// The first plan that fails, with what it breaks; none if all hold.
fn found(copy: &Copy, plans: usize) -> anyhow::Result<Option<String>> {
    let campaign = [
        "--locked",
        "--quiet",
        "--profile",
        "campaign",
        "--package",
        "campaign",
    ];
    let cargo = |limit: &str| {
        let mut cargo = trial::cargo(copy, limit);
        // Most of the time goes into building here, and little into running.
        cargo.env("CARGO_PROFILE_CAMPAIGN_OPT_LEVEL", "1");
        cargo.env("CARGO_PROFILE_CAMPAIGN_DEBUG", "0");
        cargo
    };
    let mut build = cargo(trial::BUILD);
    build.arg("build").args(campaign);
    if let Err(problem) = trial::built(build)? {
        anyhow::bail!("it does not compile: {problem}");
    }
    let mut run = cargo(RUN);
    run.arg("run")
        .args(campaign)
        .args(["--", "--until-first", "--plans"]);
    let output = run
        .arg(plans.to_string())
        .env("RUST_BACKTRACE", "0")
        .output();
    let output = output.context("the campaign")?;
    if output.status.success() {
        return Ok(None);
    }
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let mut lines = said.lines().skip_while(|line| !line.starts_with("FAILED "));
    let plan = lines.next().and_then(|line| line.strip_prefix("FAILED "));
    let promise = lines.next().and_then(|line| line.trim().split(' ').next());
    Ok(Some(match (plan, promise) {
        (Some(plan), Some(promise)) => format!("{promise} by {plan}"),
        _ => said.lines().last().unwrap_or("it failed").to_owned(),
    }))
}
