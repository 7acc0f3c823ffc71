//! How often people are told what a request waits for.
//!
//! A tenant who writes the objects of checks can change what is awaited at any rate. Each change is told, up to a
//! number per minute; of further changes, the last one is told when the minute is over. Ends and grants are told at
//! once.

use std::time::Duration;

use super::{Told, tell::Kind};
use crate::seen::Now;

/// So many changes of what is awaited are told of one request
const MOST: usize = 4;
/// within this time.
const TIME: Duration = Duration::from_mins(1);

/// What was told lately of one request.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    /// When, the latest last.
    at: Vec<Now>,
    /// What was told last about the wait.
    last: Vec<Told>,
    /// What waits to be told.
    held: Vec<Told>,
}

/// What is told now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paced {
    /// This.
    pub tell: Vec<Told>,
    /// There is more to tell, after that time.
    pub again: Option<Duration>,
}

impl Pace {
    /// Decides on the events of one look, which are none when nothing changed.
    #[must_use]
    pub fn next(&mut self, events: Vec<Told>, now: Now) -> Paced {
        let is_wait = |told: &Told| told.kind == Kind::AccessPending;
        if events.iter().any(|it| !is_wait(it)) {
            *self = Self::default();
            return Paced {
                tell: events,
                again: None,
            };
        }
        if !events.is_empty() {
            self.held = events;
        }
        if self.held == self.last {
            // It is again what people know already.
            self.held.clear();
        }
        if self.held.is_empty() {
            return Paced::default();
        }
        self.at.retain(|at| now.since(*at) < TIME);
        if self.at.len() >= MOST {
            let oldest = self.at.first().copied().unwrap_or(now);
            let again = TIME.saturating_sub(now.since(oldest));
            return Paced {
                tell: vec![],
                again: Some(again),
            };
        }
        self.at.push(now);
        self.last = std::mem::take(&mut self.held);
        Paced {
            tell: self.last.clone(),
            again: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tell::About;

    fn begin() -> Now {
        Now {
            wall: jiff::Timestamp::UNIX_EPOCH,
            mono: tokio::time::Instant::now(),
        }
    }

    /// A clock on the wall that stands still makes no difference.
    fn later(now: Now, time: Duration) -> Now {
        Now {
            mono: now.mono + time,
            ..now
        }
    }

    fn told(kind: Kind, note: &str) -> Vec<Told> {
        vec![Told {
            about: About::Pod,
            kind,
            why: None,
            note: note.to_owned(),
        }]
    }

    fn waits(note: &str) -> Vec<Told> {
        told(Kind::AccessPending, note)
    }

    #[test]
    fn of_many_changes_some_are_told_at_once_and_the_last_one_when_there_is_room() {
        let (mut pace, start) = (Pace::default(), begin());
        let at = |seconds| later(start, Duration::from_secs(seconds));
        for (second, note) in [(0, "a"), (1, "b"), (2, "c"), (3, "d")] {
            assert_eq!(pace.next(waits(note), at(second)).tell, waits(note));
        }
        for (second, note) in [(10, "e"), (20, "f")] {
            let held = pace.next(waits(note), at(second));
            let again = Some(Duration::from_secs(60 - second));
            assert_eq!(
                held,
                Paced {
                    tell: vec![],
                    again
                }
            );
        }
        assert_eq!(
            pace.next(vec![], at(59)).again,
            Some(Duration::from_secs(1))
        );
        assert_eq!(pace.next(vec![], at(60)).tell, waits("f"));
        assert_eq!(pace.next(vec![], at(61)), Paced::default());
    }

    #[test]
    fn a_change_that_was_undone_before_it_was_told_is_not_told() {
        let (mut pace, now) = (Pace::default(), begin());
        for note in ["a", "b", "a", "b"] {
            assert!(!pace.next(waits(note), now).tell.is_empty());
        }
        assert!(pace.next(waits("c"), now).again.is_some());
        assert_eq!(pace.next(waits("b"), now), Paced::default());
        assert_eq!(pace.next(vec![], later(now, TIME)), Paced::default());
    }

    #[test]
    fn whatever_was_told_before_a_grant_or_an_end_is_told_at_once_and_what_was_held_is_dropped() {
        let (mut pace, now) = (Pace::default(), begin());
        for note in ["a", "b", "c", "d", "e"] {
            let _ = pace.next(waits(note), now);
        }
        for kind in [Kind::AccessGranted, Kind::AccessRejected, Kind::AccessEnded] {
            let mut pace = pace.clone();
            let end = told(kind, "over");
            assert_eq!(pace.next(end.clone(), now).tell, end);
            assert_eq!(pace.next(vec![], later(now, TIME)), Paced::default());
        }
    }
}
