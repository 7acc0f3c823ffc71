//! Judges a run by the log of the API server, at every point in time.
//!
//! It shares no code with the controller: it interprets policies and approvals by itself, as simply as the
//! scenarios allow.

mod applies;
mod conduct;
mod configured;
mod ends;
mod history;
mod lineage;
mod reads;
mod rules;
mod summary;
#[cfg(test)]
mod tests;
mod truth;

use std::{fmt, time::Duration};

use testkit::Entry;

pub use summary::{EndState, Writes};

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// The time since the start of the run.
    pub at: Duration,
    /// The description.
    pub what: String,
}

/// The rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// I1: grants are based on recent live reads only.
    Fresh,
    /// I2: a grant is revoked as soon as its reason is gone.
    Revoked,
    /// I3: no effect across namespaces that no policy allows.
    Tenants,
    /// I4: a grant allows no more than one pod's use of one connector.
    Shape,
    /// I5: a rejection is final.
    Final,
    /// No grant is revoked without a reason.
    Lost,
    /// The final state is that of the run without faults.
    End,
    /// No more writes than necessary.
    Writes,
    /// No activity without events.
    Idle,
    /// A condition of the scenario was never met.
    Stuck,
    /// The process itself failed.
    Process,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fresh => "I1",
            Self::Revoked => "I2",
            Self::Tenants => "I3",
            Self::Shape => "I4",
            Self::Final => "I5",
            Self::Lost => "lost",
            Self::End => "end",
            Self::Writes => "writes",
            Self::Idle => "idle",
            Self::Stuck => "stuck",
            Self::Process => "process",
        })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, at, what } = self;
        write!(f, "{rule} at {:.3} s: {what}", at.as_secs_f64())
    }
}

/// Without a fault a call takes no time.
const IN_FLIGHT: Duration = Duration::from_millis(50);
/// The delay of a process that races with another one, or that receives all events late.
const RACE: Duration = Duration::from_secs(10);

/// A fault that occurred, and the time during which it has effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Incident {
    /// The time of the fault.
    pub at: Duration,
    /// The duration of its effects.
    pub recovery: Duration,
}

/// The permitted delays of a revocation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says one thing about a plan, and no two of them exclude each other"
)]
pub struct Allowance {
    /// The delay without a fault.
    pub usual: Duration,
    /// All faults that occurred, in order.
    pub incidents: Vec<Incident>,
    /// The delay of all watches.
    pub lag: Duration,
    /// Whether another process may have been about to write when the end was recorded.
    pub races: bool,
    /// Whether two processes lead without knowing of each other.
    pub two_lead: bool,
    /// The number of shards that the first process knows, and that the other one knows.
    pub shards: [request_controller::shards::ShardCount; 2],
    /// Whether ends by time use the same clock as the log.
    pub true_clock: bool,
    /// Whether one of the two objects of a grant cannot be deleted. Then a grant is not in effect without the
    /// other object.
    pub kept: bool,
}

impl Allowance {
    /// The time by which a grant must be gone whose reason ended at `since`. An incident excuses only delays
    /// during its effects.
    #[must_use]
    pub fn until(&self, since: Duration) -> Duration {
        let usual = since + self.usual + self.lag;
        self.incidents.iter().fold(usual, |until, incident| {
            if incident.at <= until {
                until.max(incident.at + incident.recovery)
            } else {
                until
            }
        })
    }

    /// True when nothing goes wrong in the whole plan, so that every action has a reason visible in the log.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.incidents.is_empty() && !self.races && !self.two_lead
    }

    /// True when a fault has effects at that time, or shortly afterwards.
    #[must_use]
    pub fn is_disturbed(&self, at: Duration) -> bool {
        self.until(at) > at + self.usual + self.lag
    }

    /// The delay after an end within which a process that does not know of it may still send a write.
    const fn flight(&self) -> Duration {
        if self.races { RACE } else { IN_FLIGHT }
    }
}

/// The coverage of a run: where a value is 0, the run proves nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Bindings that were written.
    pub grants: usize,
    /// Bindings that were revoked.
    pub revocations: usize,
    /// The longest time that one existed without a reason.
    pub longest: Duration,
}

/// Checks all rules that need no other run.
#[must_use]
pub fn judge(log: &[Entry], allowance: &Allowance) -> (Vec<Violation>, Seen) {
    rules::judge(log, allowance)
}
