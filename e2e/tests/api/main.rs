//! Our CRDs on a real API server: every rule refuses its case, accepts the neighbour of the case, and is
//! needed.
//!
//! Adding a case is adding a file under `e2e/cases`; adding an example is adding a file under
//! `e2e/examples`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "tests fail by panicking, and most of this crate is helpers of tests"
)]

mod agreement;
mod cases;
mod conformance;
mod conversions;
mod examples;
mod mutants;
mod schemas;
mod sizes;
mod support;
mod unknown_fields;
mod updates;
