//! Combines the results of objects into the verdict of a check, and the verdicts of checks into that of the
//! policy.
//!
//! An error is never treated as an answer: it gives [`AccessCheckFailed`], unless the result would be the
//! same for every possible answer. So no error can grant access, and none can end a request.
//!
//! [`AccessCheckFailed`]: AccessCheckReady::AccessCheckFailed

use crate::access_policy::Match;
use crate::check_state::CheckOutcome;
use crate::reason::AccessCheckReady::{
    self, AccessCheckFailed as Failed, AccessCheckPassed as Passed, AccessCheckPending as Pending,
    AccessCheckRejected as Rejected,
};

/// The verdict of a check, from the results of the objects that were found for it. No objects means pending,
/// because one may still be created.
pub fn of_objects<E>(
    match_: Match,
    found: impl IntoIterator<Item = Result<CheckOutcome, E>>,
) -> AccessCheckReady {
    let said: Vec<_> = found
        .into_iter()
        .map(|outcome| match outcome {
            Ok(CheckOutcome::Passed) => Passed,
            Ok(CheckOutcome::Pending | CheckOutcome::NotHolding) => Pending,
            Ok(CheckOutcome::Rejected) => Rejected,
            Err(_) => Failed,
        })
        .collect();
    if said.is_empty() {
        return Pending;
    }
    match match_ {
        Match::All => strongest(&said, [Rejected, Failed, Pending, Passed]),
        Match::Any => strongest(&said, [Passed, Failed, Pending, Rejected]),
    }
}

/// The verdict of a policy, from the verdicts of its checks. All must pass. A policy without checks cannot be
/// judged, and grants nothing.
pub fn of_checks(checks: impl IntoIterator<Item = AccessCheckReady>) -> AccessCheckReady {
    let said: Vec<_> = checks.into_iter().collect();
    strongest(&said, [Rejected, Failed, Pending, Passed])
}

/// The first verdict of `order` that occurs.
fn strongest(said: &[AccessCheckReady], order: [AccessCheckReady; 4]) -> AccessCheckReady {
    order
        .into_iter()
        .find(|word| said.contains(word))
        .unwrap_or(Failed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    type Said = Result<CheckOutcome, ()>;

    const P: Said = Ok(CheckOutcome::Passed);
    const W: Said = Ok(CheckOutcome::Pending);
    const N: Said = Ok(CheckOutcome::NotHolding);
    const R: Said = Ok(CheckOutcome::Rejected);
    const E: Said = Err(());

    #[test]
    fn what_objects_say_together() {
        for (said, all, any) in [
            (&[][..], Pending, Pending),
            (&[P], Passed, Passed),
            (&[W], Pending, Pending),
            (&[N], Pending, Pending),
            (&[R], Rejected, Rejected),
            (&[E], Failed, Failed),
            (&[P, P], Passed, Passed),
            (&[P, W], Pending, Passed),
            (&[P, N], Pending, Passed),
            (&[P, R], Rejected, Passed),
            (&[P, E], Failed, Passed),
            (&[W, R], Rejected, Pending),
            (&[W, E], Failed, Failed),
            (&[N, R], Rejected, Pending),
            (&[N, E], Failed, Failed),
            (&[R, R], Rejected, Rejected),
            (&[R, E], Rejected, Failed),
            (&[P, W, R, E], Rejected, Passed),
        ] {
            let mut said = said.to_vec();
            for _ in 0..2 {
                assert_eq!(of_objects(Match::All, said.clone()), all, "{said:?}");
                assert_eq!(of_objects(Match::Any, said.clone()), any, "{said:?}");
                said.reverse();
            }
        }
    }

    #[test]
    fn what_checks_say_together() {
        for (said, together) in [
            (&[][..], Failed),
            (&[Passed], Passed),
            (&[Passed, Passed], Passed),
            (&[Passed, Pending], Pending),
            (&[Pending, Failed], Failed),
            (&[Passed, Failed], Failed),
            (&[Passed, Rejected], Rejected),
            (&[Failed, Rejected], Rejected),
            (&[Pending, Rejected], Rejected),
        ] {
            let mut said = said.to_vec();
            for _ in 0..2 {
                assert_eq!(of_checks(said.clone()), together, "{said:?}");
                said.reverse();
            }
        }
    }

    fn said() -> impl Strategy<Value = Said> {
        select(&[P, W, N, R, E][..])
    }

    proptest! {
        #[test]
        fn an_error_is_never_taken_for_an_answer(
            others in proptest::collection::vec(said(), 0..5),
            at in any::<proptest::sample::Index>(),
            match_ in select(&[Match::All, Match::Any][..]),
        ) {
            let with = |said: Said| {
                let mut all = others.clone();
                all.insert(at.index(others.len() + 1), said);
                of_objects(match_, all)
            };
            let verdict = with(E);
            if verdict != Failed {
                for answer in [P, W, N, R] {
                    prop_assert_eq!(with(answer), verdict);
                }
            }
        }

        #[test]
        fn an_error_in_a_check_never_makes_a_policy_pass(
            others in proptest::collection::vec(select(AccessCheckReady::ALL), 0..5),
            at in any::<proptest::sample::Index>(),
        ) {
            let mut with_error = others.clone();
            with_error.insert(at.index(others.len() + 1), Failed);
            prop_assert_ne!(of_checks(with_error), Passed);
        }

        #[test]
        fn passing_needs_somebody_who_passes(
            found in proptest::collection::vec(said(), 0..6),
            match_ in select(&[Match::All, Match::Any][..]),
        ) {
            let passes = of_objects(match_, found.clone()) == Passed;
            let enough = match match_ {
                Match::All => !found.is_empty() && found.iter().all(|said| *said == P),
                Match::Any => found.contains(&P),
            };
            prop_assert_eq!(passes, enough);
        }
    }
}
