//! Tekton's controller of `TaskRun`s.
//!
//! It runs no entrypoint: the steps of a task begin together.

use serde_json::{Value, json};

use super::objects::{
    MANAGED_BY, conditions, duration, elements, is_controlled_by, is_over, labels_of, name, named,
    owned_by, started, succeeded, text, time,
};
use super::values::RunVariables;
use super::{LateWrite, Pipelines, Round, names};
use crate::api::{
    ApiError,
    kinds::{POD, TASK_RUN},
};

/// Names the `TaskRun` of a pod.
pub(super) const TASK_RUN_LABEL: &str = "tekton.dev/taskRun";
/// Where a container leaves a text for its pod's status.
const MESSAGE: &str = "/dev/termination-log";

impl Pipelines {
    /// `pods` are those that Tekton sees.
    pub(super) fn task_run(
        &self,
        run: &Value,
        pods: &[Value],
        round: Round,
    ) -> Result<(), ApiError> {
        if succeeded(run).is_some() {
            return Ok(());
        }
        let start = started(run, round.now);
        if run["spec"]["status"] == "TaskRunCancelled" {
            let message = format!("TaskRun \"{}\" was cancelled", name(run));
            return self.fail(run, "TaskRunCancelled", &message, round);
        }
        if is_over(&start, duration(&run["spec"]["timeout"]), round.now) {
            let limit = text(run, "/spec/timeout");
            let message = format!(
                "TaskRun \"{}\" failed to finish within \"{limit}\"",
                name(run)
            );
            return self.fail(run, "TaskRunTimeout", &message, round);
        }
        let pod = match current_pod(run, pods) {
            Some(pod) => Some(pod.clone()),
            None => self.create_pod(run, pods)?,
        };
        if round.late == Some(LateWrite::PodName) {
            return Ok(());
        }
        let Some(pod) = pod else {
            let message = "tried to create pod, but it already exists";
            let waits = json!({"startTime": start, "conditions": conditions("Unknown", "Pending", message)});
            return self.write_status(TASK_RUN, run, &waits);
        };
        let (word, reason) = match text(&pod, "/status/phase") {
            "Succeeded" => ("True", "Succeeded"),
            "Failed" => ("False", "Failed"),
            "Running" => ("Unknown", "Running"),
            _ => ("Unknown", "Pending"),
        };
        let mut status = json!({
            "startTime": start, "podName": name(&pod), "conditions": conditions(word, reason, ""),
        });
        if word != "Unknown" {
            status["completionTime"] = time(round.now);
            status["results"] = results(run, &pod);
        }
        self.end_or_retry(run, status)
    }

    /// Ends a `TaskRun`, and its pod with it.
    fn fail(&self, run: &Value, reason: &str, message: &str, round: Round) -> Result<(), ApiError> {
        let status = json!({
            "startTime": started(run, round.now), "completionTime": time(round.now),
            "conditions": conditions("False", reason, message), "podName": run["status"]["podName"],
        });
        let pod = text(run, "/status/podName");
        if !pod.is_empty() {
            self.delete(POD, pod)?;
        }
        self.end_or_retry(run, status)
    }

    /// A failure is put away as long as retries are left. A cancelled `TaskRun` is not tried again.
    fn end_or_retry(&self, run: &Value, mut status: Value) -> Result<(), ApiError> {
        let attempts = elements(&run["status"]["retriesStatus"]);
        let allowed = run["spec"]["retries"].as_u64().unwrap_or(0);
        let is_left = u64::try_from(attempts.len()).is_ok_and(|it| it < allowed);
        let is_cancelled = run["spec"]["status"] == "TaskRunCancelled";
        let has_failed = succeeded(&json!({"status": status})) == Some(false);
        if has_failed && is_left && !is_cancelled {
            let message = text(&status, "/conditions/0/message").to_owned();
            let attempts = [attempts, &[status]].concat();
            status = json!({
                "retriesStatus": attempts, "startTime": null, "completionTime": null, "podName": null,
                "results": null, "conditions": conditions("Unknown", "ToBeRetried", &message),
            });
        }
        self.write_status(TASK_RUN, run, &status)
    }

    /// A pod under the name that Tekton derives. Of a pod that has the name already, Tekton takes one that it sees.
    fn create_pod(&self, run: &Value, pods: &[Value]) -> Result<Option<Value>, ApiError> {
        let attempt = elements(&run["status"]["retriesStatus"]).len();
        let pod_name = names::pod(name(run), attempt);
        if self.api.get(POD, &pod_name)?.is_some() {
            return Ok(pods.iter().find(|it| name(it) == pod_name).cloned());
        }
        let mut labels = labels_of(run);
        for (label, value) in [
            (TASK_RUN_LABEL, name(run)),
            ("tekton.dev/taskRunUID", text(run, "/metadata/uid")),
            MANAGED_BY,
        ] {
            labels.insert(label.to_owned(), value.into());
        }
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": pod_name, "labels": labels, "ownerReferences": owned_by(run)},
            "spec": pod_spec(&self.pod_spec, run),
        });
        self.create(&pod).map(Some)
    }
}

/// The pod that `status.podName` names, also one of a stranger. Without a name: one with the label and the owner reference,
/// unless it is of an earlier attempt.
fn current_pod<'a>(run: &Value, pods: &'a [Value]) -> Option<&'a Value> {
    let written = text(run, "/status/podName");
    if !written.is_empty() {
        return pods.iter().find(|it| name(it) == written);
    }
    let mut attempts = elements(&run["status"]["retriesStatus"]).iter();
    let is_of_run = |it: &&Value| {
        it["metadata"]["labels"][TASK_RUN_LABEL] == run["metadata"]["name"]
            && is_controlled_by(it, run)
            && it["status"]["phase"] != "Failed"
            && !attempts.any(|attempt| attempt["podName"] == name(it))
    };
    pods.iter().find(is_of_run)
}

/// The given spec. A task that says what its steps do runs these instead, with its own volumes.
fn pod_spec(given: &Value, run: &Value) -> Value {
    let mut spec = given.clone();
    let task = RunVariables::of_task_run(run).fill(&run["spec"]["taskSpec"]);
    let steps = elements(&task["steps"]);
    if steps.iter().any(|it| it["args"].is_array()) {
        let containers = steps.iter().map(|step| {
            let mut container = with_result_paths(&task, step);
            container["name"] = format!("step-{}", text(step, "/name")).into();
            container
        });
        spec["containers"] = containers.collect();
        spec["volumes"] = task["volumes"].clone();
    }
    spec["serviceAccountName"] = run["spec"]["serviceAccountName"].clone();
    spec
}

/// A step whose results go into the status of its container.
fn with_result_paths(task: &Value, step: &Value) -> Value {
    let mut variables = RunVariables::default();
    for result in elements(&task["results"]) {
        let path = format!("results.{}.path", text(result, "/name"));
        variables.add(&path, &MESSAGE.into());
    }
    variables.fill(step)
}

/// The results that the steps of a pod left, each of one step.
fn results(run: &Value, pod: &Value) -> Value {
    let task = &run["spec"]["taskSpec"];
    let of_result = |result: &Value| {
        let path = format!("$(results.{}.path)", text(result, "/name"));
        let mut steps = elements(&task["steps"]).iter();
        let step = steps.find(|it| it.to_string().contains(&path))?;
        let container = format!("step-{}", text(step, "/name"));
        let state = named(&pod["status"]["containerStatuses"], &container)?;
        let left = text(state, "/state/terminated/message");
        let value = match text(result, "/type") {
            "array" | "object" => serde_json::from_str(left).ok()?,
            _ => Value::from(left),
        };
        Some(json!({"name": result["name"], "type": result["type"], "value": value}))
    };
    let results: Vec<_> = elements(&task["results"])
        .iter()
        .filter_map(of_result)
        .collect();
    if results.is_empty() {
        Value::Null
    } else {
        results.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Value {
        json!({
            "metadata": {"name": "run-who", "uid": "u"},
            "spec": {"serviceAccountName": "default", "taskSpec": {
                "results": [{"name": "boss", "type": "string"}, {"name": "all", "type": "array"}],
                "steps": [
                    {"name": "boss", "args": ["write", "$(results.boss.path)", "alice"]},
                    {"name": "all", "args": ["write", "$(results.all.path)", "[\"a\"]"]},
                ],
            }},
        })
    }

    #[test]
    fn the_results_of_a_task_are_what_its_steps_left() {
        let left = |step: &str, text: &str| json!({"name": step, "state": {"terminated": {"message": text}}});
        let pod = json!({"status": {"containerStatuses": [left("step-all", "[\"a\"]"), left("step-boss", "alice")]}});
        let expected = json!([
            {"name": "boss", "type": "string", "value": "alice"}, {"name": "all", "type": "array", "value": ["a"]},
        ]);
        assert_eq!(results(&run(), &pod), expected);
        assert_eq!(results(&run(), &json!({})), Value::Null);
        assert_eq!(results(&json!({}), &pod), Value::Null);
    }

    #[test]
    fn a_task_that_says_what_it_does_is_run_and_any_other_gets_the_given_pod() {
        let given = json!({"containers": [{"name": "main"}], "volumes": [{"name": "connector"}]});
        let spec = pod_spec(&given, &run());
        assert_eq!(spec["containers"][0]["name"], "step-boss");
        assert_eq!(
            spec["containers"][0]["args"],
            json!(["write", MESSAGE, "alice"])
        );
        assert_eq!(spec["volumes"], Value::Null);
        let mut other = run();
        other["spec"]["taskSpec"] = json!({"steps": [{"name": "deploy", "image": "tool:1"}]});
        let spec = pod_spec(&given, &other);
        assert_eq!(
            (&spec["containers"], &spec["volumes"]),
            (&given["containers"], &given["volumes"])
        );
        assert_eq!(spec["serviceAccountName"], "default");
    }

    #[test]
    fn the_pod_is_found_by_its_written_name_alone_and_else_by_label_and_owner() {
        let pod = |name: &str, owner: &str, phase: &str| {
            json!({
                "metadata": {
                    "name": name, "labels": {TASK_RUN_LABEL: "run-who"},
                    "ownerReferences": [{"uid": owner, "controller": true}],
                },
                "status": {"phase": phase},
            })
        };
        let found =
            |run: &Value, pods: &[Value]| current_pod(run, pods).map(|it| name(it).to_owned());
        let pods = [
            pod("other", "other", ""),
            pod("failed", "u", "Failed"),
            pod("own", "u", "Pending"),
        ];
        assert_eq!(found(&run(), &pods).as_deref(), Some("own"));
        let mut written = run();
        written["status"]["podName"] = "other".into();
        assert_eq!(found(&written, &pods).as_deref(), Some("other"));
        written["status"]["podName"] = "gone".into();
        assert_eq!(found(&written, &pods), None);
        let mut retried = run();
        retried["status"]["retriesStatus"] = json!([{"podName": "own"}]);
        assert_eq!(found(&retried, &pods), None);
        assert_eq!(found(&run(), &[]), None);
    }
}
