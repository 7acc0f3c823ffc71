//! Readers of objects, and the fields that all objects of a run share.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::api::kinds::{CUSTOM_RUN, ResourceKind, TASK_RUN};

/// Names the run of an object.
pub const RUN_LABEL: &str = "tekton.dev/pipelineRun";
/// Has the UID of the run of an object.
pub(super) const RUN_UID_LABEL: &str = "tekton.dev/pipelineRunUID";
/// Names the pipeline task of an object.
pub(super) const PIPELINE_TASK_LABEL: &str = "tekton.dev/pipelineTask";
/// Tekton sees only the pods that have it.
pub(super) const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "tekton-pipelines");

/// The kinds of children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChildKind {
    TaskRun,
    CustomRun,
}

impl ChildKind {
    /// A pipeline task that refers to a kind of its own is a custom one.
    pub(super) fn of_task(task: &Value) -> Self {
        let is_set = |field: &str| !text(task, &format!("/taskRef/{field}")).is_empty();
        if is_set("apiVersion") && is_set("kind") {
            Self::CustomRun
        } else {
            Self::TaskRun
        }
    }

    pub(super) const fn resource(self) -> ResourceKind {
        match self {
            Self::TaskRun => TASK_RUN,
            Self::CustomRun => CUSTOM_RUN,
        }
    }

    pub(super) const fn api_version(self) -> &'static str {
        match self {
            Self::TaskRun => "tekton.dev/v1",
            Self::CustomRun => "tekton.dev/v1beta1",
        }
    }

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::TaskRun => "TaskRun",
            Self::CustomRun => "CustomRun",
        }
    }
}

/// The text at a place; empty when there is none.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    let text = value.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default()
}

/// The elements of a list that may be missing.
pub(super) fn elements(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

/// A value, or another one where it is absent.
pub(super) fn set_or<'a>(value: &'a Value, other: &'a Value) -> &'a Value {
    if value.is_null() { other } else { value }
}

pub(super) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// The element of a list with this name.
pub(super) fn named<'a>(list: &'a Value, name: &str) -> Option<&'a Value> {
    elements(list).iter().find(|it| it["name"] == name)
}

/// The references of an object to its controller.
#[must_use]
pub fn owned_by(owner: &Value) -> Value {
    json!([{
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    }])
}

/// Tekton's test for the children of a run: the first owner alone, controller or not.
pub(super) fn is_child_of(object: &Value, run: &Value) -> bool {
    let owner = text(object, "/metadata/ownerReferences/0/uid");
    !owner.is_empty() && owner == text(run, "/metadata/uid")
}

/// Tekton's test for pods.
pub(super) fn is_controlled_by(object: &Value, owner: &Value) -> bool {
    let mut owners = elements(&object["metadata"]["ownerReferences"]).iter();
    owners.any(|it| it["uid"] == owner["metadata"]["uid"] && it["controller"] == true)
}

/// The labels of a child: those of the run, and Tekton's own.
#[must_use]
pub fn labels_of_child(run: &Value, task: &str) -> Value {
    let mut labels = labels_of(run);
    let pipeline = set_or(&run["status"]["pipelineSpec"], &run["spec"]["pipelineSpec"]);
    let is_final = named(&pipeline["finally"], task).is_some();
    let member_of = if is_final { "finally" } else { "tasks" };
    for (label, value) in [
        (RUN_LABEL, name(run)),
        (RUN_UID_LABEL, text(run, "/metadata/uid")),
        (PIPELINE_TASK_LABEL, task),
        ("tekton.dev/memberOf", member_of),
    ] {
        labels.insert(label.to_owned(), value.into());
    }
    Value::Object(labels)
}

pub(super) fn labels_of(object: &Value) -> Map<String, Value> {
    let labels = object["metadata"]["labels"].as_object();
    labels.cloned().unwrap_or_default()
}

/// The status of the condition `Succeeded`; none as long as the object runs.
pub(super) fn succeeded(object: &Value) -> Option<bool> {
    let mut conditions = elements(&object["status"]["conditions"]).iter();
    let condition = conditions.find(|it| it["type"] == "Succeeded")?;
    match text(condition, "/status") {
        "True" => Some(true),
        "False" => Some(false),
        _ => None,
    }
}

/// The list with the condition `Succeeded` alone.
pub(super) fn conditions(status: &str, reason: &str, message: &str) -> Value {
    json!([{"type": "Succeeded", "status": status, "reason": reason, "message": message}])
}

/// A time as the API server writes it.
pub(super) fn time(at: Timestamp) -> Value {
    let seconds = Timestamp::from_second(at.as_second()).unwrap_or(at);
    seconds.to_string().into()
}

/// The start in an object's status, or now.
pub(super) fn started(object: &Value, now: Timestamp) -> Value {
    set_or(&object["status"]["startTime"], &time(now)).clone()
}

/// True when so much time has gone since a written time. Without a limit none has.
pub(super) fn is_over(since: &Value, limit: Option<SignedDuration>, now: Timestamp) -> bool {
    let since = since.as_str().and_then(|it| it.parse::<Timestamp>().ok());
    match (since, limit) {
        (Some(since), Some(limit)) => now.duration_since(since) > limit,
        _ => false,
    }
}

/// A duration in Go's notation, such as `1h0m0s`.
pub(super) fn duration(value: &Value) -> Option<SignedDuration> {
    value.as_str()?.parse().ok()
}

/// True when a merge of these fields into an object's status changes it.
pub(super) fn changes(object: &Value, status: &Value) -> bool {
    let fields = status.as_object().into_iter().flatten();
    fields
        .into_iter()
        .any(|(name, value)| object["status"][name] != *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_and_empty_fields_are_nothing() {
        for empty in [
            json!({}),
            json!({"status": null}),
            json!({"status": {"conditions": []}}),
        ] {
            assert_eq!(succeeded(&empty), None);
            assert!(elements(&empty["metadata"]["ownerReferences"]).is_empty());
            assert!(!is_child_of(&empty, &json!({})));
            assert!(!is_controlled_by(&empty, &json!({})));
        }
        assert_eq!(duration(&json!(null)), None);
        assert_eq!(duration(&json!("")), None);
    }

    #[test]
    fn durations_are_those_of_go() {
        for (text, seconds) in [("1h0m0s", 3600), ("90m", 5400), ("5s", 5)] {
            assert_eq!(
                duration(&json!(text)),
                Some(SignedDuration::from_secs(seconds))
            );
        }
    }

    #[test]
    fn time_is_over_after_the_limit_and_never_without_one() {
        let now: Timestamp = "2026-11-26T10:00:10Z".parse().unwrap();
        let since = json!("2026-11-26T10:00:00Z");
        let seconds = |it| Some(SignedDuration::from_secs(it));
        assert!(is_over(&since, seconds(9), now));
        assert!(!is_over(&since, seconds(10), now));
        assert!(!is_over(&since, None, now));
        assert!(!is_over(&json!(null), seconds(1), now));
    }

    #[test]
    fn a_child_is_of_the_run_that_its_first_owner_names() {
        let run = json!({"metadata": {"uid": "u"}});
        let of = |owners: Value| json!({"metadata": {"ownerReferences": owners}});
        assert!(is_child_of(&of(json!([{"uid": "u"}])), &run));
        let second = of(json!([{"uid": "other"}, {"uid": "u", "controller": true}]));
        assert!(!is_child_of(&second, &run));
        assert!(is_controlled_by(&second, &run));
    }

    #[test]
    fn labels_of_the_run_go_to_children_and_do_not_replace_those_of_tekton() {
        let run = json!({
            "metadata": {"name": "run", "uid": "u", "labels": {"app": "a", PIPELINE_TASK_LABEL: "forged"}},
            "spec": {"pipelineSpec": {"tasks": [{"name": "deploy"}], "finally": [{"name": "last"}]}},
        });
        let labels = labels_of_child(&run, "last");
        let expected = json!({
            "app": "a", RUN_LABEL: "run", RUN_UID_LABEL: "u", PIPELINE_TASK_LABEL: "last",
            "tekton.dev/memberOf": "finally",
        });
        assert_eq!(labels, expected);
        assert_eq!(
            labels_of_child(&run, "deploy")["tekton.dev/memberOf"],
            "tasks"
        );
    }

    #[test]
    fn a_merge_changes_nothing_where_the_fields_are_equal_or_stay_absent() {
        let object = json!({"status": {"a": 1}});
        assert!(!changes(&object, &json!({"a": 1, "b": null})));
        assert!(changes(&object, &json!({"a": null})));
        assert!(changes(&object, &json!({"a": 2})));
        assert!(!changes(&object, &json!({})));
    }
}
