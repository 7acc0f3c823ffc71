//! The clocks. Nothing else in a service reads them: code that decides by time takes the time as an argument.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// This moment: for people and deadlines on the wall clock, for ages on a clock that never jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The time of the wall clock.
    pub wall: Timestamp,
    /// The time of the monotonic clock.
    pub mono: Instant,
}

impl Now {
    /// How long ago an earlier moment was, on the clock that never jumps.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        self.mono.saturating_duration_since(earlier.mono)
    }
}

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> Now + Send + Sync>;

/// The time of this machine's wall clock.
#[must_use]
#[allow(
    clippy::disallowed_methods,
    reason = "this is the one place that reads the clock"
)]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// The clock of this machine, with the wall clock in whole seconds.
#[must_use]
pub fn system() -> Clock {
    Arc::new(|| Now {
        wall: whole_seconds(now()),
        mono: Instant::now(),
    })
}

/// A time as statuses have it: in whole seconds, like every other time of Kubernetes, and never ahead of the clock.
#[must_use]
pub fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// How long it took from one moment to another, in seconds; never less than none.
#[must_use]
pub fn seconds_between(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from)
        .max(SignedDuration::ZERO)
        .as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_in_whole_seconds_is_never_ahead_of_the_clock() {
        let time = |text: &str| text.parse::<Timestamp>().unwrap();
        let whole = whole_seconds(time("2026-01-02T03:04:05.9Z"));
        assert_eq!(whole, time("2026-01-02T03:04:05Z"));
    }

    #[test]
    fn an_age_is_that_of_the_clock_that_never_jumps() {
        let (wall, mono) = (Timestamp::UNIX_EPOCH, Instant::now());
        let earlier = Now { wall, mono };
        let age = Duration::from_secs(3);
        let later = Now {
            wall: wall - SignedDuration::from_hours(1),
            mono: mono + age,
        };
        assert_eq!(later.since(earlier), age);
        assert_eq!(earlier.since(later), Duration::ZERO);
    }

    #[test]
    fn time_never_runs_backwards() {
        let at = |millis| Timestamp::from_millisecond(millis).unwrap();
        for (from, to, seconds) in [(0, 0, 0.0), (500, 2000, 1.5), (2000, 500, 0.0)] {
            let told = seconds_between(at(from), at(to));
            assert!((told - seconds).abs() < 1e-9, "{from} to {to}: {told}");
        }
    }
}
