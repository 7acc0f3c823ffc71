//! The evaluation service beside its surroundings: the API server killed, its connections cut and gone silent,
//! tokens and certificates replaced; and what the documents tell callers to do, done.
//!
//! Owns: the real program against the real API server, with a proxy of the test between them; a history of what
//! was given and taken, and a judge of every answer. Refuses to know: how the service finds an answer.
//! Invariant: no answer is believed; each is held against the history at the moment that it states.

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
