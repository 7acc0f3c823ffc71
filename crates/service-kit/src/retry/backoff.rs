//! The growing pauses between attempts, with chance.

use std::time::Duration;

use crate::chance;

/// Pauses that double from one to the next, each shortened at random by up to a half, so that many
/// processes that failed together do not come back together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Pauses from `first` up to `longest`.
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            next: first,
        }
    }

    /// The next pause.
    #[must_use]
    pub fn pause(&mut self) -> Duration {
        let full = self.next.min(self.longest);
        self.next = full.saturating_mul(2).min(self.longest);
        full.mul_f64(1.0 - chance::fraction() / 2.0)
    }

    /// Starts again with the first pause.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::{prop_assert, proptest};

    use super::Backoff;

    proptest! {
        #[test]
        fn every_pause_lies_between_half_and_all_of_its_step(
            first in 1_u64..1_000,
            longest in 1_000_u64..100_000,
            steps in 0_u32..70,
        ) {
            let mut backoff = Backoff::new(Duration::from_millis(first), Duration::from_millis(longest));
            for step in 0..=steps {
                let factor = 2_u64.checked_pow(step).unwrap_or(u64::MAX);
                let full = Duration::from_millis(first.saturating_mul(factor).min(longest));
                let pause = backoff.pause();
                prop_assert!(pause >= full / 2 && pause <= full, "{step}: {pause:?} of {full:?}");
            }
            backoff.reset();
            prop_assert!(backoff.pause() <= Duration::from_millis(first));
        }
    }
}
