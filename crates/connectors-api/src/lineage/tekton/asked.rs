//! The approvals that a run asked for, beside those that a check found.
//!
//! The gate lets every approver change the labels of an approval, so a check that needs all approvals would not see one
//! that lost them. The run's own list of children still names it.
//!
//! While a run is stopping, Tekton makes no child again, and takes one that was deleted off the list. Its pipeline task then
//! is among those that the run skipped.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::Value;

use super::object::{LinkObject, text};
use super::{
    LineageReason, LineageRefusal, LineageStep, ProofStop, RunKind, approval, labels as own_labels,
    names, refused,
};
use crate::template::RenderedLabels;

/// The first approval that the run asked for, that could have these labels, and that was not found.
pub(super) fn not_found(
    run: &Value,
    labels: &RenderedLabels,
    is_found: &dyn Fn(&str) -> bool,
    steps: &mut usize,
) -> Result<Option<String>, LineageRefusal> {
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

/// The reason for a task whose own condition is not met.
const BY_CONDITION: &str = "When Expressions evaluated to false";
/// The reason for a task without the results that it refers to. It also stands where their task failed.
const BY_RESULTS: &str = "Results were missing";
/// The reason for a matrix without values.
const BY_MATRIX: &str = "Matrix Parameters have an empty array";
/// The reason for a task behind one that was skipped for any reason but its condition.
const BEHIND_ANOTHER: &str = "Parent Tasks were skipped";

fn search(
    run: &LinkObject<'_>,
    labels: &RenderedLabels,
    is_found: &dyn Fn(&str) -> bool,
    steps: &mut usize,
) -> LineageStep<Option<String>> {
    let tasks = || {
        let of = |(list, member_of)| run.list(list).iter().map(move |it| (it, member_of));
        LISTS.into_iter().flat_map(of)
    };
    let children = run.list("/status/childReferences");
    let skipped = run.list("/status/skippedTasks");
    let all = tasks().count() + children.len() + skipped.len();
    let Some(left) = steps.checked_sub(all + 1) else {
        let message = format!("{run} takes too many steps to prove");
        return refused(LineageReason::TooLarge, message);
    };
    *steps = left;
    let asking = tasks().filter(|(it, _)| asks_for_approval(it));
    let asking: BTreeMap<_, _> = asking.map(|(it, of)| (text(it, "/name"), of)).collect();
    let is_missing = |name: &str, task: &str| {
        let member_of = asking.get(task);
        member_of.is_some_and(|it| !is_found(name) && could_have(labels, run, [name, task, it]))
    };
    let asked = children.iter().filter(|it| RunKind::CustomRun.is(it));
    let asked = asked.map(|it| {
        let name = Cow::Borrowed(text(it, "/name"));
        (name, text(it, "/pipelineTaskName"))
    });
    let forgotten = forgotten(skipped)
        .filter(|task| asking.contains_key(task))
        .map(|task| {
            let name: Cow<'_, str> = names::child(run.name, &format!("-{task}")).into();
            (name, task)
        });
    let mut all = asked.chain(forgotten);
    let missing = all.find(|(name, task)| is_missing(name, task));
    Ok(missing.map(|(name, _)| name.into_owned()))
}

/// The pipeline tasks that the run skipped because it ended too early, or for an unknown reason. The others are those that
/// the pipeline itself left out.
fn forgotten(skipped: &[Value]) -> impl Iterator<Item = &str> {
    let is_for = |it: &Value, reason: &str| text(it, "/reason") == reason;
    let has_condition = skipped.iter().any(|it| is_for(it, BY_CONDITION));
    let is_left_out = move |it: &Value| match text(it, "/reason") {
        BY_CONDITION | BY_MATRIX => true,
        BY_RESULTS => has_condition,
        _ => false,
    };
    let is_too_early = move |it: &Value| !is_left_out(it) && !is_for(it, BEHIND_ANOTHER);
    let ended_early = skipped.iter().any(is_too_early);
    let forgotten = skipped
        .iter()
        .filter(move |it| is_too_early(it) || (ended_early && is_for(it, BEHIND_ANOTHER)));
    forgotten.map(|it| text(it, "/name"))
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
