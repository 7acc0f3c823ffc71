//! The ends, the run, and the membership of children.

use serde_json::{Value, json};

use super::super::shape::{Matrix, Uses};
use super::super::world::{World, clear, owner, stamped};
use super::{LineageReason as R, Row, early, ended, going, plain, rename, with_task};
use crate::lineage::tekton::RunKind;

/// The pod's task uses the result of a task that uses the result of another one, and so on through so many tasks.
pub(super) fn results_in_a_row(world: &mut World, tasks: usize) {
    let says = |next: usize| {
        if next == tasks {
            "v".to_owned()
        } else {
            format!("$(tasks.t{next}.results.r)")
        }
    };
    for number in 0..tasks {
        let task = format!("t{number}");
        let child = format!("run-{task}");
        let target = json!({"name": "any", "kind": "Task"});
        let mut made = stamped(
            "tekton.dev/v1",
            "TaskRun",
            &child,
            &format!("uid-{task}"),
            2,
        );
        made["metadata"]["ownerReferences"] =
            owner("tekton.dev/v1", "PipelineRun", "run", "uid-run");
        made["spec"] = json!({
            "serviceAccountName": "builder", "taskRef": target, "params": [{"name": "p", "value": "v"}],
        });
        made["status"] = json!({
            "conditions": [{"type": "Succeeded", "status": "True"}], "results": [{"name": "r", "value": "v"}],
        });
        world.objects.push(made);
        world.adopt(RunKind::TaskRun, &child, &task);
        let listed = &mut world.run()["status"]["pipelineSpec"]["tasks"];
        listed.as_array_mut().unwrap().push(json!({
            "name": task, "taskRef": target, "params": [{"name": "p", "value": says(number + 1)}],
        }));
    }
    with_task(world, "deploy", |task| {
        task["params"][0]["value"] = says(0).into();
    });
    world.task_run()["spec"]["params"][0]["value"] = "v".into();
}

/// So many objects in all.
pub(super) fn objects(world: &mut World, count: usize) {
    for number in world.objects.len()..count {
        let name = format!("other-{number}");
        let other = stamped("tekton.dev/v1", "TaskRun", &name, &name, 2);
        world.objects.push(other);
    }
}

/// So many pipeline tasks in all, some of them in `finally`.
pub(super) fn tasks(world: &mut World, count: usize) {
    let spec = &mut world.run()["status"]["pipelineSpec"];
    let listed = spec["tasks"].as_array().unwrap().len();
    let others = (listed..count).map(|it| json!({"name": format!("t{it}")}));
    spec["finally"] = others.collect();
}

/// So many children in all.
pub(super) fn children(world: &mut World, count: usize) {
    let children = &mut world.run()["status"]["childReferences"];
    children.as_array_mut().unwrap().resize(count, json!({}));
}

/// A matrix with so many combinations, of which the pod's is the first.
pub(super) fn combinations(world: &mut World, count: usize) {
    let one = |value: &str| json!({"params": [{"name": "m1", "value": value}]});
    let others = (1..count).map(|it| one(&it.to_string()));
    let include: Vec<_> = std::iter::once(one("i")).chain(others).collect();
    with_task(world, "deploy", |task| {
        task["matrix"] = json!({"include": include});
    });
}

/// A field of the pod's task with so many lists in each other.
pub(super) fn levels(world: &mut World, count: usize) {
    let deep = (0..count).fold(json!("end"), |inner, _| Value::from(vec![inner]));
    with_task(world, "deploy", |task| {
        task["taskSpec"]["volumes"] = deep.clone();
    });
    world.task_run()["spec"]["taskSpec"]["volumes"] = deep;
}

pub(super) const ROWS: &[Row] = &[
    (R::TooLarge, "too many objects", plain, |it| {
        objects(it, crate::lineage::MOST_OBJECTS + 1);
    }),
    (R::TooLarge, "too many pipeline tasks", plain, |it| {
        tasks(it, 1_025);
    }),
    (R::TooLarge, "too many children", plain, |it| {
        children(it, 4_097);
    }),
    (
        R::TooLarge,
        "results that depend on themselves",
        |it| it.matrix = Matrix::Result,
        |it| {
            with_task(it, "who", |who| {
                who["matrix"] =
                    json!({"params": [{"name": "m", "value": "$(tasks.who.results.list)"}]});
            });
        },
    ),
    (R::TooLarge, "results in too many steps", plain, |it| {
        results_in_a_row(it, 17);
    }),
    (
        R::TooLarge,
        "a matrix with too many combinations",
        |it| it.matrix = Matrix::Include,
        |it| combinations(it, 257),
    ),
    (
        R::TooLarge,
        "a task that is nested too deeply",
        plain,
        |it| levels(it, 64),
    ),
    (R::Unreadable, "a pod without a UID", plain, |it| {
        clear(&mut it.pod, "/metadata", "uid");
    }),
    (R::Unreadable, "an object given twice", plain, |it| {
        it.objects.push(it.objects[2].clone());
    }),
    (R::Unreadable, "an object of another version", plain, |it| {
        it.task_run()["apiVersion"] = "tekton.dev/v1beta1".into();
    }),
    (R::Unreadable, "no pod", plain, |it| {
        it.pod["kind"] = "Job".into();
    }),
    (R::Unreadable, "no ApprovalTask", plain, |it| {
        it.approval["kind"] = "ApprovalRequest".into();
    }),
    (R::Unreadable, "a creation time in no form", plain, |it| {
        it.approval["metadata"]["creationTimestamp"] = "yesterday".into();
    }),
    (R::OtherNamespace, "an approval elsewhere", plain, |it| {
        it.approval["metadata"]["namespace"] = "other".into();
    }),
    (R::OtherNamespace, "a run elsewhere", plain, |it| {
        it.run()["metadata"]["namespace"] = "other".into();
    }),
    (R::PodWithoutTaskRun, "no owner", plain, |it| {
        clear(&mut it.pod, "/metadata", "ownerReferences");
    }),
    (
        R::PodWithoutTaskRun,
        "an owner that does not control",
        plain,
        |it| {
            it.pod["metadata"]["ownerReferences"][0]["controller"] = false.into();
        },
    ),
    (
        R::PodWithoutTaskRun,
        "an owner of another group",
        plain,
        |it| {
            it.pod["metadata"]["ownerReferences"][0]["apiVersion"] = "example.com/v1".into();
        },
    ),
    (
        R::PodWithoutTaskRun,
        "a controller of another kind",
        plain,
        |it| {
            it.pod["metadata"]["ownerReferences"][0]["kind"] = "Job".into();
        },
    ),
    (
        R::PodWithoutTaskRun,
        "a controller without a UID",
        plain,
        |it| {
            clear(&mut it.pod, "/metadata/ownerReferences/0", "uid");
        },
    ),
    (R::PodWithoutTaskRun, "two controllers", plain, |it| {
        let second = it.pod["metadata"]["ownerReferences"][0].clone();
        it.pod["metadata"]["ownerReferences"]
            .as_array_mut()
            .unwrap()
            .push(second);
    }),
    (
        R::TaskRunWithoutRun,
        "a TaskRun without an owner",
        plain,
        |it| {
            clear(it.task_run(), "/metadata", "ownerReferences");
        },
    ),
    (
        R::CustomRunWithoutRun,
        "a CustomRun without an owner",
        plain,
        |it| {
            clear(it.custom_run(), "/metadata", "ownerReferences");
        },
    ),
    (
        R::ApprovalWithoutCustomRun,
        "an approval without an owner",
        plain,
        |it| {
            clear(&mut it.approval, "/metadata", "ownerReferences");
        },
    ),
    (
        R::OwnerReplaced,
        "another TaskRun under the name",
        plain,
        |it| {
            it.task_run()["metadata"]["uid"] = "new".into();
        },
    ),
    (
        R::OwnerReplaced,
        "another CustomRun under the name",
        plain,
        |it| {
            it.custom_run()["metadata"]["uid"] = "new".into();
        },
    ),
    (
        R::OwnerReplaced,
        "another run under the name",
        plain,
        |it| it.run()["metadata"]["uid"] = "new".into(),
    ),
    (R::OtherRun, "ends of two runs", plain, |it| {
        it.custom_run()["metadata"]["ownerReferences"] =
            owner("tekton.dev/v1", "PipelineRun", "other", "uid-o");
    }),
    (
        R::OtherRun,
        "a run of another UID under the same name",
        plain,
        |it| {
            it.custom_run()["metadata"]["ownerReferences"][0]["uid"] = "uid-o".into();
        },
    ),
    (R::OtherRun, "the UID under another name", plain, |it| {
        it.custom_run()["metadata"]["ownerReferences"][0]["name"] = "other".into();
    }),
    (
        R::OtherRun,
        "a result of another run's child",
        |it| it.uses = Uses::Text,
        |it| {
            it.objects[3]["metadata"]["ownerReferences"][0]["uid"] = "uid-o".into();
        },
    ),
    (R::BeingDeleted, "the run", plain, |it| going(it.run())),
    (R::BeingDeleted, "the TaskRun", plain, |it| {
        going(it.task_run());
    }),
    (R::BeingDeleted, "the CustomRun", plain, |it| {
        going(it.custom_run());
    }),
    (R::BeingDeleted, "the approval", plain, |it| {
        going(&mut it.approval);
    }),
    (R::RunDone, "succeeded", plain, |it| ended(it.run(), "True")),
    (R::RunDone, "failed", plain, |it| ended(it.run(), "False")),
    (R::RunDone, "completed", plain, |it| {
        it.run()["status"]["completionTime"] = "2026-11-21T11:00:00Z".into();
    }),
    (R::RunCancelled, "cancelled", plain, |it| {
        it.run()["spec"]["status"] = "Cancelled".into();
    }),
    (R::RunCancelled, "gracefully", plain, |it| {
        it.run()["spec"]["status"] = "CancelledRunFinally".into();
    }),
    (R::RunCancelled, "stopped", plain, |it| {
        it.run()["spec"]["status"] = "StoppedRunFinally".into();
    }),
    (R::RunOfRun, "a pipeline in a pipeline", plain, |it| {
        it.run()["metadata"]["ownerReferences"] =
            owner("tekton.dev/v1", "PipelineRun", "parent", "uid-p");
    }),
    (R::RunManagedElsewhere, "another controller", plain, |it| {
        it.run()["spec"]["managedBy"] = "example.com/other".into();
    }),
    (
        R::NoPipelineTask,
        "listed for a task that is none",
        plain,
        |it| {
            it.run()["status"]["childReferences"][3]["pipelineTaskName"] = "none".into();
        },
    ),
    (R::NoPipelineTask, "two tasks of one name", plain, |it| {
        it.run()["status"]["pipelineSpec"]["tasks"][0]["name"] = "lint".into();
    }),
    (
        R::OtherKindOfTask,
        "a TaskRun for a pipeline",
        plain,
        |it| {
            with_task(it, "deploy", |task| {
                task.as_object_mut().unwrap().remove("taskSpec");
                task["pipelineRef"] = json!({"name": "p"});
            });
        },
    ),
    (
        R::OtherKindOfTask,
        "a TaskRun for a task and a pipeline",
        plain,
        |it| {
            with_task(it, "deploy", |task| {
                task["pipelineRef"] = json!({"name": "p"});
            });
        },
    ),
    (
        R::OtherKindOfTask,
        "a TaskRun for a task and an embedded pipeline",
        plain,
        |it| {
            with_task(it, "deploy", |task| {
                task["pipelineSpec"] = json!({"tasks": []});
            });
        },
    ),
    (
        R::OtherKindOfTask,
        "a CustomRun for a plain task",
        plain,
        |it| {
            with_task(it, "wait", |task| {
                task["taskRef"] = json!({"name": "t", "kind": "Task"});
            });
        },
    ),
    (R::TaskSkipped, "the pod's task", plain, |it| {
        it.run()["status"]["skippedTasks"] =
            json!([{"name": "deploy", "reason": "When Expressions evaluated to false"}]);
    }),
    (R::NotAChild, "listed twice", plain, |it| {
        it.adopt(RunKind::TaskRun, "run-deploy", "lint");
    }),
    (R::NotAChild, "another child is listed", plain, |it| {
        it.run()["status"]["childReferences"][3]["name"] = "run-deployed".into();
    }),
    (
        R::NotDerivedName,
        "a stranger that is listed",
        plain,
        |it| rename(it, "evil"),
    ),
    (
        R::NotDerivedName,
        "a stranger that is not listed",
        plain,
        |it| {
            rename(it, "evil");
            it.run()["status"]["childReferences"]
                .as_array_mut()
                .unwrap()
                .pop();
        },
    ),
    (
        R::TooManyChildren,
        "a stranger beside the pod's TaskRun",
        plain,
        |it| {
            it.adopt(RunKind::TaskRun, "evil", "deploy");
        },
    ),
    (
        R::TooManyChildren,
        "a stranger beside the CustomRun",
        plain,
        |it| {
            it.adopt(RunKind::CustomRun, "evil", "wait");
        },
    ),
    (R::TooManyChildren, "a child of another kind", plain, |it| {
        it.adopt(RunKind::CustomRun, "evil", "deploy");
    }),
    (
        R::TooManyChildren,
        "a child twice",
        |it| it.matrix = Matrix::Params,
        |it| it.adopt(RunKind::TaskRun, "run-deploy-1", "deploy"),
    ),
    (
        R::TooManyChildren,
        "another kind under the name of a child",
        |it| it.matrix = Matrix::Params,
        |it| {
            let child = &mut it.run()["status"]["childReferences"][4];
            assert_eq!(child["name"], "run-deploy-1");
            child["kind"] = "CustomRun".into();
        },
    ),
    (R::ChildOlderThanRun, "the TaskRun", plain, |it| {
        early(it.task_run());
    }),
    (R::ChildOlderThanRun, "the CustomRun", plain, |it| {
        early(it.custom_run());
    }),
    (
        R::ChildOlderThanRun,
        "a producer",
        |it| it.uses = Uses::Text,
        |it| early(&mut it.objects[3]),
    ),
    (R::PodNotCurrent, "another pod is", plain, |it| {
        it.task_run()["status"]["podName"] = "other".into();
    }),
    (R::PodNotCurrent, "of an earlier attempt", plain, |it| {
        it.task_run()["status"]["retriesStatus"] = json!([{"podName": "run-deploy-pod"}]);
        it.task_run()["status"]["podName"] = "".into();
    }),
    (
        R::PodNotCurrent,
        "a name that Tekton does not derive",
        plain,
        |it| {
            it.pod["metadata"]["name"] = "evil".into();
            it.task_run()["status"]["podName"] = "evil".into();
        },
    ),
    (
        R::PodNotCurrent,
        "more attempts than there may be",
        plain,
        |it| {
            it.task_run()["status"]["retriesStatus"] = json!([{}, {}, {}]);
            it.task_run()["status"]["podName"] = "run-deploy-pod-retry3".into();
            it.pod["metadata"]["name"] = "run-deploy-pod-retry3".into();
        },
    ),
    (R::PodOlderThanTaskRun, "by a second", plain, |it| {
        it.pod["metadata"]["creationTimestamp"] = "2026-11-21T10:00:19Z".into();
    }),
    (R::PodServiceAccount, "admin", plain, |it| {
        it.pod["spec"]["serviceAccountName"] = "admin".into();
    }),
    (R::TaskRunDone, "succeeded", plain, |it| {
        ended(it.task_run(), "True");
    }),
    (R::TaskRunDone, "failed", plain, |it| {
        ended(it.task_run(), "False");
    }),
];
