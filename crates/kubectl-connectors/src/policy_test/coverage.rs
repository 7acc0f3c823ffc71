//! `policy coverage`: the parts of policies that no test of a directory reaches.
//!
//! A part is reached when a case leads the judge to it, whatever the case expects.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use connectors_api::policy_words::PolicyWord;
use connectors_api::reason::AccessCheckReady;
use connectors_api::{AccessPolicy, parse};
use jiff::Timestamp;
use kube::ResourceExt as _;
use schemars::JsonSchema;
use serde::Serialize;

use super::report::{TestProblem, TestReport, problem_line};
use super::run::{self, SeenCase};
use crate::exit::ExitWord;
use crate::explain::report::AccessShown;
use crate::files::ObjectFile;
use crate::lint;
use crate::modules::Modules;
use crate::output::{Colours, Tone, shown};
use crate::terms::NamespacedName;

/// The parts of the policies of a directory, and whether tests reach them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoverageReport {
    /// The policies, in the order of files.
    pub policies: Vec<PolicyCoverage>,
    /// How many parts are reached.
    pub reached: usize,
    /// How many parts there are.
    pub parts: usize,
    /// Files and tests that could not be used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<TestProblem>,
}

/// The parts of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyCoverage {
    /// The file.
    pub file: String,
    /// The line of the policy.
    pub line: usize,
    /// Namespace and name.
    #[serde(flatten)]
    pub name: NamespacedName,
    /// The parts.
    pub parts: Vec<CoveredPart>,
}

/// An outcome of a part of a policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoveredPart {
    /// The part: `requesters`, `defaultPermission`, `checks.NAME` or `rules[PLACE]`.
    pub part: String,
    /// The outcome.
    pub outcome: PartOutcome,
    /// Whether a case reaches it.
    pub reached: bool,
}

/// An outcome of a part of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum PartOutcome {
    /// The account is accepted.
    Accepts,
    /// Another account is not.
    RefusesOthers,
    /// The check passes.
    Passes,
    /// The check waits.
    Waits,
    /// The check says no.
    SaysNo,
    /// The pod gets the rule.
    Given,
}

impl PartOutcome {
    const fn told(self) -> &'static str {
        match self {
            Self::Accepts => "accepts an account",
            Self::RefusesOthers => "refuses another account",
            Self::Passes => "passes",
            Self::Waits => "waits",
            Self::SaysNo => "says no",
            Self::Given => "is given to a pod",
        }
    }
}

/// The parts of the policies of directories, and whether their tests reach them.
pub async fn coverage(
    directories: &[Vec<ObjectFile>],
    modules: &Modules,
    now: Timestamp,
) -> CoverageReport {
    let mut report = CoverageReport::default();
    for files in directories {
        let mut policies = policies(files);
        let mut tests = TestReport::default();
        let mut see = |seen: SeenCase<'_>| {
            for (policy, coverage) in &mut policies {
                if !seen.replaces("AccessPolicy", &coverage.name) {
                    reach(coverage, policy, seen.access);
                }
            }
        };
        run::directory(files, modules, now, &mut tests, &mut see).await;
        report.problems.append(&mut tests.problems);
        let parts = policies.into_iter().map(|(_, coverage)| coverage);
        report.policies.extend(parts);
    }
    let parts = || report.policies.iter().flat_map(|it| &it.parts);
    let reached = parts().filter(|it| it.reached).count();
    (report.parts, report.reached) = (parts().count(), reached);
    report
}

fn policies(files: &[ObjectFile]) -> Vec<(AccessPolicy, PolicyCoverage)> {
    let mut found = Vec::new();
    for file in files {
        for document in file.documents.iter().flatten() {
            if !lint::is_policy(&document.value) {
                continue;
            }
            // `policy lint` names the faults of a policy.
            let Ok(policy) = parse::object::<AccessPolicy>(&document.value) else {
                continue;
            };
            let namespace = policy.metadata.namespace.clone().unwrap_or_default();
            let coverage = PolicyCoverage {
                file: file.path.clone(),
                line: document.position("").line,
                name: NamespacedName::new(namespace, policy.name_any()),
                parts: parts(&policy),
            };
            found.push((policy, coverage));
        }
    }
    found
}

fn parts(policy: &AccessPolicy) -> Vec<CoveredPart> {
    let mut parts = Vec::new();
    let mut add = |part: String, outcomes: &[PartOutcome]| {
        parts.extend(outcomes.iter().map(|outcome| CoveredPart {
            part: part.clone(),
            outcome: *outcome,
            reached: false,
        }));
    };
    let of_accounts = [PartOutcome::Accepts, PartOutcome::RefusesOthers];
    if policy.spec.default_permission.is_some() {
        add("defaultPermission".to_owned(), &of_accounts);
    }
    if let Some(granted) = &policy.spec.check_granted_permission {
        add("requesters".to_owned(), &of_accounts);
        for check in &granted.spec.checks {
            // A module need not have a way to say no.
            let outcomes: &[_] = if check.has_module() {
                &[PartOutcome::Passes, PartOutcome::Waits]
            } else {
                &[PartOutcome::Passes, PartOutcome::Waits, PartOutcome::SaysNo]
            };
            add(format!("checks.{}", check.name), outcomes);
        }
        let rules = granted.spec.permissions.role_template.rules.len();
        for place in 0..rules {
            add(format!("rules[{place}]"), &[PartOutcome::Given]);
        }
    }
    parts
}

/// Marks the parts of a policy that the answer of a case went through.
fn reach(coverage: &mut PolicyCoverage, policy: &AccessPolicy, access: &AccessShown) {
    if access.connector.namespace != coverage.name.namespace {
        return;
    }
    let name = policy.name_any();
    let Some(shown) = access.policies.iter().find(|it| it.name == name) else {
        return;
    };
    let mut reached: BTreeSet<(String, PartOutcome)> = BTreeSet::new();
    for (part, word) in [
        ("requesters", shown.applies),
        ("defaultPermission", shown.standing),
    ] {
        let outcome = match word {
            PolicyWord::Yes => PartOutcome::Accepts,
            PolicyWord::OtherSubject => PartOutcome::RefusesOthers,
            PolicyWord::Absent
            | PolicyWord::OtherPermission
            | PolicyWord::OtherName
            | PolicyWord::OtherLabels
            | PolicyWord::TooMany
            | PolicyWord::Unreadable
            | PolicyWord::Gone => continue,
        };
        reached.insert((part.to_owned(), outcome));
    }
    for check in &shown.checks {
        let outcome = match check.verdict {
            Some(AccessCheckReady::AccessCheckPassed) => PartOutcome::Passes,
            Some(AccessCheckReady::AccessCheckPending) => PartOutcome::Waits,
            Some(AccessCheckReady::AccessCheckRejected) => PartOutcome::SaysNo,
            Some(AccessCheckReady::AccessCheckFailed) | None => continue,
        };
        reached.insert((format!("checks.{}", check.name), outcome));
    }
    for place in 0..shown.rules.len() {
        reached.insert((format!("rules[{place}]"), PartOutcome::Given));
    }
    for part in &mut coverage.parts {
        part.reached |= reached.contains(&(part.part.clone(), part.outcome));
    }
}

/// No if a part is not reached.
#[must_use]
pub fn exit(report: &CoverageReport) -> ExitWord {
    if !report.problems.is_empty() || report.policies.is_empty() {
        ExitWord::Usage
    } else if report.reached < report.parts {
        ExitWord::No
    } else {
        ExitWord::Yes
    }
}

/// The parts that no test reaches, for people.
#[must_use]
pub fn text(report: &CoverageReport, colours: Colours) -> String {
    let mut text = String::new();
    for problem in &report.problems {
        text.push_str(&problem_line(problem, colours));
    }
    for policy in &report.policies {
        let all = policy.parts.len();
        let reached = policy.parts.iter().filter(|it| it.reached).count();
        let tone = if reached == all {
            Tone::Good
        } else {
            Tone::Open
        };
        let place = format!("{}:{}: policy {}: ", policy.file, policy.line, policy.name);
        let number = format!("{reached} of {all} reached");
        let _ = writeln!(text, "{}{}", shown(&place), colours.paint(tone, &number));
        for part in policy.parts.iter().filter(|it| !it.reached) {
            let missing = format!("no test in which {} {}", part.part, part.outcome.told());
            let _ = writeln!(text, "  {}", colours.paint(Tone::Plain, &missing));
        }
    }
    let _ = writeln!(text, "{} of {} reached", report.reached, report.parts);
    text
}
