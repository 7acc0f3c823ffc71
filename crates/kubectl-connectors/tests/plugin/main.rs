//! The plugin on an API server in memory, as its user types it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod answer_edges;
mod answers;
mod calls;
mod cluster;
mod convert;
mod convert_approvers;
mod convert_model;
mod deciding;
mod doctor;
mod documents;
mod explain;
mod foretold;
mod holders;
mod krew;
mod leaving;
mod lists;
mod output;
mod pipeline;
mod policies;
mod rights;
mod schema;
mod simulate;
mod situations;
