//! The approvals that a run asked for, beside those that a check found.
//!
//! The gate lets every approver change the labels of an approval, so a check that needs all approvals would not see one
//! that lost them. The run's own list of children still names it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::object::{LinkObject, list, text};
use super::{LineageReason, LineageRefusal, LineageStep, ProofStop, RunKind, approval, refused};
use crate::template::RenderedLabels;

/// The first approval that the run asked for, that has these labels by its run and pipeline task, and that was not found.
pub(crate) fn not_found<'a>(
    run: &'a Value,
    labels: &RenderedLabels,
    is_found: impl Fn(&str) -> bool,
    steps: &mut usize,
) -> Result<Option<&'a str>, LineageRefusal> {
    match LinkObject::read(run).and_then(|run| search(&run, labels, is_found, steps)) {
        Ok(name) => Ok(name),
        Err(ProofStop::Refused(refusal)) => Err(refusal),
        // Nothing here waits: a run without children has asked for nothing.
        Err(ProofStop::Waiting(_)) => Ok(None),
    }
}

fn search<'a>(
    run: &LinkObject<'a>,
    labels: &RenderedLabels,
    is_found: impl Fn(&str) -> bool,
    steps: &mut usize,
) -> LineageStep<Option<&'a str>> {
    let tasks = ["/status/pipelineSpec/tasks", "/status/pipelineSpec/finally"];
    let tasks = || tasks.iter().flat_map(|it| run.list(it));
    let children = list(run.value, "/status/childReferences");
    let Some(left) = steps.checked_sub(tasks().count() + children.len() + 1) else {
        let message = format!("{run} takes too many steps to prove");
        return refused(LineageReason::TooLarge, message);
    };
    *steps = left;
    let asking = tasks().filter(|it| asks_for_approval(it));
    let asking: BTreeSet<_> = asking.map(|it| text(it, "/name")).collect();
    let asked = children.iter().filter(|it| RunKind::CustomRun.is(it));
    let mut asked = asked.map(|it| (text(it, "/name"), text(it, "/pipelineTaskName")));
    Ok(asked
        .find(|(name, task)| {
            asking.contains(task) && !is_found(name) && has_labels(run, name, task, labels)
        })
        .map(|(name, _)| name))
}

fn asks_for_approval(task: &Value) -> bool {
    ["/taskRef", "/taskSpec"].into_iter().any(|pointer| {
        task.pointer(pointer).is_some_and(|it| {
            (text(it, "/apiVersion"), text(it, "/kind")) == (approval::API_VERSION, approval::KIND)
        })
    })
}

/// Tekton labels a CustomRun with the labels of its run and its own, and the gate copies them to the approval.
fn has_labels(run: &LinkObject<'_>, name: &str, task: &str, labels: &RenderedLabels) -> bool {
    let of_run = run.value.pointer("/metadata/labels");
    labels.match_found(|key| match key {
        "tekton.dev/pipelineRun" => Some(run.name),
        "tekton.dev/pipelineRunUID" => Some(run.uid),
        "tekton.dev/pipelineTask" => Some(task),
        "tekton.dev/customRun" => Some(name),
        _ => of_run?.get(key)?.as_str(),
    })
}
