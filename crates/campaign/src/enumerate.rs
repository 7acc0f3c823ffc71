//! All plans of a scenario, derived from the calls and events of its undisturbed run, and random combinations
//! of them.

use std::collections::{BTreeMap, BTreeSet};

use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use crate::{
    evaluator::{Hearsay, Mood},
    plan::{CallId, CallTrouble, EventTrouble, Fault, Plan, Undeletable},
    run::Outcome,
    scenario::Scenario,
};

/// Of repeated calls, the first few are enough.
const OFTEN: usize = 3;
/// The most consecutive conflicts.
const CONFLICTS: usize = 20;
/// The numbers of consecutive failed lease renewals: with some the leader stays, with others it must give up.
const UNRENEWED: [usize; 3] = [2, 6, 20];
/// The most versions that an API server lags behind.
const BEHIND: u64 = 5;
/// The most plans of a selection with a busy neighbour: each takes as long as a dozen others, and there is one for each
/// scenario.
const NEIGHBOURS: usize = 120;
/// The most faults of a random plan.
const MOST: usize = 4;

/// The family of a plan; the table of a campaign has a row for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// The process is killed before or after a write.
    CrashAtWrite,
    /// The process is killed before or after another call, or before a step.
    Crash,
    /// A write fails, or its outcome is unknown.
    Write,
    /// Another call fails.
    Read,
    /// Many consecutive failures.
    Rows,
    /// A line of a watch is lost, repeated or late, or its stream ends.
    Event,
    /// The evaluator misbehaves.
    Evaluator,
    /// A fault of the whole run: two leaders, an API server that lags behind, no garbage collection.
    Whole,
    /// Another tenant causes the maximum load.
    Neighbour,
    /// The clock jumps.
    Clock,
    /// From some step on, every attempt to record or to delete something is refused.
    Refused,
    /// A plan that once found a bug, or that tests one guard.
    Known,
    /// A combination of several.
    Mixed,
}

impl Family {
    /// The name in tables.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CrashAtWrite => "crash before and after a write",
            Self::Crash => "crash at any other call, event or step",
            Self::Write => "a write fails, hangs or is lost",
            Self::Read => "a read or watch fails, hangs or is lost",
            Self::Rows => {
                "2 to 20 conflicts in a row; 503, lost, hanging 3 and 7 times; lease not renewed"
            }
            Self::Event => "watch event dropped, twice, late, 410, closed, silent",
            Self::Evaluator => "evaluator away, slow, garbage",
            Self::Whole => "two leaders, API server behind, no garbage collection",
            Self::Neighbour => "another tenant is as busy as it may be, and calls take time",
            Self::Clock => "clock jumps an hour",
            Self::Refused => "nothing recorded any more; no Role, or no binding, ever deleted",
            Self::Known => "found something once, or is there for one guard",
            Self::Mixed => "two to four of these",
        }
    }
}

fn is_write(call: &CallId) -> bool {
    matches!(call.verb.as_str(), "create" | "update" | "patch" | "delete")
        && call.resource != "events"
        && call.resource != "leases"
}

/// All plans with one fault.
#[must_use]
pub fn singles(scenario: &Scenario, undisturbed: &Outcome) -> Vec<(Family, Plan)> {
    let mut faults = Vec::new();
    let calls = undisturbed.met.calls.iter().filter(|call| {
        let again = call.resource == "leases" || call.verb == "watch";
        !again || call.nth < OFTEN
    });
    for call in calls {
        let write = is_write(call);
        for what in CallTrouble::ALL {
            let dies = matches!(what, CallTrouble::KillBefore | CallTrouble::KillAfter);
            let family = match (write, dies) {
                (true, true) => Family::CrashAtWrite,
                (false, true) => Family::Crash,
                (true, false) => Family::Write,
                (false, false) => Family::Read,
            };
            faults.push((family, call_fault(call, *what, 1)));
        }
        if call.resource == "leases" && call.verb == "update" {
            let silent = [
                CallTrouble::Unavailable,
                CallTrouble::LoseAnswer,
                CallTrouble::HangBefore,
                CallTrouble::HangAfter,
            ];
            let rows = silent.into_iter();
            let rows = rows.flat_map(|what| UNRENEWED.map(|times| call_fault(call, what, times)));
            faults.extend(rows.map(|fault| (Family::Rows, fault)));
        }
        if write {
            let rows = (2..=CONFLICTS).map(|times| call_fault(call, CallTrouble::Conflict, times));
            // More than the client retries by itself.
            let others = [
                CallTrouble::Unavailable,
                CallTrouble::LoseAnswer,
                CallTrouble::HangAfter,
            ];
            let others = others
                .into_iter()
                .flat_map(|what| [3, 7].map(|times| call_fault(call, what, times)));
            faults.extend(rows.chain(others).map(|fault| (Family::Rows, fault)));
        }
    }
    for event in &undisturbed.met.events {
        for what in EventTrouble::ALL {
            let family = if *what == EventTrouble::Kill {
                Family::Crash
            } else {
                Family::Event
            };
            let at = event.clone();
            faults.push((family, Fault::Event { at, what: *what }));
        }
    }
    for from in 0..undisturbed.asked {
        for mood in Mood::ALL {
            for questions in [1, 5] {
                let fault = Fault::Evaluator {
                    mood,
                    from,
                    questions,
                };
                faults.push((Family::Evaluator, fault));
            }
        }
    }
    for from in 0..undisturbed.asked_for_standing {
        for hearsay in Hearsay::ALL {
            // A positive answer is believed if it is given twice.
            let most = if hearsay == Hearsay::Yes { 1 } else { 5 };
            for calls in BTreeSet::from([1, most]) {
                let fault = Fault::Standing {
                    hearsay,
                    from,
                    calls,
                };
                faults.push((Family::Evaluator, fault));
            }
        }
    }
    let lags = (1..=BEHIND).map(Fault::Lag);
    let whole = lags.chain([Fault::TwoLeaders, Fault::NoGarbageCollection]);
    faults.extend(whole.map(|fault| (Family::Whole, fault)));
    faults.push((Family::Neighbour, Fault::NoisyNeighbour));
    for step in 0..scenario.steps.len() {
        faults.push((Family::Crash, Fault::Restart { step }));
        for forbidden in [false, true] {
            faults.push((Family::Refused, Fault::Unrecorded { step, forbidden }));
        }
        for what in Undeletable::ALL {
            faults.push((Family::Refused, Fault::Kept { step, what: *what }));
        }
        if scenario.replicas > 1 {
            faults.push((Family::Crash, Fault::NodeLost { step }));
        }
        for forward in [false, true] {
            faults.push((Family::Clock, Fault::ClockJump { step, forward }));
        }
    }
    let plans = faults.into_iter();
    plans
        .map(|(family, fault)| (family, Plan::with(scenario.name, fault)))
        .collect()
}

fn call_fault(at: &CallId, what: CallTrouble, times: usize) -> Fault {
    Fault::Call {
        at: at.clone(),
        what,
        times,
    }
}

/// A deterministic selection of plans: equally many of each family, spread evenly.
#[must_use]
pub fn some(plans: Vec<(Family, Plan)>, most: usize) -> Vec<(Family, Plan)> {
    let mut families: BTreeMap<Family, Vec<Plan>> = BTreeMap::new();
    for (family, plan) in plans {
        families.entry(family).or_default().push(plan);
    }
    // Other families get the share that a small family does not use.
    let mut by_size: Vec<_> = families.into_iter().collect();
    by_size.sort_by_key(|(_, plans)| plans.len());
    let (mut left, mut open) = (most, by_size.len());
    let mut chosen = Vec::new();
    for (family, plans) in by_size {
        let limit = if family == Family::Neighbour {
            NEIGHBOURS
        } else {
            usize::MAX
        };
        let share = (left / open.max(1)).min(plans.len()).min(limit);
        let number = plans.len();
        let picked = plans.into_iter().enumerate().filter(|(index, _)| {
            // Takes a plan wherever the integer part of the running share increases.
            (index + 1) * share / number > index * share / number
        });
        chosen.extend(picked.map(|(_, plan)| (family, plan)));
        left -= share;
        open -= 1;
    }
    chosen
}

/// A plan with several faults, the same for the same seed.
#[must_use]
pub fn mixed(singles: &[(Family, Plan)], seed: u64) -> Option<Plan> {
    let mut random = StdRng::seed_from_u64(seed);
    // Every kind of fault is equally likely, however many points there are for it.
    let families: BTreeSet<Family> = singles.iter().map(|(family, _)| *family).collect();
    let family = *families.iter().collect::<Vec<_>>().choose(&mut random)?;
    let of_family: Vec<_> = singles.iter().filter(|(it, _)| it == family).collect();
    let (_, first) = of_family.choose(&mut random)?;
    let mut plan = first.clone();
    let more = random.random_range(1..MOST);
    let same: Vec<_> = singles
        .iter()
        .filter(|(_, it)| it.scenario == plan.scenario)
        .collect();
    for _ in 0..more {
        let (_, other) = same.choose(&mut random)?;
        let fits = |fault: &Fault| {
            let spells = plan.faults.iter().any(|it| it.spell().is_some());
            // The evaluator has at most one spell and one rumour.
            let second_spell = spells && fault.spell().is_some();
            let rumours = plan.faults.iter().any(|it| it.rumour().is_some());
            let second_rumour = rumours && fault.rumour().is_some();
            !second_spell && !second_rumour && !plan.faults.contains(fault)
        };
        let new: Vec<_> = other.faults.iter().filter(|it| fits(it)).cloned().collect();
        plan.faults.extend(new);
    }
    Some(plan)
}

/// All plans with one fault less.
pub fn smaller(plan: &Plan) -> impl Iterator<Item = Plan> + '_ {
    let fewer = (0..plan.faults.len()).map(|without| {
        let mut smaller = plan.clone();
        smaller.faults.remove(without);
        smaller
    });
    let weaker = plan.faults.iter().enumerate().filter_map(|(index, fault)| {
        let Fault::Call { at, what, times } = fault else {
            return None;
        };
        let mut smaller = plan.clone();
        smaller.faults[index] = call_fault(at, *what, times / 2);
        (*times > 1).then_some(smaller)
    });
    fewer.chain(weaker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_has_few_plans_that_take_long_however_many_scenarios_there_are() {
        let plans = |family, number: usize| {
            let plan = |index| (family, Plan::undisturbed(&format!("{family:?}-{index}")));
            (0..number).map(plan).collect::<Vec<_>>()
        };
        let mut all = plans(Family::Neighbour, 3 * NEIGHBOURS);
        all.extend(plans(Family::Read, 10 * NEIGHBOURS));
        let chosen = some(all, 6 * NEIGHBOURS);
        let of = |family| chosen.iter().filter(|(it, _)| *it == family).count();
        assert_eq!(of(Family::Neighbour), NEIGHBOURS);
        assert_eq!(of(Family::Read), 5 * NEIGHBOURS);
    }
}
