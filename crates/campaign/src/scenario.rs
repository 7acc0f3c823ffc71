//! What happens in the cluster, step by step, whatever happens to the controller meanwhile.

mod changes;
mod common;
mod kept;
mod lives;
mod meddling;
mod namesakes;
mod pages;
mod races;
mod refusals;
mod standing;
mod switch;
mod times;

use std::time::Duration;

use crate::stage::Stage;

#[cfg(test)]
pub(crate) use standing::stand;

/// One thing that happens, or is waited for.
#[derive(Clone, Copy)]
pub enum Step {
    /// Somebody does something.
    Do(&'static str, fn(&Stage)),
    /// The next step waits until this is so.
    Until(&'static str, fn(&Stage) -> bool),
    /// The next step waits that long.
    Rest(Duration),
}

/// A story.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Its name, part of every plan's identifier.
    pub name: &'static str,
    /// What is there before a controller starts.
    pub before: fn(&Stage),
    /// What happens then.
    pub steps: &'static [Step],
    /// Whether what is true at the end is as it should be.
    pub ends: fn(&Stage) -> bool,
    /// How long a decided request is kept after its pod is gone.
    pub retention: Duration,
    /// Whether what it comes to depends on who is faster; then nothing but `ends` is compared.
    pub race: bool,
    /// Whether something in it happens because time has passed on the wall clock.
    pub timed: bool,
    /// How long a step may take to come true where nothing goes wrong and time is no part of the story.
    pub usual: Duration,
    /// Whether a process that starts later cannot know what one knows that saw it all.
    pub remembered: bool,
    /// How many processes want to lead, of which one does.
    pub replicas: usize,
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
    all
}

/// The scenario of that name.
#[must_use]
pub fn named(name: &str) -> Option<Scenario> {
    all().into_iter().find(|it| it.name == name)
}
