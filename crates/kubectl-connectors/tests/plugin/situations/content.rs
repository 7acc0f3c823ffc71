//! What runs and approvals contain, compared with the pipeline.

use connectors_api::lineage::LineageReason as R;
use serde_json::json;
use testkit::Kind;

use super::plant::{custom_run, run_check, task, task_run, younger};
use super::{Situation, refused, row};

pub(super) fn rows() -> Vec<Situation> {
    vec![
        refused(
            R::OtherParams,
            "the task of the pod has other parameters",
            |it| {
                task_run(it, |it| {
                    it["spec"]["params"] = json!([{"name": "target", "value": "production"}])
                })
            },
            "TaskRun run-deploy has other parameters than its pipeline task",
            "start a new run, and find out who changed this one",
        ),
        refused(
            R::OtherTask,
            "the task of the pod runs something else",
            |it| {
                task_run(it, |it| {
                    it["spec"]["taskSpec"]["steps"][0]["image"] = "other:1".into()
                })
            },
            "TaskRun run-deploy runs another task than its pipeline task says",
            "start a new run, and find out who changed this one",
        ),
        refused(
            R::OtherServiceAccount,
            "the task of the pod runs as another service account",
            |it| {
                task_run(it, |it| {
                    it["spec"]["serviceAccountName"] = "deployer".into()
                })
            },
            "TaskRun run-deploy runs as another service account than PipelineRun run says",
            "start a new run, and find out who changed this one",
        ),
        refused(
            R::OtherPodTemplate,
            "the task of the pod has another pod template",
            |it| {
                task_run(it, |it| {
                    it["spec"]["podTemplate"] = json!({"hostNetwork": true})
                })
            },
            "TaskRun run-deploy has another pod template than its run gives it",
            "start a new run, and find out who changed this one",
        ),
        refused(
            R::OtherWorkspaces,
            "the task of the pod has another workspace",
            |it| {
                task_run(it, |it| {
                    it["spec"]["workspaces"] =
                        json!([{"name": "w", "configMap": {"name": "other"}}])
                })
            },
            "TaskRun run-deploy has other workspaces",
            "start a new run, and find out who changed this one",
        ),
        refused(
            R::OtherSettings,
            "the task of the pod has another setting",
            |it| task_run(it, |it| it["spec"]["retries"] = 3.into()),
            "TaskRun run-deploy has other settings than its pipeline task",
            "start a new run, and find out who changed this one",
        ),
        refused(
            R::ValueUnresolved,
            "a parameter is known to Tekton alone",
            |it| {
                task(it, 1, |it| {
                    it["params"] = json!([{"name": "status", "value": "$(tasks.wait.status)"}])
                })
            },
            "pipeline task deploy",
            "simplify the pipeline, and start a new run",
        ),
        refused(
            R::MatrixUnreadable,
            "the matrix of the task has no values",
            |it| {
                task(it, 1, |it| {
                    it["matrix"] = json!({"params": [{"name": "m", "value": []}]})
                })
            },
            "the matrix of pipeline task deploy cannot be read",
            "simplify the pipeline, and start a new run",
        ),
        refused(
            R::CustomRunWithoutRun,
            "the custom run behind the approval is of no run",
            |it| custom_run(it, |it| it["metadata"]["ownerReferences"] = json!([])),
            "no PipelineRun controls CustomRun run-wait",
            "nothing with this approval: the pod's run did not ask for it",
        ),
        refused(
            R::ApprovalWithoutCustomRun,
            "no custom run controls the approval",
            |it| it.approval(|it| it["metadata"]["ownerReferences"] = json!([])),
            "no CustomRun controls ApprovalTask run-wait",
            "nothing with this approval: the pod's run did not ask for it",
        ),
        refused(
            R::ApprovalName,
            "the approval has another name than its custom run",
            |it| it.approval(|it| it["metadata"]["ownerReferences"][0]["name"] = "other".into()),
            "ApprovalTask run-wait does not have the name of CustomRun other",
            "nothing with this approval: the pod's run did not ask for it",
        ),
        refused(
            R::NoApprovalAsked,
            "the custom run asks for something else",
            |it| {
                let other = json!({"apiVersion": "example.com/v1", "kind": "Ask"});
                task(it, 0, |it| it["taskRef"] = other.clone());
                custom_run(it, |it| it["spec"]["customRef"] = other);
            },
            "CustomRun run-wait does not ask for an approval",
            "nothing with this approval: the pod's run did not ask for it",
        ),
        refused(
            R::ApprovalOlderThanCustomRun,
            "the approval is older than its custom run",
            |it| younger(it, "customruns", "run-wait"),
            "ApprovalTask run-wait was created before CustomRun run-wait",
            "nothing with this approval: the pod's run did not ask for it",
        ),
        refused(
            R::CustomRunEnded,
            "the custom run behind the approval was cancelled",
            |it| custom_run(it, |it| it["spec"]["status"] = "RunCancelled".into()),
            "CustomRun run-wait was cancelled or failed",
            "start a new run: no approval counts for one that is over",
        ),
        refused(
            R::OtherApprovers,
            "the approval has other approvers than its run asks for",
            |it| it.approval(|it| it["spec"]["approvers"][0]["name"] = "mallory".into()),
            "ApprovalTask run-wait has other approvers than the parameters of CustomRun run-wait",
            "start a new run, and find out who changed this one",
        ),
        refused(
            R::OtherApprovalCount,
            "the approval wants another number of approvals",
            |it| it.approval(|it| it["spec"]["numberOfApprovalsRequired"] = 2.into()),
            "ApprovalTask run-wait wants another number of approvals than CustomRun run-wait",
            "start a new run, and find out who changed this one",
        ),
        refused(
            R::OtherLabels,
            "the approval has the labels of another task",
            |it| {
                it.approval(|it| {
                    it["metadata"]["labels"]["tekton.dev/pipelineTask"] = "deploy".into()
                })
            },
            "ApprovalTask run-wait has the label tekton.dev/pipelineTask of another run or pipeline task",
            "start a new run, and find out who changed this one",
        ),
        refused(
            R::AmbiguousFields,
            "the approval has two lists of approvers",
            |it| it.approval(|it| it["spec"]["Approvers"] = json!([])),
            "ApprovalTask run-wait has fields that differ in nothing but case",
            "start a new run, and find out who changed this one",
        ),
        refused(
            R::QuorumNotMet,
            "the state says approved, and no approver does",
            |it| it.approval(|it| it["status"]["state"] = "approved".into()),
            "its approvers gave 0 of 1 approvals and 0 rejections",
            "start a new run, and find out who changed this one",
        ),
        refused(
            R::StateUnknown,
            "the state of the approval is a word that the gate does not write",
            |it| it.approval(|it| it["status"]["state"] = "passed".into()),
            "ApprovalTask run-wait is in a state that the gate does not write",
            "start a new run, and find out who changed this one",
        ),
        row(
            "the policy selects a version of approvals that no proof reads",
            |it| {
                let version = "openshift-pipelines.org/v1beta1";
                it.server.register(Kind {
                    group: "openshift-pipelines.org".to_owned(),
                    version: "v1beta1".to_owned(),
                    kind: "ApprovalTask".to_owned(),
                    plural: "approvaltasks".to_owned(),
                    namespaced: true,
                    status: true,
                });
                run_check(it, |it| {
                    it["selector"]["objectRef"]["apiVersion"] = version.into()
                });
            },
            "Waits",
            "ApprovalTask run-wait is no ApprovalTask of openshift-pipelines.org/v1alpha1",
            "edit accesspolicy approved-changes",
        )
        .of(R::Unreadable),
    ]
}
