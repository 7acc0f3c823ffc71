//! The comparison of an answer with what is expected of it.

use std::collections::BTreeSet;

use connectors_api::names::CONNECTORS;
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

/// The question of the pod's mount.
#[derive(Clone, Debug)]
pub struct MountQuestion {
    /// The connector is there.
    pub has_connector: bool,
    /// The resource of the standing form, and that of the form of the pod.
    pub forms: [String; 2],
    /// The policies whose standing permission covers the mount.
    pub standing: BTreeSet<String>,
}

/// True when a rule with these verbs and resources covers a mount, which asks for verb `*`.
pub fn covers_mount<'a>(
    verbs: impl IntoIterator<Item = &'a str>,
    resources: impl IntoIterator<Item = &'a str>,
    forms: &[String],
) -> bool {
    let is_form = |resource: &str| {
        let of_any_kind = resource.strip_prefix("*/");
        let of_any_kind = of_any_kind.map(|it| format!("{CONNECTORS}/{it}"));
        resource == "*"
            || forms
                .iter()
                .any(|it| it == resource || Some(it) == of_any_kind.as_ref())
    };
    verbs.into_iter().any(|it| it == "*") && resources.into_iter().any(is_form)
}

/// The result for the access, from the results of its policies, and why where the rules decide it.
#[must_use]
pub fn access_of(
    policies: &[PolicyShown],
    mount: &MountQuestion,
) -> (AccessExpected, Option<String>) {
    if !mount.has_connector {
        return (AccessExpected::Waits, None);
    }
    let holds = |it: &&PolicyShown| it.standing == PolicyWord::Yes;
    if policies
        .iter()
        .filter(holds)
        .any(|it| mount.standing.contains(&it.name))
    {
        return (AccessExpected::Standing, None);
    }
    let opens = |policy: &&PolicyShown| {
        policy.rules.iter().any(|rule| {
            let verbs = rule.verbs.iter().map(String::as_str);
            covers_mount(
                verbs,
                rule.resources.iter().map(String::as_str),
                &mount.forms,
            )
        })
    };
    let no_mount = |policy: &PolicyShown| {
        let [_, form] = &mount.forms;
        format!(
            "the rules of policy {} open no mount: a mount asks for verb `*` on {form}",
            policy.name
        )
    };
    let applying = || policies.iter().filter(|it| it.applies == PolicyWord::Yes);
    let is = |wanted| move |it: &&PolicyShown| it.verdict == Some(wanted);
    let passed = || applying().filter(is(AccessCheckReady::AccessCheckPassed));
    if passed().any(|it| opens(&it)) {
        (AccessExpected::Granted, None)
    } else if let Some(policy) = passed().next() {
        (AccessExpected::Waits, Some(no_mount(policy)))
    } else if applying().next().is_none() {
        let standing = policies.iter().find(holds);
        (AccessExpected::NoPolicy, standing.map(no_mount))
    } else if applying().all(|it| is(AccessCheckReady::AccessCheckRejected)(&it)) {
        (AccessExpected::Refused, None)
    } else {
        (AccessExpected::Waits, None)
    }
}

/// Every difference between an answer and what is expected of it.
#[must_use]
pub fn differences(
    expected: &Expectation,
    found: &AccessShown,
    mount: &MountQuestion,
) -> Vec<FieldDifference> {
    let mut differences = Differences(Vec::new());
    let Expectation { access, policies } = expected;
    let (is, because) = access_of(&found.policies, mount);
    differences.same(
        "expect.access",
        access.map(AccessExpected::as_str),
        is.as_str(),
        because.as_ref().unwrap_or(&found.because),
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

#[cfg(test)]
mod tests;
