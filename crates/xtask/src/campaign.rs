//! `cargo xtask campaign`: optimised, since it is about tens of thousands of runs. The few of a test run take less time than
//! an optimised program takes to compile.

use e2e::{Tool, images};

/// How many plans `cargo xtask test` runs.
const PLANS: &str = "600";

/// Runs the campaign with these arguments.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let cargo = Tool::ending_with_us(env!("CARGO")).dir(e2e::repository());
    let build = [
        "run",
        "--locked",
        "--profile",
        "campaign",
        "--package",
        "campaign",
        "--",
    ];
    Ok(cargo.args(build).args(arguments).run()?)
}

/// The campaign of every test run.
pub(crate) fn test() -> anyhow::Result<()> {
    images::build_programs()?;
    let campaign = Tool::ending_with_us(images::programs_dir().join("campaign"));
    let campaign = campaign.args(["--plans", PLANS]).dir(e2e::repository());
    Ok(campaign.run()?)
}
