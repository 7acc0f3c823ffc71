//! Which tests run side by side: all that leave the installation as it is, then the others one by one.
//!
//! Tests of the first kind go first, so that a test that needs the installation for itself holds nobody up. Most of
//! a test's time is waiting, hence more tests at a time than there are processors; more than that many would slow each
//! other down to their deadlines.

use std::{
    io::{self, Write},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Tests that share the installation at the same time.
const SIDE_BY_SIDE: usize = 6;

/// A test that takes longer is named with its time: these are where the minutes of the part go.
const LONG: Duration = Duration::from_secs(20);

static TURNS: Turns = Turns {
    state: Mutex::new(State {
        running: 0,
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

    /// Waits until no other test uses the installation, or wants to share it.
    pub(super) fn alone(test: &str) -> Self {
        let mut state = TURNS.lock();
        while state.alone || state.running > 0 || state.waiting > 0 {
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
                Kind::Shared => "beside others",
                Kind::Alone => "alone",
            };
            // Not through the macros, whose output is shown of failed tests only.
            let (test, seconds) = (&self.test, took.as_secs());
            let _ = writeln!(io::stderr(), "long: {test} took {seconds} s {beside}");
        }
        let mut state = TURNS.lock();
        match self.kind {
            Kind::Shared => state.running -= 1,
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
