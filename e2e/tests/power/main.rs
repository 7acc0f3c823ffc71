//! Least power, from what happened: the audit log of a cluster on which everything was tried is replayed against the
//! rights that our accounts hold there.
//!
//! Owns: the comparison of rights with calls. Refuses to know: what a service needs a right for.
//! Invariant: a right that nobody used fails the test, and so does a call that was refused.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "tests fail by panicking, and most of this crate is helpers of tests"
)]

mod calls;
mod rights;

use std::{collections::BTreeSet, fs::File, io::BufReader};

use e2e::harness::Scene;

use calls::Call;
use rights::Right;

/// Calls that are refused because a test wants them to be: who, what, and why.
const REFUSED: [(&str, &str, &str); 1] = [(
    "request-controller",
    "list jobs.batch",
    "a policy names a kind that the installation may not read, and whether it may is found out by asking",
)];

/// Rights that nobody uses while all goes well: who, what, and why they are held.
const UNUSED: [(&str, &str, &str); 0] = [];

#[test]
fn every_right_was_used_and_no_call_was_refused() {
    let scene = Scene::new("power");
    let Some(log) = scene.audit_log() else {
        return; // an existing cluster keeps its log to itself
    };
    let rights = rights::held(&scene);
    let accounts: BTreeSet<&str> = rights.iter().map(|it| it.account.as_str()).collect();
    assert_eq!(accounts.len(), 5, "{accounts:?}");
    let calls = calls::read(BufReader::new(File::open(log).unwrap()));
    assert!(calls.len() > 50, "the log tells of {} calls", calls.len());

    let is_used = |right: &&Right| calls.iter().any(|call| call.allowed && right.covers(call));
    let unused = rights.iter().filter(|right| !is_used(right));
    let unused = unused.map(|it| (it.account.clone(), it.to_string()));
    let refused = calls.iter().filter(|call| !call.allowed);
    let refused = refused.map(|it| (it.account.clone(), it.to_string()));
    let wrong = [
        difference("was never used", unused, &UNUSED),
        difference("was refused", refused, &REFUSED),
    ]
    .concat();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What was found and not expected, or the other way round.
fn difference(
    what: &str,
    found: impl Iterator<Item = (String, String)>,
    expected: &[(&str, &str, &str)],
) -> Vec<String> {
    let found: BTreeSet<(String, String)> = found.collect();
    let expected: BTreeSet<(String, String)> = expected
        .iter()
        .map(|(account, call, _)| ((*account).to_owned(), (*call).to_owned()))
        .collect();
    let surprises = found.difference(&expected);
    let surprises = surprises.map(|(account, call)| format!("{account}: {call} {what}"));
    let missing = expected.difference(&found);
    let missing = missing.map(|(account, call)| {
        format!("{account}: {call} is in the list of what {what}, and was not")
    });
    surprises.chain(missing).collect()
}
