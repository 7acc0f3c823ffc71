//! Every combination of what an answer says, compared with a second reading of it.

use super::*;

const PHASES: [Option<Phase>; 7] = [
    None,
    Some(Phase::Pending),
    Some(Phase::Granted),
    Some(Phase::Rejected),
    Some(Phase::Revoked),
    Some(Phase::Invalid),
    Some(Phase::Ended),
];

/// What an answer counts as: a yes of either kind, a no, or nothing at all.
fn expected(decision: i32, has_binding: bool, phase: Option<i32>) -> Option<&'static str> {
    let is_known = phase.is_none_or(|it| (0..=6).contains(&it));
    match decision {
        1 if is_known => Some("no"),
        2 if is_known && has_binding => Some("standing"),
        3 if phase == Some(2) && has_binding => Some("pod"),
        _ => None,
    }
}

#[test]
fn an_answer_counts_only_if_all_of_it_is_understood() {
    for decision in -1..=5 {
        for has_binding in [false, true] {
            for phase in [None].into_iter().chain((-1..=8).map(Some)) {
                let mut wire = answer(1);
                wire.decision = decision;
                wire.binding = has_binding.then(binding);
                let request = wire.request.take().unwrap();
                wire.request = phase.map(|phase| v1::Request { phase, ..request });
                let parsed = AccessAnswer::try_from(wire.clone()).ok();
                let said = parsed.as_ref().map(|it| match &it.decision {
                    Decision::Denied => "no",
                    Decision::AllowedStanding(_) => "standing",
                    Decision::AllowedPod(_) => "pod",
                });
                let case = format!("{decision} {has_binding} {phase:?}");
                assert_eq!(said, expected(decision, has_binding, phase), "{case}");
                let Some(parsed) = parsed else { continue };
                assert_eq!(parsed.is_allowed(), said != Some("no"), "{case}");
                assert_eq!(parsed.request.is_some(), phase.is_some(), "{case}");
                // It comes back whole, except for a binding behind a no.
                if decision == 1 {
                    wire.binding = None;
                }
                assert_eq!(v1::AccessAnswer::from(parsed), wire, "{case}");
            }
        }
    }
}

#[test]
fn every_phase_has_its_number() {
    for (number, phase) in (0..).zip(PHASES) {
        let wire = v1::Request {
            phase: number,
            ..v1::Request::default()
        };
        let seen = RequestSeen::try_from(wire.clone()).unwrap();
        assert_eq!(seen.phase, phase, "{number}");
        assert_eq!(v1::Request::from(seen), wire);
    }
    for number in [-1, 7, i32::MAX, i32::MIN] {
        let wire = v1::Request {
            phase: number,
            ..v1::Request::default()
        };
        assert_eq!(RequestSeen::try_from(wire), Err(AnswerError::Phase(number)));
    }
}

fn request(check: &str, permission: &str, ready: &str) -> v1::Request {
    v1::Request {
        check_reason: check.to_owned(),
        permission_reason: permission.to_owned(),
        ready_reason: ready.to_owned(),
        ..answer(1).request.unwrap()
    }
}

#[test]
fn each_reason_is_read_letter_by_letter_and_stays_in_its_place() {
    for word in AccessCheckReady::ALL {
        let seen = RequestSeen::try_from(request(word.as_str(), "", "")).unwrap();
        let reasons = (seen.check_reason, seen.permission_reason, seen.ready_reason);
        assert_eq!(reasons, (Some(*word), None, None));
        assert_eq!(v1::Request::from(seen), request(word.as_str(), "", ""));
    }
    for word in AccessPermissionSync::ALL {
        let seen = RequestSeen::try_from(request("", word.as_str(), "")).unwrap();
        let reasons = (seen.check_reason, seen.permission_reason, seen.ready_reason);
        assert_eq!(reasons, (None, Some(*word), None));
        assert_eq!(v1::Request::from(seen), request("", word.as_str(), ""));
    }
    for word in Ready::ALL {
        let seen = RequestSeen::try_from(request("", "", word.as_str())).unwrap();
        let reasons = (seen.check_reason, seen.permission_reason, seen.ready_reason);
        assert_eq!(reasons, (None, None, Some(*word)));
        assert_eq!(v1::Request::from(seen), request("", "", word.as_str()));
    }
    let all = AccessCheckReady::ALL.iter().map(|it| it.as_str());
    let all = all.chain(AccessPermissionSync::ALL.iter().map(|it| it.as_str()));
    let all = all.chain(Ready::ALL.iter().map(|it| it.as_str()));
    for word in all {
        for odd in [
            word.to_lowercase(),
            word.to_uppercase(),
            format!("{word} "),
            format!("{word}s"),
            word[..word.len() - 1].to_owned(),
        ] {
            let is_word = AccessCheckReady::ALL.iter().any(|it| it.as_str() == odd)
                || AccessPermissionSync::ALL
                    .iter()
                    .any(|it| it.as_str() == odd)
                || Ready::ALL.iter().any(|it| it.as_str() == odd);
            assert!(!is_word);
            let seen = RequestSeen::try_from(request(&odd, &odd, &odd)).unwrap();
            let reasons = (seen.check_reason, seen.permission_reason, seen.ready_reason);
            assert_eq!(reasons, (None, None, None), "{odd}");
            // Everything else is told all the same.
            assert_eq!((&*seen.name, seen.phase), ("r", Some(Phase::Granted)));
        }
    }
}

#[test]
fn gating_and_requestable_have_their_numbers() {
    for (gating, requestable, number) in [
        (Gating::Unknown, Requestable::Unknown, 0),
        (Gating::Off, Requestable::No, 1),
        (Gating::On, Requestable::Yes, 2),
    ] {
        assert_eq!(v1::Gating::from(gating), number_of(number));
        let mut wire = answer(1);
        (wire.gating, wire.requestable) = (number, 2 - number);
        let parsed = AccessAnswer::try_from(wire.clone()).unwrap();
        assert_eq!(parsed.gating, gating);
        assert_eq!(v1::AccessAnswer::from(parsed), wire);
        let mut wire = answer(1);
        (wire.gating, wire.requestable) = (2 - number, number);
        let parsed = AccessAnswer::try_from(wire.clone()).unwrap();
        assert_eq!(parsed.requestable, requestable);
        assert_eq!(v1::AccessAnswer::from(parsed), wire);
    }
    assert_eq!(
        (Gating::default(), Requestable::default()),
        (Gating::Unknown, Requestable::Unknown)
    );
}

fn number_of(number: i32) -> v1::Gating {
    v1::Gating::try_from(number).unwrap()
}

/// An age that is not known is not a young one, and no error either.
#[test]
fn a_time_that_is_none_is_not_told() {
    for (seconds, nanos) in [
        (i64::MAX, 0),
        (i64::MIN, 0),
        (253_402_207_201 + 86_400, 0),
        (0, i32::MAX),
        (0, i32::MIN),
        (0, 1_000_000_000),
    ] {
        let time = WireTimestamp { seconds, nanos };
        assert_eq!(read_time(&time), None, "{time:?}");
        let mut wire = answer(2);
        wire.fresh_as_of = Some(time);
        let parsed = AccessAnswer::try_from(wire).unwrap();
        assert_eq!(parsed.fresh_as_of, None);
        assert!(parsed.is_allowed());
    }
    let mut wire = answer(2);
    wire.fresh_as_of = None;
    let parsed = AccessAnswer::try_from(wire.clone()).unwrap();
    assert_eq!(parsed.fresh_as_of, None);
    assert_eq!(v1::AccessAnswer::from(parsed), wire);
}

#[test]
fn the_words_of_an_error_say_what_was_not_understood() {
    for (error, word) in [
        (AnswerError::Empty, "empty"),
        (AnswerError::Decision(17), "17"),
        (AnswerError::NoBinding, "binding"),
        (AnswerError::NotGranted, "granted"),
        (AnswerError::Count, "questions"),
        (AnswerError::Phase(17), "phase 17"),
    ] {
        let text = error.to_string();
        assert!(text.contains(word), "{text}");
    }
}

proptest! {
    #[test]
    fn every_moment_comes_back_to_the_nanosecond(
        seconds in -62_000_000_000_i64..250_000_000_000, nanos in 0..1_000_000_000_i32,
    ) {
        let wire = WireTimestamp { seconds, nanos };
        let time = read_time(&wire).unwrap();
        let since = i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        prop_assert_eq!(time.as_nanosecond(), since);
        prop_assert_eq!(wire_time(time), wire);
    }
}
