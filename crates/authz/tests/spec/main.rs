//! The promises of the authorizer, by topic.

#![allow(
    clippy::unwrap_used,
    reason = "the helpers of tests are no tests in clippy's eyes"
)]

mod agreement;
mod answers;
mod bindings;
mod build;
mod crowds;
mod reasons;
mod reference;
mod rules;
mod updates;
mod worlds;
