//! The time that this thread has worked.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Runs from its start.
pub(crate) struct Clock(Timespec);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(clock_gettime(ClockId::ThreadCPUTime))
    }

    pub(crate) fn elapsed(&self) -> Duration {
        let worked = clock_gettime(ClockId::ThreadCPUTime) - self.0;
        Duration::try_from(worked).unwrap_or_default()
    }
}
