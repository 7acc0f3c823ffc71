//! The files of a class, made in this process.

use std::time::Instant;

use connector_files::{FileConflict, FileContext, FileRequest, Tool, render};
use connectors_api::{Connector, ConnectorClass};
use jiff::Timestamp;
use serde_json::json;

use crate::objects;
use crate::support::load::Times;
use crate::support::table::Table;

/// Sets of files that are measured, and those before them.
const MEASURED: usize = 2_000;
const BEFORE: usize = 200;
/// As long as the tokens of an API server.
const TOKEN: usize = 1_100;

pub(crate) fn rows(table: &mut Table) {
    let class: ConnectorClass = serde_json::from_value(objects::class("bench")).unwrap();
    let mut connector = objects::connector("bench");
    connector["metadata"]["namespace"] = json!("bench");
    let connector: Connector = serde_json::from_value(connector).unwrap();
    let tool = Tool {
        connector: &connector,
        class: Some(&class),
        address: objects::ADDRESS,
    };
    let request = FileRequest::parse(Some(objects::CONFIGURATION), None).unwrap();
    let token = "t".repeat(TOKEN);
    let context = FileContext {
        token: Some(&token),
        now: Timestamp::UNIX_EPOCH,
        conflict: FileConflict::Refuse,
    };
    let mut times = Times::default();
    for number in 0..BEFORE + MEASURED {
        let began = Instant::now();
        let files = render(&request, &[tool], &context).unwrap();
        let time = began.elapsed();
        // And the token by itself.
        assert_eq!(files.iter().count(), objects::FILES + 1);
        if number >= BEFORE {
            times.add(time);
        }
    }
    let what = |figure: &str| {
        format!(
            "rendering a class of {} files, parsing included, {figure} of {MEASURED}",
            objects::FILES
        )
    };
    table.at_most(&what("p50"), times.median(), "µs", 1_000.0, 500.0);
    table.figure(&what("p99"), times.p99(), "µs");
}
