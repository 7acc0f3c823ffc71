//! The allocator of the program, with the settings of the chart.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;

const CHART: &str = include_str!("../../../charts/connectors-approval/templates/_helpers.tpl");
const VARIABLE: &str = "_RJEM_MALLOC_CONF";

/// What the program writes about these settings when it starts.
fn complaints(settings: &str) -> String {
    let mut program = Command::new(env!("CARGO_BIN_EXE_request-controller"));
    let output = program.arg("--help").env(VARIABLE, settings).output();
    let output = output.unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn the_allocator_takes_the_settings_of_the_chart() {
    let line = CHART.lines().find(|it| it.contains(VARIABLE)).unwrap();
    let settings = line.split('"').nth(1).unwrap();
    assert_eq!(complaints(settings), "");
    // It starts with unknown settings as well.
    let unknown = complaints(&format!("{settings},unknown:1"));
    assert!(unknown.contains("unknown:1"), "{unknown}");
}
