//! The parts that the run adds to the pods of a child: `taskRunTemplate`, and over it the `taskRunSpecs` of
//! the pipeline task.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::object::{LinkObject, list, text};
use super::proof::Proof;
use super::{LineageReason, LineageStep, RunKind, content, refused};

/// The fields whose entries are joined by name.
const BY_NAME: [&str; 2] = ["env", "volumes"];
/// The fields of a run that its TaskRuns take over as they are.
const SPECS: [&str; 2] = ["stepSpecs", "sidecarSpecs"];
/// Fields that only TaskRuns have.
const ONLY_TASK_RUN: [&str; 3] = ["/spec/podTemplate", "/spec/stepSpecs", "/spec/sidecarSpecs"];

/// The entries of `taskRunSpecs` for a pipeline task.
pub(super) fn specs_of<'a>(run: &LinkObject<'a>, task: &str) -> impl Iterator<Item = &'a Value> {
    let specs = run.list("/spec/taskRunSpecs").iter();
    specs.filter(move |it| text(it, "/pipelineTaskName") == task)
}

/// The child has the pod template and the settings of steps and sidecars that the run gives it.
pub(super) fn check(
    proof: &mut Proof<'_>,
    kind: RunKind,
    child: &LinkObject<'_>,
    task: &Value,
    depth: u32,
) -> LineageStep {
    let other = || {
        let message = format!("{child} has another pod template than its run gives it");
        refused(LineageReason::OtherPodTemplate, message)
    };
    if kind == RunKind::CustomRun {
        let has = |pointer: &&str| super::object::is_set(child.value, pointer);
        return if ONLY_TASK_RUN.iter().any(has) {
            other()
        } else {
            Ok(())
        };
    }
    let name = text(task, "/name");
    let run = proof.run;
    let mut template = object(run.value.pointer("/spec/taskRunTemplate/podTemplate"));
    for spec in specs_of(&run, name) {
        template = merged(object(spec.get("podTemplate")), template);
    }
    let found = object(child.value.pointer("/spec/podTemplate"));
    let (Some(wanted), Some(found)) = (keyed(template), keyed(found)) else {
        return other();
    };
    if !content::is_same(proof, task, (&wanted, &found), (depth, 0))? {
        return other();
    }
    for field in SPECS {
        let wanted = specs_of(&run, name)
            .last()
            .map_or(&[][..], |it| list(it, &format!("/{field}")));
        let found = child.list(&format!("/spec/{field}"));
        let (wanted, found) = (Value::from(wanted), Value::from(found));
        if !content::is_same(proof, task, (&wanted, &found), (depth, 0))? {
            return other();
        }
    }
    Ok(())
}

fn object(value: Option<&Value>) -> Map<String, Value> {
    value
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default()
}

/// A template over a default one: fields of the former replace those of the latter, entries with names are joined.
fn merged(template: Map<String, Value>, default: Map<String, Value>) -> Map<String, Value> {
    let mut all = default;
    for (name, value) in template {
        let is_joined = BY_NAME.contains(&name.as_str());
        match (all.get_mut(&name), value) {
            (_, Value::Null) => {}
            (Some(Value::Bool(true)), Value::Bool(false)) if name == "hostNetwork" => {}
            (Some(Value::Array(below)), Value::Array(above)) if is_joined => {
                let names: BTreeSet<_> = above.iter().map(|it| text(it, "/name")).collect();
                below.retain(|it| !names.contains(text(it, "/name")));
                below.extend(above);
            }
            (_, value) => {
                all.insert(name, value);
            }
        }
    }
    all
}

/// The template with named entries by their names, because their order differs; none when a name comes twice.
fn keyed(mut template: Map<String, Value>) -> Option<Value> {
    for field in BY_NAME {
        let Some(entries) = template.get(field).and_then(Value::as_array) else {
            continue;
        };
        let mut by_name = Map::new();
        for entry in entries {
            let name = text(entry, "/name").to_owned();
            if by_name.insert(name, entry.clone()).is_some() {
                return None;
            }
        }
        template.insert(field.to_owned(), Value::Object(by_name));
    }
    Some(Value::Object(template))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// As Tekton merges them: a pipeline task cannot take the network of the host away.
    #[test]
    fn a_template_replaces_fields_of_the_default_one_and_joins_named_entries() {
        let entry = |name: &str, value: u32| json!({"name": name, "value": value});
        let env = |all: &[Value]| json!({"env": all});
        let taints = |key: &str| json!({"tolerations": [{"name": key}]});
        for (template, default, expected) in [
            (
                json!({"hostNetwork": false}),
                json!({"hostNetwork": true}),
                json!({"hostNetwork": true}),
            ),
            (
                json!({"hostNetwork": true}),
                json!({"hostNetwork": false}),
                json!({"hostNetwork": true}),
            ),
            (
                json!({"enableServiceLinks": false}),
                json!({"enableServiceLinks": true}),
                json!({"enableServiceLinks": false}),
            ),
            (
                env(&[entry("b", 2), entry("c", 2)]),
                env(&[entry("a", 1), entry("b", 1)]),
                env(&[entry("a", 1), entry("b", 2), entry("c", 2)]),
            ),
            (taints("x"), taints("y"), taints("x")),
            (
                json!({"nodeSelector": null}),
                json!({"nodeSelector": {"a": "b"}}),
                json!({"nodeSelector": {"a": "b"}}),
            ),
        ] {
            let found = merged(object(Some(&template)), object(Some(&default)));
            assert_eq!(Value::from(found), expected, "{template} {default}");
        }
    }
}
