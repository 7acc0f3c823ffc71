//! How often people are told what a request waits for.
//!
//! A tenant who writes the objects of checks can change what is awaited at any rate. Each change is told, up to a
//! number per minute; of further changes, the last one is told when the minute is over. Ends and grants are told at
//! once.

use std::time::Duration;

use super::{Told, tell::Kind};
use service_kit::clock::Now;
/// So many changes of what is awaited are told of one request
const MOST: usize = 4;
/// within this time.
const TIME: Duration = Duration::from_mins(1);

/// What was told lately of one request.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    /// When, the latest last.
    at: Vec<Now>,
    /// What was told last of the wait, about each object.
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
    /// Decides on the events of one look, which are none when nothing changed, and on what a pod of another namespace
    /// waits for, which no status tells.
    #[must_use]
    pub fn next(&mut self, events: Vec<Told>, wait: Option<Told>, now: Now) -> Paced {
        let is_wait = |told: &Told| told.kind == Kind::AccessPending;
        if events.iter().any(|it| !is_wait(it)) {
            *self = Self::default();
            return Paced {
                tell: events,
                again: None,
            };
        }
        if events.is_empty() && self.last.is_empty() {
            // A process that begins to lead repeats nothing that another one may have told.
            self.last.extend(wait);
            return Paced::default();
        }
        for told in events.into_iter().chain(wait) {
            self.held.retain(|it| it.about != told.about);
            // It may be again what people know already.
            if !self.last.contains(&told) {
                self.held.push(told);
            }
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
        let tell = std::mem::take(&mut self.held);
        self.last
            .retain(|it| tell.iter().all(|told| told.about != it.about));
        self.last.extend(tell.iter().cloned());
        Paced { tell, again: None }
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
            assert_eq!(pace.next(waits(note), None, at(second)).tell, waits(note));
        }
        for (second, note) in [(10, "e"), (20, "f")] {
            let held = pace.next(waits(note), None, at(second));
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
            pace.next(vec![], None, at(59)).again,
            Some(Duration::from_secs(1))
        );
        assert_eq!(pace.next(vec![], None, at(60)).tell, waits("f"));
        assert_eq!(pace.next(vec![], None, at(61)), Paced::default());
    }

    #[test]
    fn a_change_that_was_undone_before_it_was_told_is_not_told() {
        let (mut pace, now) = (Pace::default(), begin());
        for note in ["a", "b", "a", "b"] {
            assert!(!pace.next(waits(note), None, now).tell.is_empty());
        }
        assert!(pace.next(waits("c"), None, now).again.is_some());
        assert_eq!(pace.next(waits("b"), None, now), Paced::default());
        assert_eq!(pace.next(vec![], None, later(now, TIME)), Paced::default());
    }

    #[test]
    fn whatever_was_told_before_a_grant_or_an_end_is_told_at_once_and_what_was_held_is_dropped() {
        let (mut pace, now) = (Pace::default(), begin());
        for note in ["a", "b", "c", "d", "e"] {
            let _ = pace.next(waits(note), None, now);
        }
        for kind in [Kind::AccessGranted, Kind::AccessRejected, Kind::AccessEnded] {
            let mut pace = pace.clone();
            let end = told(kind, "over");
            assert_eq!(pace.next(end.clone(), None, now).tell, end);
            assert_eq!(pace.next(vec![], None, later(now, TIME)), Paced::default());
        }
    }

    fn wait(note: &str) -> Option<Told> {
        waits(note).pop()
    }

    #[test]
    fn a_wait_that_no_status_tells_is_told_when_it_becomes_another_and_not_again() {
        let (mut pace, now) = (Pace::default(), begin());
        let request = vec![Told {
            about: About::Request,
            ..waits("r").remove(0)
        }];
        let first = pace.next(request.clone(), wait("a"), now).tell;
        assert_eq!(first, [request, waits("a")].concat());
        assert_eq!(pace.next(vec![], wait("a"), now), Paced::default());
        assert_eq!(pace.next(vec![], wait("b"), now).tell, waits("b"));
        assert_eq!(pace.next(vec![], wait("b"), now), Paced::default());
        // Changes back and forth are paced like any other.
        for note in ["a", "b"] {
            assert_eq!(pace.next(vec![], wait(note), now).tell, waits(note));
        }
        assert!(pace.next(vec![], wait("c"), now).again.is_some());
        let after = pace.next(vec![], wait("c"), later(now, TIME));
        assert_eq!(after.tell, waits("c"));
    }

    #[test]
    fn a_process_that_begins_to_lead_repeats_no_wait_and_tells_the_next_one() {
        let (mut pace, now) = (Pace::default(), begin());
        assert_eq!(pace.next(vec![], wait("a"), now), Paced::default());
        assert_eq!(pace.next(vec![], wait("a"), now), Paced::default());
        assert_eq!(pace.next(vec![], wait("b"), now).tell, waits("b"));
    }

    #[test]
    fn what_is_held_about_one_object_outlasts_news_about_another() {
        let (mut pace, now) = (Pace::default(), begin());
        for note in ["a", "b", "c", "d"] {
            let _ = pace.next(waits(note), None, now);
        }
        let request = Told {
            about: About::Request,
            ..waits("r").remove(0)
        };
        let _ = pace.next(vec![request.clone()], wait("e"), now);
        let _ = pace.next(vec![], wait("f"), now);
        let after = pace.next(vec![], wait("f"), later(now, TIME));
        assert_eq!(after.tell, [vec![request], waits("f")].concat());
    }
}
