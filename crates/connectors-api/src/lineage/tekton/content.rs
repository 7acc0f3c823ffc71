//! The content of a child, compared with its pipeline task in `status.pipelineSpec`.
//!
//! Not compared: `timeout`, `computeResources` (they do not change what runs) and `status` (a cancellation ends the
//! child). A field that this version does not know is refused.

use serde_json::{Map, Value};

use super::matrix::Combination;
use super::object::{LinkObject, is_set, list, text};
use super::proof::Proof;
use super::references::has_lists;
use super::{
    LineageReason, LineageStep, RunKind, both, matrix, pod_template, refused, run, workspaces,
};

/// The deepest nesting that is compared.
const DEEPEST: u32 = 64;
/// The service account of a child when none is named.
const DEFAULT: &str = "default";
/// The fields of an embedded task that belong to the pipeline task.
const WRAPPERS: [&str; 4] = ["apiVersion", "kind", "metadata", "spec"];
/// The fields of a child that are compared or deliberately are not.
const KNOWN: [&str; 15] = [
    "computeResources",
    "customRef",
    "managedBy",
    "params",
    "podTemplate",
    "retries",
    "serviceAccountName",
    "sidecarSpecs",
    "status",
    "statusMessage",
    "stepSpecs",
    "taskRef",
    "taskSpec",
    "timeout",
    "workspaces",
];

/// The kind of children that a pipeline task makes; none for one that makes PipelineRuns, which no proof covers, and when
/// it cannot be told.
pub(super) fn kind_of(task: &Value) -> Option<RunKind> {
    let is_pipeline = is_set(task, "/pipelineRef") || is_set(task, "/pipelineSpec");
    let of = |pointer: &str| {
        let target = task.pointer(pointer).filter(|it| !it.is_null())?;
        let is_custom =
            !text(target, "/apiVersion").is_empty() && !text(target, "/kind").is_empty();
        Some(if is_custom {
            RunKind::CustomRun
        } else {
            RunKind::TaskRun
        })
    };
    match (is_pipeline, of("/taskRef"), of("/taskSpec")) {
        (false, Some(kind), None) | (false, None, Some(kind)) => Some(kind),
        _ => None,
    }
}

/// True when a pipeline task has a matrix.
pub(super) fn is_matrix(task: &Value) -> bool {
    !list(task, "/matrix/params").is_empty() || !list(task, "/matrix/include").is_empty()
}

/// The child runs the content of its pipeline task.
pub(super) fn check(
    proof: &mut Proof<'_>,
    kind: RunKind,
    child: &LinkObject<'_>,
    task: &Value,
    combination: &Combination,
    depth: u32,
) -> LineageStep {
    has_settings(child, task)?;
    has_service_account(child, task, &proof.run)?;
    let template = pod_template::check(proof, kind, child, task, depth);
    let target = match kind {
        RunKind::CustomRun => has_custom_ref(proof, child, task, depth),
        RunKind::TaskRun | RunKind::PipelineRun => has_task(proof, child, task, depth),
    };
    let params = has_params(proof, child, task, combination, depth);
    let workspaces = workspaces::check(proof, child, task, depth);
    both(both(template, target), both(params, workspaces)).map(|_| ())
}

/// The child has no setting that the pipeline task does not give it.
fn has_settings(child: &LinkObject<'_>, task: &Value) -> LineageStep {
    let fields = child.value.get("spec").and_then(Value::as_object);
    let knows =
        |(name, value): (&String, &Value)| value.is_null() || KNOWN.contains(&name.as_str());
    let is_known = fields.is_some_and(|it| it.iter().all(knows));
    let retries = |value: Option<&Value>| match value {
        None | Some(Value::Null) => Some(0),
        Some(value) => value.as_u64(),
    };
    let of_child = retries(child.value.pointer("/spec/retries"));
    let is_same = of_child.is_some() && of_child == retries(task.get("retries"));
    let is_elsewhere =
        is_set(child.value, "/spec/managedBy") && child.text("/spec/managedBy") != run::TEKTON;
    if !is_known || !is_same || is_elsewhere {
        let message = format!("{child} has other settings than its pipeline task");
        return refused(LineageReason::OtherSettings, message);
    }
    Ok(())
}

/// The service account of `taskRunSpecs`, or else of `taskRunTemplate`. Admission fills in the default of both.
fn has_service_account(child: &LinkObject<'_>, task: &Value, run: &LinkObject<'_>) -> LineageStep {
    let own = pod_template::specs_of(run, text(task, "/name"));
    let own = own.map(|it| text(it, "/serviceAccountName"));
    let own = own.filter(|it| !it.is_empty()).last();
    let wanted = own.unwrap_or_else(|| run.text("/spec/taskRunTemplate/serviceAccountName"));
    let or_default = |it: &str| {
        if it.is_empty() {
            DEFAULT.to_owned()
        } else {
            it.to_owned()
        }
    };
    if or_default(child.text("/spec/serviceAccountName")) != or_default(wanted) {
        let message = format!("{child} runs as another service account than {run} says");
        return refused(LineageReason::OtherServiceAccount, message);
    }
    Ok(())
}

/// The parameters of the matrix and of the pipeline task, with results filled in.
fn has_params(
    proof: &mut Proof<'_>,
    child: &LinkObject<'_>,
    task: &Value,
    combination: &Combination,
    depth: u32,
) -> LineageStep {
    let params = proof.resolved(task, list(task, "/params"), depth)?;
    proof.spend(params.len() + child.list("/spec/params").len())?;
    let all = matrix::parameters(combination, params.into_iter().collect());
    let is_same = all.is_some_and(|all| matrix::are_same(&all, child.list("/spec/params")));
    if !is_same {
        let message = format!("{child} has other parameters than its pipeline task");
        return refused(LineageReason::OtherParams, message);
    }
    Ok(())
}

fn other_task<T>(child: &LinkObject<'_>) -> LineageStep<T> {
    let message = format!("{child} runs another task than its pipeline task says");
    refused(LineageReason::OtherTask, message)
}

/// A CustomRun refers to the same object as the pipeline task.
fn has_custom_ref(
    proof: &mut Proof<'_>,
    child: &LinkObject<'_>,
    task: &Value,
    depth: u32,
) -> LineageStep {
    let is_other = is_set(child.value, "/spec/taskRef") || is_set(child.value, "/spec/taskSpec");
    match (task.get("taskRef"), child.value.pointer("/spec/customRef")) {
        (Some(wanted), Some(found)) if !is_other => {
            is_ref(proof, child, task, (wanted, found), depth)
        }
        _ => other_task(child),
    }
}

/// A TaskRun refers to the task that the pipeline task refers to, or embeds the one that it embeds.
fn has_task(
    proof: &mut Proof<'_>,
    child: &LinkObject<'_>,
    task: &Value,
    depth: u32,
) -> LineageStep {
    let get = |value: &'_ Value, pointer: &str| {
        value.pointer(pointer).filter(|it| !it.is_null()).cloned()
    };
    let is_other = is_set(child.value, "/spec/customRef");
    match (
        get(task, "/taskRef"),
        get(task, "/taskSpec"),
        get(child.value, "/spec/taskRef"),
        get(child.value, "/spec/taskSpec"),
    ) {
        (Some(wanted), None, Some(found), None) if !is_other => {
            is_ref(proof, child, task, (&wanted, &found), depth)
        }
        (None, Some(Value::Object(mut wanted)), None, Some(found)) if !is_other => {
            wanted.retain(|name, _| !WRAPPERS.contains(&name.as_str()));
            if is_same(proof, task, (&Value::Object(wanted), &found), (depth, 0))? {
                return Ok(());
            }
            other_task(child)
        }
        _ => other_task(child),
    }
}

/// References are equal when name, kind, version, resolver and its parameters are; `Task` is the kind by default.
fn is_ref(
    proof: &mut Proof<'_>,
    child: &LinkObject<'_>,
    task: &Value,
    (wanted, found): (&Value, &Value),
    depth: u32,
) -> LineageStep {
    let fields = |value: &Value| {
        let fields = value.as_object().cloned().unwrap_or_default();
        let is_default = |name: &str, value: &Value| {
            value.is_null()
                || value == ""
                || (name == "kind" && value == "Task")
                || name == "params"
        };
        let kept = fields
            .into_iter()
            .filter(|(name, value)| !is_default(name, value));
        kept.collect::<Map<_, _>>()
    };
    let mut wanted_fields = fields(wanted);
    if let Some(Value::String(name)) = wanted_fields.get_mut("name") {
        *name = proof.resolved_text(task, name, depth)?;
    }
    let params = proof.resolved(task, list(wanted, "/params"), depth)?;
    let all: Combination = params.into_iter().collect();
    let is_same = wanted.is_object()
        && found.is_object()
        && wanted_fields == fields(found)
        && matrix::are_same(&all, list(found, "/params"));
    if is_same { Ok(()) } else { other_task(child) }
}

/// True when two values are equal but for `null`s, and for results that the first one refers to. Tekton fills results
/// in where it knows the field; a text that it left alone is equal as it is.
pub(super) fn is_same(
    proof: &mut Proof<'_>,
    task: &Value,
    (wanted, found): (&Value, &Value),
    (depth, nesting): (u32, u32),
) -> LineageStep<bool> {
    proof.spend(1)?;
    if nesting > DEEPEST {
        let message = format!("pipeline task {} is nested too deeply", text(task, "/name"));
        return refused(LineageReason::TooLarge, message);
    }
    let inner = (depth, nesting + 1);
    match (wanted, found) {
        (Value::String(wanted), Value::String(found)) => {
            proof.spend((wanted.len() + found.len()) / 64)?;
            if wanted == found {
                return Ok(true);
            }
            Ok(proof.embedded_text(task, wanted, depth)? == *found)
        }
        (Value::Array(wanted), Value::Array(found)) => {
            if has_lists(wanted) && wanted != found {
                let mut all = Vec::new();
                for item in wanted {
                    all.extend(proof.embedded_item(task, item, depth)?);
                }
                return Ok(all == *found);
            }
            if wanted.len() != found.len() {
                return Ok(false);
            }
            for pair in wanted.iter().zip(found) {
                if !is_same(proof, task, pair, inner)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Object(wanted), Value::Object(found)) => {
            let is_extra =
                |(name, value): (&String, &Value)| !value.is_null() && !wanted.contains_key(name);
            if found.iter().any(is_extra) {
                return Ok(false);
            }
            for (name, wanted) in wanted {
                let found = found.get(name).unwrap_or(&Value::Null);
                if !is_same(proof, task, (wanted, found), inner)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Null | Value::Bool(_) | Value::Number(_), _) => Ok(wanted == found),
        _ => Ok(false),
    }
}
