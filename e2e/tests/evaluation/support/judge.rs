//! Compares every answer with the history, and counts the kinds of answers.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use e2e::checker::{Timestamp, now};
use evaluation_api::access::AccessAnswer;
use evaluation_api::client::{Code, EvaluationCallError, Event};
use evaluation_api::refusal::Reason;

use super::truth::Truth;

/// The kind of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Seen {
    /// A yes that still held when it was heard.
    Allowed,
    /// A yes that stated an earlier moment, and was right about that.
    AllowedThen,
    Denied,
    /// The service said why it does not answer.
    Refused(&'static str),
    /// The service did not answer.
    Unreached,
}

/// The history of one permission, and the answers about it.
pub(super) struct Judge {
    most: Duration,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    truth: Truth,
    seen: BTreeMap<Seen, usize>,
    wrong: Vec<String>,
}

/// Why the service may leave a question open while its surroundings fail.
const EXCUSES: [Reason; 3] = [
    Reason::NotReady,
    Reason::CacheStale,
    Reason::ApiServerUnavailable,
];

/// The largest delay of a clock that is read only now and then.
const LATE: Duration = Duration::from_secs(5);

impl Judge {
    pub(super) fn new(most: Duration) -> Self {
        Self {
            most,
            inner: Mutex::default(),
        }
    }

    pub(super) fn write(&self, write: impl FnOnce(&mut Truth)) {
        write(&mut self.lock().truth);
    }

    /// An answer to a question that was sent at a moment and is here now.
    pub(super) fn answer(
        &self,
        sent: Timestamp,
        answer: Result<&AccessAnswer, &EvaluationCallError>,
    ) -> Seen {
        let mut inner = self.lock();
        let seen = match answer {
            Ok(answer) => inner.judge(answer, Some(sent), self.most),
            Err(error) => inner.excuse(error.code(), error.reason()),
        };
        inner.note(seen)
    }

    /// The current answer of a stream. A yes of it counts until the next answer.
    pub(super) fn stands(&self, event: &Event) -> Seen {
        let mut inner = self.lock();
        let seen = match event {
            Event::Answer(answer) => {
                let now = now();
                let oldest = now - (self.most + LATE);
                if answer.is_allowed() && !inner.truth.may_have_held(oldest, now) {
                    inner.wrong(format!("at {now} the stream still said yes: {answer:?}"));
                }
                inner.judge(answer, None, self.most)
            }
            Event::Refused(refusal) => inner.excuse(Some(refusal.code), refusal.reason),
            Event::Disconnected => Seen::Unreached,
        };
        inner.note(seen)
    }

    pub(super) fn wrong(&self, what: String) {
        self.lock().wrong(what);
    }

    /// Forgets how often each answer came.
    pub(super) fn count_anew(&self) {
        self.lock().seen.clear();
    }

    /// Everything that was not as it must be, and how often each answer came.
    pub(super) fn verdict(&self) -> (Vec<String>, BTreeMap<Seen, usize>) {
        let inner = self.lock();
        (inner.wrong.clone(), inner.seen.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn judge(&mut self, answer: &AccessAnswer, sent: Option<Timestamp>, most: Duration) -> Seen {
        let now = now();
        let Some(stated) = answer.fresh_as_of else {
            self.wrong(format!("an answer that states no moment: {answer:?}"));
            return Seen::Denied;
        };
        if stated > now {
            self.wrong(format!("at {now}, an answer of tomorrow: {answer:?}"));
        }
        if sent.is_some_and(|sent| stated + most < sent) {
            self.wrong(format!("asked at {sent:?}, too old an answer: {answer:?}"));
        }
        if !answer.is_allowed() {
            return Seen::Denied;
        }
        if !self.truth.may_have_held(stated, now) {
            self.wrong(format!(
                "at {now}, a yes that was not true at {stated}: {answer:?}"
            ));
        }
        if self.truth.may_have_held(now, now) {
            Seen::Allowed
        } else {
            Seen::AllowedThen
        }
    }

    fn excuse(&mut self, code: Option<Code>, reason: Option<Reason>) -> Seen {
        match (code, reason) {
            (Some(Code::Unavailable), Some(reason)) if EXCUSES.contains(&reason) => {
                Seen::Refused(reason.as_str())
            }
            // The way to the service, or its process, was not there.
            (Some(Code::Unavailable), None) => Seen::Unreached,
            other => {
                self.wrong(format!("no excuse: {other:?}"));
                Seen::Unreached
            }
        }
    }

    fn wrong(&mut self, what: String) {
        // One fault is repeated in every answer; the first ones tell enough.
        if self.wrong.len() < 5 {
            self.wrong.push(what);
        }
    }

    fn note(&mut self, seen: Seen) -> Seen {
        *self.seen.entry(seen).or_default() += 1;
        seen
    }
}

#[cfg(test)]
mod tests {
    use evaluation_api::access::{BindingRef, Decision, Gating, Requestable};

    use super::*;

    const MOST: Duration = Duration::from_secs(90);

    fn yes(fresh_as_of: Timestamp) -> AccessAnswer {
        let decision = Decision::AllowedStanding(BindingRef {
            kind: String::new(),
            namespace: String::new(),
            name: String::new(),
            uid: String::new(),
        });
        AccessAnswer {
            decision,
            reason: String::new(),
            request: None,
            fresh_as_of: Some(fresh_as_of),
            requestable: Requestable::Unknown,
            gating: Gating::On,
        }
    }

    fn wrongs(judge: &Judge) -> usize {
        judge.verdict().0.len()
    }

    /// Given and taken; a moment between the two.
    fn taken() -> (Judge, Timestamp) {
        let judge = Judge::new(MOST);
        judge.write(|truth| truth.send(true));
        judge.write(Truth::done);
        let held = now();
        judge.write(|truth| truth.send(false));
        judge.write(Truth::done);
        (judge, held)
    }

    #[test]
    fn a_yes_about_then_is_right_and_one_about_now_is_not() {
        let (judge, held) = taken();
        assert_eq!(judge.answer(held, Ok(&yes(held))), Seen::AllowedThen);
        assert_eq!(wrongs(&judge), 0);
        judge.answer(held, Ok(&yes(now())));
        assert_eq!(wrongs(&judge), 1);
    }

    #[test]
    fn what_states_no_moment_or_one_long_gone_or_to_come_is_wrong() {
        let (judge, held) = taken();
        let old = held - (MOST + Duration::from_secs(1));
        judge.answer(
            held,
            Ok(&AccessAnswer {
                decision: Decision::Denied,
                ..yes(old)
            }),
        );
        assert_eq!(wrongs(&judge), 1);
        let none = AccessAnswer {
            fresh_as_of: None,
            ..yes(held)
        };
        judge.answer(held, Ok(&none));
        assert_eq!(wrongs(&judge), 2);
        judge.answer(held, Ok(&yes(now() + Duration::from_secs(9))));
        assert_eq!(wrongs(&judge), 4);
    }

    #[test]
    fn a_stream_may_not_go_on_saying_what_was_true_long_ago() {
        let judge = Judge::new(Duration::ZERO);
        judge.write(|truth| truth.send(false));
        judge.write(Truth::done);
        let before = now() - Duration::from_mins(1);
        assert_eq!(judge.stands(&Event::Disconnected), Seen::Unreached);
        assert_eq!(wrongs(&judge), 0);
        judge.stands(&Event::Answer(Box::new(yes(before))));
        assert!(wrongs(&judge) > 0);
    }

    #[test]
    fn only_some_refusals_are_excused() {
        let judge = Judge::new(MOST);
        let mut inner = judge.lock();
        let stale = inner.excuse(Some(Code::Unavailable), Some(Reason::CacheStale));
        assert_eq!(stale, Seen::Refused("CACHE_STALE"));
        assert_eq!(inner.excuse(Some(Code::Unavailable), None), Seen::Unreached);
        assert!(inner.wrong.is_empty());
        inner.excuse(Some(Code::Internal), Some(Reason::Internal));
        inner.excuse(Some(Code::Unauthenticated), Some(Reason::TokenInvalid));
        assert_eq!(inner.wrong.len(), 2);
    }
}
