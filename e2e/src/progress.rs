//! The progress of a long task for its user: a line per step, with its time when it is done.

use std::{
    io::{self, Write},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

/// How often a step that takes long shows that it goes on.
const SIGN_OF_LIFE: Duration = Duration::from_secs(30);

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
    /// Runs one named step: its name is printed before it starts, its time after it ended, and meanwhile now and then.
    pub fn step<T, E>(&self, name: &str, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let began = Instant::now();
        say(&format!("  {name} …"));
        let result = with_signs(SIGN_OF_LIFE, work, || {
            say(&format!("  {name} … {}", seconds(began.elapsed())));
        });
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

/// Does the work, and gives a sign whenever that much time has passed.
fn with_signs<T>(every: Duration, work: impl FnOnce() -> T, sign: impl Fn() + Send) -> T {
    thread::scope(|scope| {
        let (ended, end) = mpsc::channel::<()>();
        scope.spawn(move || {
            while end.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                sign();
            }
        });
        // Dropped when the work has ended, also by a panic.
        let _ended = ended;
        work()
    })
}

/// A duration as people read it in a log.
pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

fn say(line: &str) {
    // Standard error may be closed. The work itself goes on.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_work_gives_signs_until_it_ends() {
        let (sign, signs) = mpsc::channel();
        let two = with_signs(
            Duration::from_millis(1),
            || signs.iter().take(2).count(),
            || sign.send(()).unwrap_or_default(),
        );
        assert_eq!(two, 2);
    }

    #[test]
    fn short_work_gives_none() {
        let done = with_signs(Duration::from_hours(1), || 7, || panic!("a sign"));
        assert_eq!(done, 7);
    }
}
