//! The progress of a long task for its user: a line per step, with its time when it is done.

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

/// Prints the steps of one piece of work to standard error.
#[derive(Debug)]
pub struct Progress {
    started: Instant,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            started: Instant::now(),
        }
    }
}

impl Progress {
    /// Runs one named step: its name is printed before it starts, its time after it ended.
    pub fn step<T, E>(&self, name: &str, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let began = Instant::now();
        say(&format!("  {name} …"));
        let result = work();
        let mark = if result.is_ok() { "✔" } else { "✘" };
        say(&format!("  {name} {mark} {}", seconds(began.elapsed())));
        result
    }

    /// A line of its own.
    pub fn note(&self, text: &str) {
        say(&format!("  {text}"));
    }

    /// The time since this work began.
    #[must_use]
    pub fn elapsed(&self) -> String {
        seconds(self.started.elapsed())
    }
}

/// A duration as people read it in a log.
pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

fn say(line: &str) {
    // Standard error may be closed. The work itself goes on.
    let _ = writeln!(io::stderr().lock(), "{line}");
}
