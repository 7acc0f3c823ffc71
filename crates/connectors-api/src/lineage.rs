//! Proof that an approval and the asking pod belong to one run of a pipeline.
//!
//! A system whose objects lead from a pod to an approval has a [`Lineage`]; `approval_kind` names it in the row of the
//! approval's kind. All others call its methods and know no system.
//!
//! | part | file |
//! |---|---|
//! | the proof of Tekton Pipelines and the manual approval gate | `tekton` |
//! | the words for refusals, which are part of the API | `reason` |
//! | what the steps of a proof have in common | `steps` |
//!
//! `judge` reads nothing. It names the missing parts ([`MissingLink`]), so a collector asks, reads
//! them, and asks again, until an answer names nothing that it has not read yet.

mod reason;
mod steps;
pub(crate) mod tekton;

#[cfg(test)]
pub(crate) mod tests;

use std::fmt;

use jiff::Timestamp;
use serde_json::Value;

pub use reason::LineageReason;
pub use tekton::TEKTON;

use crate::access_policy::ObjectKind;
use crate::access_request::Approval;
use crate::object_ref::ObjectRef;
use crate::template::RenderedLabels;

/// The most objects between pod and approval.
pub const MOST_OBJECTS: usize = 512;

/// The most steps of one proof: a compared field, some copied bytes, a child that was looked at.
const MOST_STEPS: usize = 500_000;
/// The most steps of all proofs for one question or one reconciliation.
pub const MOST_STEPS_OF_ALL: usize = 2_000_000;

/// The lineage of a system: how its objects lead from a pod to an approval.
pub trait Lineage: Sync {
    /// The name of the system. Two lineages differ in it.
    fn name(&self) -> &'static str;

    /// The kinds between pod and approval, which a proof reads. The first is that of the run. A grant rests on one object
    /// of each, with which the evidence begins in this order.
    fn kinds(&self) -> &'static [LinkKind];

    /// Judges whether the approval and the pod belong to one run, and whether the approval is given. It takes its steps
    /// from those that are left, and refuses without any. Callers use `judge` or `judge_within`.
    fn prove(&self, question: &LineageQuestion<'_>, left: &mut usize) -> LineageVerdict;

    /// Judges whether a run that a grant rests on still goes on.
    fn goes_on(&self, run: &Value) -> Result<(), LineageRefusal>;

    /// Judges whether a proven approval still counts after a grant: the approvers still say yes, and the run still goes
    /// on.
    ///
    /// `runs` are the runs of the evidence, found by their UIDs. The caller finds out which of the objects of the
    /// evidence still exist.
    fn still_holds(&self, approval: &Value, runs: &[Value]) -> LineageVerdict;

    /// The first approval that a proven run asked for, that could have these labels, and that was not found.
    fn not_found(
        &self,
        run: &Value,
        labels: &RenderedLabels,
        is_found: &dyn Fn(&str) -> bool,
        steps: &mut usize,
    ) -> Result<Option<String>, LineageRefusal>;
}

impl dyn Lineage {
    /// Judges whether the approval and the pod belong to one run, and whether the approval is given.
    #[must_use]
    pub fn judge(&self, question: &LineageQuestion<'_>) -> LineageVerdict {
        let mut steps = MOST_STEPS;
        self.judge_within(question, &mut steps)
    }

    /// The same at the expense of a number of steps that several proofs share. Without any step left every proof is
    /// refused.
    pub fn judge_within(
        &self,
        question: &LineageQuestion<'_>,
        steps: &mut usize,
    ) -> LineageVerdict {
        let allowed = MOST_STEPS.min(*steps);
        let mut left = allowed;
        let verdict = self.prove(question, &mut left);
        *steps -= allowed - left.min(allowed);
        verdict
    }

    /// The kinds between pod and approval.
    pub fn object_kinds(&self) -> impl Iterator<Item = ObjectKind> {
        self.kinds().iter().copied().map(ObjectKind::from)
    }

    /// True for the name of a kind between pod and approval.
    #[must_use]
    pub fn has_kind(&self, kind: &str) -> bool {
        self.kinds().iter().any(|it| it.kind == kind)
    }

    /// True for the name of the kind of runs.
    #[must_use]
    pub fn is_run(&self, kind: &str) -> bool {
        self.kinds().first().is_some_and(|it| it.kind == kind)
    }
}

impl fmt::Debug for dyn Lineage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for dyn Lineage {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for dyn Lineage {}

/// Each lineage once, in the order in which they first come.
pub(crate) fn distinct(
    all: impl Iterator<Item = &'static dyn Lineage>,
) -> Vec<&'static dyn Lineage> {
    let mut known = Vec::new();
    for lineage in all {
        if !known.contains(&lineage) {
            known.push(lineage);
        }
    }
    known
}

/// A kind of the objects between pod and approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkKind {
    /// Group and version.
    pub api_version: &'static str,
    /// Kind.
    pub kind: &'static str,
}

impl From<LinkKind> for ObjectKind {
    fn from(kind: LinkKind) -> Self {
        Self {
            api_version: kind.api_version.to_owned(),
            kind: kind.kind.to_owned(),
        }
    }
}

/// A pod, an approval, and the objects that link them, as the API server returned them.
#[derive(Clone, Copy, Debug)]
pub struct LineageQuestion<'a> {
    /// The asking pod.
    pub pod: &'a Value,
    /// The approval.
    pub approval: &'a Value,
    /// Objects of the lineage's kinds in the pod's namespace, in any order. Some may be missing; objects of other runs do
    /// not matter.
    pub objects: &'a [Value],
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineageVerdict {
    /// Approval and pod belong to one run, and the approval is given.
    Proven(Box<Evidence>),
    /// Nothing contradicts, but something is missing. It is never empty.
    Waiting(Vec<MissingLink>),
    /// Something contradicts.
    Refused(LineageRefusal),
}

/// The inputs of a proof.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The objects between pod and approval: one of each kind of the lineage in its order, so the run first, and then
    /// others that they depend on. After a grant: the run, if it is not gone.
    pub objects: Vec<ObjectRef>,
    /// The approvals, ordered by user.
    pub approvals: Vec<Approval>,
    /// Where the run comes from. None if the run is gone after a grant.
    pub origin: Option<Origin>,
}

/// Where a run comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The name of the run.
    pub run: String,
    /// When the run was created.
    pub created: Timestamp,
    /// The creator that the run names. It is reliable only where the installation's admission rule about creators
    /// protects it. None for a run of a kind that this rule does not cover.
    pub creator: Option<String>,
}

/// A part that a proof lacks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MissingLink {
    /// Group and version.
    pub api_version: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// The UID that the object must have, where it is known.
    pub uid: Option<String>,
    /// The missing part of the object.
    pub what: Absent,
}

/// The missing part of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Absent {
    /// All of it: the collector reads the object.
    Object,
    /// A field that a controller writes later: the collector waits for a change.
    Field(&'static str),
    /// The decision of the approvers. Everything else is proven.
    Decision,
}

/// Why there is no proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineageRefusal {
    /// The reason, as one word.
    pub reason: LineageReason,
    /// The reason, as a sentence. It quotes names, never content.
    pub message: String,
}

impl fmt::Display for MissingLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, .. } = self;
        match self.what {
            Absent::Object => write!(f, "{kind} {name}, which is not there"),
            Absent::Field(field) => write!(f, "{field} of {kind} {name}"),
            Absent::Decision => write!(f, "the approvers of {kind} {name}"),
        }
    }
}

/// True for the answers of approvers, and for the lack of one in time.
const fn is_answer(reason: LineageReason) -> bool {
    matches!(reason, LineageReason::Rejected | LineageReason::TimedOut)
}

/// The absence of a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unproven<'a> {
    /// Everything but the decision of the approvers is proven.
    Undecided,
    /// The first missing part.
    Incomplete(&'a MissingLink),
    /// Everything but the decision is proven, and the approvers said no or did not answer in time.
    Rejected(&'a LineageRefusal),
    /// Something contradicts.
    Refused(&'a LineageRefusal),
}

impl LineageVerdict {
    /// The evidence, or why there is none.
    pub fn proof(&self) -> Result<&Evidence, Unproven<'_>> {
        match self {
            Self::Proven(evidence) => Ok(evidence),
            Self::Refused(refusal) if is_answer(refusal.reason) => Err(Unproven::Rejected(refusal)),
            Self::Refused(refusal) => Err(Unproven::Refused(refusal)),
            Self::Waiting(missing) => {
                let of_objects = missing.iter().find(|it| it.what != Absent::Decision);
                Err(of_objects.map_or(Unproven::Undecided, Unproven::Incomplete))
            }
        }
    }

    /// True when the objects are too many or too large, or no steps are left to judge them.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        matches!(self, Self::Refused(it) if it.reason == LineageReason::TooLarge)
    }

    /// The objects to read before the question is asked again.
    pub fn to_read(&self) -> impl Iterator<Item = &MissingLink> {
        let missing = match self {
            Self::Waiting(missing) => missing.as_slice(),
            Self::Proven(_) | Self::Refused(_) => &[],
        };
        missing.iter().filter(|it| it.what == Absent::Object)
    }
}
