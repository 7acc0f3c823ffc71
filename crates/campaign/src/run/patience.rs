//! The duration of a fault's effects: until it is detected, and until everything has recovered.

use std::time::Duration;

use crate::{
    evaluator::Mood,
    oracle::{Allowance, Incident},
    plan::{CallTrouble, EventTrouble, FEW, Fault, Plan},
    process::SWEEP,
    scenario::Scenario,
};

/// The time after which an API server that lags behind is up to date when nothing new happens.
pub(super) const LAG: Duration = Duration::from_secs(10);

/// The allowance of a plan for the oracle.
pub(super) fn allowance(
    scenario: &Scenario,
    plan: &Plan,
    mut incidents: Vec<Incident>,
) -> Allowance {
    incidents.sort_unstable();
    let two_lead = plan.faults.contains(&Fault::TwoLeaders);
    let lags = plan.faults.iter().any(|it| matches!(it, Fault::Lag(_)));
    Allowance {
        usual: Duration::from_secs(1),
        incidents,
        lag: if lags { LAG } else { Duration::ZERO },
        true_clock: scenario.timed && !plan.jumps(),
        races: two_lead || lags,
        two_lead,
        kept: plan
            .faults
            .iter()
            .any(|it| matches!(it, Fault::Kept { .. })),
    }
}

/// The time after the last step during which a fault may still be undetected.
pub(super) fn aftermath(fault: &Fault) -> Duration {
    match fault {
        // The backoff before an object is checked again grows to two minutes.
        Fault::Call { times, .. } if *times > FEW => {
            Duration::from_mins(2) * u32::try_from(*times).unwrap_or(u32::MAX)
        }
        Fault::Call {
            what: CallTrouble::HangBefore | CallTrouble::HangAfter,
            ..
        } => Duration::from_mins(3),
        // A forbidden read is treated as a fact until the next sweep.
        Fault::Call {
            what: CallTrouble::Forbidden,
            ..
        } => 3 * SWEEP,
        // The answer is about the checks, so it is cached.
        Fault::Evaluator {
            mood: Mood::OtherPod | Mood::StillPending | Mood::OnlyYes,
            ..
        } => Duration::from_hours(1),
        Fault::Call { .. }
        | Fault::Event { .. }
        | Fault::Evaluator { .. }
        | Fault::Standing { .. }
        | Fault::Lag(_)
        | Fault::TwoLeaders
        | Fault::NoisyNeighbour
        | Fault::NoGarbageCollection
        | Fault::ClockJump { .. }
        | Fault::NodeLost { .. }
        | Fault::Unrecorded { .. }
        | Fault::Kept { .. }
        | Fault::Restart { .. } => {
            if fault.is_lasting() {
                // An event that was not sent is detected by the second next sweep, or when a watch is
                // reopened.
                3 * SWEEP
            } else {
                Duration::ZERO
            }
        }
    }
}

/// The time after a fault until everything has recovered.
pub(super) fn recovery(fault: &Fault) -> Duration {
    match fault {
        // The backoff before an object is checked again grows to two minutes.
        Fault::Call { times, .. } if *times > FEW => Duration::from_mins(5),
        // A watch that is never answered is given up after its own timeout.
        Fault::Call {
            what: CallTrouble::HangBefore | CallTrouble::HangAfter,
            ..
        } => Duration::from_mins(6),
        Fault::Event { what, .. } => match what {
            EventTrouble::Silence | EventTrouble::Drop => Duration::from_mins(6),
            EventTrouble::VeryLate => Duration::from_mins(2),
            EventTrouble::Twice
            | EventTrouble::Late
            | EventTrouble::Gone
            | EventTrouble::Close
            | EventTrouble::Kill => Duration::from_secs(30),
        },
        Fault::Evaluator { .. } | Fault::Standing { .. } => Duration::from_mins(3),
        Fault::Call { .. }
        | Fault::Restart { .. }
        | Fault::Unrecorded { .. }
        | Fault::Kept { .. }
        | Fault::NoisyNeighbour
        | Fault::ClockJump { .. } => Duration::from_secs(30),
        // There is no leader until the lease has expired.
        Fault::NodeLost { .. } => Duration::from_mins(1),
        Fault::Lag(_) | Fault::TwoLeaders | Fault::NoGarbageCollection => Duration::from_secs(5),
    }
}
