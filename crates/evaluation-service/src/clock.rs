//! The time of the whole service: the wall clock.
//!
//! Tests play whole histories. There it follows the virtual time of their runtime.

#[cfg(not(test))]
pub(crate) use service_kit::clock::now;
#[cfg(test)]
pub(crate) use virtually::{begin, now};

#[cfg(test)]
mod virtually {
    use std::cell::Cell;

    use jiff::Timestamp;
    use tokio::time::Instant;

    thread_local! {
        static BEGUN: Cell<Option<(Timestamp, Instant)>> = const { Cell::new(None) };
    }

    /// On this thread time follows the clock of its runtime, and it is this moment now.
    pub(crate) fn begin(moment: Timestamp) {
        BEGUN.set(Some((moment, Instant::now())));
    }

    pub(crate) fn now() -> Timestamp {
        match BEGUN.get() {
            Some((moment, begun)) => moment + begun.elapsed(),
            None => service_kit::clock::now(),
        }
    }
}
