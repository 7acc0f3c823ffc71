//! What a run has found: how much it asked, what decided the answers, and where the two differed.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::io::{self, Write};

use authz::{Authorizer, RbacIndex, SystemMasters};

use super::features::{Decided, allows};
use super::question::{Answer, Question};

/// Answers of the full run that each feature has to decide.
const ENOUGH: usize = 100;

/// Of so many questions, each feature has to decide one in a small run, where chance counts for more.
const SHARE: usize = 400;

/// What has come of it so far.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) pairs: usize,
    pub(crate) allowed: usize,
    pub(crate) rule_lists: usize,
    pub(crate) decided: Decided,
    pub(crate) differences: Vec<String>,
}

/// Tells it past the capture of the test runner: people want to see what a run that passed did.
pub(crate) fn tell(what: &str) {
    io::stderr()
        .write_all(format!("agreement: {what}\n").as_bytes())
        .unwrap();
}

impl Tally {
    pub(crate) fn judge(self, is_full: bool) {
        let Self {
            pairs,
            allowed,
            rule_lists,
            decided,
            differences,
        } = self;
        tell(&format!(
            "{pairs} answers, {allowed} of them yes; {rule_lists} lists of rules; decided by {decided:?}"
        ));
        let shown = differences.len().min(10);
        assert!(
            differences.is_empty(),
            "{} differences, the first:\n{}",
            differences.len(),
            differences[..shown].join("\n")
        );
        assert!(allowed * 10 >= pairs * 3, "{allowed} of {pairs} allowed");
        assert!(allowed * 10 <= pairs * 8, "{allowed} of {pairs} allowed");
        let enough = if is_full { ENOUGH } else { pairs / SHARE };
        for (feature, count) in decided {
            assert!(count >= enough, "{feature:?} decided {count} of {pairs}");
        }
    }

    pub(crate) fn differ(&mut self, question: &Question, what: impl Debug) {
        self.differences.push(format!("{question:?}: {what:?}"));
    }
}

/// How the two answers differ, if they do.
pub(crate) fn difference(
    index: &RbacIndex,
    question: &Question,
    theirs: &Answer,
) -> Option<String> {
    let attributes = question.attributes();
    let ours = allows(index, question);
    if ours != theirs.allowed {
        return Some(format!("ours {ours}, theirs {theirs:?}"));
    }
    if SystemMasters.authorize(&attributes).is_allowed() {
        return None; // for which the API server gives no reason
    }
    let reason = index.authorize(&attributes).reason;
    let agree = if ours {
        // Several bindings may allow it, and the API server takes them in no order.
        let grants = index.allowing(&attributes);
        let mut reasons = grants.map(|grant| format!("RBAC: allowed by {grant}"));
        reasons.any(|reason| reason == theirs.reason)
    } else {
        complaints(&reason) == complaints(&theirs.reason)
    };
    (!agree).then(|| format!("ours {reason}, theirs {}", theirs.reason))
}

/// The complaints of a no, which come in no order.
fn complaints(reason: &str) -> BTreeSet<&str> {
    let list = reason.strip_prefix("RBAC: ").unwrap_or(reason);
    let list = list
        .strip_prefix('[')
        .and_then(|list| list.strip_suffix(']'))
        .unwrap_or(list);
    list.split(", ").collect()
}
