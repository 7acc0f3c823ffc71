//! The whole controller under a real client, on a Kubernetes API server in memory.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that finds something else should stop where it does"
)]
#![allow(
    clippy::doc_markdown,
    reason = "the kinds of Kubernetes are plain words here"
)]
#![allow(
    clippy::needless_pass_by_value,
    reason = "what a test makes for one call is given away"
)]

mod campaign;
mod checks;
mod classes;
mod follows;
mod hands;
mod long;
mod looks;
mod old;
mod oracle;
mod random;
mod stage;
mod support;
mod trouble;
mod worlds;
