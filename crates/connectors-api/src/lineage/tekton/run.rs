//! The PipelineRun: the common owner of both chains, which must still run.

use super::object::{ControllerRef, LinkObject, is_set};
use super::{LineageReason, LineageStep, Origin, RunKind, refused};
use crate::names::CREATOR;

/// The controller that writes the status this proof trusts.
pub(super) const TEKTON: &str = "tekton.dev/pipeline";

/// The PipelineRun that controls a child.
pub(super) fn owner<'a>(kind: RunKind, child: &LinkObject<'a>) -> LineageStep<ControllerRef<'a>> {
    if let Some(owner) = child.controller(RunKind::PipelineRun) {
        return Ok(owner);
    }
    let reason = match kind {
        RunKind::CustomRun => LineageReason::CustomRunWithoutRun,
        RunKind::TaskRun | RunKind::PipelineRun => LineageReason::TaskRunWithoutRun,
    };
    refused(reason, format!("no PipelineRun controls {child}"))
}

/// The creation of a run.
pub(super) fn origin(run: &LinkObject<'_>) -> Origin {
    let annotations = run.value.pointer("/metadata/annotations");
    let creator = annotations.and_then(|it| it.get(CREATOR)?.as_str());
    Origin {
        run: run.name.to_owned(),
        created: run.created,
        creator: creator.filter(|it| !it.is_empty()).map(str::to_owned),
    }
}

/// The object is a PipelineRun in the version that is read.
pub(super) fn is_a_run(run: &LinkObject<'_>) -> LineageStep {
    let kind = RunKind::PipelineRun;
    if run.is_kind(kind.api_version(), kind.as_str()) {
        return Ok(());
    }
    refused(
        LineageReason::Unreadable,
        format!("{run} is no PipelineRun"),
    )
}

/// The run is neither done, cancelled nor being deleted. An approval can still be given after any of these.
pub(super) fn is_alive(run: &LinkObject<'_>) -> LineageStep {
    run.is_not_going()?;
    is_not_cancelled(run)?;
    if is_set(run.value, "/status/completionTime") || run.succeeded().is_some() {
        return refused(LineageReason::RunDone, format!("{run} has ended"));
    }
    Ok(())
}

/// `Cancelled`, `CancelledRunFinally` and `StoppedRunFinally` end a run, `PipelineRunPending` holds it. A word that this
/// version does not know counts as an end.
fn is_not_cancelled(run: &LinkObject<'_>) -> LineageStep {
    if is_set(run.value, "/spec/status") {
        let message = format!("{run} was cancelled, stopped or put off");
        return refused(LineageReason::RunCancelled, message);
    }
    Ok(())
}

/// The run is not the child of another run. The pipeline of a child is the parent's choice, so a proof would have to
/// begin at the parent, which this version does not do.
pub(super) fn is_no_child(run: &LinkObject<'_>) -> LineageStep {
    let owners = run.list("/metadata/ownerReferences");
    if owners.iter().any(|it| RunKind::PipelineRun.is(it)) {
        let message =
            format!("{run} is the child of another PipelineRun, for which there is no proof");
        return refused(LineageReason::RunOfRun, message);
    }
    Ok(())
}

/// Tekton's own controller manages the run, so it wrote the status.
pub(super) fn is_run_by_tekton(run: &LinkObject<'_>) -> LineageStep {
    if is_set(run.value, "/spec/managedBy") && run.text("/spec/managedBy") != TEKTON {
        let message = format!("another controller than Tekton's manages {run}");
        return refused(LineageReason::RunManagedElsewhere, message);
    }
    Ok(())
}
