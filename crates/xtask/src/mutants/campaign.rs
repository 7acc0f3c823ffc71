//! The campaign in place of the named tests: does the controller, with the guard taken out, break a promise in
//! any of its plans?

use std::time::Instant;

use anyhow::{Context, ensure};

use super::{
    copy::Copy,
    fault::{Campaign, Fault},
    groups, names, seconds,
    table::{self, Tried},
    trial,
};

/// More than any number of plans takes that is worth trying for each fault.
const RUN: &str = "1200";
/// The packages that the campaign runs, besides itself.
const PACKAGES: [&str; 4] = [
    "connectors-api",
    "evaluation-api",
    "request-controller",
    "service-kit",
];

/// Whether a fault is in a package that the campaign runs.
pub(super) fn is_in(fault: &Fault) -> bool {
    PACKAGES.contains(&fault.package.as_str())
}

/// Tries the faults in packages that the campaign runs. Returns their rows; none where the result differs from the fault's
/// file.
///
/// Faults that the campaign does not see are planted together, so that few builds try all. One of them could hide another
/// one. Those that the campaign sees are tried one by one. `tell` hears the rows so far after each group and each fault.
pub(super) fn try_all<'a>(
    all: &'a [Fault],
    mut faults: Vec<&'a Fault>,
    plans: usize,
    mut tell: impl FnMut(&Tried<'a>) -> anyhow::Result<()>,
) -> anyhow::Result<Tried<'a>> {
    faults.retain(|it| is_in(it));
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
    println!("{plans} plans hold without any fault, {} s", seconds(began));
    let is_unseen = |it: &&Fault| matches!(it.campaign, Campaign::Blind(_));
    let (unseen, seen): (Vec<_>, Vec<_>) = faults.into_iter().partition(is_unseen);
    let mut tried = Tried::new();
    for group in groups::of(unseen, |file| copy.text(file))? {
        let began = Instant::now();
        let mut wrong = Vec::new();
        groups::narrow(&group, &mut wrong, &mut |faults| {
            let found = copy.with_all(faults, || self::found(&copy, plans));
            let found = found.with_context(|| names(faults.iter().copied()))?;
            println!(
                "{} together, {} s: {}",
                faults.len(),
                seconds(began),
                found.as_deref().unwrap_or("not seen")
            );
            Ok(found.map_or(Ok(()), Err))
        })?;
        for fault in group {
            let found = wrong.iter().find(|(other, _)| other.name == fault.name);
            let said = said(fault, found.map(|(_, plan)| plan.as_str()));
            println!("{}", line(fault, &said));
            tried.insert(&fault.name, row(fault, said));
        }
        tell(&tried)?;
    }
    for (number, fault) in seen.iter().enumerate() {
        let began = Instant::now();
        let planted = together(all, fault)?;
        let outcome = copy.with_all(&planted, || self::found(&copy, plans));
        let outcome = outcome.with_context(|| fault.name.clone())?;
        let said = said(fault, outcome.as_deref());
        println!(
            "{}/{} {} ({} s)",
            number + 1,
            seen.len(),
            line(fault, &said),
            seconds(began),
        );
        tried.insert(&fault.name, row(fault, said));
        tell(&tried)?;
    }
    Ok(tried)
}

/// The result of a trial, as the terminal shows it.
fn line(fault: &Fault, said: &Result<String, String>) -> String {
    let said = said.as_deref().unwrap_or_else(|problem| problem);
    format!("{} ({}): {said}", fault.name, fault.breaks)
}

/// The row of the table; none if the result differs from the fault's file.
fn row(fault: &Fault, said: Result<String, String>) -> Option<String> {
    Some(format!("{}{} |", table::start(fault), said.ok()?))
}

/// The fault, and the guards that would hide it.
fn together<'a>(all: &'a [Fault], fault: &'a Fault) -> anyhow::Result<Vec<&'a Fault>> {
    let Campaign::Finds { with } = &fault.campaign else {
        return Ok(vec![fault]);
    };
    let mut planted = vec![fault];
    for name in with {
        let other = all.iter().find(|it| it.name == *name);
        planted.push(other.with_context(|| format!("{}: with: no fault {name}", fault.name))?);
    }
    Ok(planted)
}

/// The text for the table, or the problem.
fn said(fault: &Fault, found: Option<&str>) -> Result<String, String> {
    match (&fault.campaign, found) {
        (Campaign::Finds { with }, Some(found)) => {
            let with: Vec<_> = with.iter().map(|it| format!("`{it}`")).collect();
            Ok(if with.is_empty() {
                found.to_owned()
            } else {
                format!("with {}: {found}", with.join(", "))
            })
        }
        (Campaign::Finds { .. }, None) => Err("NOT FOUND".to_owned()),
        (Campaign::Blind(why), None) => Ok(format!("not seen: {why}")),
        (Campaign::Blind(_), Some(found)) => {
            Err(format!("FOUND ({found}), and its file says unseen"))
        }
    }
}

/// The first plan that fails, and its broken rule; none if all hold.
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
        (Some(plan), Some(promise)) => format!("{promise} by `{plan}`"),
        _ => said.lines().last().unwrap_or("it failed").to_owned(),
    }))
}
