//! Runs many plans, and compares each with the undisturbed run of its scenario.

use std::{
    collections::BTreeMap,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    enumerate::{self, Family},
    oracle::{Rule, Seen, Violation},
    plan::{Fault, Plan},
    run::{self, Outcome},
    scenario::{self, Scenario},
};

/// A plan that violated a rule.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The shortest plan that still violates one.
    pub plan: Plan,
    /// The violated rules.
    pub violations: Vec<Violation>,
}

/// The results of a campaign.
#[derive(Debug, Default)]
pub struct Report {
    /// Plans per family.
    pub plans: BTreeMap<Family, usize>,
    /// Scenarios.
    pub scenarios: usize,
    /// Faults that occurred.
    pub faults: usize,
    /// Bindings that were written.
    pub grants: usize,
    /// Bindings that were revoked.
    pub revocations: usize,
    /// The longest time that a binding existed without a reason, and its plan.
    pub longest: Option<(Duration, Plan)>,
    /// The plans that failed.
    pub failures: Vec<Failure>,
}

/// The reference of a scenario's plans.
pub struct Undisturbed {
    /// The scenario.
    pub scenario: Scenario,
    /// Its run without faults.
    pub outcome: Outcome,
}

/// The undisturbed runs in the order of their scenarios, or their violations.
pub fn undisturbed(scenarios: &[Scenario]) -> Result<Vec<Undisturbed>, Vec<Failure>> {
    let next = AtomicUsize::new(0);
    let finished = Mutex::new(BTreeMap::new());
    on_every_processor(|| {
        loop {
            let at = next.fetch_add(1, Ordering::SeqCst);
            let Some(scenario) = scenarios.get(at) else {
                return;
            };
            let outcome = attempt(scenario, &Plan::undisturbed(scenario.name));
            let mut finished = finished.lock().unwrap_or_else(PoisonError::into_inner);
            finished.insert(at, (*scenario, outcome));
        }
    });
    let finished = finished
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let mut all = Vec::new();
    let mut failures = Vec::new();
    for (scenario, outcome) in finished.into_values() {
        let plan = Plan::undisturbed(scenario.name);
        match outcome {
            Ok(mut outcome) => {
                outcome.violations.extend(redundant(&outcome));
                if !outcome.violations.is_empty() {
                    let violations = outcome.violations.clone();
                    failures.push(Failure { plan, violations });
                }
                all.push(Undisturbed { scenario, outcome });
            }
            Err(violation) => failures.push(Failure {
                plan,
                violations: vec![violation],
            }),
        }
    }
    if failures.is_empty() {
        Ok(all)
    } else {
        Err(failures)
    }
}

/// Does the same on as many threads as there are processors.
fn on_every_processor(work: impl Fn() + Sync) {
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(&work);
        }
    });
}

/// Without a fault, no write may leave its object unchanged.
fn redundant(outcome: &Outcome) -> Option<Violation> {
    let redundant = &outcome.writes.redundant;
    (!redundant.is_empty()).then(|| Violation {
        rule: Rule::Writes,
        at: Duration::ZERO,
        what: format!("these changed nothing: {redundant:?}"),
    })
}

/// Runs a plan; a panic counts as a violation too.
fn attempt(scenario: &Scenario, plan: &Plan) -> Result<Outcome, Violation> {
    let broken = |what: String| Violation {
        rule: Rule::Process,
        at: Duration::ZERO,
        what,
    };
    match catch_unwind(AssertUnwindSafe(|| run::run(scenario, plan))) {
        Ok(Ok(outcome)) => Ok(outcome),
        Ok(Err(error)) => Err(broken(format!("no runtime: {error}"))),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            Err(broken(format!("panic: {}", text.unwrap_or_default())))
        }
    }
}

/// All violations of a run.
#[must_use]
pub fn judged(reference: &Undisturbed, plan: &Plan) -> (Vec<Violation>, Option<Outcome>) {
    let outcome = match attempt(&reference.scenario, plan) {
        Ok(outcome) => outcome,
        Err(violation) => return (vec![violation], None),
    };
    let mut violations = outcome.violations.clone();
    let end = outcome.log.last().map(|it| it.at).unwrap_or_default();
    let expected = &reference.outcome;
    let difference = expected.end.difference(&outcome.end);
    let other_story = run::is_another_story(&reference.scenario, plan);
    if let Some(what) = difference.filter(|_| !reference.scenario.race && !other_story) {
        violations.push(Violation {
            rule: Rule::End,
            at: end,
            what,
        });
    }
    let undone = run::undone(&reference.scenario, plan);
    // What a fault cut short may be done once more as a whole, and its last write is tried once more.
    let most = 2 * expected.writes.total() + outcome.met.faults + undone;
    // Where no check waits without a fault, one may wait with it. A Role is written in advance then, and removed.
    let writes_roles = expected.writes.counts.contains_key("create roles ");
    let most = if writes_roles { most } else { most + 2 };
    if outcome.writes.total() > most && !other_story {
        violations.push(Violation {
            rule: Rule::Writes,
            at: end,
            what: format!(
                "at most {most} writes were expected after {} faults, found {:?}",
                outcome.met.faults, outcome.writes.counts
            ),
        });
    }
    (violations, Some(outcome))
}

/// A known plan that never reaches its point tests nothing any more.
fn unmet(plan: &Plan, outcome: Option<&Outcome>) -> Option<Violation> {
    let is_at_a_point = |it: &Fault| matches!(it, Fault::Call { .. } | Fault::Event { .. });
    let met = outcome.is_none_or(|outcome| outcome.met.faults > 0);
    (plan.faults.iter().any(is_at_a_point) && !met).then(|| Violation {
        rule: Rule::Process,
        at: Duration::ZERO,
        what: "none of its faults was met: the plan breaks nothing".to_owned(),
    })
}

/// Reduces a failing plan as far as possible.
fn shrunk(reference: &Undisturbed, plan: Plan, violations: Vec<Violation>) -> Failure {
    let mut failure = Failure { plan, violations };
    loop {
        let plan = failure.plan.clone();
        let smaller = enumerate::smaller(&plan).find_map(|smaller| {
            let (violations, _) = judged(reference, &smaller);
            (!violations.is_empty()).then_some(Failure {
                plan: smaller,
                violations,
            })
        });
        match smaller {
            Some(smaller) => failure = smaller,
            None => return failure,
        }
    }
}

/// Whether further plans are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Going {
    /// Further plans are started.
    On,
    /// Only plans in progress are finished.
    Ends,
}

/// A finished plan.
pub struct Done<'a> {
    /// The number of plans started so far, and the total.
    pub of: (usize, usize),
    /// The plan.
    pub plan: &'a Plan,
    /// Its duration, including the reduction.
    pub took: Duration,
    /// Its failure, if it failed.
    pub failure: Option<&'a Failure>,
}

/// Runs plans on as many threads as there are processors, and reports the progress.
pub fn execute(
    references: &[Undisturbed],
    plans: &[(Family, Plan)],
    progress: &(dyn Fn(&Done<'_>) -> Going + Sync),
) -> Report {
    let by_name: BTreeMap<&str, &Undisturbed> =
        references.iter().map(|it| (it.scenario.name, it)).collect();
    let report = Mutex::new(Report {
        scenarios: references.len(),
        ..Report::default()
    });
    let next = AtomicUsize::new(0);
    on_every_processor(|| {
        loop {
            let at = next.fetch_add(1, Ordering::SeqCst);
            let Some((family, plan)) = plans.get(at) else {
                return;
            };
            let Some(reference) = by_name.get(plan.scenario.as_str()) else {
                // A plan that is not run would otherwise count as one without violations.
                let violations = vec![Violation {
                    rule: Rule::Stuck,
                    at: Duration::ZERO,
                    what: format!("there is no scenario {}", plan.scenario),
                }];
                let failure = Failure {
                    plan: plan.clone(),
                    violations,
                };
                let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
                report.take(*family, plan, None, Some(failure));
                continue;
            };
            let started = Instant::now();
            let (mut violations, outcome) = judged(reference, plan);
            if *family == Family::Known {
                violations.extend(unmet(plan, outcome.as_ref()));
            }
            let failure =
                (!violations.is_empty()).then(|| shrunk(reference, plan.clone(), violations));
            let going = progress(&Done {
                of: (at + 1, plans.len()),
                plan,
                took: started.elapsed(),
                failure: failure.as_ref(),
            });
            if going == Going::Ends {
                next.store(plans.len(), Ordering::SeqCst);
            }
            let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
            report.take(*family, plan, outcome.as_ref(), failure);
        }
    });
    report.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl Report {
    fn take(
        &mut self,
        family: Family,
        plan: &Plan,
        outcome: Option<&Outcome>,
        failure: Option<Failure>,
    ) {
        *self.plans.entry(family).or_default() += 1;
        if let Some(outcome) = outcome {
            let Seen {
                grants,
                revocations,
                longest,
            } = outcome.seen;
            if self
                .longest
                .as_ref()
                .is_none_or(|(most, _)| *most < longest)
            {
                self.longest = Some((longest, plan.clone()));
            }
            self.faults += outcome.met.faults;
            self.grants += grants;
            self.revocations += revocations;
        }
        self.failures.extend(failure);
    }

    /// The number of plans that were run.
    #[must_use]
    pub fn total(&self) -> usize {
        self.plans.values().sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (family, plans) in &self.plans {
            writeln!(f, "{plans:>7}  {}", family.as_str())?;
        }
        writeln!(
            f,
            "{:>7}  plans over {} scenarios: {} faults, {} grants written, {} taken back",
            self.total(),
            self.scenarios,
            self.faults,
            self.grants,
            self.revocations,
        )?;
        if let Some((longest, plan)) = &self.longest {
            let seconds = longest.as_secs_f64();
            writeln!(
                f,
                "{seconds:>7.1}  seconds a binding outlived its reason at most, in {plan}"
            )?;
        }
        write!(f, "{:>7}  plans failed", self.failures.len())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FAILED {}", self.plan)?;
        self.violations
            .iter()
            .try_for_each(|violation| write!(f, "\n    {violation}"))
    }
}

/// The scenarios with these names; all if there are none.
#[must_use]
pub fn chosen(names: &[String]) -> Vec<Scenario> {
    let all = scenario::all().into_iter();
    all.filter(|it| names.is_empty() || names.iter().any(|name| name == it.name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_of_a_scenario_that_is_not_there_fails() {
        let plans = [(Family::Known, Plan::undisturbed("none"))];
        let report = execute(&[], &plans, &|_: &Done<'_>| Going::On);
        assert_eq!((report.total(), report.failures.len()), (1, 1));
        let [failure] = &report.failures[..] else {
            panic!("{:?}", report.failures);
        };
        assert_eq!(failure.violations[0].rule, Rule::Stuck);
    }
}
