//! The rate limit of events about a waiting request.
//!
//! A tenant who writes check objects can change the message of a waiting request at any rate. Up to a number per
//! minute, each change is published. Of further changes, only the last one is published when the minute is over. Ends
//! and grants are published at once.

use std::{
    hash::{DefaultHasher, Hash, Hasher as _},
    time::Duration,
};

use service_kit::clock::Now;

use super::{Told, tell::ToldKind};

/// The number of changes of one request's wait that are published
const MOST: usize = 4;
/// within this time.
const TIME: Duration = Duration::from_mins(1);

/// The recent events about one request.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    /// Their times, the latest last.
    at: Vec<Now>,
    /// The last event about the wait, for each object. A digest is enough to recognise a repeated event.
    last: Box<[EventDigest]>,
    /// The events that are held back.
    held: Vec<Told>,
}

/// The digests of an event and of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EventDigest {
    about: u64,
    told: u64,
}

/// The events to publish now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paced {
    /// The events.
    pub tell: Vec<Told>,
    /// More events are held back until after this time.
    pub again: Option<Duration>,
}

impl Pace {
    /// Filters the events of one reconciliation, which are none when nothing changed, and the event about the wait
    /// for a pod of another namespace, which is in no status.
    #[must_use]
    pub fn next(&mut self, events: Vec<Told>, wait: Option<Told>, now: Now) -> Paced {
        let is_wait = |told: &Told| told.kind == ToldKind::AccessPending;
        if events.iter().any(|it| !is_wait(it)) {
            *self = Self::default();
            return Paced {
                tell: events,
                again: None,
            };
        }
        if events.is_empty() && self.last.is_empty() {
            // A new leader does not repeat an event that its predecessor may have published.
            self.last = wait.iter().map(digest).collect();
            return Paced::default();
        }
        for told in events.into_iter().chain(wait) {
            self.held.retain(|it| it.about != told.about);
            // The wait may have changed back to the one that was last published.
            if !self.last.contains(&digest(&told)) {
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
        // Most requests have one event, and there may be ten thousand.
        self.at.reserve_exact(1);
        self.at.push(now);
        let tell = std::mem::take(&mut self.held);
        let last = std::mem::take(&mut self.last).into_iter();
        let tells: Vec<_> = tell.iter().map(digest).collect();
        let others = last.filter(|it| tells.iter().all(|told| told.about != it.about));
        self.last = others.chain(tells.iter().copied()).collect();
        Paced { tell, again: None }
    }
}

fn digest(told: &Told) -> EventDigest {
    EventDigest {
        about: hash(&told.about),
        told: hash(told),
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hash = DefaultHasher::new();
    value.hash(&mut hash);
    hash.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tell::EventObject;

    fn begin() -> Now {
        Now {
            wall: jiff::Timestamp::UNIX_EPOCH,
            mono: tokio::time::Instant::now(),
        }
    }

    /// Only the monotonic time matters.
    fn later(now: Now, time: Duration) -> Now {
        Now {
            mono: now.mono + time,
            ..now
        }
    }

    fn told(kind: ToldKind, note: &str) -> Vec<Told> {
        vec![Told {
            about: EventObject::Pod,
            kind,
            why: None,
            note: note.to_owned(),
        }]
    }

    fn waits(note: &str) -> Vec<Told> {
        told(ToldKind::AccessPending, note)
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
        for kind in [
            ToldKind::AccessGranted,
            ToldKind::AccessRejected,
            ToldKind::AccessEnded,
        ] {
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
            about: EventObject::Request,
            ..waits("r").remove(0)
        }];
        let first = pace.next(request.clone(), wait("a"), now).tell;
        assert_eq!(first, [request, waits("a")].concat());
        assert_eq!(pace.next(vec![], wait("a"), now), Paced::default());
        assert_eq!(pace.next(vec![], wait("b"), now).tell, waits("b"));
        assert_eq!(pace.next(vec![], wait("b"), now), Paced::default());
        // Changes back and forth are limited like any other.
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
            about: EventObject::Request,
            ..waits("r").remove(0)
        };
        let _ = pace.next(vec![request.clone()], wait("e"), now);
        let _ = pace.next(vec![], wait("f"), now);
        let after = pace.next(vec![], wait("f"), later(now, TIME));
        assert_eq!(after.tell, [vec![request], waits("f")].concat());
    }
}
