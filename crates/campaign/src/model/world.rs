//! The objects of the model's cluster: small values that are cheap to copy, compare and hash.
//!
//! Owns: the cluster as far as the protocol uses it. Invariant: two worlds with the same behaviour are equal.

/// Pod names. A second pod may follow under the same name.
pub(super) const SLOTS: usize = 2;
/// Policies.
pub(super) const POLICIES: usize = 2;
/// Names of requests per pod name: one of its first pod, one of its second, and a second one of its first.
pub(super) const NAMES_OF_SLOT: usize = 3;
/// Names of requests.
pub(super) const NAMES: usize = SLOTS * NAMES_OF_SLOT;
/// The limit of requests created under one name.
pub(super) const INCARNATIONS: usize = 2;

/// The objects of the API server, or the view of them in a watch cache.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct World {
    /// The pods.
    pub(super) pods: [Pod; SLOTS],
    /// The policies.
    pub(super) policies: [PolicyLife; POLICIES],
    /// The connector.
    pub(super) connector: Connector,
    /// Whether the account of the pods has a standing permission.
    pub(super) standing: bool,
    /// The check objects, by pod name and policy.
    pub(super) checks: [[Check; POLICIES]; SLOTS],
    /// The requests by name.
    pub(super) requests: [Option<Stored>; NAMES],
    /// The number of requests created under each name.
    pub(super) born: [u8; NAMES],
    /// Roles and RoleBindings, by request and policy.
    pub(super) grants: [[Objects; POLICIES]; NAMES * INCARNATIONS],
}

/// The pod under one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Pod {
    /// The first or the second pod of its name, each with its own UID.
    pub(super) generation: u8,
    /// Its lifecycle.
    pub(super) life: Life,
}

/// The lifecycle of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Life {
    /// It runs.
    Running,
    /// It has terminated.
    Finished,
    /// It does not exist.
    Gone,
}

/// A policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum PolicyLife {
    /// Unchanged.
    There,
    /// It grants other rules now.
    Edited,
    /// It is deleted.
    Deleted,
}

/// The connector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Connector {
    /// Unchanged.
    First,
    /// It is deleted.
    Gone,
    /// Another one with its name.
    Second,
}

/// The time that has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Late {
    /// Practically none.
    No,
    /// Long enough to delete a request that makes way.
    Minute,
    /// Longer than all grants, waiting times and retention.
    Days,
}

/// The answer about a standing permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Covered {
    /// No answer.
    Unheard,
    /// There is none.
    No,
    /// There is one.
    Yes,
}

/// The state of a check object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Check {
    /// No decision, or a withdrawn one.
    Pending,
    /// Approved.
    Approved,
    /// Rejected.
    Rejected,
    /// Deleted.
    Deleted,
}

/// A request with its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Stored {
    /// The incarnation of its name: part of its UID.
    pub(super) incarnation: u8,
    /// Its status, as a number in the table.
    pub(super) status: u16,
}

/// The existing objects of one grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Objects {
    /// The Role, by the number of its rules: 0 is none.
    pub(super) role: u8,
    /// Whether there is a RoleBinding.
    pub(super) binding: bool,
}

/// The two kinds, in the order of removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Without it, the Role is not in effect.
    Binding,
    /// The rules.
    Role,
}

/// A request, identified by its UID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct RequestId {
    /// The name, as a number.
    pub(super) name: u8,
    /// The incarnation of that name.
    pub(super) incarnation: u8,
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
    /// The index of its grants.
    #[must_use]
    pub(super) fn index(self) -> usize {
        usize::from(self.name) * INCARNATIONS + usize::from(self.incarnation)
    }

    /// The name of its pod.
    #[must_use]
    pub(super) fn slot(self) -> usize {
        usize::from(self.name) / NAMES_OF_SLOT
    }

    /// The pod of that name, as a number.
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

    /// The pod of a request: gone if there is none with its UID.
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
