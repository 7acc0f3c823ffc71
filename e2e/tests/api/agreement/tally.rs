//! The counts of a run: questions, the features that decided answers, and the differences.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::io::{self, Write};

use authz::{Authorizer, RbacIndex, SystemMasters};

use super::features::{Decided, allows};
use super::question::{Answer, Question, RuleSets, complaints};

/// Answers of the full run that each feature has to decide.
const ENOUGH: usize = 100;

/// Of so many questions, each feature has to decide one in a small run, where chance counts for more.
const SHARE: usize = 400;

/// The counts so far.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) pairs: usize,
    pub(crate) allowed: usize,
    /// Lists of rules, those that hold own rules of either kind, and those that could not be looked up whole.
    pub(crate) rule_lists: usize,
    pub(crate) with_rules: usize,
    pub(crate) with_paths: usize,
    pub(crate) with_errors: usize,
    pub(crate) decided: Decided,
    pub(crate) differences: Vec<String>,
}

/// Prints it past the capture of the test runner: users want to see the result of a passed run.
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
            with_rules,
            with_paths,
            with_errors,
            decided,
            differences,
        } = self;
        tell(&format!(
            "{pairs} answers, {allowed} of them yes; {rule_lists} lists of rules, {with_rules} with some, \
             {with_paths} with paths, {with_errors} with errors; decided by {decided:?}"
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
        for count in [with_rules, with_paths, with_errors] {
            assert!(
                count * 10 >= rule_lists,
                "{count} of {rule_lists} lists of rules"
            );
        }
        let enough = if is_full { ENOUGH } else { pairs / SHARE };
        for (feature, count) in decided {
            assert!(count >= enough, "{feature:?} decided {count} of {pairs}");
        }
    }

    /// Counts a list by its rights beyond those of every user.
    pub(crate) fn rules(&mut self, rules: &RuleSets, everybodys: &RuleSets) {
        self.rule_lists += 1;
        self.with_rules += usize::from(!rules.resource.is_subset(&everybodys.resource));
        self.with_paths += usize::from(!rules.path.is_subset(&everybodys.path));
        self.with_errors += usize::from(!rules.errors.is_subset(&everybodys.errors));
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
        let complaints = |text| complaints(text).collect::<BTreeSet<_>>();
        complaints(&reason) == complaints(&theirs.reason)
    };
    (!agree).then(|| format!("ours {reason}, theirs {}", theirs.reason))
}
