//! The order of tests: all that leave the installation as it is run side by side, then the others one by one.
//!
//! Tests of the first kind go first, so that a test that needs the installation for itself delays no other.
//! Most of a test's time is waiting, hence more tests at a time than there are processors. More tests than
//! that would slow each other down to their deadlines. Tests that wait for minutes do not count: all of them
//! begin at once, so that the last one is not waited for alone.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use e2e::harness::say;

/// Tests that share the installation at the same time.
const SIDE_BY_SIDE: usize = 6;

/// A test that takes longer is named with its time: these are where the minutes of the part go.
const LONG: Duration = Duration::from_secs(20);

static TURNS: Turns = Turns {
    state: Mutex::new(State {
        running: 0,
        patient: 0,
        waiting: 0,
        alone: false,
    }),
    changed: Condvar::new(),
};

struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Tests that share the installation now.
    running: usize,
    /// Those that do so beyond their number.
    patient: usize,
    /// Tests that want to share it.
    waiting: usize,
    /// Whether a test has it for itself.
    alone: bool,
}

/// A test's turn with the installation, until it is dropped.
pub(super) struct Turn {
    test: String,
    began: Instant,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Beside other tests.
    Shared,
    /// Beside other tests, and not one of their number.
    Patient,
    /// Beside no other test.
    Alone,
}

impl Turn {
    /// Waits for a place among the tests that share the installation.
    pub(super) fn shared(test: &str) -> Self {
        let mut state = TURNS.lock();
        state.waiting += 1;
        while state.alone || state.running == SIDE_BY_SIDE {
            state = TURNS.wait(state);
        }
        state.waiting -= 1;
        state.running += 1;
        Self::begun(test, Kind::Shared)
    }

    /// Waits until no test has the installation for itself.
    pub(super) fn patient(test: &str) -> Self {
        let mut state = TURNS.lock();
        state.waiting += 1;
        while state.alone {
            state = TURNS.wait(state);
        }
        state.waiting -= 1;
        state.patient += 1;
        Self::begun(test, Kind::Patient)
    }

    /// Waits until no other test uses the installation, or wants to share it.
    pub(super) fn alone(test: &str) -> Self {
        let mut state = TURNS.lock();
        while state.alone || state.running + state.patient + state.waiting > 0 {
            state = TURNS.wait(state);
        }
        state.alone = true;
        Self::begun(test, Kind::Alone)
    }

    pub(super) fn is_alone(&self) -> bool {
        self.kind == Kind::Alone
    }

    fn begun(test: &str, kind: Kind) -> Self {
        Self {
            test: test.to_owned(),
            began: Instant::now(),
            kind,
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let took = self.began.elapsed();
        if took > LONG {
            let beside = match self.kind {
                Kind::Shared | Kind::Patient => "beside others",
                Kind::Alone => "alone",
            };
            let (test, seconds) = (&self.test, took.as_secs());
            say(&format!("long: {test} took {seconds} s {beside}"));
        }
        let mut state = TURNS.lock();
        match self.kind {
            Kind::Shared => state.running -= 1,
            Kind::Patient => state.patient -= 1,
            Kind::Alone => state.alone = false,
        }
        TURNS.changed.notify_all();
    }
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let woken = self.changed.wait(state);
        woken.unwrap_or_else(PoisonError::into_inner)
    }
}
