//! The local cluster itself: after every failure `down` leaves nothing and `up` works again.

#![allow(
    clippy::unwrap_used,
    reason = "tests fail by panicking, and most of this crate is helpers of tests"
)]

mod interrupted;
mod living;
mod machine;
mod refusals;
mod running;
