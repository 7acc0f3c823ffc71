//! The comparison of an answer with what is expected of it.

use connectors_api::policy_words::PolicyWord;
use connectors_api::reason::AccessCheckReady;

use super::cases::{AccessExpected, CheckExpected, Expectation, PolicyExpected, RuleExpected};
use crate::explain::report::{AccessShown, CheckShown, PolicyShown};

/// A difference, by the field of the expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldDifference {
    /// The field, below the case.
    pub field: String,
    /// The expected value.
    pub expected: String,
    /// The actual value.
    pub found: String,
    /// Why it is so.
    pub because: String,
}

struct Differences(Vec<FieldDifference>);

impl Differences {
    fn add(&mut self, field: &str, expected: &str, found: &str, because: &str) {
        self.0.push(FieldDifference {
            field: field.to_owned(),
            expected: expected.to_owned(),
            found: found.to_owned(),
            because: because.to_owned(),
        });
    }

    fn same(&mut self, field: &str, expected: Option<&str>, found: &str, because: &str) {
        if let Some(expected) = expected.filter(|it| *it != found) {
            self.add(field, expected, found, because);
        }
    }
}

/// The result for the access, from the results of its policies.
#[must_use]
pub fn access_of(policies: &[PolicyShown]) -> AccessExpected {
    if policies.iter().any(|it| it.standing == PolicyWord::Yes) {
        return AccessExpected::Standing;
    }
    let applying = policies.iter().filter(|it| it.applies == PolicyWord::Yes);
    let verdicts: Vec<_> = applying.map(|it| it.verdict).collect();
    let is = |wanted| move |it: &Option<AccessCheckReady>| *it == Some(wanted);
    if verdicts.is_empty() {
        AccessExpected::NoPolicy
    } else if verdicts.iter().any(is(AccessCheckReady::AccessCheckPassed)) {
        AccessExpected::Granted
    } else if verdicts
        .iter()
        .all(is(AccessCheckReady::AccessCheckRejected))
    {
        AccessExpected::Refused
    } else {
        AccessExpected::Waits
    }
}

/// Every difference between an answer and what is expected of it.
#[must_use]
pub fn differences(expected: &Expectation, found: &AccessShown) -> Vec<FieldDifference> {
    let mut differences = Differences(Vec::new());
    let Expectation { access, policies } = expected;
    let is = access_of(&found.policies);
    differences.same(
        "expect.access",
        access.map(AccessExpected::as_str),
        is.as_str(),
        &found.because,
    );
    for (name, expected) in policies {
        let at = format!("expect.policies.{name}");
        let found = found.policies.iter().find(|it| it.name == *name);
        if let Some(found) = found {
            policy(&mut differences, &at, expected, found);
        } else {
            let because = "the directory has no policy of this name in the connector's namespace";
            differences.add(&at, "a policy", "none", because);
        }
    }
    differences.0
}

fn policy(differences: &mut Differences, at: &str, expected: &PolicyExpected, found: &PolicyShown) {
    let PolicyExpected {
        applies,
        standing,
        verdict,
        checks,
        rules,
    } = expected;
    differences.same(
        &format!("{at}.applies"),
        applies.map(PolicyWord::as_str),
        found.applies.as_str(),
        &found.because,
    );
    differences.same(
        &format!("{at}.standing"),
        standing.map(PolicyWord::as_str),
        found.standing.as_str(),
        &found.standing_because,
    );
    let open = found
        .checks
        .iter()
        .find(|it| it.verdict != Some(AccessCheckReady::AccessCheckPassed));
    let because = match (&found.problem, open) {
        (Some(problem), _) => problem.clone(),
        (None, Some(check)) => format!("check {}: {}", check.name, check.message),
        (None, None) if found.applies == PolicyWord::Yes => String::new(),
        (None, None) => found.because.clone(),
    };
    differences.same(
        &format!("{at}.verdict"),
        verdict.map(AccessCheckReady::as_str),
        found.verdict.map_or("none", AccessCheckReady::as_str),
        &because,
    );
    for (name, expected) in checks {
        let at = format!("{at}.checks.{name}");
        match found.checks.iter().find(|it| it.name == *name) {
            Some(found) => check(differences, &at, expected, found),
            None => differences.add(&at, "a check", "none", &because),
        }
    }
    if let Some(rules) = rules {
        let found: Vec<_> = found
            .rules
            .iter()
            .map(|it| RuleExpected {
                resources: it.resources.clone(),
                verbs: it.verbs.clone(),
            })
            .collect();
        if *rules != found {
            let (expected, found) = (told(rules), told(&found));
            differences.add(&format!("{at}.rules"), &expected, &found, &because);
        }
    }
}

fn told(rules: &[RuleExpected]) -> String {
    if rules.is_empty() {
        return "none".to_owned();
    }
    let rules = rules.iter();
    let rules: Vec<_> = rules
        .map(|it| format!("{} on {}", it.verbs.join(","), it.resources.join(",")))
        .collect();
    rules.join("; ")
}

fn check(differences: &mut Differences, at: &str, expected: &CheckExpected, found: &CheckShown) {
    let CheckExpected {
        verdict,
        reason,
        message,
        objects,
        approved_by,
    } = expected;
    let because = &found.message;
    differences.same(
        &format!("{at}.verdict"),
        verdict.map(AccessCheckReady::as_str),
        found.verdict.map_or("none", AccessCheckReady::as_str),
        because,
    );
    differences.same(
        &format!("{at}.reason"),
        reason.as_deref(),
        &found.reason,
        because,
    );
    if let Some(part) = message.as_ref().filter(|it| !found.message.contains(*it)) {
        differences.add(&format!("{at}.message"), part, &found.message, "");
    }
    let mut same_list = |field: &str, expected: &Option<Vec<String>>, mut is: Vec<String>| {
        if let Some(expected) = expected {
            let mut expected = expected.clone();
            expected.sort();
            is.sort();
            is.dedup();
            if expected != is {
                let field = format!("{at}.{field}");
                differences.add(&field, &expected.join(", "), &is.join(", "), because);
            }
        }
    };
    let names = found.candidates.iter().map(|it| it.name.name.clone());
    same_list("objects", objects, names.collect());
    let people = found
        .candidates
        .iter()
        .flat_map(|it| it.approved_by.clone());
    same_list("approvedBy", approved_by, people.collect());
}
