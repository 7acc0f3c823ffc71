//! The evaluation service and its surroundings: the API server killed, its connections cut and gone silent,
//! tokens and certificates replaced; and the commands of the documents for callers, run.
//!
//! Owns: the real program against the real API server, with a proxy of the test between them; a history of
//! the given and removed permissions, and a judge of every answer. Refuses to know: how the service finds an
//! answer. Invariant: no answer is believed; each is compared with the history at the moment that it states.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "tests fail by panicking, and most of this crate is helpers of tests"
)]

mod certificates;
mod connections;
mod documents;
mod server;
mod support;
mod tokens;
