//! The duration of a fault's effects: until it is detected, and until everything has recovered.

use std::time::Duration;

use request_controller::shards::ShardCount;

use crate::{
    evaluator::Mood,
    oracle::{Allowance, Incident},
    plan::{CallId, CallTrouble, EventTrouble, FEW, Fault, Plan},
    process::SWEEP,
    scenario::Scenario,
};

/// The time after which an API server that lags behind is up to date when nothing new happens.
pub(super) const LAG: Duration = Duration::from_secs(10);

/// The time in which a failed call is repeated, or its job looked at again.
const SOON: Duration = Duration::from_secs(2);
/// The time in which the lease of a dead process expires, and a new leader has looked at everything.
const SUCCESSION: Duration = Duration::from_secs(18);

/// The time without a leader of a shard that is handed over, or is left to a process that does not take it.
const HAND_OVER: Duration = Duration::from_secs(8);

/// The allowance of a plan for the oracle.
pub(super) fn allowance(
    scenario: &Scenario,
    plan: &Plan,
    mut incidents: Vec<Incident>,
) -> Allowance {
    incidents.sort_unstable();
    let [one, other] = scenario.shards;
    // Where they know different numbers, shards of both numbers have leaders.
    let two_lead = one != other || plan.faults.contains(&Fault::TwoLeaders);
    let hand_over = if scenario.shards == [ShardCount::ONE; 2] {
        Duration::ZERO
    } else {
        HAND_OVER
    };
    let lags = plan.faults.iter().any(|it| matches!(it, Fault::Lag(_)));
    Allowance {
        usual: Duration::from_secs(1) + hand_over,
        incidents,
        lag: if lags { LAG } else { Duration::ZERO },
        true_clock: scenario.timed && !plan.jumps(),
        races: two_lead || lags,
        two_lead,
        shards: scenario.shards,
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

/// The time after a fault until everything has recovered. The seconds follow from the pauses and timeouts of the process.
pub(super) fn recovery(fault: &Fault) -> Duration {
    match fault {
        // The backoff before an object is checked again grows to two minutes.
        Fault::Call { times, .. } if *times > FEW => Duration::from_mins(5),
        Fault::Call { at, what, .. } => of_call(at, *what),
        Fault::Event { what, .. } => match what {
            // As long as a watch lasts.
            EventTrouble::Silence | EventTrouble::Drop => Duration::from_mins(6),
            EventTrouble::VeryLate => Duration::from_mins(2),
            EventTrouble::Late => Duration::from_secs(3),
            EventTrouble::Twice | EventTrouble::Gone | EventTrouble::Close => SOON,
            EventTrouble::Kill => SUCCESSION,
        },
        Fault::Evaluator { .. } | Fault::Standing { .. } => Duration::from_mins(3),
        Fault::Restart { .. } => SUCCESSION,
        Fault::Unrecorded { .. } | Fault::Kept { .. } => Duration::from_secs(30),
        Fault::NoisyNeighbour | Fault::ClockJump { .. } => SOON,
        // There is no leader until the lease has expired.
        Fault::NodeLost { .. } => Duration::from_mins(1),
        Fault::Lag(_) | Fault::TwoLeaders | Fault::NoGarbageCollection => Duration::from_secs(5),
    }
}

/// The same for few failures of a call.
fn of_call(at: &CallId, what: CallTrouble) -> Duration {
    match what {
        CallTrouble::KillBefore | CallTrouble::KillAfter => SUCCESSION,
        // A watch that is never answered is given up after its own timeout.
        CallTrouble::HangBefore | CallTrouble::HangAfter if at.verb == "watch" => {
            Duration::from_mins(6)
        }
        // A lease that is not renewed may expire.
        _ if at.resource == "leases" => SUCCESSION,
        // As long as a few attempts may take: three seconds each.
        CallTrouble::HangBefore | CallTrouble::HangAfter => Duration::from_secs(12),
        CallTrouble::Late => Duration::from_secs(5),
        CallTrouble::LoseRequest
        | CallTrouble::LoseAnswer
        | CallTrouble::Garbage
        | CallTrouble::Forbidden
        | CallTrouble::Expired
        | CallTrouble::Conflict
        | CallTrouble::TooMany
        | CallTrouble::Internal
        | CallTrouble::Unavailable
        | CallTrouble::GatewayTimeout => SOON,
    }
}
