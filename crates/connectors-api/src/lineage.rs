//! Proof that an approval and the asking pod belong to one Tekton pipeline run.
//!
//! Labels and owner references are the tenant's input, and Tekton adopts forged children, so neither is
//! believed alone. The proof goes top down, from fields that only the controllers write (`status`) and values
//! that only the API server sets (UIDs and creation times), along two chains that must end at one
//! PipelineRun, by UID:
//!
//! ```text
//! pod ← TaskRun ← PipelineRun → CustomRun → ApprovalTask
//! ```
//!
//! | link | file | what must hold |
//! |---|---|---|
//! | PipelineRun | `run` | neither done nor cancelled nor deleted, not the child of another run, run by Tekton itself |
//! | TaskRun, CustomRun | `child` | owner, age, name, membership and number |
//! | TaskRun, CustomRun | `content` | they run what `status.pipelineSpec` says for their pipeline task |
//! | pod | `pod` | the current pod of a TaskRun that still runs, under its derived name |
//! | ApprovalTask | `approval` | approvers and number of the CustomRun's parameters; the quorum, counted again |
//!
//! [`judge`] reads nothing. It names the missing parts ([`Missing`]), so a collector asks, reads them, and
//! asks again, until an answer names nothing that it has not read yet. Four rounds suffice without results of
//! other tasks. The pod's side comes first, so that an approval of another run is refused before anything of
//! it is read.
//!
//! # Limits of the proof
//! * An account that can exec into the approved pod or add ephemeral containers needs no forgery (F16).
//! * Tekton finds the pod of a TaskRun by the name in `status.podName`, and before that by a label and the owner
//!   reference. An impostor is believed when it takes the place of a deleted pod before Tekton re-creates it (F20), or
//!   when it is created under the derived name, with the TaskRun's UID, before Tekton creates the pod. Once the TaskRun
//!   has ended, no pod of it is believed. A pod from before the TaskRun is refused, and Tekton does not adopt it (F19).
//! * An account that may write the status of runs can forge the basis of the proof. Only the name of the pod
//!   is checked beside it (F22).
//! * Labels and annotations of children are not compared, because Tekton adds those of tasks that it
//!   resolves. Admission webhooks that add containers on account of annotations therefore give a forged child
//!   more power.
//!
//! Admission that lets only Tekton create TaskRuns, CustomRuns and pods with such owners, and write their status, closes
//! the last three.
//!
//! # Decisions
//! * Timeouts and compute resources of children are not compared: they do not change what runs.
//! * Other values of a pipeline task that only Tekton's controller knows (`$(tasks.x.status)`, lengths of matrices,
//!   artifacts, results in bracket notation) are not resolved: the child is refused.
//! * The TaskRuns that produced a result are proven like the child that consumes it.
//! * Gracefully cancelled or stopped runs count as cancelled, although their finally tasks may still run.

pub(crate) mod approval;
pub(crate) mod asked;
mod child;
mod content;
mod labels;
mod matrix;
mod names;
mod object;
mod pod;
mod pod_template;
mod proof;
mod reason;
mod references;
mod results;
mod run;
mod workspaces;

#[cfg(test)]
pub(crate) mod tests;

use std::fmt;

use jiff::Timestamp;
use serde_json::Value;

pub use approval::is_unambiguous;
pub use object::RunKind;
pub use reason::LineageReason;

use crate::access_request::Approval;
use crate::object_ref::ObjectRef;
use object::{LinkObject, LinkObjects};
use proof::Proof;

/// The most objects between pod and approval.
pub const MOST_OBJECTS: usize = 512;

/// The most steps of one proof: a compared field, some copied bytes, a child that was looked at.
const MOST_STEPS: usize = 500_000;
/// The most steps of all proofs for one question or one reconciliation.
pub const MOST_STEPS_OF_ALL: usize = 2_000_000;

/// A pod, an approval, and the objects that link them, as the API server returned them.
#[derive(Clone, Copy, Debug)]
pub struct LineageQuestion<'a> {
    /// The asking pod.
    pub pod: &'a Value,
    /// The ApprovalTask.
    pub approval: &'a Value,
    /// TaskRuns, CustomRuns and PipelineRuns of the pod's namespace, in any order. Some may be missing; objects of
    /// other runs do not matter.
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
    /// The objects between pod and approval: the PipelineRun, the pod's TaskRun, the approval's CustomRun, and then the
    /// TaskRuns whose results they use.
    pub objects: Vec<ObjectRef>,
    /// The approvals, ordered by user.
    pub approvals: Vec<Approval>,
    /// Where the run comes from. None if the run is gone after a grant.
    pub origin: Option<Origin>,
}

/// Where a pipeline run comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The name of the run.
    pub run: String,
    /// When the run was created.
    pub created: Timestamp,
    /// The creator by the run's annotation. It is reliable only where an admission rule protects it.
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

/// Why a step of the proof goes no further.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ProofStop {
    Waiting(Vec<MissingLink>),
    Refused(LineageRefusal),
}

type LineageStep<T = ()> = Result<T, ProofStop>;

/// A contradiction.
fn refused<T>(reason: LineageReason, message: String) -> LineageStep<T> {
    Err(ProofStop::Refused(LineageRefusal { reason, message }))
}

/// Both values, or the missing parts of both steps. A contradiction precedes missing parts.
fn both<A, B>(one: LineageStep<A>, other: LineageStep<B>) -> LineageStep<(A, B)> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok((one, other)),
        (Err(ProofStop::Waiting(mut one)), Err(ProofStop::Waiting(other))) => {
            one.extend(other);
            Err(ProofStop::Waiting(one))
        }
        (Err(stop @ ProofStop::Refused(_)), _)
        | (_, Err(stop @ ProofStop::Refused(_)))
        | (Err(stop), Ok(_))
        | (Ok(_), Err(stop)) => Err(stop),
    }
}

/// Judges whether the approval and the pod belong to one run, and whether the approval is given.
#[must_use]
pub fn judge(question: &LineageQuestion<'_>) -> LineageVerdict {
    let mut steps = MOST_STEPS;
    judge_within(question, &mut steps)
}

/// The same at the expense of a number of steps that several proofs share. Without any step left every proof is refused.
pub fn judge_within(question: &LineageQuestion<'_>, steps: &mut usize) -> LineageVerdict {
    let allowed = MOST_STEPS.min(*steps);
    let mut left = allowed;
    let proof = prove(question, &mut left);
    *steps -= allowed - left;
    verdict(proof)
}

/// Judges whether a pipeline run that a grant rests on still goes on.
pub fn goes_on(run: &Value) -> Result<(), LineageRefusal> {
    match live_run(run) {
        Ok(_) | Err(ProofStop::Waiting(_)) => Ok(()),
        Err(ProofStop::Refused(refusal)) => Err(refusal),
    }
}

/// A PipelineRun that still goes on.
fn live_run(run: &Value) -> LineageStep<LinkObject<'_>> {
    let run = LinkObject::read(run)?;
    run::is_a_run(&run)?;
    run::is_alive(&run)?;
    Ok(run)
}

/// Judges whether a proven approval still counts after a grant: the approvers still say yes, and the run still goes on.
///
/// `runs` are the PipelineRuns of the evidence, found by their UIDs. The caller finds out which of the objects of the
/// evidence still exist.
#[must_use]
pub fn still_holds(approval: &Value, runs: &[Value]) -> LineageVerdict {
    let holds = || {
        let approval = LinkObject::read(approval)?;
        approval::is_of_the_gate(&approval)?;
        let runs = runs.iter().map(live_run).collect::<LineageStep<Vec<_>>>()?;
        Ok(Evidence {
            objects: runs.iter().map(LinkObject::reference).collect(),
            approvals: approval::decision(&approval)?,
            origin: runs.first().map(run::origin),
        })
    };
    verdict(holds())
}

fn verdict(proof: LineageStep<Evidence>) -> LineageVerdict {
    match proof {
        Ok(evidence) => LineageVerdict::Proven(Box::new(evidence)),
        Err(ProofStop::Refused(refusal)) => LineageVerdict::Refused(refusal),
        Err(ProofStop::Waiting(mut missing)) => {
            missing.sort();
            missing.dedup();
            LineageVerdict::Waiting(missing)
        }
    }
}

fn prove<'a>(question: &LineageQuestion<'a>, left: &'a mut usize) -> LineageStep<Evidence> {
    let pod = LinkObject::read(question.pod)?;
    let approval = LinkObject::read(question.approval)?;
    let store = LinkObjects::read(question.objects, pod.namespace)?;
    pod::is_a_pod(&pod)?;
    approval::is_of_the_gate(&approval)?;
    approval::is_beside(&approval, &pod)?;
    let owner = approval::owner(&approval)?;
    let task_run = pod::task_run(&pod, &store)?;
    let run = store.owned(
        RunKind::PipelineRun,
        run::owner(RunKind::TaskRun, &task_run)?,
    )?;
    run::is_alive(&run)?;
    run::is_no_child(&run)?;
    run::is_run_by_tekton(&run)?;

    let mut proof = Proof::of(run, store, left)?;
    // Every account that may create approvals can copy the labels of a check. An approval that the run does not ask for
    // costs no read.
    proof.asks_for(&approval, owner)?;
    let custom_run = proof.store.owned(RunKind::CustomRun, owner)?;
    let of_task_run = proof.child(RunKind::TaskRun, &task_run);
    let of_pod = pod::check(&pod, &task_run);
    let of_custom_run = proof.child(RunKind::CustomRun, &custom_run);
    let of_approval = both(
        approval::check(&approval, &custom_run),
        proof.is_labelled(&approval),
    );
    let pod_side = both(of_task_run, of_pod);
    both(pod_side, both(of_custom_run, of_approval))?;
    let approvals = approval::decision(&approval)?;
    let mut objects = vec![
        run.reference(),
        task_run.reference(),
        custom_run.reference(),
    ];
    let others = proof.used().into_iter();
    let others: Vec<_> = others.filter(|it| !objects.contains(it)).collect();
    objects.extend(others);
    Ok(Evidence {
        objects,
        approvals,
        origin: Some(run::origin(&run)),
    })
}
