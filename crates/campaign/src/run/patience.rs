//! How long a fault may be felt: until when nobody has found out about it, and when everything is as if it had never
//! been.

use std::time::Duration;

use crate::{
    evaluator::Mood,
    oracle::{Allowance, Incident},
    plan::{CallTrouble, EventTrouble, FEW, Fault, Plan},
    process::SWEEP,
    scenario::Scenario,
};

/// How long an API server that is behind stays behind when nothing new happens.
pub(super) const LAG: Duration = Duration::from_secs(10);

/// What the oracle allows a plan.
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

/// How long nobody may yet have found out about a fault, after the last step.
pub(super) fn aftermath(fault: &Fault) -> Duration {
    match fault {
        // The pause before something is looked at again grows to two minutes.
        Fault::Call { times, .. } if *times > FEW => {
            Duration::from_mins(2) * u32::try_from(*times).unwrap_or(u32::MAX)
        }
        Fault::Call {
            what: CallTrouble::HangBefore | CallTrouble::HangAfter,
            ..
        } => Duration::from_mins(3),
        // That something may not be read is a fact like others, until the next sweep.
        Fault::Call {
            what: CallTrouble::Forbidden,
            ..
        } => 3 * SWEEP,
        // It is about the checks, so it is remembered.
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
                // What nobody said is found by the next sweep but one, or when a watch is opened anew.
                3 * SWEEP
            } else {
                Duration::ZERO
            }
        }
    }
}

/// How long after a fault everything is as if it had never been.
pub(super) fn recovery(fault: &Fault) -> Duration {
    match fault {
        // The pause before something is looked at again grows to two minutes.
        Fault::Call { times, .. } if *times > FEW => Duration::from_mins(5),
        // A watch that is never answered is given up after its own time.
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
        // Nobody leads until the lease has run out.
        Fault::NodeLost { .. } => Duration::from_mins(1),
        Fault::Lag(_) | Fault::TwoLeaders | Fault::NoGarbageCollection => Duration::from_secs(5),
    }
}
