//! The server's clocks: tokio's, and the wall clock, which is derived from it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Both clocks. The wall clock can jump, tokio's cannot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: Instant,
    start: Timestamp,
    skew: SignedDuration,
}

impl Clock {
    pub(crate) fn new(start: Timestamp) -> Self {
        Self {
            started: Instant::now(),
            start,
            skew: SignedDuration::ZERO,
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// The instant at which this much time has elapsed.
    pub(crate) fn instant(&self, elapsed: Duration) -> Instant {
        self.started + elapsed
    }

    pub(crate) fn jump(&mut self, by: SignedDuration) {
        self.skew += by;
    }

    pub(crate) fn wall(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.elapsed()).expect("a test's time is short");
        self.start + elapsed + self.skew
    }

    /// The wall clock in the format of HTTP headers.
    pub(crate) fn http_date(&self) -> String {
        self.wall()
            .strftime("%a, %d %b %Y %H:%M:%S GMT")
            .to_string()
    }

    /// The wall clock in the format of objects, in whole seconds.
    pub(crate) fn stamp(&self) -> String {
        self.wall().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}
