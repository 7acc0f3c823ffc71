//! Tekton's controller of `PipelineRun`s.

use serde_json::{Value, json};

use super::children::child;
use super::matrix::{combinations, is_matrix};
use super::objects::{
    ChildKind, RUN_LABEL, RUN_UID_LABEL, conditions, duration, elements, is_child_of, is_over,
    labels_of, name, started, succeeded, text, time,
};
use super::tasks::{NextStep, RunTask, next};
use super::values::RunVariables;
use super::{LateWrite, Pipelines, Round, names};
use crate::api::{ApiError, kinds::PIPELINE_RUN};

/// Tekton's own timeout of a run and of a `TaskRun`.
pub(super) const HOUR: &str = "1h0m0s";

/// The children of all runs of the namespace, as one look sees them.
#[derive(Debug)]
pub(super) struct SeenChildren {
    pub(super) task_runs: Vec<Value>,
    pub(super) custom_runs: Vec<Value>,
}

impl SeenChildren {
    fn of(&self, kind: ChildKind) -> &[Value] {
        match kind {
            ChildKind::TaskRun => &self.task_runs,
            ChildKind::CustomRun => &self.custom_runs,
        }
    }

    fn named(&self, kind: ChildKind, child: &str) -> Option<&Value> {
        self.of(kind).iter().find(|it| name(it) == child)
    }
}

impl Pipelines {
    pub(super) fn pipeline_run(
        &self,
        run: &Value,
        seen: &SeenChildren,
        round: Round,
    ) -> Result<(), ApiError> {
        let word = text(run, "/spec/status");
        if succeeded(run).is_some() || word == "PipelineRunPending" {
            return Ok(());
        }
        let run = &self.with_label_of_pipeline(run)?;
        let start = started(run, round.now);
        let listed = elements(&run["status"]["childReferences"]);
        if word == "Cancelled" {
            self.end_children(listed, "cancelled")?;
            let message = format!("PipelineRun \"{}\" was cancelled", name(run));
            let status = json!({
                "startTime": start, "completionTime": time(round.now),
                "conditions": conditions("False", "Cancelled", &message),
            });
            return self.write_status(PIPELINE_RUN, run, &status);
        }
        let pipeline = pipeline_of(run);
        let references = with_strangers(run, listed, seen);
        let (tasks, variables) = tasks_of(run, &pipeline, &references, seen);
        if word == "CancelledRunFinally" && tasks.iter().any(|it| !it.is_final && it.is_running()) {
            self.end_children(listed, "cancelled")?;
        }
        let limit = |pointer: &str| run.pointer(pointer).and_then(duration);
        let whole = limit("/spec/timeouts/pipeline").or_else(|| duration(&HOUR.into()));
        let is_late = is_over(&start, whole, round.now);
        let are_tasks_late = is_over(&start, limit("/spec/timeouts/tasks"), round.now);
        if are_tasks_late && !is_late {
            let is_first = |it: &&Value| {
                let mut first = tasks
                    .iter()
                    .filter(|task| !task.is_final && task.is_running());
                first.any(|task| it["pipelineTaskName"] == task.name())
            };
            let late: Vec<_> = listed.iter().filter(is_first).cloned().collect();
            self.end_children(&late, "timed out")?;
        }
        let stopped = match word {
            "CancelledRunFinally" => Some("PipelineRun was gracefully cancelled"),
            "StoppedRunFinally" => Some("PipelineRun was gracefully stopped"),
            _ if is_late => Some("PipelineRun timeout has been reached"),
            _ if are_tasks_late => Some("PipelineRun Tasks timeout has been reached"),
            _ => None,
        };
        let mut next = next(&tasks, &variables, stopped);
        if is_late {
            next.begins.clear();
            self.end_children(listed, "timed out")?;
        }
        let children = self.begin_tasks(run, &pipeline, &tasks, &next, &variables)?;
        let mut status = json!({
            "startTime": start, "pipelineSpec": pipeline, "childReferences": children,
            "conditions": condition(run, &next, is_late), "skippedTasks": skipped(&next),
        });
        if is_late || next.succeeded.is_some() {
            status["completionTime"] = time(round.now);
        }
        if round.late == Some(LateWrite::ChildReferences) {
            status["childReferences"] = run["status"]["childReferences"].clone();
        }
        self.write_status(PIPELINE_RUN, run, &status)
    }

    /// A label that is there stays as the author of the run wrote it.
    fn with_label_of_pipeline(&self, run: &Value) -> Result<Value, ApiError> {
        let label = "tekton.dev/pipeline";
        let mut labelled = run.clone();
        if !labels_of(run).contains_key(label) {
            let fields = json!({"metadata": {"labels": {label: name(run)}}});
            self.change(PIPELINE_RUN, run, &fields)?;
            labelled["metadata"]["labels"][label] = name(run).into();
        }
        Ok(labelled)
    }

    /// Tells the listed children that they are cancelled. The gate does not listen.
    fn end_children(&self, listed: &[Value], what: &str) -> Result<(), ApiError> {
        for (kind, word) in [
            (ChildKind::TaskRun, "TaskRunCancelled"),
            (ChildKind::CustomRun, "RunCancelled"),
        ] {
            for child in listed.iter().filter(|it| it["kind"] == kind.as_str()) {
                let Some(found) = self.api.get(kind.resource(), text(child, "/name"))? else {
                    continue;
                };
                // A finished TaskRun cannot be changed any more.
                let is_done = kind == ChildKind::TaskRun && succeeded(&found).is_some();
                if is_done || found["spec"]["status"] == word {
                    continue;
                }
                let message = format!(
                    "{} cancelled as the PipelineRun it belongs to has {}{what}.",
                    kind.as_str(),
                    if what == "cancelled" { "been " } else { "" },
                );
                let fields = json!({"spec": {"status": word, "statusMessage": message}});
                self.change(kind.resource(), &found, &fields)?;
            }
        }
        Ok(())
    }

    /// Makes the children of the tasks that begin. Gives the references to the children of all tasks.
    fn begin_tasks(
        &self,
        run: &Value,
        pipeline: &Value,
        tasks: &[RunTask],
        next: &NextStep,
        variables: &RunVariables,
    ) -> Result<Vec<Value>, ApiError> {
        let mut run = run.clone();
        run["status"]["pipelineSpec"] = pipeline.clone();
        let mut references = Vec::new();
        for (place, task) in tasks.iter().enumerate() {
            let mut names: Vec<_> = task.children.iter().map(|it| name(it).to_owned()).collect();
            if next.begins.contains(&place) {
                let spec = variables.fill(&task.spec);
                let combinations = combinations(&spec).unwrap_or_default();
                for (index, child_name) in task.names.iter().enumerate() {
                    let own = combinations.get(index).map_or(&[][..], Vec::as_slice);
                    self.create(&child(&run, &spec, task.kind, child_name, own))?;
                }
                names.clone_from(&task.names);
            }
            references.extend(names.iter().map(|it| reference(task.kind, it, task.name())));
        }
        Ok(references)
    }
}

fn reference(kind: ChildKind, child: &str, task: &str) -> Value {
    json!({
        "apiVersion": kind.api_version(), "kind": kind.as_str(), "name": child, "pipelineTaskName": task,
    })
}

/// The pipeline as it was when the run began, with the values of its parameters.
fn pipeline_of(run: &Value) -> Value {
    let written = &run["status"]["pipelineSpec"];
    if !written.is_null() {
        return written.clone();
    }
    let variables = RunVariables::of_run(run);
    let mut pipeline = run["spec"]["pipelineSpec"].clone();
    for list in ["tasks", "finally"] {
        if let Some(tasks) = pipeline[list].as_array_mut() {
            for task in tasks {
                *task = variables.fill_task(task);
            }
        } else if let Some(fields) = pipeline.as_object_mut() {
            fields.remove(list);
        }
    }
    pipeline
}

/// The listed children, and strangers with the labels and the owner of the run: Tekton adopts these.
fn with_strangers(run: &Value, listed: &[Value], seen: &SeenChildren) -> Vec<Value> {
    let mut references = listed.to_vec();
    for kind in [ChildKind::TaskRun, ChildKind::CustomRun] {
        for object in seen.of(kind) {
            let labels = &object["metadata"]["labels"];
            let is_labelled = labels[RUN_LABEL] == run["metadata"]["name"]
                && labels[RUN_UID_LABEL] == run["metadata"]["uid"];
            let is_listed = references.iter().any(|it| it["name"] == name(object));
            if is_labelled && is_child_of(object, run) && !is_listed {
                let task = text(&labels["tekton.dev/pipelineTask"], "");
                references.push(reference(kind, name(object), task));
            }
        }
    }
    references
}

/// The pipeline tasks with their children: listed ones, or objects under the names that would be derived, regardless
/// of their content.
fn tasks_of(
    run: &Value,
    pipeline: &Value,
    references: &[Value],
    seen: &SeenChildren,
) -> (Vec<RunTask>, RunVariables) {
    let lists = [("tasks", false), ("finally", true)].into_iter();
    let specs = lists.flat_map(|(list, is_final)| {
        elements(&pipeline[list])
            .iter()
            .map(move |it| (it, is_final))
    });
    let children_of = |kind, names: &[String]| -> Vec<Value> {
        let children = names.iter().filter_map(|it| seen.named(kind, it));
        children.cloned().collect()
    };
    let mut tasks: Vec<_> = specs
        .map(|(spec, is_final)| {
            let kind = ChildKind::of_task(spec);
            let is_own =
                |it: &&Value| it["kind"] == kind.as_str() && it["pipelineTaskName"] == spec["name"];
            let own = references.iter().filter(is_own);
            let names: Vec<_> = own.map(|it| text(it, "/name").to_owned()).collect();
            let children = children_of(kind, &names);
            RunTask {
                spec: spec.clone(),
                is_final,
                kind,
                names,
                children,
            }
        })
        .collect();
    let mut variables = RunVariables::default();
    for task in &tasks {
        variables.add_results(task.name(), is_matrix(&task.spec), &task.children);
    }
    for task in tasks.iter_mut().filter(|it| it.names.is_empty()) {
        let count = combinations(&variables.fill(&task.spec)).map_or(0, |it| it.len());
        task.names = names::of_children(name(run), task.name(), count);
        task.children = children_of(task.kind, &task.names);
    }
    (tasks, variables)
}

fn skipped(next: &NextStep) -> Value {
    let skipped = next.skipped.iter();
    let skipped: Vec<_> = skipped
        .map(|(name, reason)| json!({"name": name, "reason": reason}))
        .collect();
    if skipped.is_empty() {
        Value::Null
    } else {
        skipped.into()
    }
}

fn condition(run: &Value, next: &NextStep, is_late: bool) -> Value {
    if is_late {
        let limit = match text(run, "/spec/timeouts/pipeline") {
            "" => HOUR,
            limit => limit,
        };
        let message = format!(
            "PipelineRun \"{}\" failed to finish within \"{limit}\"",
            name(run)
        );
        return conditions("False", "PipelineRunTimeout", &message);
    }
    let (status, reason) = match next.succeeded {
        None => ("Unknown", "Running"),
        Some(_) if !text(run, "/spec/status").is_empty() => ("False", "Cancelled"),
        Some(true) if next.skipped.is_empty() => ("True", "Succeeded"),
        Some(true) => ("True", "Completed"),
        Some(false) => ("False", "Failed"),
    };
    conditions(status, reason, &format!("Skipped: {}", next.skipped.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_is_adopted_with_both_labels_and_the_first_owner_alone() {
        let run = json!({"metadata": {"name": "run", "uid": "u"}});
        let stranger = |labels: Value, uid: &str| json!({"metadata": {"name": "evil", "labels": labels, "ownerReferences": [{"uid": uid}]}});
        let both =
            json!({RUN_LABEL: "run", RUN_UID_LABEL: "u", "tekton.dev/pipelineTask": "deploy"});
        let adopted = |object: Value| {
            let seen = SeenChildren {
                task_runs: vec![object],
                custom_runs: vec![],
            };
            with_strangers(&run, &[], &seen)
        };
        let expected = [reference(ChildKind::TaskRun, "evil", "deploy")];
        assert_eq!(adopted(stranger(both.clone(), "u")), expected);
        assert_eq!(adopted(stranger(both, "other")), Vec::<Value>::new());
        assert_eq!(
            adopted(stranger(json!({RUN_LABEL: "run"}), "u")),
            Vec::<Value>::new()
        );
    }
}
