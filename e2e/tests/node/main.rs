//! What the local cluster gives to pods, shown by real pods: everything that later tests take for granted.

#![allow(
    clippy::unwrap_used,
    reason = "tests fail by panicking, and most of this crate is helpers of tests"
)]

mod access;
mod network;
mod pods;
mod templates;
mod words;
