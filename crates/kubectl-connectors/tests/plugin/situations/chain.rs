//! The chain from the pod to its pipeline run, and to the approval.

use connectors_api::lineage::LineageReason as R;
use serde_json::json;

use super::plant::{children, custom_run, going, run, run_pod, succeeded, task, task_run, younger};
use super::{Situation, refused};

pub(super) fn rows() -> Vec<Situation> {
    vec![
        refused(
            R::PodWithoutTaskRun,
            "the pod is of no task",
            |it| run_pod(it, |it| it["metadata"]["ownerReferences"] = json!([])),
            "no TaskRun controls Pod run-deploy-pod",
            "nothing for this pod: only the current pod of a task in a pipeline run is let in",
        ),
        refused(
            R::TaskRunWithoutRun,
            "the task of the pod is of no run",
            |it| task_run(it, |it| it["metadata"]["ownerReferences"] = json!([])),
            "no PipelineRun controls TaskRun run-deploy",
            "nothing for this pod: only the current pod of a task in a pipeline run is let in",
        ),
        refused(
            R::OwnerReplaced,
            "another TaskRun took the name",
            |it| {
                run_pod(it, |it| {
                    it["metadata"]["ownerReferences"][0]["uid"] = "uid-of-before".into()
                })
            },
            "TaskRun run-deploy is not the one that the owner reference means",
            "start a new run: no approval counts for one that is over",
        ),
        refused(
            R::BeingDeleted,
            "the run is being deleted",
            |it| going(it, "pipelineruns", "team-a", "run"),
            "PipelineRun run is being deleted",
            "start a new run: no approval counts for one that is over",
        ),
        refused(
            R::RunDone,
            "the run has ended",
            |it| run(it, succeeded),
            "PipelineRun run has ended",
            "start a new run: no approval counts for one that is over",
        ),
        refused(
            R::RunCancelled,
            "the run was cancelled",
            |it| run(it, |it| it["spec"]["status"] = "Cancelled".into()),
            "PipelineRun run was cancelled, stopped or put off",
            "start a new run: no approval counts for one that is over",
        ),
        refused(
            R::RunOfRun,
            "another run started the run",
            |it| {
                run(
                    it,
                    |it| it["metadata"]["ownerReferences"] = json!([{"apiVersion": "tekton.dev/v1", "kind": "PipelineRun", "name": "parent", "uid": "uid-parent"}]),
                )
            },
            "PipelineRun run is the child of another PipelineRun",
            "put approval and task into one run",
        ),
        refused(
            R::RunManagedElsewhere,
            "another controller than Tekton manages the run",
            |it| {
                run(it, |it| {
                    it["spec"]["managedBy"] = "example.com/other".into()
                })
            },
            "another controller than Tekton's manages PipelineRun run",
            "take spec.managedBy out of the run",
        ),
        refused(
            R::TooLarge,
            "the run is too large to be proven",
            |it| {
                run(it, |it| {
                    let tasks: Vec<_> = (0..2_000)
                        .map(|it| json!({"name": format!("t{it}")}))
                        .collect();
                    it["status"]["pipelineSpec"]["finally"] = tasks.into();
                })
            },
            "PipelineRun run has too many tasks or children",
            "simplify the pipeline, and start a new run",
        ),
        refused(
            R::OtherRun,
            "the run did not ask for the approval",
            |it| {
                run(it, |it| {
                    drop(
                        it["status"]["pipelineSpec"]["tasks"]
                            .as_array_mut()
                            .unwrap()
                            .remove(0),
                    )
                });
                children(it, |it| drop(it.remove(0)));
            },
            "no pipeline task of PipelineRun run asks for ApprovalTask run-wait",
            "nothing with this approval: the pod's run did not ask for it",
        ),
        refused(
            R::NoPipelineTask,
            "the run lists the approval as the child of another task",
            |it| children(it, |it| it[0]["pipelineTaskName"] = "other".into()),
            "PipelineRun run has no pipeline task of CustomRun run-wait",
            "start a new run, and find out who changed this one",
        ),
        refused(
            R::OtherKindOfTask,
            "the pipeline task asks for no approval",
            |it| {
                task(it, 0, |it| {
                    it["taskRef"] = json!({"name": "t", "kind": "Task"})
                })
            },
            "pipeline task wait does not make CustomRun run-wait",
            "start a new run, and find out who changed this one",
        ),
        refused(
            R::TaskSkipped,
            "the run skipped the task of the pod",
            |it| {
                run(it, |it| {
                    it["status"]["skippedTasks"] = json!([{"name": "deploy"}])
                })
            },
            "PipelineRun run skipped pipeline task deploy",
            "start a new run, and find out who changed this one",
        ),
        refused(
            R::NotAChild,
            "the run lists the task of the pod twice",
            |it| {
                children(it, |it| {
                    let mut again = it[1].clone();
                    again["pipelineTaskName"] = "wait".into();
                    it.push(again);
                })
            },
            "PipelineRun run lists TaskRun run-deploy twice",
            "start a new run, and find out who changed this one",
        ),
        refused(
            R::NotDerivedName,
            "the task of the pod has a name that Tekton does not give",
            |it| {
                task(it, 1, |it| it["name"] = "release".into());
                children(it, |it| it[1]["pipelineTaskName"] = "release".into());
            },
            "TaskRun run-deploy does not have the name that Tekton derives",
            "start a new run, and find out who changed this one",
        ),
        refused(
            R::TooManyChildren,
            "a stranger stands beside the task of the pod",
            |it| {
                children(it, |it| {
                    let mut stranger = it[1].clone();
                    stranger["name"] = "stranger".into();
                    it.push(stranger);
                })
            },
            "PipelineRun run has more children of pipeline task deploy",
            "start a new run, and find out who changed this one",
        ),
        refused(
            R::ChildOlderThanRun,
            "the task of the pod is older than its run",
            |it| younger(it, "pipelineruns", "run"),
            "TaskRun run-deploy was created before PipelineRun run",
            "start a new run, and find out who changed this one",
        ),
        refused(
            R::TaskRunDone,
            "the task of the pod has ended",
            |it| task_run(it, succeeded),
            "TaskRun run-deploy has ended",
            "start a new run: no approval counts for one that is over",
        ),
        refused(
            R::PodNotCurrent,
            "the task runs in another pod",
            |it| {
                task_run(it, |it| {
                    it["status"]["podName"] = "run-deploy-pod-retry1".into()
                })
            },
            "Pod run-deploy-pod is not the current pod of TaskRun run-deploy",
            "nothing for this pod: only the current pod of a task in a pipeline run is let in",
        ),
        refused(
            R::PodOlderThanTaskRun,
            "the pod is older than its task",
            |it| younger(it, "taskruns", "run-deploy"),
            "Pod run-deploy-pod was created before TaskRun run-deploy",
            "nothing for this pod: only the current pod of a task in a pipeline run is let in",
        ),
        refused(
            R::PodServiceAccount,
            "the pod runs as another service account than its task",
            |it| {
                run(it, |it| {
                    it["spec"]["taskRunTemplate"]["serviceAccountName"] = "deployer".into()
                });
                task_run(it, |it| {
                    it["spec"]["serviceAccountName"] = "deployer".into()
                });
                custom_run(it, |it| {
                    it["spec"]["serviceAccountName"] = "deployer".into()
                });
            },
            "Pod run-deploy-pod runs as another service account than TaskRun run-deploy",
            "nothing for this pod: only the current pod of a task in a pipeline run is let in",
        ),
    ]
}
