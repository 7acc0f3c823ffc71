//! Judges a run by what happened at the API server, at every instant of it.
//!
//! It shares no code with the controller: what a policy asks for and what an approval says is read here
//! once more, as simply as the scenarios allow.

mod applies;
mod conduct;
mod configured;
mod ends;
mod history;
mod reads;
mod rules;
mod summary;
#[cfg(test)]
mod tests;
mod truth;

use std::{fmt, time::Duration};

use testkit::Entry;

pub use summary::{EndState, Writes};

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// When, since the start of the run.
    pub at: Duration,
    /// What is wrong.
    pub what: String,
}

/// What is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// I1: granted only on what was read live just before.
    Fresh,
    /// I2: gone as soon as its reason is.
    Revoked,
    /// I3: nothing across namespaces that no policy says.
    Tenants,
    /// I4: never more than one pod's use of one connector.
    Shape,
    /// I5: a no is final.
    Final,
    /// Nothing is taken back for no reason.
    Lost,
    /// The end is as it is without faults.
    End,
    /// No more is written than has to be.
    Writes,
    /// Nothing goes on when nothing happens.
    Idle,
    /// A step of the scenario never came true.
    Stuck,
    /// The process itself.
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
/// By how much a process may be late that another one races, or that hears of everything late.
const RACE: Duration = Duration::from_secs(10);

/// Something went wrong, and for some time it may be felt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Incident {
    /// When.
    pub at: Duration,
    /// For how long.
    pub recovery: Duration,
}

/// How much later than at once something may be taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says one thing about a plan, and no two of them exclude each other"
)]
pub struct Allowance {
    /// Without a fault.
    pub usual: Duration,
    /// Everything that went wrong, in its order.
    pub incidents: Vec<Incident>,
    /// By how much all watches are late.
    pub lag: Duration,
    /// Whether another process may have been about to write when the end was recorded.
    pub races: bool,
    /// Whether two processes lead that do not know of each other.
    pub two_lead: bool,
    /// Whether the clock by which something ends is the clock of the log.
    pub true_clock: bool,
    /// Whether one of the two objects of a grant cannot be deleted. Then nothing is in force without the other.
    pub kept: bool,
}

impl Allowance {
    /// Until when something has to be gone that lost its reason at that time. An incident is an excuse for what is due
    /// while it is felt, and for nothing before or after.
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

    /// Whether nothing goes wrong in all of a plan, so that whatever is done has a reason that everybody can see.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.incidents.is_empty() && !self.races && !self.two_lead
    }

    /// Whether something that went wrong is felt at that time, or a moment later.
    #[must_use]
    pub fn is_disturbed(&self, at: Duration) -> bool {
        self.until(at) > at + self.usual + self.lag
    }

    /// How much later than an end a write may be sent by somebody who has not heard of it.
    const fn flight(&self) -> Duration {
        if self.races { RACE } else { IN_FLIGHT }
    }
}

/// What a run proves something about: where this is 0, nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Bindings that were written.
    pub grants: usize,
    /// Bindings that were taken back.
    pub revocations: usize,
    /// The longest time that one outlived its reason.
    pub longest: Duration,
}

/// Judges everything that can be judged without another run.
#[must_use]
pub fn judge(log: &[Entry], allowance: &Allowance) -> (Vec<Violation>, Seen) {
    rules::judge(log, allowance)
}
