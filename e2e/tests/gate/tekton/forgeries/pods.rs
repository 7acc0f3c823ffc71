//! Pods of the tenant, which say that they belong to the approved run.

use e2e::api::kinds::{PIPELINE_RUN, POD, TASK_RUN};
use serde_json::json;

use super::{Forgery, approve};
use crate::{
    support::uid,
    tekton::{
        forged::{labels, pod},
        pipelines::{POD_NAME, deploy_with, honest, run, step, wait, with},
    },
};

pub(super) const ALL: &[Forgery] = &[
    Forgery {
        name: "f1: a pod with copied labels",
        before: None,
        run: honest,
        after: |live, tenant| {
            tenant.create(&pod("evil", "run-deploy", &json!([])))?;
            approve(live, tenant)
        },
        pod: "evil",
        words: &["PodWithoutTaskRun"],
    },
    Forgery {
        name: "f2: a pod of another run, which says in its labels that it is of this one",
        before: None,
        run: honest,
        after: |live, tenant| {
            let of_run = live.gate.object(PIPELINE_RUN, "run");
            let spoofed = with(
                labels("deploy"),
                json!({
                    "tekton.dev/taskRun": "run-deploy", "tekton.dev/pipelineRunUID": uid(&of_run),
                }),
            );
            let evil = with(
                run(&json!([deploy_with(json!({}))])),
                json!({
                    "metadata": {"name": "evil"},
                    "spec": {"taskRunSpecs": [{"pipelineTaskName": "deploy", "metadata": {"labels": spoofed}}]},
                }),
            );
            tenant.create(&evil)?;
            live.pod("evil-deploy");
            approve(live, tenant)
        },
        pod: "evil-deploy-pod",
        words: &["OtherRun"],
    },
    Forgery {
        name: "f19: a pod that took the derived name before the TaskRun",
        before: Some(|_, tenant| {
            tenant
                .create(&pod(POD_NAME, "run-deploy", &json!([])))
                .map(drop)
        }),
        run: honest,
        after: approve,
        pod: POD_NAME,
        words: &["PodWithoutTaskRun"],
    },
    Forgery {
        name: "f20: a pod of a TaskRun that has ended",
        before: None,
        run: || {
            let ended = json!({"name": "deploy", "taskSpec": {"steps": [step("s", &json!(["say", "done"]))]}});
            run(&json!([wait(&json!(["alice"])), ended]))
        },
        after: |live, tenant| {
            let owners = live.owner(TASK_RUN, "run-deploy");
            live.gate.scene().wait_for_object(
                "the end of the TaskRun",
                TASK_RUN,
                "run-deploy",
                |it| it["status"]["conditions"][0]["status"] == "True",
            );
            tenant.delete(POD, POD_NAME)?;
            live.gate
                .api()
                .wait_until_gone(POD, POD_NAME, e2e::harness::PATIENCE)
                .unwrap();
            tenant.create(&pod(POD_NAME, "run-deploy", &owners))?;
            approve(live, tenant)
        },
        pod: POD_NAME,
        words: &["TaskRunDone", "RunDone"],
    },
    Forgery {
        name: "f22: a pod of the tenant in the status of the TaskRun",
        before: None,
        run: honest,
        after: |live, tenant| {
            let owners = live.owner(TASK_RUN, "run-deploy");
            tenant.create(&pod("evil", "run-deploy", &owners))?;
            approve(live, tenant)?;
            // Tekton writes the true name again and again.
            for _ in 0..10 {
                let status = json!({"podName": "evil"});
                tenant.patch_status(TASK_RUN, "run-deploy", &status)?;
            }
            Ok(())
        },
        pod: "evil",
        words: &["PodNotCurrent"],
    },
];
