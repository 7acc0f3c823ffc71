//! Pods of the author, which say that they belong to the approved run.

use e2e::api::kinds::{PIPELINE_RUN, POD, TASK_RUN};
use e2e::harness::PATIENCE;
use serde_json::{Value, json};

use super::{Attempt, Forgery, RUN_LABEL, approve, deploy_with, honest, nothing, uid, wait_for};

/// A pod without an owner.
fn orphan(attempt: &Attempt<'_>, rest: &str, labels: &Value) -> Value {
    let mut pod = attempt
        .pipelines
        .pod(&attempt.name(rest), labels, &json!({}));
    pod["metadata"]["ownerReferences"] = json!([]);
    pod
}

pub(super) const ALL: &[Forgery] = &[
    Forgery {
        name: "f1: a pod with copied labels",
        run: "f1",
        before: nothing,
        tasks: honest,
        after: |attempt| {
            let labels = attempt.object(POD, "deploy-pod")["metadata"]["labels"].take();
            attempt.create(&orphan(attempt, "evil", &labels));
            approve(attempt);
        },
        pod: "evil",
        words: &["PodWithoutTaskRun"],
    },
    Forgery {
        name: "f2: a pod of another run, which says in its labels that it is of this one",
        run: "f2",
        before: nothing,
        tasks: honest,
        after: |attempt| {
            let run = attempt.gate.object(PIPELINE_RUN, attempt.run);
            let claimed = json!({
                RUN_LABEL: attempt.run, "tekton.dev/pipelineRunUID": uid(&run), "tekton.dev/taskRun": "f2-deploy",
            });
            let settings = json!({"pipelineTaskName": "deploy", "metadata": {"labels": claimed}});
            let evil = json!({
                "pipelineSpec": {"tasks": [wait_for(&json!(["mallory"]), "1"), deploy_with(&json!({}))]},
                "taskRunSpecs": [settings],
            });
            attempt.pipelines.create_run(&attempt.name("evil"), &evil);
            attempt.pipelines.work();
            approve(attempt);
        },
        pod: "evil-deploy-pod",
        words: &["OtherRun"],
    },
    Forgery {
        name: "f13: a pod without the label that the selector is made of",
        run: "f13",
        before: nothing,
        tasks: honest,
        after: |attempt| {
            attempt.create(&orphan(attempt, "evil", &json!({"app": "evil"})));
            approve(attempt);
        },
        pod: "evil",
        words: &["SelectorInvalid"],
    },
    Forgery {
        name: "f19: a pod that took the derived name before the TaskRun",
        run: "f19",
        before: |attempt| {
            let labels =
                json!({RUN_LABEL: attempt.run, "tekton.dev/taskRun": attempt.name("deploy")});
            attempt.create(&orphan(attempt, "deploy-pod", &labels));
        },
        tasks: honest,
        after: approve,
        pod: "deploy-pod",
        words: &["PodWithoutTaskRun"],
    },
    Forgery {
        name: "f22: a pod of the author that a forged status names",
        run: "f22",
        before: nothing,
        tasks: honest,
        after: |attempt| {
            let owner = attempt.object(TASK_RUN, "deploy");
            let labels = attempt.object(POD, "deploy-pod")["metadata"]["labels"].take();
            let evil = attempt.name("evil");
            attempt.create(&attempt.pipelines.pod(&evil, &labels, &owner));
            let forged = json!({"podName": evil});
            let api = attempt.gate.api();
            api.patch_status(TASK_RUN, &attempt.name("deploy"), &forged)
                .unwrap();
            approve(attempt);
            let status = &attempt.object(TASK_RUN, "deploy")["status"];
            assert_eq!(status["podName"], evil, "Tekton believes it");
        },
        pod: "evil",
        words: &["PodNotCurrent"],
    },
    // The last one: Tekton must not look again after the approval.
    Forgery {
        name: "f20: an impostor in place of a pod that has ended",
        run: "f20",
        before: nothing,
        tasks: |attempt| {
            let steps = json!([attempt.pipelines.step("say", &json!(["say", "done"]))]);
            json!([
                wait_for(&json!(["alice"]), "1"), {"name": "deploy", "taskSpec": {"steps": steps}},
            ])
        },
        after: |attempt| {
            let pod = attempt.name("deploy-pod");
            assert_eq!(attempt.gate.scene().wait_for_end(&pod), "Succeeded");
            attempt.pipelines.work();
            let labels = attempt.object(POD, "deploy-pod")["metadata"]["labels"].take();
            attempt.gate.delete_pod_and_wait(&pod, PATIENCE);
            let owner = attempt.object(TASK_RUN, "deploy");
            attempt.create(&attempt.pipelines.pod(&pod, &labels, &owner));
            let approval = attempt.name("wait");
            attempt
                .pipelines
                .answer_before_tekton_looks(&approval, "alice", "approve");
        },
        pod: "deploy-pod",
        words: &["TaskRunDone"],
    },
];
