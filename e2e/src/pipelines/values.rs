//! Variables of a run.
//!
//! Not played: the state of other tasks as a value, and names in brackets.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::objects::{elements, name, succeeded, text};

/// What texts of a pipeline refer to, by name: texts, and lists and objects as a whole.
#[derive(Debug, Default)]
pub(super) struct RunVariables(BTreeMap<String, Value>);

impl RunVariables {
    /// The parameters of a run, and its context.
    pub(super) fn of_run(run: &Value) -> Self {
        let mut variables = Self::default();
        for declared in elements(&run["spec"]["pipelineSpec"]["params"]) {
            variables.add(
                &format!("params.{}", text(declared, "/name")),
                &declared["default"],
            );
        }
        for given in elements(&run["spec"]["params"]) {
            variables.add(&format!("params.{}", text(given, "/name")), &given["value"]);
        }
        for (variable, value) in [
            ("context.pipelineRun.name", name(run)),
            ("context.pipelineRun.uid", text(run, "/metadata/uid")),
            (
                "context.pipelineRun.namespace",
                text(run, "/metadata/namespace"),
            ),
        ] {
            variables.add(variable, &value.into());
        }
        variables
    }

    /// The parameters of a `TaskRun`.
    pub(super) fn of_task_run(run: &Value) -> Self {
        let mut variables = Self::default();
        for given in elements(&run["spec"]["params"]) {
            variables.add(&format!("params.{}", text(given, "/name")), &given["value"]);
        }
        variables
    }

    /// The results of a pipeline task whose children have all succeeded. Those of a matrix are lists.
    pub(super) fn add_results(&mut self, task: &str, is_matrix: bool, children: &[Value]) {
        let is_done = children.iter().all(|it| succeeded(it) == Some(true));
        if children.is_empty() || !is_done {
            return;
        }
        let mut values: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for result in children
            .iter()
            .flat_map(|it| elements(&it["status"]["results"]))
        {
            let of_name = values.entry(text(result, "/name")).or_default();
            of_name.push(&result["value"]);
        }
        for (result, values) in values {
            let name = format!("tasks.{task}.results.{result}");
            match values.first() {
                Some(value) if !is_matrix => self.add(&name, value),
                _ => self.add(&name, &json!(values)),
            }
        }
    }

    pub(super) fn add(&mut self, name: &str, value: &Value) {
        match value {
            Value::String(_) => {
                self.0.insert(name.to_owned(), value.clone());
            }
            Value::Array(items) => {
                self.0.insert(format!("{name}[*]"), value.clone());
                let items = items.iter().enumerate();
                self.0
                    .extend(items.map(|(index, it)| (format!("{name}[{index}]"), it.clone())));
            }
            Value::Object(fields) => {
                self.0.insert(format!("{name}[*]"), value.clone());
                let fields = fields.iter();
                self.0
                    .extend(fields.map(|(key, it)| (format!("{name}.{key}"), it.clone())));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// A pipeline task with the variables of its run. A parameter that its own task declares hides that of the run.
    pub(super) fn fill_task(&self, task: &Value) -> Value {
        let mut filled = self.fill(task);
        let declared = elements(&task["taskSpec"]["params"]).iter();
        let declared: Vec<_> = declared
            .map(|it| format!("params.{}", text(it, "/name")))
            .collect();
        if !declared.is_empty() {
            let is_hidden = |variable: &str| {
                declared
                    .iter()
                    .any(|it| variable.strip_prefix(it.as_str()).is_some_and(is_end))
            };
            let seen = self.0.iter().filter(|(name, _)| !is_hidden(name));
            let seen = Self(
                seen.map(|(name, value)| (name.clone(), value.clone()))
                    .collect(),
            );
            filled["taskSpec"] = seen.fill(&task["taskSpec"]);
        }
        filled
    }

    /// A value with the variables that are known. References to others stay.
    pub(super) fn fill(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.fill_text(text),
            Value::Array(items) => {
                let filled = items.iter().flat_map(|item| {
                    let filled = self.fill(item);
                    let whole = filled.as_array().filter(|_| item.is_string()).cloned();
                    whole.unwrap_or_else(|| vec![filled])
                });
                filled.collect()
            }
            Value::Object(fields) => {
                let filled = fields
                    .iter()
                    .map(|(name, it)| (name.clone(), self.fill(it)));
                Value::Object(filled.collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn fill_text(&self, text: &str) -> Value {
        let whole = text.strip_prefix("$(").and_then(|it| it.strip_suffix(')'));
        if let Some(value) = whole.and_then(|it| self.0.get(it)) {
            return value.clone();
        }
        let (mut filled, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once("$(") {
            filled.push_str(before);
            let known = after
                .split_once(')')
                .and_then(|(name, behind)| Some((self.0.get(name)?.as_str()?, behind)));
            if let Some((value, behind)) = known {
                filled.push_str(value);
                rest = behind;
            } else {
                filled.push_str("$(");
                rest = after;
            }
        }
        filled.push_str(rest);
        filled.into()
    }
}

/// The end of the name of a parameter within that of a variable.
fn is_end(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with(['[', '.'])
}

/// The tasks whose results a value refers to.
pub(super) fn tasks_referred_to(value: &Value) -> BTreeSet<String> {
    let mut tasks = BTreeSet::new();
    collect_references(value, &mut tasks);
    tasks
}

fn collect_references(value: &Value, tasks: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            for reference in text.split("$(tasks.").skip(1) {
                if let Some((task, rest)) = reference.split_once('.')
                    && rest.starts_with("results.")
                {
                    tasks.insert(task.to_owned());
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|it| collect_references(it, tasks)),
        Value::Object(fields) => fields.values().for_each(|it| collect_references(it, tasks)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Value {
        json!({
            "metadata": {"name": "run", "uid": "u", "namespace": "ns"},
            "spec": {
                "pipelineSpec": {"params": [{"name": "version", "default": "1"}, {"name": "needed", "default": "2"}]},
                "params": [{"name": "version", "value": "3"}, {"name": "who", "value": ["alice", "bob"]}],
            },
        })
    }

    #[test]
    fn parameters_and_context_are_filled_in_and_other_references_stay() {
        let variables = RunVariables::of_run(&run());
        let value = json!({
            "one": "v$(params.version) of $(context.pipelineRun.name)", "all": "$(params.who[*])",
            "in": ["$(params.who[*])", "carol"], "first": "$(params.who[0])", "default": "$(params.needed)",
            "other": "$(tasks.who.results.boss) $(", "number": 1,
        });
        let expected = json!({
            "one": "v3 of run", "all": ["alice", "bob"], "in": ["alice", "bob", "carol"], "first": "alice",
            "default": "2", "other": "$(tasks.who.results.boss) $(", "number": 1,
        });
        assert_eq!(variables.fill(&value), expected);
    }

    #[test]
    fn a_parameter_of_the_task_hides_that_of_the_run_within_the_task() {
        let variables = RunVariables::of_run(&run());
        let task = json!({
            "params": [{"name": "version", "value": "$(params.version)"}],
            "taskSpec": {"params": [{"name": "version"}], "steps": [{"args": ["$(params.version)", "$(params.needed)"]}]},
        });
        let filled = variables.fill_task(&task);
        assert_eq!(filled["params"][0]["value"], "3");
        assert_eq!(
            filled["taskSpec"]["steps"][0]["args"],
            json!(["$(params.version)", "2"])
        );
    }

    #[test]
    fn results_are_known_once_all_children_have_succeeded() {
        let child = |status: &str, value: Value| {
            json!({"status": {
                "conditions": [{"type": "Succeeded", "status": status}], "results": [{"name": "r", "value": value}],
            }})
        };
        let reference = json!("$(tasks.t.results.r)");
        for children in [
            vec![],
            vec![child("Unknown", json!("a"))],
            vec![child("False", json!("a"))],
        ] {
            let mut variables = RunVariables::default();
            variables.add_results("t", false, &children);
            assert_eq!(variables.fill(&reference), reference);
        }
        let mut variables = RunVariables::default();
        variables.add_results("t", false, &[child("True", json!("a"))]);
        variables.add_results(
            "m",
            true,
            &[child("True", json!("a")), child("True", json!("b"))],
        );
        assert_eq!(variables.fill(&reference), "a");
        assert_eq!(
            variables.fill(&json!("$(tasks.m.results.r[*])")),
            json!(["a", "b"])
        );
    }

    #[test]
    fn references_to_results_name_their_tasks() {
        let value = json!({"a": ["$(tasks.x.results.r) $(tasks.y.results.s[*])"], "b": "$(tasks.z.status)"});
        let expected = ["x", "y"].map(str::to_owned);
        assert_eq!(tasks_referred_to(&value), expected.into());
        assert!(tasks_referred_to(&json!(null)).is_empty());
    }
}
