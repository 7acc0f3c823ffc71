//! The approval of a pipeline run, and its approvers.

use connectors_api::judge::JudgeReason;
use connectors_api::lineage::LineageReason;
use connectors_api::policy_reason::ChecksValid;
use serde_json::json;

use super::plant::{approve, reject, run_check};
use super::{Situation, row};
use crate::cluster::after;
use crate::rights::{allow, allow_everywhere, dev, read};

pub(super) fn rows() -> Vec<Situation> {
    vec![
        row(
            "the approvers have not answered",
            |_| (),
            "Waits",
            "waits for its approvers alice, group qa",
            "kubectl connectors approve approvaltask/run-wait -n team-a",
        ).of(JudgeReason::Pending),
        row(
            "none of the approvers who may still answer counts for the policy",
            |it| run_check(it, |it| it["approvers"] = json!({"users": ["carol"]})),
            "Waits",
            "waits for its approvers",
            "",
        ).of(JudgeReason::Pending).told("cancel the run, and start one that asks the policy's approvers"),
        row(
            "too few of the policy's approvers approved",
            |it| {
                run_check(it, |it| it["approvers"] = json!({"users": ["carol"]}));
                approve(it);
            },
            "Waits",
            "has 0 of the 1 approvals that the policy wants",
            "",
        ).of(JudgeReason::QuorumNotMet).told("start a new run that asks for more approvals"),
        row(
            "nothing guarantees who created the run",
            |it| {
                run_check(it, |it| it["approvers"] = json!({"notRequester": true}));
                approve(it);
                let says = json!([{
                    "type": "ChecksValid", "status": "False", "reason": "CreatorsUnknown",
                    "message": "no admission rule keeps creators true", "lastTransitionTime": after(0),
                }]);
                let namespace = "team-a";
                it.server
                    .change("accesspolicies", namespace, "approved-changes", |it| {
                        it["status"]["conditions"] = says;
                    });
            },
            "Waits",
            "no admission rule keeps the creators of pipeline runs true",
            "",
        ).of(JudgeReason::CreatorUnknown).of(ChecksValid::CreatorsUnknown).told("ask the administrator to set the chart value tekton.creators.enabled"),
        row(
            "an approver said no",
            reject,
            "Waits",
            "ApprovalTask run-wait is rejected",
            "",
        ).of(LineageReason::Rejected).told("start a new run: the answer of its approvers is final"),
        row(
            "the approvers did not decide in time",
            |it| it.approval(|it| it["status"]["state"] = "rejected".into()),
            "Waits",
            "its approvers did not decide in time",
            "",
        ).of(LineageReason::TimedOut).told("start a new run, and have its approvers answer in time"),
        row(
            "the run has not come to its approval",
            |it| it.server.delete("approvaltasks", "team-a", "run-wait"),
            "Waits",
            "no ApprovalTask with labels tekton.dev/pipelineRun=run",
            "get approvaltasks.openshift-pipelines.org -l tekton.dev/pipelineRun=run",
        ).of(JudgeReason::NoObjects).finding_nothing(),
        row(
            "Tekton has not written the pod's name yet",
            |it| {
                it.server.change("taskruns", "team-a", "run-deploy", |it| {
                    it["status"] = json!({})
                });
            },
            "Waits",
            "which takes status.podName of TaskRun run-deploy",
            "",
        ).of(JudgeReason::LineageIncomplete).told("Tekton's controllers write what is missing"),
        row(
            "the TaskRun of the pod is gone",
            |it| it.server.delete("taskruns", "team-a", "run-deploy"),
            "Waits",
            "which takes TaskRun run-deploy, which is not there",
            "",
        ).of(JudgeReason::LineageIncomplete).told("start a new run: TaskRun run-deploy is gone"),
        row(
            "the user may not read the TaskRun of the pod",
            |it| {
                let connectors = ["connectors", "accesspolicies", "accessrequests"];
                let tekton = ["pipelineruns", "customruns"];
                let rules = json!([
                    read("", &["pods"]), read("connectors.alauda.io", &connectors),
                    read("openshift-pipelines.org", &["approvaltasks"]), read("tekton.dev", &tekton),
                ]);
                allow(it, "team-a", &rules);
                let reviews = json!({
                    "apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"],
                    "verbs": ["create"],
                });
                allow_everywhere(it, &json!([reviews]));
            },
            "Waits",
            "you may not get taskruns.tekton.dev run-deploy in namespace team-a",
            "",
        )
        .asked_by(dev())
        .told("TaskRun run-deploy could not be read"),
        row(
            "the run asked for another approval, which has lost its labels",
            |it| {
                it.server.change("pipelineruns", "team-a", "run", |it| {
                    let task = it["status"]["pipelineSpec"]["tasks"][0].clone();
                    let tasks = it["status"]["pipelineSpec"]["tasks"].as_array_mut().unwrap();
                    tasks.push(task);
                    tasks.last_mut().unwrap()["name"] = "review".into();
                    let children = it["status"]["childReferences"].as_array_mut().unwrap();
                    children.push(json!({
                        "apiVersion": "tekton.dev/v1beta1", "kind": "CustomRun", "name": "run-review",
                        "pipelineTaskName": "review",
                    }));
                });
                approve(it);
            },
            "Waits",
            "its run asked for ApprovalTask run-review too",
            "",
        ).of(JudgeReason::OtherApprovalMissing).told("have an approver put its labels back, or start a new run"),
        row(
            "the Rego module says to wait, though the approvers approved",
            |it| {
                approve(it);
                let module = "package approval\noutput := {\"state\": \"pending\", \"message\": \"not yet\"}";
                run_check(it, |it| it["state"] = json!({"rego": module}));
            },
            "Waits",
            "not yet",
            "edit approvaltasks.openshift-pipelines.org run-wait",
        )
        .of(JudgeReason::Pending),
        row(
            "the check takes approvals without a proof, and an approver said no",
            |it| {
                run_check(it, |it| it["provenance"] = "None".into());
                reject(it);
            },
            "Waits",
            "ApprovalTask team-a/run-wait is rejected",
            "",
        )
        .of(JudgeReason::Rejected)
        .told("start a new run: the answer of its approvers is final"),
    ]
}
