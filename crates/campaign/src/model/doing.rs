//! The current work of a controller: the objects it has read, and its next call.
//!
//! Invariant: values that were read and are no longer used are not kept, so that they do not split one state
//! into two.

use super::world::{
    Check, Connector, Covered, Kind, Life, Objects, POLICIES, PolicyLife, RequestId, Stored,
};

/// The current work of a controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Doing {
    /// Nothing.
    Idle,
    /// It has just started, and first sweeps all managed objects.
    Sweeping(Sweep),
    /// It performs live reads.
    Reading(Reading),
    /// It writes.
    Applying(Applying),
    /// It checks the two objects with one name against the rule about managed objects.
    Enforcing(Enforcing),
}

/// A sweep.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Sweep {
    /// Nothing has been read yet.
    Started,
    /// The objects were listed: one bit for each name.
    Listed(u32),
    /// The objects that are to be checked.
    Strays(u32),
    /// One of them is being checked.
    Enforcing(u32, Enforcing),
}

/// The check of the two objects with one name against the rule about managed objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Enforcing {
    /// The request of the objects.
    pub(super) id: RequestId,
    /// The policy of the objects.
    pub(super) policy: u8,
    /// The request as it was read.
    pub(super) request: Option<Stored>,
    /// The kind that is checked next.
    pub(super) next: Kind,
}

/// The observation of a request: all inputs of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Seen {
    /// The request.
    pub(super) id: RequestId,
    /// Its status.
    pub(super) status: u16,
    /// The pod: gone if there is none with its UID.
    pub(super) pod: Life,
    /// Its Roles and RoleBindings.
    pub(super) objects: [Objects; POLICIES],
    /// Another request that decides for the pod, and whether there is any other request at all.
    pub(super) tuple: (Option<u8>, bool),
    /// The connector.
    pub(super) connector: Connector,
    /// The policies.
    pub(super) policies: [PolicyLife; POLICIES],
    /// The checks, as far as they matter.
    pub(super) checks: [Heard; POLICIES],
    /// The answer about a standing permission.
    pub(super) standing: Covered,
}

/// The answer about a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Heard {
    /// The state of its object.
    pub(super) check: Check,
    /// The evaluation service did not answer.
    pub(super) silent: bool,
}

/// A live look.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Reading {
    /// The values read so far; the others are not used.
    pub(super) seen: Seen,
    /// The next read.
    pub(super) next: Read,
    /// The request was not written since it was read.
    pub(super) same: bool,
    /// The first read is too old to grant on.
    pub(super) stale: bool,
    /// The pod really existed and was running when it was read.
    pub(super) there: bool,
    /// The objects that were found and not deleted since: a bit for each.
    pub(super) theirs: u8,
}

/// One live read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Read {
    /// The pod.
    Pod,
    /// Roles, RoleBindings, the other requests of the pod, the connector and the policies.
    Rest,
    /// The answer of the evaluation service about a standing permission.
    Standing,
    /// The check of a policy, and the answer of the evaluation service.
    Check(u8),
}

/// The execution of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Applying {
    /// The request.
    pub(super) id: RequestId,
    /// Its status when it was read.
    pub(super) decided: u16,
    /// Its status as it was last written.
    pub(super) current: u16,
    /// No other writer has changed it since.
    pub(super) same: bool,
    /// The reads are too old to grant on.
    pub(super) stale: bool,
    /// The plan, as a number in the table.
    pub(super) plan: u32,
    /// The policies whose checks passed in a live read while the pod existed: a bit for each.
    pub(super) proof: u8,
    /// The live reads end a request that held nothing; only if the plan ends such a request.
    pub(super) over: bool,
    /// The objects to remove that no other writer deleted since they were read: a bit for each.
    pub(super) theirs: u8,
    /// An object could not be removed.
    pub(super) failed: bool,
    /// An end that could not be recorded is carried out.
    pub(super) unrecorded: bool,
    /// The next step.
    pub(super) step: Step,
}

/// One call to the API server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Step {
    /// The status of the plan.
    Status,
    /// One of the objects to remove.
    Remove(u8),
    /// The Role or RoleBinding of one of the grants.
    Create(u8, Kind),
    /// One of the Roles that are written in advance.
    Prepare(u8),
    /// The object already exists: it is read.
    Adopt(u8, Kind),
    /// The existing object differs: both objects of the grant are deleted.
    Clear(u8, Kind),
    /// Records in the status why nothing was written.
    NotWritten,
    /// Reads one of the objects that must be gone, after this many deletions.
    Gone(u8, u8),
    /// Records in the status that nothing is left.
    Finished,
    /// Deletes the request.
    DeleteRequest,
    /// Reads the request to confirm that it still wants the grant, for the n-th time.
    Confirm(u8),
    /// Records the confirmed grant in the status, after so many reads of the request.
    ConfirmWrite(u8, u16),
    /// The grant is no longer wanted: one of its objects is checked against the rule about managed objects.
    Enforce(u8, Option<Stored>),
}

impl Doing {
    /// The pod name of the work; none if it concerns all.
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
