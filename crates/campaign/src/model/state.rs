//! The state of the model: its cluster, its controllers, and the remaining events and faults.
//!
//! Invariant: two states with the same behaviour are equal; the state contains only values that a later step or a rule
//! uses.

use std::{
    cmp::Ordering,
    hash::{Hash, Hasher},
};

use super::{
    doing::Doing,
    world::{Late, World},
};

/// The whole state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    /// The objects of the API server.
    pub(super) world: World,
    /// How much time has passed.
    pub(super) late: Late,
    /// The two controllers; their order has no meaning.
    pub(super) controllers: [Controller; 2],
    /// The remaining events and faults.
    pub(super) left: Left,
    /// A controller crashed after it wrote a Role and before it wrote the RoleBinding.
    pub(super) halved: bool,
    /// The first rule that a step broke.
    pub(super) broken: Option<Rule>,
}

/// The remaining events and faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Left {
    /// Events: actions of people, changes of pods, passing of time.
    pub(super) happenings: u8,
    /// Faults.
    pub(super) faults: u8,
}

/// One controller. It believes that it leads; if there are shards, it leads some.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Controller {
    /// Its current work.
    pub(super) doing: Doing,
    /// The state of its caches when its watches stopped; none while they are up to date.
    pub(super) behind: Option<u32>,
    /// The pod names whose shard it leads: a bit for each.
    pub(super) leads: u8,
    /// Its number in reports.
    pub(super) who: Who,
}

impl Controller {
    /// Whether it may begin work on this pod name.
    pub(super) const fn leads(&self, slot: usize) -> bool {
        self.leads & 1 << slot != 0
    }
}

/// A number that is ignored by comparisons.
#[derive(Clone, Copy, Debug)]
pub(super) struct Who(pub(super) u8);

impl PartialEq for Who {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Who {}

impl Hash for Who {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl PartialOrd for Who {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Who {
    fn cmp(&self, _: &Self) -> Ordering {
        Ordering::Equal
    }
}

/// A rule that a step can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Rule {
    /// A binding was written without live proof.
    GrantedUnproven,
    /// A grant of more than the pod's own use of the connector.
    GrantedTooMuch,
    /// An ended grant or request came back.
    Returned,
    /// A request was ended although it could still be decided.
    EndedEarly,
}

impl State {
    /// Records a broken rule. Only the first one is kept, because others may be its consequences.
    pub(super) fn breaks(&mut self, rule: Rule) {
        self.broken.get_or_insert(rule);
    }
}

impl Left {
    /// No more events and faults.
    pub(super) const NOTHING: Self = Self {
        happenings: 0,
        faults: 0,
    };
}
