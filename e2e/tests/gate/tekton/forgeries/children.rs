//! Children of the tenant, `TaskRun`s and `CustomRun`s, which say that they belong to the approved run.

use e2e::api::kinds::{CUSTOM_RUN, TASK_RUN};
use serde_json::json;

use super::{Forgery, approve, approve_as_mallory};
use crate::tekton::{
    forged::{custom_run, task_run},
    pipelines::{POD_NAME, honest},
};

pub(super) const ALL: &[Forgery] = &[
    Forgery {
        name: "f3: a CustomRun with copied labels, and its own approval",
        before: None,
        run: honest,
        after: |live, tenant| {
            tenant.create(&custom_run("evil", &json!([])))?;
            live.wait_for_approval("evil");
            approve_as_mallory(live, "evil")
        },
        pod: POD_NAME,
        words: &["OtherRun"],
    },
    Forgery {
        name: "f4: a CustomRun with copied labels and owner, which Tekton adopts, and its own approval",
        before: None,
        run: honest,
        after: |live, tenant| {
            tenant.create(&custom_run("evil", &live.owner_of_children()))?;
            live.wait_for_approval("evil");
            approve_as_mallory(live, "evil")
        },
        pod: POD_NAME,
        words: &["NotDerivedName"],
    },
    Forgery {
        name: "f5: a CustomRun that took the derived name before the run",
        before: Some(|_, tenant| tenant.create(&custom_run("run-wait", &json!([]))).map(drop)),
        run: honest,
        after: |live, _| approve_as_mallory(live, "run-wait"),
        pod: POD_NAME,
        words: &["CustomRunWithoutRun"],
    },
    Forgery {
        name: "f5: the same, with the owner written afterwards",
        before: Some(|_, tenant| tenant.create(&custom_run("run-wait", &json!([]))).map(drop)),
        run: honest,
        after: |live, tenant| {
            approve_as_mallory(live, "run-wait")?;
            let owned = json!({"metadata": {"ownerReferences": live.owner_of_children()}});
            tenant.patch(CUSTOM_RUN, "run-wait", &owned).map(drop)
        },
        pod: POD_NAME,
        words: &["ChildOlderThanRun", "OtherParams"],
    },
    Forgery {
        name: "f7: the parameters of the CustomRun, changed before the approval is made or after",
        before: None,
        run: honest,
        after: |live, tenant| {
            let spec = custom_run("", &json!([]))["spec"].take();
            tenant.patch(
                CUSTOM_RUN,
                "run-wait",
                &json!({"spec": {"params": spec["params"]}}),
            )?;
            approve(live, tenant)
        },
        pod: POD_NAME,
        words: &["OtherApprovers", "OtherParams"],
    },
    Forgery {
        name: "f17: a TaskRun with copied labels and owner, which Tekton adopts, and its own task",
        before: None,
        run: honest,
        after: |live, tenant| {
            tenant.create(&task_run("evil", &live.owner_of_children()))?;
            live.pod("evil");
            approve(live, tenant)
        },
        pod: "evil-pod",
        words: &["NotDerivedName"],
    },
    Forgery {
        name: "f18: a TaskRun that took the derived name before the run",
        before: Some(|_, tenant| tenant.create(&task_run("run-deploy", &json!([]))).map(drop)),
        run: honest,
        after: approve,
        pod: POD_NAME,
        words: &["TaskRunWithoutRun"],
    },
    Forgery {
        name: "f18: the same, with the owner written afterwards",
        before: Some(|_, tenant| tenant.create(&task_run("run-deploy", &json!([]))).map(drop)),
        run: honest,
        after: |live, tenant| {
            let owned = json!({"metadata": {"ownerReferences": live.owner_of_children()}});
            tenant.patch(TASK_RUN, "run-deploy", &owned)?;
            approve(live, tenant)
        },
        pod: POD_NAME,
        words: &["ChildOlderThanRun", "OtherTask"],
    },
];
