//! The wall clock. Nothing else in a service reads it: whoever decides by time is given the time.

use jiff::Timestamp;

/// What the wall clock of this machine shows.
#[must_use]
#[allow(
    clippy::disallowed_methods,
    reason = "this is the one place that reads the clock"
)]
pub fn now() -> Timestamp {
    Timestamp::now()
}
