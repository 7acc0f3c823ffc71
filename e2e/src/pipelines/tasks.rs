//! Which pipeline tasks of a run begin, which are left out, and how the run ends. Nothing here reads or writes.

use std::collections::BTreeMap;

use serde_json::Value;

use super::objects::{ChildKind, elements, succeeded, text};
use super::values::{RunVariables, tasks_referred_to};

/// Why a pipeline task was left out, in Tekton's words.
const BY_WHEN: &str = "When Expressions evaluated to false";
const BY_RESULTS: &str = "Results were missing";
const BY_PARENTS: &str = "Parent Tasks were skipped";
const BY_FAILURE: &str = "PipelineRun was stopping";

/// A pipeline task of a run, with its children.
#[derive(Debug)]
pub(super) struct RunTask {
    /// From `status.pipelineSpec`.
    pub(super) spec: Value,
    pub(super) is_final: bool,
    pub(super) kind: ChildKind,
    /// The names of its children, those that are not there too. None are known while its matrix waits for results.
    pub(super) names: Vec<String>,
    pub(super) children: Vec<Value>,
}

impl RunTask {
    pub(super) fn name(&self) -> &str {
        text(&self.spec, "/name")
    }

    fn has_begun(&self) -> bool {
        !self.children.is_empty()
    }

    pub(super) fn is_running(&self) -> bool {
        self.children.iter().any(|it| succeeded(it).is_none())
    }

    fn has_ended(&self) -> bool {
        self.has_begun() && !self.is_running()
    }

    fn has_failed(&self) -> bool {
        self.has_ended() && self.children.iter().any(|it| succeeded(it) == Some(false))
    }

    fn stops_the_run(&self) -> bool {
        self.has_failed() && self.spec["onError"] != "continue"
    }
}

/// The next step of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NextStep {
    /// The places of the tasks whose children are to be made.
    pub(super) begins: Vec<usize>,
    /// The tasks that are left out, with the reason.
    pub(super) skipped: BTreeMap<String, &'static str>,
    /// Whether the run succeeded; none while it goes on.
    pub(super) succeeded: Option<bool>,
}

/// `stopped` says why no further task begins but those of `finally`.
pub(super) fn next(
    tasks: &[RunTask],
    variables: &RunVariables,
    stopped: Option<&'static str>,
) -> NextStep {
    let (mut last, mut first): (Vec<_>, Vec<_>) =
        tasks.iter().enumerate().partition(|(_, it)| it.is_final);
    let mut next = NextStep::default();
    let fails = first.iter().any(|(_, it)| it.stops_the_run());
    let stopped = stopped.or(fails.then_some(BY_FAILURE));
    first.retain(|(_, it)| !it.has_begun());
    while leave_one_out(&first, tasks, variables, stopped, &mut next.skipped) {}
    let may_begin = |it: &RunTask, skipped: &BTreeMap<String, _>| {
        !it.has_begun() && !it.names.is_empty() && !skipped.contains_key(it.name())
    };
    for (place, task) in first {
        if may_begin(task, &next.skipped) && is_ready(task, tasks, &next.skipped) {
            next.begins.push(place);
        }
    }
    let is_over = |it: &RunTask, skipped: &BTreeMap<String, _>| {
        it.has_ended() || skipped.contains_key(it.name())
    };
    let mut of_first = tasks.iter().filter(|it| !it.is_final);
    if !of_first.all(|it| is_over(it, &next.skipped)) {
        return next;
    }
    last.retain(|(_, it)| !it.has_begun());
    for (place, task) in last {
        let reason = if is_left_out_by_when(task, variables) {
            Some(BY_WHEN)
        } else {
            lacks_results(task, variables).then_some(BY_RESULTS)
        };
        if let Some(reason) = reason {
            next.skipped.insert(task.name().to_owned(), reason);
        } else if may_begin(task, &next.skipped) {
            next.begins.push(place);
        }
    }
    if tasks.iter().all(|it| is_over(it, &next.skipped)) {
        let failed = tasks.iter().any(RunTask::stops_the_run);
        let was_stopped = stopped.is_some_and(|it| it != BY_FAILURE);
        next.succeeded = Some(!failed && !was_stopped);
    }
    next
}

/// Leaves one more task out; false when none is to be left out.
fn leave_one_out(
    waiting: &[(usize, &RunTask)],
    tasks: &[RunTask],
    variables: &RunVariables,
    stopped: Option<&'static str>,
    skipped: &mut BTreeMap<String, &'static str>,
) -> bool {
    let reason = |task: &RunTask| {
        if stopped.is_some() || !is_ready(task, tasks, skipped) {
            return stopped;
        }
        let of_parents = |it: &str| skipped.get(it).is_some_and(|reason| *reason != BY_WHEN);
        if is_left_out_by_when(task, variables) {
            Some(BY_WHEN)
        } else if lacks_results(task, variables) {
            Some(BY_RESULTS)
        } else {
            runs_after(task).any(of_parents).then_some(BY_PARENTS)
        }
    };
    let new = waiting.iter().map(|(_, it)| *it);
    let mut new = new.filter(|it| !skipped.contains_key(it.name()));
    let Some((name, reason)) = new.find_map(|it| Some((it.name().to_owned(), reason(it)?))) else {
        return false;
    };
    skipped.insert(name, reason);
    true
}

fn runs_after(task: &RunTask) -> impl Iterator<Item = &str> {
    elements(&task.spec["runAfter"])
        .iter()
        .filter_map(Value::as_str)
}

/// All tasks that come before it have ended or were left out.
fn is_ready(task: &RunTask, tasks: &[RunTask], skipped: &BTreeMap<String, &'static str>) -> bool {
    let after: Vec<_> = runs_after(task).map(str::to_owned).collect();
    let mut before = after.into_iter().chain(tasks_referred_to(&task.spec));
    before.all(|name| {
        let ended = |it: &RunTask| it.name() == name && it.has_ended();
        skipped.contains_key(&name) || tasks.iter().any(ended)
    })
}

/// A reference that is left is one to a result that does not come.
fn lacks_results(task: &RunTask, variables: &RunVariables) -> bool {
    !tasks_referred_to(&variables.fill(&task.spec)).is_empty()
}

fn is_left_out_by_when(task: &RunTask, variables: &RunVariables) -> bool {
    let when = variables.fill(&task.spec["when"]);
    elements(&when).iter().any(|it| {
        let is_in = elements(&it["values"]).contains(&it["input"]);
        is_in != (it["operator"] == "in")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn child(status: &str) -> Value {
        json!({"status": {"conditions": [{"type": "Succeeded", "status": status}]}})
    }

    /// A task with one child in this state, or none.
    fn task(spec: Value, state: &str) -> RunTask {
        RunTask {
            names: vec![text(&spec, "/name").to_owned()],
            spec,
            is_final: false,
            kind: ChildKind::TaskRun,
            children: if state.is_empty() {
                vec![]
            } else {
                vec![child(state)]
            },
        }
    }

    fn last(spec: Value, state: &str) -> RunTask {
        RunTask {
            is_final: true,
            ..task(spec, state)
        }
    }

    fn begun(next: &NextStep, tasks: &[RunTask]) -> Vec<String> {
        next.begins
            .iter()
            .map(|it| tasks[*it].name().to_owned())
            .collect()
    }

    fn of(tasks: &[RunTask]) -> NextStep {
        next(tasks, &RunVariables::default(), None)
    }

    #[test]
    fn a_task_begins_once_those_before_it_have_ended() {
        let after = || json!({"name": "deploy", "runAfter": ["wait"]});
        for (state, begins) in [
            ("", vec!["wait"]),
            ("Unknown", vec![]),
            ("True", vec!["deploy"]),
        ] {
            let tasks = [task(json!({"name": "wait"}), state), task(after(), "")];
            let next = of(&tasks);
            assert_eq!(begun(&next, &tasks), begins, "{state}");
            assert_eq!(next.succeeded, None);
        }
    }

    #[test]
    fn after_a_failure_nothing_begins_but_finally_and_the_run_fails() {
        let mut tasks = [
            task(json!({"name": "bad"}), "False"),
            task(json!({"name": "running"}), "Unknown"),
            task(json!({"name": "other"}), ""),
            last(json!({"name": "last"}), ""),
        ];
        let next = of(&tasks);
        assert_eq!(begun(&next, &tasks), Vec::<String>::new());
        assert_eq!(next.skipped, [("other".to_owned(), BY_FAILURE)].into());
        tasks[1].children = vec![child("True")];
        assert_eq!(begun(&of(&tasks), &tasks), ["last"]);
        tasks[3].children = vec![child("True")];
        assert_eq!(of(&tasks).succeeded, Some(false));
    }

    #[test]
    fn a_failure_that_may_be_does_not_stop_the_run() {
        let tasks = [
            task(json!({"name": "bad", "onError": "continue"}), "False"),
            task(json!({"name": "next", "runAfter": ["bad"]}), "True"),
        ];
        assert_eq!(of(&tasks).succeeded, Some(true));
    }

    #[test]
    fn a_task_is_left_out_by_when_and_those_after_it_are_not() {
        let when = |operator: &str| json!([{"input": "a", "operator": operator, "values": ["a"]}]);
        let tasks = [
            task(json!({"name": "out", "when": when("notin")}), ""),
            task(
                json!({"name": "in", "when": when("in"), "runAfter": ["out"]}),
                "",
            ),
            task(
                json!({"name": "lacks", "params": [{"value": "$(tasks.out.results.r)"}]}),
                "",
            ),
            task(json!({"name": "behind", "runAfter": ["lacks"]}), ""),
        ];
        let next = of(&tasks);
        assert_eq!(begun(&next, &tasks), ["in"]);
        let skipped = [
            ("out", BY_WHEN),
            ("lacks", BY_RESULTS),
            ("behind", BY_PARENTS),
        ];
        assert_eq!(
            next.skipped,
            skipped
                .map(|(name, reason)| (name.to_owned(), reason))
                .into()
        );
    }

    #[test]
    fn a_stopped_run_begins_finally_alone_and_does_not_succeed() {
        let mut tasks = [
            task(json!({"name": "first"}), "True"),
            task(json!({"name": "other"}), ""),
            last(json!({"name": "last"}), ""),
        ];
        let stopped = Some("PipelineRun was gracefully stopped");
        let step = next(&tasks, &RunVariables::default(), stopped);
        assert_eq!(begun(&step, &tasks), ["last"]);
        tasks[2].children = vec![child("True")];
        let step = next(&tasks, &RunVariables::default(), stopped);
        assert_eq!(step.succeeded, Some(false));
    }

    #[test]
    fn a_pipeline_without_tasks_is_over() {
        assert_eq!(of(&[]).succeeded, Some(true));
    }
}
