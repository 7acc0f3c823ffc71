//! The content of a child.

use serde_json::{Map, Value, json};

use super::objects::{ChildKind, elements, labels_of_child, owned_by, set_or, text};
use super::pipeline_run::HOUR;

/// What the run asks for one of its tasks.
fn settings_of<'a>(run: &'a Value, task: &str) -> Option<&'a Value> {
    let mut all = elements(&run["spec"]["taskRunSpecs"]).iter();
    all.find(|it| it["pipelineTaskName"] == task)
}

/// A child of a pipeline task, with the parameters of its matrix.
pub(super) fn child(
    run: &Value,
    task: &Value,
    kind: ChildKind,
    child: &str,
    own: &[Value],
) -> Value {
    let task_name = text(task, "/name");
    let settings = settings_of(run, task_name).cloned().unwrap_or_default();
    let template = &run["spec"]["taskRunTemplate"];
    let default = Value::from("default");
    let account = set_or(&template["serviceAccountName"], &default);
    let account = set_or(&settings["serviceAccountName"], account).clone();
    let mut labels = labels_of_child(run, task_name);
    let mut spec = Map::from_iter([("serviceAccountName".to_owned(), account)]);
    let params = [own, elements(&task["params"])].concat();
    if !params.is_empty() {
        spec.insert("params".to_owned(), params.into());
    }
    let timeout = set_or(&settings["timeout"], &task["timeout"]).clone();
    for (field, value) in [("retries", task["retries"].clone()), ("timeout", timeout)] {
        if !value.is_null() {
            spec.insert(field.to_owned(), value);
        }
    }
    match kind {
        ChildKind::CustomRun => {
            spec.insert("customRef".to_owned(), task["taskRef"].clone());
        }
        ChildKind::TaskRun => {
            // The author of a run may say anything about its pods, the labels of Tekton included.
            let claimed = settings["metadata"]["labels"].as_object().cloned();
            if let Some(labels) = labels.as_object_mut() {
                labels.extend(claimed.unwrap_or_default());
            }
            spec.entry("timeout").or_insert_with(|| HOUR.into());
            let mut embedded = task["taskSpec"].clone();
            if let Some(fields) = embedded.as_object_mut() {
                fields.retain(|it, _| {
                    !["apiVersion", "kind", "metadata", "spec"].contains(&it.as_str())
                });
            }
            for (field, value) in [("taskSpec", embedded), ("taskRef", task["taskRef"].clone())] {
                if !value.is_null() {
                    spec.insert(field.to_owned(), value);
                }
            }
        }
    }
    json!({
        "apiVersion": kind.api_version(), "kind": kind.as_str(),
        "metadata": {"name": child, "ownerReferences": owned_by(run), "labels": labels},
        "spec": spec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipelines::RUN_LABEL;

    #[test]
    fn labels_that_the_author_of_a_run_claims_for_its_pods_win() {
        let run = json!({
            "metadata": {"name": "evil", "uid": "u"},
            "spec": {"taskRunSpecs": [{
                "pipelineTaskName": "deploy", "serviceAccountName": "other",
                "metadata": {"labels": {RUN_LABEL: "run"}},
            }]},
        });
        let task = json!({"name": "deploy", "taskSpec": {"metadata": {}, "steps": []}});
        let made = child(&run, &task, ChildKind::TaskRun, "evil-deploy", &[]);
        assert_eq!(made["metadata"]["labels"][RUN_LABEL], "run");
        let spec =
            json!({"serviceAccountName": "other", "timeout": HOUR, "taskSpec": {"steps": []}});
        assert_eq!(made["spec"], spec);
    }

    #[test]
    fn a_custom_run_gets_the_settings_of_its_task_alone() {
        let run = json!({
            "metadata": {"name": "run", "uid": "u"}, "spec": {"taskRunTemplate": {"serviceAccountName": "deployer"}},
        });
        let task = json!({
            "name": "wait", "timeout": "30m", "retries": 1, "params": [{"name": "a", "value": "b"}],
            "taskRef": {"apiVersion": "example.com/v1", "kind": "Ask"},
        });
        assert_eq!(ChildKind::of_task(&task), ChildKind::CustomRun);
        let own = [json!({"name": "x", "value": "1"})];
        let made = child(&run, &task, ChildKind::CustomRun, "run-wait", &own);
        let spec = json!({
            "serviceAccountName": "deployer", "timeout": "30m", "retries": 1,
            "params": [{"name": "x", "value": "1"}, {"name": "a", "value": "b"}],
            "customRef": {"apiVersion": "example.com/v1", "kind": "Ask"},
        });
        assert_eq!(made["spec"], spec);
    }
}
