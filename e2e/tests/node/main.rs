//! The features of the local cluster for pods, shown by real pods. Later tests rely on them.

#![allow(
    clippy::unwrap_used,
    reason = "tests fail by panicking, and most of this crate is helpers of tests"
)]

mod access;
mod network;
mod pods;
mod templates;
mod words;
