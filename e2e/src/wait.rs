//! Waiting for conditions: always with a deadline. Errors contain the awaited condition and the last state.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Between two looks at most.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// A moment after which waiting is over.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    started: Instant,
    limit: Duration,
}

impl Deadline {
    /// The moment `limit` from now.
    #[must_use]
    pub fn after(limit: Duration) -> Self {
        Self {
            started: Instant::now(),
            limit,
        }
    }

    /// Whether that moment is past.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.started.elapsed() >= self.limit
    }
}

/// A condition that did not come true in time.
#[derive(Debug, thiserror::Error)]
#[error("gave up after {waited:?} waiting for {what}; last seen: {seen}")]
pub struct TimedOut {
    what: String,
    waited: Duration,
    seen: String,
}

/// Calls `probe` until it gives a value or the deadline passes.
///
/// The error of `probe` is the observed state; the last one is part of [`TimedOut`].
pub fn poll<T>(
    what: &str,
    deadline: Deadline,
    mut probe: impl FnMut() -> Result<T, String>,
) -> Result<T, TimedOut> {
    // Short at first, since most conditions of a local cluster are a few milliseconds away.
    let mut pause = Duration::from_millis(20);
    loop {
        match probe() {
            Ok(value) => return Ok(value),
            Err(seen) if deadline.passed() => {
                return Err(TimedOut {
                    what: what.to_owned(),
                    waited: deadline.limit,
                    seen,
                });
            }
            Err(_) => thread::sleep(pause),
        }
        // Longer and longer: many tests wait at a time, and each look costs something.
        pause = (pause * 3 / 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_the_value_as_soon_as_it_is_there() {
        let mut calls = 0;
        let value = poll(
            "three calls",
            Deadline::after(Duration::from_secs(5)),
            || {
                calls += 1;
                if calls == 3 {
                    Ok(calls)
                } else {
                    Err(String::new())
                }
            },
        );
        assert_eq!(value.unwrap(), 3);
    }

    #[test]
    fn names_what_was_awaited_and_what_was_seen() {
        let error = poll::<()>(
            "rain",
            Deadline::after(Duration::ZERO),
            || Err("sun".into()),
        );
        let text = error.unwrap_err().to_string();
        assert_eq!(text, "gave up after 0ns waiting for rain; last seen: sun");
    }
}
