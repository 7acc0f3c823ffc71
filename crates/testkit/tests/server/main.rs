//! The promises of the server, tested through a real client.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod applies;
mod deletions;
mod discovery;
mod faults;
mod garbage;
mod lags;
mod lists;
mod patches;
mod ports;
mod reviews;
mod rights;
mod support;
mod watches;
mod writes;
