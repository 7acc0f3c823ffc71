//! The changes of the permission, with their times: the history for the comparison with answers.

use e2e::checker::{Timestamp, now};

/// The writes of one test about one permission, one after the other.
#[derive(Default)]
pub(super) struct Truth {
    writes: Vec<Write>,
}

/// A change that took effect at some moment between two others.
struct Write {
    /// Whether the permission is held from then on.
    held: bool,
    sent: Timestamp,
    /// None as long as it is unknown whether it has taken effect.
    done: Option<Timestamp>,
}

impl Truth {
    /// A change is about to be sent.
    pub(super) fn send(&mut self, held: bool) {
        self.writes.push(Write {
            held,
            sent: now(),
            done: None,
        });
    }

    /// The last change has taken effect.
    pub(super) fn done(&mut self) {
        self.writes.last_mut().expect("a write was sent").done = Some(now());
    }

    /// Whether the permission may have been held at any moment from `from` to `to`.
    pub(super) fn may_have_held(&self, from: Timestamp, to: Timestamp) -> bool {
        let ends = self.writes.iter().skip(1).map(|next| next.done);
        let spans = self.writes.iter().zip(ends.chain([None]));
        spans
            .filter(|(write, _)| write.held)
            .any(|(write, end)| write.sent <= to && end.is_none_or(|end| end >= from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Given between 10 and 12, taken between 20 and 22.
    fn truth() -> Truth {
        let write = |held, sent, done| Write {
            held,
            sent: at(sent),
            done: Some(at(done)),
        };
        Truth {
            writes: vec![write(true, 10, 12), write(false, 20, 22)],
        }
    }

    #[test]
    fn a_permission_may_hold_from_the_sending_of_its_gift_to_the_end_of_its_taking() {
        let truth = truth();
        let may = |from, to| truth.may_have_held(at(from), at(to));
        assert!(!may(1, 9));
        assert!(may(1, 10) && may(11, 11) && may(15, 30) && may(22, 30) && may(1, 99));
        assert!(!may(23, 99));
    }

    #[test]
    fn what_is_not_known_to_be_taken_may_be_held() {
        let mut truth = truth();
        truth.writes[1].done = None;
        assert!(truth.may_have_held(at(90), at(99)));
        truth.writes.truncate(1);
        assert!(truth.may_have_held(at(90), at(99)));
        assert!(!Truth::default().may_have_held(at(1), at(99)));
    }
}
