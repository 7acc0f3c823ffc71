//! Chance: it keeps many processes from doing something at the same moment, and decides nothing.

use std::cell::RefCell;

use rand::{RngExt, SeedableRng, rngs::StdRng};

thread_local! {
    static FIXED: RefCell<Option<StdRng>> = const { RefCell::new(None) };
}

/// A number from 0 to 1, 1 excluded.
#[must_use]
pub fn fraction() -> f64 {
    FIXED.with_borrow_mut(|fixed| match fixed {
        Some(fixed) => fixed.random(),
        None => rand::random(),
    })
}

/// From here on this thread draws the same numbers in every run. For simulations, which have to be repeatable.
pub fn fix(seed: u64) {
    FIXED.set(Some(StdRng::seed_from_u64(seed)));
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::{fix, fraction};

    #[test]
    fn only_a_thread_that_was_fixed_draws_the_same_again() {
        let drawn = |seed: Option<u64>| {
            let draw = move || {
                seed.into_iter().for_each(fix);
                [fraction(), fraction(), fraction()].map(f64::to_bits)
            };
            thread::spawn(draw).join().unwrap()
        };
        assert_eq!(drawn(Some(1)), drawn(Some(1)));
        assert_ne!(drawn(Some(1)), drawn(Some(2)));
        assert_ne!(drawn(None), drawn(None));
    }
}
