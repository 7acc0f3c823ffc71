//! What a controller is in the middle of: what it has read, and which call comes next.
//!
//! Invariant: what was read and is not looked at any more is not kept, so that it makes no two states of one.

use super::state::{
    Check, Connector, Covered, Kind, Life, Objects, POLICIES, PolicyLife, RequestId, Stored,
};

/// What a controller is in the middle of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Doing {
    /// Nothing.
    Idle,
    /// It has just started, and looks at everything managed first.
    Sweeping(Sweep),
    /// It reads live.
    Reading(Reading),
    /// It writes.
    Applying(Applying),
    /// It holds the rule against the two objects under one name.
    Enforcing(Enforcing),
}

/// A sweep.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Sweep {
    /// Nothing was read yet.
    Started,
    /// The objects were listed: one bit for each name.
    Listed(u32),
    /// These are to be looked at.
    Strays(u32),
    /// One of them is being looked at.
    Enforcing(u32, Enforcing),
}

/// The rule about managed objects, for the two under one name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Enforcing {
    /// Whose objects.
    pub(super) id: RequestId,
    /// Of which policy.
    pub(super) policy: u8,
    /// The request as it was read.
    pub(super) request: Option<Stored>,
    /// What is looked at next.
    pub(super) next: Kind,
}

/// What was read about a request: everything that a decision is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Seen {
    /// The request.
    pub(super) id: RequestId,
    /// Its status.
    pub(super) status: u16,
    /// The pod: none if there is none under its UID.
    pub(super) pod: Life,
    /// Its Roles and RoleBindings.
    pub(super) objects: [Objects; POLICIES],
    /// Another request that decides for the pod, and whether there is another one at all.
    pub(super) tuple: (Option<u8>, bool),
    /// The connector.
    pub(super) connector: Connector,
    /// The policies.
    pub(super) policies: [PolicyLife; POLICIES],
    /// The checks, as far as they matter.
    pub(super) checks: [Heard; POLICIES],
    /// What was heard of a standing permission.
    pub(super) standing: Covered,
}

/// What came of asking about a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Heard {
    /// What its object says.
    pub(super) check: Check,
    /// The evaluation service did not answer.
    pub(super) silent: bool,
}

/// A live look.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Reading {
    /// What was read so far; the rest is not looked at.
    pub(super) seen: Seen,
    /// What is read next.
    pub(super) next: Read,
    /// Nobody wrote the request since it was read.
    pub(super) same: bool,
    /// The first read is too old to grant on.
    pub(super) stale: bool,
    /// The pod really was there and running when it was read.
    pub(super) there: bool,
    /// The objects that were seen and not deleted since: a bit for each.
    pub(super) theirs: u8,
}

/// One live read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Read {
    /// The pod.
    Pod,
    /// Roles, RoleBindings, the other requests of the pod, connector and policies.
    Rest,
    /// What the evaluation service says about a standing permission.
    Standing,
    /// The check of a policy, and what the evaluation service says.
    Check(u8),
}

/// A plan that is being carried out.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Applying {
    /// The request.
    pub(super) id: RequestId,
    /// Its status when it was read.
    pub(super) decided: u16,
    /// Its status as it was last written.
    pub(super) current: u16,
    /// Nobody else wrote it since.
    pub(super) same: bool,
    /// What was read is too old to grant on.
    pub(super) stale: bool,
    /// The plan, as a number of the table.
    pub(super) plan: u32,
    /// The policies whose checks were read live and passed, with the pod there: a bit for each.
    pub(super) proof: u8,
    /// What was read live ends a request that held nothing; only where the plan ends one so.
    pub(super) over: bool,
    /// The objects to remove that nobody else deleted since they were read: a bit for each.
    pub(super) theirs: u8,
    /// Something could not be removed.
    pub(super) failed: bool,
    /// An end that could not be recorded is carried out.
    pub(super) unrecorded: bool,
    /// What is done next.
    pub(super) step: Step,
}

/// One call to the API server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Step {
    /// The status of the plan.
    Status,
    /// One of the objects to remove.
    Remove(u8),
    /// Role or RoleBinding of one of the grants.
    Create(u8, Kind),
    /// There is one already: it is looked at.
    Adopt(u8, Kind),
    /// It is another one: both go.
    Clear(u8, Kind),
    /// The status says why nothing was written.
    NotWritten,
    /// One of the objects that must be gone, after so many deletions.
    Gone(u8, u8),
    /// The status says that nothing is left.
    Finished,
    /// The request itself goes.
    DeleteRequest,
    /// The request is asked whether it still wants what was written, for the n-th time.
    Confirm(u8),
    /// It does, and its status says so.
    ConfirmWrite(u8, u16),
    /// It does not: the rule is held against one of the objects.
    Enforce(u8, Option<Stored>),
}

impl Doing {
    /// The pod name that is worked on, unless it is all of them.
    #[must_use]
    pub(super) fn slot(&self) -> Option<usize> {
        match self {
            Self::Idle | Self::Sweeping(_) => None,
            Self::Reading(it) => Some(it.seen.id.slot()),
            Self::Applying(it) => Some(it.id.slot()),
            Self::Enforcing(it) => Some(it.id.slot()),
        }
    }
}
