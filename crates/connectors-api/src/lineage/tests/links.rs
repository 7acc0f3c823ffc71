//! Each guard of the proof, with a world that only this guard refuses.

mod approval;
mod chain;
mod content;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::shape::{Matrix, Shape, Target, Uses, Workspace};
use super::world::{World, clear};
use super::{LineageReason, LineageVerdict, Unproven};
use crate::lineage::tekton::RunKind;

type Change = fn(&mut World);
/// The name of a change to an honest shape and its world, and the change.
type Allowed = (&'static str, fn(&mut Shape), Change);
type Row = (LineageReason, &'static str, fn(&mut Shape), Change);

/// The honest shape as it is.
fn plain(_: &mut Shape) {}

fn early(value: &mut Value) {
    value["metadata"]["creationTimestamp"] = "2026-11-21T09:59:59Z".into();
}

fn going(value: &mut Value) {
    value["metadata"]["deletionTimestamp"] = "2026-11-21T11:00:00Z".into();
}

fn ended(value: &mut Value, word: &str) {
    value["status"]["conditions"][0]["status"] = word.into();
}

fn with_task(world: &mut World, name: &str, change: impl FnOnce(&mut Value)) {
    let tasks = world.run()["status"]["pipelineSpec"]["tasks"]
        .as_array_mut()
        .unwrap();
    change(tasks.iter_mut().find(|it| it["name"] == name).unwrap());
}

/// The TaskRun and all references to it, under another name.
fn rename(world: &mut World, name: &str) {
    world.task_run()["metadata"]["name"] = name.into();
    world.run()["status"]["childReferences"][3]["name"] = name.into();
    world.pod["metadata"]["ownerReferences"][0]["name"] = name.into();
}

#[test]
fn each_guard_refuses_with_its_own_reason() {
    let mut seen = BTreeSet::new();
    let rows = [approval::ROWS, chain::ROWS, content::ROWS];
    for (reason, says, shape_it, change) in rows.into_iter().flatten() {
        let mut shape = Shape::default();
        shape_it(&mut shape);
        let mut world = shape.world();
        assert!(world.is_proven(), "{reason} {says}: {:?}", world.judged());
        change(&mut world);
        let verdict = world.judged();
        let is_too_large = *reason == LineageReason::TooLarge;
        assert_eq!(verdict.is_too_large(), is_too_large, "{says}");
        match verdict {
            LineageVerdict::Refused(refusal) => {
                assert_eq!(refusal.reason, *reason, "{says}: {}", refusal.message);
                assert!(!refusal.message.is_empty());
            }
            other @ (LineageVerdict::Proven(_) | LineageVerdict::Waiting(_)) => {
                panic!("{reason} {says}: {other:?}")
            }
        }
        seen.insert(*reason);
    }
    let all: BTreeSet<_> = LineageReason::ALL.iter().copied().collect();
    assert_eq!(seen, all);
}

#[test]
fn what_does_not_change_what_runs_does_not_matter() {
    let rows: &[Allowed] = &[
        ("a timeout", plain, |it| {
            it.task_run()["spec"]["timeout"] = "5h".into();
        }),
        ("resources", plain, |it| {
            it.task_run()["spec"]["computeResources"] = json!({"limits": {"cpu": "1"}});
        }),
        ("labels", plain, |it| {
            it.pod["metadata"]["labels"] = json!({"tekton.dev/pipelineRun": "other"});
        }),
        (
            "the order of parameters",
            |it| it.matrix = Matrix::Params,
            |it| {
                it.task_run()["spec"]["params"]
                    .as_array_mut()
                    .unwrap()
                    .reverse();
            },
        ),
        ("the type of old users", plain, |it| {
            clear(&mut it.approval, "/spec/approvers/0", "type");
        }),
        (
            "the default kind",
            |it| it.target = Target::Reference,
            |it| clear(it.task_run(), "/spec/taskRef", "kind"),
        ),
        ("one second for all", plain, |it| {
            let at = it.objects[2]["metadata"]["creationTimestamp"].clone();
            it.pod["metadata"]["creationTimestamp"] = at.clone();
            it.approval["metadata"]["creationTimestamp"] = at.clone();
            it.objects[0]["metadata"]["creationTimestamp"] = at.clone();
            it.objects[1]["metadata"]["creationTimestamp"] = at;
        }),
        (
            "the claim of an affinity assistant",
            |it| it.workspace = Workspace::Claim,
            |it| {
                let claim = &mut it.task_run()["spec"]["workspaces"][0]["persistentVolumeClaim"]["claimName"];
                *claim = format!(
                    "{}-affinity-assistant-0123456789-0",
                    claim.as_str().unwrap()
                )
                .into();
            },
        ),
        ("children of other tasks", plain, |it| {
            it.adopt(RunKind::TaskRun, "evil", "lint");
        }),
        (
            "fewer children than there may be",
            |it| it.matrix = Matrix::Params,
            |it| {
                it.run()["status"]["childReferences"]
                    .as_array_mut()
                    .unwrap()
                    .pop();
            },
        ),
        ("an owner beside the controller", plain, |it| {
            let second = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u"});
            it.pod["metadata"]["ownerReferences"]
                .as_array_mut()
                .unwrap()
                .push(second);
        }),
        ("Tekton named as the manager", plain, |it| {
            it.run()["spec"]["managedBy"] = "tekton.dev/pipeline".into();
        }),
        ("a default service account", plain, |it| {
            clear(it.run(), "/spec/taskRunTemplate", "serviceAccountName");
            it.task_run()["spec"]["serviceAccountName"] = "default".into();
            it.custom_run()["spec"]["serviceAccountName"] = "".into();
            it.pod["spec"]["serviceAccountName"] = "default".into();
        }),
        ("no number in the parameters", plain, |it| {
            it.custom_run()["spec"]["params"]
                .as_array_mut()
                .unwrap()
                .remove(1);
            with_task(it, "wait", |task| {
                task["params"].as_array_mut().unwrap().remove(1);
            });
        }),
        ("an approver named twice", plain, |it| {
            let names = json!(["alice", "group:team", "alice", "group:alice"]);
            it.custom_run()["spec"]["params"][0]["value"] = names.clone();
            with_task(it, "wait", |task| task["params"][0]["value"] = names);
        }),
    ];
    all_are_proven(rows);
}

/// Go writes either for a field without a value.
#[test]
fn an_empty_text_and_null_are_no_value() {
    let rows: &[Allowed] = &[
        ("of a run that goes on", plain, |it| {
            it.run()["spec"]["status"] = "".into();
            it.run()["metadata"]["deletionTimestamp"] = Value::Null;
        }),
        (
            "of a reference, empty",
            |it| it.target = Target::Reference,
            |it| it.task_run()["spec"]["taskRef"]["apiVersion"] = "".into(),
        ),
        (
            "of a reference, null",
            |it| it.target = Target::Reference,
            |it| it.task_run()["spec"]["taskRef"]["apiVersion"] = Value::Null,
        ),
    ];
    all_are_proven(rows);
}

fn all_are_proven(rows: &[Allowed]) {
    for (says, shape_it, change) in rows {
        let mut shape = Shape::default();
        shape_it(&mut shape);
        let mut world = shape.world();
        change(&mut world);
        assert!(world.is_proven(), "{says}: {:?}", world.judged());
    }
}

/// Each is refused with one more, by a row of `TooLarge` or `OtherApprovers`.
#[test]
fn what_just_reaches_a_limit_is_proven() {
    let rows: &[Allowed] = &[
        ("objects", plain, |it| {
            chain::objects(it, crate::lineage::MOST_OBJECTS);
        }),
        ("pipeline tasks", plain, |it| chain::tasks(it, 1_024)),
        ("children", plain, |it| chain::children(it, 4_096)),
        (
            "combinations of a matrix",
            |it| it.matrix = Matrix::Include,
            |it| chain::combinations(it, 256),
        ),
        ("levels of a task", plain, |it| chain::levels(it, 63)),
        ("results of results", plain, |it| {
            chain::results_in_a_row(it, 16);
        }),
        ("approvers", plain, |it| approval::many(it, 1_000)),
    ];
    all_are_proven(rows);
}

#[test]
fn what_tekton_fills_in_or_leaves_as_it_is_written_is_proven() {
    let rows: &[Allowed] = &[
        (
            "a result in a script is left",
            |it| it.uses = Uses::Script,
            |it| {
                let steps = &it.objects[2]["status"]["pipelineSpec"]["tasks"][4]["taskSpec"];
                let script = steps["steps"][0]["script"].clone();
                it.task_run()["spec"]["taskSpec"]["steps"][0]["script"] = script;
            },
        ),
        (
            "the result of a custom task is no empty list but a text",
            |it| it.uses = Uses::Custom,
            |it| {
                it.objects[3]["status"]["results"][0]["value"] = "[]".into();
                it.task_run()["spec"]["params"][0]["value"] = "[]".into();
            },
        ),
        ("the number of retries", plain, |it| {
            content::counts_retries(it, "try 2");
        }),
        ("no retries", plain, |it| {
            content::counts_retries(it, "try 0");
            with_task(it, "deploy", |task| clear(task, "", "retries"));
            clear(it.task_run(), "/spec", "retries");
        }),
        (
            "the run's parameters in the path of a workspace",
            |it| it.workspace = Workspace::Secret,
            |it| {
                it.run()["spec"]["params"] = json!([
                    {"name": "text", "value": "t"},
                    {"name": "list", "value": ["a", "b"]},
                    {"name": "map", "value": {"key": "v"}},
                ]);
                let path =
                    "$(params.text)/$(params.list[1])/$(params['list'][0])/$(params.map.key)";
                it.run()["spec"]["workspaces"][0]["subPath"] = path.into();
                it.task_run()["spec"]["workspaces"][0]["subPath"] = "t/b/a/v/sub".into();
            },
        ),
    ];
    all_are_proven(rows);
}

#[test]
fn rejections_and_timeouts_are_told_apart_from_forgeries() {
    let mut world = Shape::default().world();
    world.approval["status"] = json!({"state": "rejected", "approversResponse": []});
    assert!(matches!(world.judged().proof(), Err(Unproven::Rejected(_))));
    // The same word on an approval of others is worth nothing.
    world.pod["metadata"]["ownerReferences"] = json!([]);
    assert!(matches!(world.judged().proof(), Err(Unproven::Refused(_))));
}
