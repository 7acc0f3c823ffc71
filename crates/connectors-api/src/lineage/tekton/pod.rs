//! The pod: the current one of a TaskRun that still runs.

use serde_json::Value;

use super::object::{LinkObject, LinkObjects};
use super::{LineageReason, LineageStep, RunKind, names, refused};

/// The service account of a pod that names none.
const DEFAULT: &str = "default";

pub(super) fn is_a_pod(pod: &LinkObject<'_>) -> LineageStep {
    if pod.is_kind("v1", "Pod") {
        return Ok(());
    }
    refused(LineageReason::Unreadable, format!("{pod} is no pod"))
}

/// The TaskRun that controls the pod.
pub(super) fn task_run<'a>(
    pod: &LinkObject<'a>,
    store: &LinkObjects<'a>,
) -> LineageStep<LinkObject<'a>> {
    let Some(owner) = pod.controller(RunKind::TaskRun) else {
        let message = format!("no TaskRun controls {pod}");
        return refused(LineageReason::PodWithoutTaskRun, message);
    };
    store.owned(RunKind::TaskRun, owner)
}

/// The pod is the current pod of the TaskRun.
pub(super) fn check(pod: &LinkObject<'_>, task_run: &LinkObject<'_>) -> LineageStep {
    is_not_older(pod, task_run)?;
    still_runs(task_run)?;
    is_current(pod, task_run)?;
    runs_as(pod, task_run)
}

fn is_not_older(pod: &LinkObject<'_>, task_run: &LinkObject<'_>) -> LineageStep {
    if pod.is_older_than(task_run) {
        let message = format!("{pod} was created before {task_run}");
        return refused(LineageReason::PodOlderThanTaskRun, message);
    }
    Ok(())
}

/// While a TaskRun runs, Tekton re-creates a pod that is deleted. Afterwards another pod can take its place.
fn still_runs(task_run: &LinkObject<'_>) -> LineageStep {
    if task_run.succeeded().is_some() {
        return refused(LineageReason::TaskRunDone, format!("{task_run} has ended"));
    }
    Ok(())
}

/// The pod's name is the one that Tekton wrote down, and the one that it derives: an account that may write the status of
/// a TaskRun can name a pod of its own there. Between two attempts none is written down; the number of earlier ones is
/// that of `retriesStatus`.
fn is_current(pod: &LinkObject<'_>, task_run: &LinkObject<'_>) -> LineageStep {
    let attempt = task_run.list("/status/retriesStatus").len();
    let current = task_run.text("/status/podName");
    let is_another = !current.is_empty() && current != pod.name;
    let has_derived_name = derived_name(task_run, attempt).as_deref() == Some(pod.name);
    if is_another || !has_derived_name {
        let message = format!("{pod} is not the current pod of {task_run}");
        return refused(LineageReason::PodNotCurrent, message);
    }
    if current.is_empty() {
        return task_run.lacks(RunKind::TaskRun, "status.podName");
    }
    Ok(())
}

/// The name of the pod of an attempt; none where the TaskRun has fewer attempts.
fn derived_name(task_run: &LinkObject<'_>, attempt: usize) -> Option<String> {
    let retries = task_run.value.pointer("/spec/retries");
    let retries = retries.and_then(Value::as_u64).unwrap_or(0);
    let suffix = match attempt {
        0 => "-pod".to_owned(),
        _ => format!("-pod-retry{attempt}"),
    };
    let is_attempt = u64::try_from(attempt).is_ok_and(|it| it <= retries);
    is_attempt.then(|| names::child(task_run.name, &suffix))
}

fn runs_as(pod: &LinkObject<'_>, task_run: &LinkObject<'_>) -> LineageStep {
    let name = |object: &LinkObject<'_>, pointer| match object.text(pointer) {
        "" => DEFAULT.to_owned(),
        name => name.to_owned(),
    };
    if name(pod, "/spec/serviceAccountName") != name(task_run, "/spec/serviceAccountName") {
        let message = format!("{pod} runs as another service account than {task_run}");
        return refused(LineageReason::PodServiceAccount, message);
    }
    Ok(())
}
