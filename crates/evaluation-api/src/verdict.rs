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
}
