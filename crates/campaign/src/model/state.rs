//! What a state consists of: small values that are copied, compared and hashed in no time.
//!
//! Owns: the cluster as far as the protocol sees it, and what may still happen to it. Invariant: two states that behave alike are one; nothing is in here that no
//! later step and no rule looks at.

use std::{
    cmp::Ordering,
    hash::{Hash, Hasher},
};

use super::{doing::Doing, rules::Rule};

/// Pods, by name. Under one name a second pod may follow.
pub(super) const SLOTS: usize = 2;
/// Policies.
pub(super) const POLICIES: usize = 2;
/// Names of requests of one pod name: of its first pod, of its second, and a second one of its first.
pub(super) const NAMES_OF_SLOT: usize = 3;
/// Names of requests.
pub(super) const NAMES: usize = SLOTS * NAMES_OF_SLOT;
/// How often a request is made under one name.
pub(super) const INCARNATIONS: usize = 2;

/// What the API server stores, and what a watch cache shows of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct World {
    /// The pods.
    pub(super) pods: [Pod; SLOTS],
    /// The policies.
    pub(super) policies: [PolicyLife; POLICIES],
    /// The connector.
    pub(super) connector: Connector,
    /// Whether the account of the pods may use the connector at any time.
    pub(super) standing: bool,
    /// The check objects, by pod name and policy.
    pub(super) checks: [[Check; POLICIES]; SLOTS],
    /// The requests by name.
    pub(super) requests: [Option<Stored>; NAMES],
    /// How many requests there were under each name.
    pub(super) born: [u8; NAMES],
    /// Roles and RoleBindings, by request and policy.
    pub(super) grants: [[Objects; POLICIES]; NAMES * INCARNATIONS],
}

/// The pod under one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Pod {
    /// The first or the second of its name, each with a UID of its own.
    pub(super) generation: u8,
    /// Where it stands.
    pub(super) life: Life,
}

/// Where a pod stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Life {
    /// It runs.
    Running,
    /// It ran to its end.
    Finished,
    /// It is not there.
    Gone,
}

/// A policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum PolicyLife {
    /// As it was made.
    There,
    /// It grants other rules now.
    Edited,
    /// It is gone.
    Deleted,
}

/// The connector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Connector {
    /// As it was made.
    First,
    /// It is gone.
    Gone,
    /// Another one under its name.
    Second,
}

/// How much time has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Late {
    /// As good as none.
    No,
    /// Enough for a request that makes way.
    Minute,
    /// The time of all grants, all waiting and all retention is over.
    Days,
}

/// What was heard of a standing permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Covered {
    /// Nothing.
    Unheard,
    /// That there is none.
    No,
    /// That there is one.
    Yes,
}

/// What a check object says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Check {
    /// Nothing yet, or nothing any more.
    Pending,
    /// Yes.
    Approved,
    /// No.
    Rejected,
    /// It is gone.
    Deleted,
}

/// A request under its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Stored {
    /// Which one of its name: part of its UID.
    pub(super) incarnation: u8,
    /// Its status, as a number of the table.
    pub(super) status: u16,
}

/// What is there of one grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Objects {
    /// The Role, by the rules that it has: 0 is none.
    pub(super) role: u8,
    /// Whether there is a RoleBinding.
    pub(super) binding: bool,
}

/// One of the two kinds, the first to go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Without it nobody has the Role.
    Binding,
    /// The rules.
    Role,
}

/// A request by its UID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct RequestId {
    /// Which name.
    pub(super) name: u8,
    /// Which one of that name.
    pub(super) incarnation: u8,
}

/// The whole state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    /// What the API server stores.
    pub(super) world: World,
    /// How much time has passed.
    pub(super) late: Late,
    /// The two controllers; which one comes first means nothing.
    pub(super) controllers: [Controller; 2],
    /// What may still happen around them.
    pub(super) left: Left,
    /// A controller died when it had written a Role and not yet its RoleBinding.
    pub(super) halved: bool,
    /// The first rule that was broken by a step.
    pub(super) broken: Option<Rule>,
}

/// How many things may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Left {
    /// By people, to pods, and time that passes.
    pub(super) happenings: u8,
    /// Faults.
    pub(super) faults: u8,
}

/// One controller. It believes that it leads.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Controller {
    /// What it is in the middle of.
    pub(super) doing: Doing,
    /// What its watches showed when they stopped moving; none while they keep up.
    pub(super) behind: Option<u32>,
    /// Its name for readers.
    pub(super) who: Who,
}

/// A name that makes no difference.
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

impl Kind {
    /// Both, in the order of removal.
    pub(super) const ALL: [Self; 2] = [Self::Binding, Self::Role];

    /// The bit of an object in a set.
    #[must_use]
    pub(super) const fn bit(self, policy: u8) -> u8 {
        1 << (2 * policy + self as u8)
    }
}

impl Objects {
    /// Whether there is one of a kind.
    #[must_use]
    pub(super) const fn has(self, kind: Kind) -> bool {
        match kind {
            Kind::Binding => self.binding,
            Kind::Role => self.role != 0,
        }
    }
}

impl RequestId {
    /// Where its grants are.
    #[must_use]
    pub(super) fn index(self) -> usize {
        usize::from(self.name) * INCARNATIONS + usize::from(self.incarnation)
    }

    /// The name of its pod.
    #[must_use]
    pub(super) fn slot(self) -> usize {
        usize::from(self.name) / NAMES_OF_SLOT
    }

    /// Which pod of that name.
    #[must_use]
    pub(super) fn generation(self) -> u8 {
        u8::from(usize::from(self.name) % NAMES_OF_SLOT == 1)
    }
}

impl World {
    /// The request with that UID.
    #[must_use]
    pub(super) fn request(&self, id: RequestId) -> Option<Stored> {
        let stored = self.requests[usize::from(id.name)]?;
        (stored.incarnation == id.incarnation).then_some(stored)
    }

    /// Every request.
    pub(super) fn all_requests(&self) -> impl Iterator<Item = (RequestId, Stored)> {
        (0_u8..).zip(&self.requests).filter_map(|(name, stored)| {
            let stored = (*stored)?;
            let incarnation = stored.incarnation;
            Some((RequestId { name, incarnation }, stored))
        })
    }

    /// Every name under which a Role or a RoleBinding may be.
    pub(super) fn all_grants(&self) -> impl Iterator<Item = (RequestId, u8, Objects)> {
        let names = (0_u8..).zip(self.grants.chunks(INCARNATIONS));
        names.flat_map(|(name, chunk)| {
            (0_u8..)
                .zip(chunk)
                .flat_map(move |(incarnation, policies)| {
                    let id = RequestId { name, incarnation };
                    (0_u8..)
                        .zip(policies)
                        .map(move |(policy, it)| (id, policy, *it))
                })
        })
    }

    /// The pod that a request is for: gone if there is none under its UID.
    #[must_use]
    pub(super) fn pod_of(&self, id: RequestId) -> Life {
        let pod = self.pods[id.slot()];
        if pod.generation == id.generation() {
            pod.life
        } else {
            Life::Gone
        }
    }
}

impl Left {
    /// Nothing happens any more.
    pub(super) const NOTHING: Self = Self {
        happenings: 0,
        faults: 0,
    };
}
