//! Conversion of check verdicts between the wire and the words of conditions.

use connectors_api::reason::AccessCheckReady;
use thiserror::Error;

use crate::v1::{CheckVerdict, EvaluateChecksResponse};

/// A number that is not a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the verdict {0} is not known here")]
pub struct UnknownVerdict(pub i32);

/// The verdict as a word of the condition.
pub fn from_wire(verdict: i32) -> Result<AccessCheckReady, UnknownVerdict> {
    match CheckVerdict::try_from(verdict) {
        Ok(CheckVerdict::Pending) => Ok(AccessCheckReady::AccessCheckPending),
        Ok(CheckVerdict::Passed) => Ok(AccessCheckReady::AccessCheckPassed),
        Ok(CheckVerdict::Rejected) => Ok(AccessCheckReady::AccessCheckRejected),
        Ok(CheckVerdict::Failed) => Ok(AccessCheckReady::AccessCheckFailed),
        Ok(CheckVerdict::Unspecified) | Err(_) => Err(UnknownVerdict(verdict)),
    }
}

/// The verdict as it is sent.
#[must_use]
pub const fn to_wire(verdict: AccessCheckReady) -> CheckVerdict {
    match verdict {
        AccessCheckReady::AccessCheckPending => CheckVerdict::Pending,
        AccessCheckReady::AccessCheckPassed => CheckVerdict::Passed,
        AccessCheckReady::AccessCheckRejected => CheckVerdict::Rejected,
        AccessCheckReady::AccessCheckFailed => CheckVerdict::Failed,
    }
}

/// Checks that every verdict in an answer is known.
pub fn all_known(answer: &EvaluateChecksResponse) -> Result<(), UnknownVerdict> {
    let checks = answer.checks.iter();
    let objects = checks.clone().flat_map(|check| &check.objects);
    let verdicts = checks
        .map(|check| check.verdict)
        .chain(objects.map(|object| object.verdict))
        .chain([answer.verdict]);
    for verdict in verdicts {
        from_wire(verdict)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{CheckResult, ObjectResult};

    #[test]
    fn every_word_comes_back_and_other_numbers_do_not() {
        for word in AccessCheckReady::ALL {
            assert_eq!(from_wire(to_wire(*word).into()), Ok(*word));
        }
        for number in [i32::MIN, -1, 0, 5, i32::MAX] {
            assert_eq!(from_wire(number), Err(UnknownVerdict(number)));
        }
    }

    #[test]
    fn one_unknown_verdict_anywhere_spoils_the_answer() {
        let answer = |whole, check, object| EvaluateChecksResponse {
            verdict: whole,
            checks: vec![CheckResult {
                verdict: check,
                objects: vec![ObjectResult {
                    verdict: object,
                    ..ObjectResult::default()
                }],
                ..CheckResult::default()
            }],
            ..EvaluateChecksResponse::default()
        };
        assert_eq!(all_known(&answer(2, 2, 2)), Ok(()));
        for (whole, check, object) in [(0, 2, 2), (2, 7, 2), (2, 2, 9)] {
            assert!(all_known(&answer(whole, check, object)).is_err());
        }
        assert!(all_known(&EvaluateChecksResponse::default()).is_err());
    }

    #[test]
    fn every_verdict_has_its_number() {
        for (word, number) in [
            (AccessCheckReady::AccessCheckPending, 1),
            (AccessCheckReady::AccessCheckPassed, 2),
            (AccessCheckReady::AccessCheckRejected, 3),
            (AccessCheckReady::AccessCheckFailed, 4),
        ] {
            assert_eq!(i32::from(to_wire(word)), number);
            assert_eq!(from_wire(number), Ok(word));
        }
        assert!(UnknownVerdict(17).to_string().contains("17"));
    }

    /// Not only in the first check, and not only in its first object.
    #[test]
    fn an_unknown_verdict_is_found_at_every_place_of_the_answer() {
        let known = |place: usize| i32::try_from(place % 4).unwrap() + 1;
        // The whole, three checks, and three objects in each.
        let answer = |odd: Option<usize>| {
            let mut place = 0;
            let mut next = || {
                let verdict = if odd == Some(place) { 5 } else { known(place) };
                place += 1;
                verdict
            };
            let verdict = next();
            let checks = (0..3).map(|_| CheckResult {
                verdict: next(),
                objects: (0..3)
                    .map(|_| ObjectResult {
                        verdict: next(),
                        ..ObjectResult::default()
                    })
                    .collect(),
                ..CheckResult::default()
            });
            EvaluateChecksResponse {
                verdict,
                checks: checks.collect(),
                ..EvaluateChecksResponse::default()
            }
        };
        assert_eq!(all_known(&answer(None)), Ok(()));
        for place in 0..13 {
            let found = all_known(&answer(Some(place)));
            assert_eq!(found, Err(UnknownVerdict(5)), "{place}");
        }
    }
}
