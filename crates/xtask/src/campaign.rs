//! `cargo xtask campaign`: optimised, since it is about tens of thousands of runs.

use e2e::Tool;

/// How many plans `cargo xtask test` runs.
const PLANS: &str = "1000";

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
    run(&["--plans".to_owned(), PLANS.to_owned()])
}
