//! The chart: its output and its refusals, the rights that it gives, and the writes that its admission
//! policies refuse on a real API server.
//!
//! Adding a case for a policy is adding a file under `e2e/cases/admission`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "tests fail by panicking, and most of this crate is helpers of tests"
)]

mod admission;
mod cases;
mod monitoring;
mod network;
mod pods;
mod releases;
mod rendered;
mod rights;
mod server;
mod values;
