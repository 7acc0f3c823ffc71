//! The approvals that a run asked for, beside those that a check found.
//!
//! The gate lets every approver change the labels of an approval, so a check that needs all approvals would not see one
//! that lost them. The run's own list of children still names it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::object::{LinkObject, text};
use super::{
    LineageReason, LineageRefusal, LineageStep, ProofStop, RunKind, approval, labels as own_labels,
    refused,
};
use crate::template::RenderedLabels;

/// The first approval that the run asked for, that could have these labels, and that was not found.
pub(super) fn not_found<'a>(
    run: &'a Value,
    labels: &RenderedLabels,
    is_found: &dyn Fn(&str) -> bool,
    steps: &mut usize,
) -> Result<Option<&'a str>, LineageRefusal> {
    match LinkObject::read(run).and_then(|run| search(&run, labels, is_found, steps)) {
        Ok(name) => Ok(name),
        Err(ProofStop::Refused(refusal)) => Err(refusal),
        // Nothing here waits: a run without children has asked for nothing.
        Err(ProofStop::Waiting(_)) => Ok(None),
    }
}

/// The lists of pipeline tasks, and the label `tekton.dev/memberOf` of their children.
const LISTS: [(&str, &str); 2] = [
    ("/status/pipelineSpec/tasks", "tasks"),
    ("/status/pipelineSpec/finally", "finally"),
];

fn search<'a>(
    run: &LinkObject<'a>,
    labels: &RenderedLabels,
    is_found: &dyn Fn(&str) -> bool,
    steps: &mut usize,
) -> LineageStep<Option<&'a str>> {
    let tasks = || {
        let of = |(list, member_of)| run.list(list).iter().map(move |it| (it, member_of));
        LISTS.into_iter().flat_map(of)
    };
    let children = run.list("/status/childReferences");
    let Some(left) = steps.checked_sub(tasks().count() + children.len() + 1) else {
        let message = format!("{run} takes too many steps to prove");
        return refused(LineageReason::TooLarge, message);
    };
    *steps = left;
    let asking = tasks().filter(|(it, _)| asks_for_approval(it));
    let asking: BTreeMap<_, _> = asking.map(|(it, of)| (text(it, "/name"), of)).collect();
    let asked = children.iter().filter(|it| RunKind::CustomRun.is(it));
    let mut missing = asked.filter_map(|child| {
        let name = text(child, "/name");
        let task = text(child, "/pipelineTaskName");
        let member_of = asking.get(task)?;
        let is_missing = !is_found(name) && could_have(labels, run, [name, task, member_of]);
        is_missing.then_some(name)
    });
    Ok(missing.next())
}

fn asks_for_approval(task: &Value) -> bool {
    ["/taskRef", "/taskSpec"].into_iter().any(|pointer| {
        task.pointer(pointer).is_some_and(|it| {
            (text(it, "/apiVersion"), text(it, "/kind")) == (approval::API_VERSION, approval::KIND)
        })
    })
}

/// Tekton's own labels tell the approvals of a run apart. All others are those of the run, the same for each of its
/// approvals, and may have been changed since.
fn could_have(
    labels: &RenderedLabels,
    run: &LinkObject<'_>,
    [name, task, member_of]: [&str; 3],
) -> bool {
    let of_child = own_labels::of_child(run, name, Some(task));
    let own = of_child
        .into_iter()
        .chain([("tekton.dev/memberOf", Some(member_of))]);
    let own: BTreeMap<_, _> = own.collect();
    labels.iter().all(|(key, value)| {
        let own = own.get(key).copied().flatten();
        own.is_none_or(|own| own == value.as_str())
    })
}
