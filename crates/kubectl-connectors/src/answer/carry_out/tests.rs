//! The requests that a wait is for.

use super::*;
use crate::unread::{ReadOf, ReadVerb};

const PHASES: [Option<Phase>; 7] = [
    None,
    Some(Phase::Pending),
    Some(Phase::Granted),
    Some(Phase::Rejected),
    Some(Phase::Revoked),
    Some(Phase::Invalid),
    Some(Phase::Ended),
];

fn awaited(
    name: &str,
    before: Option<Phase>,
    after: Option<Phase>,
    expected: Phase,
) -> AwaitedRequest {
    AwaitedRequest {
        seen: RequestAfter {
            name: NamespacedName::new("tools", name),
            before,
            after,
        },
        expected,
        missed: None,
    }
}

/// A request that no controller looked at waits, and a granted one is decided when its grant has ended.
#[test]
fn a_request_is_decided_in_another_phase_than_before_that_is_no_wait() {
    let waits = [None, Some(Phase::Pending)];
    for before in PHASES {
        for after in PHASES {
            let request = awaited("a", before, after, Phase::Granted);
            let expected = !waits.contains(&after) && before != after;
            assert_eq!(request.is_decided(), expected, "{before:?} {after:?}");
        }
    }
}

#[test]
fn an_access_that_was_to_be_taken_back_may_end_with_its_pod_and_no_other_end_counts_as_another() {
    for expected in [Phase::Granted, Phase::Rejected, Phase::Revoked] {
        for after in PHASES {
            let request = awaited("a", Some(Phase::Pending), after, expected);
            let is_end = (expected, after) == (Phase::Revoked, Some(Phase::Ended));
            let is_expected = after == Some(expected) || is_end;
            assert_eq!(
                request.is_as_expected(),
                is_expected,
                "{expected:?} {after:?}"
            );
        }
    }
}

/// The word of a wait for requests that each came from `Pending` to this phase where a grant is expected.
fn word(after: &[Option<Phase>]) -> Option<(AnswerWord, String)> {
    let requests = after.iter().enumerate();
    let requests = requests.map(|(at, after)| {
        awaited(
            &format!("r{at}"),
            Some(Phase::Pending),
            *after,
            Phase::Granted,
        )
    });
    after_wait(&requests.collect::<Vec<_>>())
}

#[test]
fn a_wait_is_over_as_foretold_only_if_every_request_came_to_its_phase() {
    let (granted, rejected, open) = (Some(Phase::Granted), Some(Phase::Rejected), None);
    let other = |told: &str| Some((AnswerWord::OtherEnd, told.to_owned()));
    let awaited = |told: &str| Some((AnswerWord::StillAwaited, told.to_owned()));
    for (after, expected) in [
        (&[granted][..], None),
        (&[granted, granted], None),
        (&[open], awaited("request tools/r0 was not decided in time")),
        (
            &[granted, open],
            awaited("request tools/r1 was not decided in time"),
        ),
        (
            &[granted, rejected],
            other("request tools/r1 is Rejected, and not Granted"),
        ),
        // Another end is told, whatever is still awaited.
        (
            &[open, rejected, granted],
            other("request tools/r1 is Rejected, and not Granted"),
        ),
        (
            &[rejected, Some(Phase::Ended)],
            other(
                "request tools/r0 is Rejected, and not Granted; request tools/r1 is Ended, and not Granted",
            ),
        ),
    ] {
        assert_eq!(word(after), expected, "{after:?}");
    }
    let (nothing, _) = word(&[]).unwrap();
    assert_eq!(nothing, AnswerWord::NothingAwaited);
}

#[test]
fn a_request_that_cannot_be_read_is_told_as_such_and_not_as_undecided() {
    let read = ReadOf {
        verb: ReadVerb::Get,
        resource: "accessrequests.connectors.alauda.io",
        namespace: "tools",
        name: "a",
    };
    let mut request = awaited("a", None, None, Phase::Granted);
    request.missed = Some(MissedRead::of(read, Some(403), "forbidden"));
    let (word, because) = after_wait(&[request]).unwrap();
    assert_eq!(word, AnswerWord::StillAwaited);
    assert!(
        because.starts_with("request tools/a could not be read: ") && because.contains("may not"),
        "{because}"
    );
}
