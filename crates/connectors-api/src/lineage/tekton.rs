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
//! Four rounds of questions suffice without results of other tasks. The pod's side comes first, so that an approval of
//! another run is refused before anything of it is read.
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

mod approval;
mod asked;
mod child;
mod content;
mod labels;
mod matrix;
pub(super) mod names;
mod object;
mod pod;
mod pod_template;
mod proof;
mod references;
mod results;
mod run;
mod workspaces;

use serde_json::Value;

pub(crate) use object::RunKind;

use super::steps::{LineageStep, ProofStop, both, refused, verdict};
use super::{
    Absent, Evidence, Lineage, LineageQuestion, LineageReason, LineageRefusal, LineageVerdict,
    LinkKind, MOST_OBJECTS, MissingLink, Origin,
};
use crate::template::RenderedLabels;
use object::{LinkObject, LinkObjects};
use proof::Proof;

/// The lineage of Tekton Pipelines and the manual approval gate.
pub const TEKTON: &dyn Lineage = &Tekton;

struct Tekton;

impl Lineage for Tekton {
    fn name(&self) -> &'static str {
        "Tekton"
    }

    fn kinds(&self) -> &'static [LinkKind] {
        const {
            &[
                RunKind::PipelineRun.link(),
                RunKind::TaskRun.link(),
                RunKind::CustomRun.link(),
            ]
        }
    }

    fn prove(&self, question: &LineageQuestion<'_>, left: &mut usize) -> LineageVerdict {
        verdict(prove(question, left))
    }

    fn goes_on(&self, run: &Value) -> Result<(), LineageRefusal> {
        match live_run(run) {
            Ok(_) | Err(ProofStop::Waiting(_)) => Ok(()),
            Err(ProofStop::Refused(refusal)) => Err(refusal),
        }
    }

    fn still_holds(&self, approval: &Value, runs: &[Value]) -> LineageVerdict {
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

    fn not_found(
        &self,
        run: &Value,
        labels: &RenderedLabels,
        is_found: &dyn Fn(&str) -> bool,
        steps: &mut usize,
    ) -> Result<Option<String>, LineageRefusal> {
        asked::not_found(run, labels, is_found, steps)
    }
}

/// A PipelineRun that still goes on.
fn live_run(run: &Value) -> LineageStep<LinkObject<'_>> {
    let run = LinkObject::read(run)?;
    run::is_a_run(&run)?;
    run::is_alive(&run)?;
    Ok(run)
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
