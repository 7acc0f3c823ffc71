//! How long users of the plugin wait, as rows of a table; `cargo xtask bench plugin` runs it.
//!
//! The program is the one that ships. Its explanations are made in this process, on an API server in memory, so that the
//! time of each call can be told apart.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_precision_loss,
    reason = "a benchmark that cannot go on ends, and figures are rounded"
)]

#[allow(dead_code, reason = "tests need more of it")]
#[path = "../../tests/plugin/cluster.rs"]
mod cluster;
mod explain;
mod program;
#[allow(dead_code, reason = "other tables have more kinds of rows")]
#[path = "../../../authz/benches/table/mod.rs"]
mod table;

use std::process::ExitCode;
use std::time::Duration;

use table::Table;

fn main() -> ExitCode {
    let mut table = Table::default();
    program::policy_tests(&mut table);
    explain::explanations(&mut table);
    program::size_and_start(&mut table);
    table.end()
}

/// The median in milliseconds.
fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e3
}
