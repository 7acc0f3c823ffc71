//! The plugin on an API server in memory, as its user types it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod answers;
mod calls;
mod cluster;
mod convert;
mod convert_model;
mod deciding;
mod doctor;
mod documents;
mod explain;
mod foretold;
mod krew;
mod lists;
mod output;
mod pipeline;
mod policies;
mod rights;
mod schema;
mod simulate;
mod situations;
