//! What a grant takes in memory, as rows of a table; run by `cargo xtask bench authz`.
//!
//! The figures are the bytes that were allocated and not freed. The allocator's own overhead is not included.

#![allow(clippy::cast_precision_loss, reason = "figures are rounded")]

#[path = "../tests/grants/mod.rs"]
#[expect(dead_code, reason = "shared with a benchmark that needs more of it")]
mod grants;
mod table;

use std::process::ExitCode;

use allocation_counter::measure;
use grants::{Holders, index};
use table::Table;

const GRANTS: u32 = 100_000;

fn main() -> ExitCode {
    let mut table = Table::default();
    for (holders, who) in [
        (Holders::One, "all of one account"),
        (Holders::Many, "of 1,000 accounts"),
    ] {
        let mut built = None;
        let cost = measure(|| built = Some(index(GRANTS as usize, holders)));
        drop(built);
        let per_grant = |total: i64| total as f64 / f64::from(GRANTS);
        let what = format!("memory of a grant; 100,000 {who}");
        table.at_most(&what, per_grant(cost.bytes_current), "B", 600.0, 350.0);
        let what = format!("blocks of a grant; 100,000 {who}");
        table.figure(&what, per_grant(cost.count_current), "");
    }
    table.end()
}
