//! Choices from a seed.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};

/// A sequence of choices.
pub(crate) struct Dice(StdRng);

impl Dice {
    /// The same seed gives the same choices.
    pub(crate) fn of(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    /// One of these.
    pub(crate) fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of.choose(&mut self.0).unwrap().clone()
    }

    /// True that many times of a hundred.
    pub(crate) fn percent(&mut self, percent: u32) -> bool {
        self.0.random_range(0..100) < percent
    }

    /// A number of these, with both ends.
    pub(crate) fn number(&mut self, from: usize, to: usize) -> usize {
        self.0.random_range(from..=to)
    }

    /// Each of these, that many times of a hundred.
    pub(crate) fn some<T: Clone>(&mut self, of: &[T], percent: u32) -> Vec<T> {
        let mut chosen = of.to_vec();
        chosen.retain(|_| self.percent(percent));
        chosen
    }
}
