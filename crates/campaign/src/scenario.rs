//! The events in the cluster, step by step, independent of the controller's state.

mod approvers;
mod arrivals;
mod asked;
mod changes;
mod common;
mod content;
mod forged;
mod kept;
mod links;
mod lives;
mod meddling;
mod namesakes;
mod pages;
mod races;
mod refusals;
mod runs;
mod several_approvals;
mod shards;
mod standing;
mod switch;
mod times;

use std::time::Duration;

use request_controller::shards::ShardCount;

use crate::stage::Stage;

#[cfg(test)]
pub(crate) use standing::stand;

/// One event, or one condition to wait for.
#[derive(Clone, Copy)]
pub enum Step {
    /// An action.
    Do(&'static str, fn(&Stage)),
    /// The next step waits until this condition is met.
    Until(&'static str, fn(&Stage) -> bool),
    /// The next step waits until this condition is met, which comes by time alone.
    InTime(&'static str, fn(&Stage) -> bool),
    /// The next step waits this long.
    Rest(Duration),
}

/// A scenario.
#[derive(Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says one thing about a scenario, and no two of them exclude each other"
)]
pub struct Scenario {
    /// Its name, part of every plan's identifier.
    pub name: &'static str,
    /// The state of the cluster before a controller starts.
    pub before: fn(&Stage),
    /// The steps after that.
    pub steps: &'static [Step],
    /// The condition that must be met at the end.
    pub ends: fn(&Stage) -> bool,
    /// The retention of a decided request after its pod is gone.
    pub retention: Duration,
    /// Whether the outcome depends on a race; then only `ends` is checked.
    pub race: bool,
    /// Whether some event is caused by passing of time on the wall clock.
    pub timed: bool,
    /// The time limit of a step without faults, unless it comes by time alone.
    pub usual: Duration,
    /// Whether it needs knowledge that a process which starts later lacks.
    pub remembered: bool,
    /// Whether processes learn of the same things at different times, each by looking again.
    pub learned: bool,
    /// The number of processes that compete for leadership.
    pub replicas: usize,
    /// The number of shards that each of them knows.
    pub shards: [ShardCount; 2],
}

/// All of them.
#[must_use]
pub fn all() -> Vec<Scenario> {
    let mut all = Vec::from(lives::LIVES);
    all.extend(changes::CHANGES);
    all.extend(races::RACES);
    all.extend(refusals::REFUSALS);
    all.extend(meddling::MEDDLING);
    all.extend(switch::SWITCH);
    all.extend(standing::STANDING);
    all.extend(pages::PAGES);
    all.extend(kept::KEPT);
    all.extend(namesakes::NAMESAKES);
    all.extend(times::TIMES);
    all.extend(arrivals::ARRIVALS);
    all.extend(arrivals::ORDERS);
    all.extend(runs::RUNS);
    all.extend(links::LINKS);
    all.extend(several_approvals::SEVERAL_APPROVALS);
    all.extend(forged::FORGED);
    all.extend(approvers::APPROVERS);
    all.extend(content::CONTENT);
    all.extend(asked::ASKED);
    all.extend(shards::SHARDS);
    all
}

/// The scenario of that name.
#[must_use]
pub fn named(name: &str) -> Option<Scenario> {
    all().into_iter().find(|it| it.name == name)
}
