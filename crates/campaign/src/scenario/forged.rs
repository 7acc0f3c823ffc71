//! Forged runs: each is honest but for one thing, and approved. The numbers are those of docs/threat-model.md.

use serde_json::{Value, json};

use super::{
    Scenario,
    Step::{self, Do},
    common::{A_WHILE, GRANTED, PENDING, granted, scenario},
    runs::{APPROVED, OF_RUNS, append, never, prepared},
};
use crate::stage::{
    ANOTHER, APPS, BEFORE_ALL, Part, PolicyForm, RELEASE, RUN_LABEL, Stage, answered, approver,
    params, script,
};

/// One proven approval would suffice.
pub(super) const ANY_OF_RUNS: PolicyForm<'static> = PolicyForm {
    any: true,
    ..OF_RUNS
};

const STEPS: &[Step] = &[A_WHILE, APPROVED, A_WHILE];

/// A run that proves nothing, approved after a while.
pub(super) const fn forged(name: &'static str, before: fn(&Stage)) -> Scenario {
    never(name, before, STEPS)
}

/// Runs that prove nothing.
pub(super) const FORGED: [Scenario; 30] = [
    forged("f1-pod-with-copied-labels", |stage| {
        differs(stage, Part::Pod, &|it| {
            it["metadata"]["ownerReferences"] = json!([]);
        });
    }),
    forged("f3-custom-run-of-no-run", |stage| {
        differs(stage, Part::CustomRun, &|it| {
            it["metadata"]["ownerReferences"] = json!([]);
        });
    }),
    never(
        "f4-adopted-custom-run",
        |stage| differs(stage, Part::Pod, &|_| {}),
        &[
            PENDING,
            Do("a CustomRun is adopted", adopt_custom_run),
            A_WHILE,
            APPROVED,
            A_WHILE,
        ],
    ),
    forged("f5-custom-run-before-its-run", |stage| {
        differs(stage, Part::CustomRun, &first);
    }),
    forged("f5-custom-run-with-other-params", |stage| {
        all_differ(stage, &|part, it| match part {
            Part::CustomRun => it["spec"]["params"] = params("mallory"),
            Part::Approval => it["spec"]["approvers"] = json!([approver("mallory", "pending")]),
            Part::Run | Part::TaskRun | Part::Pod => {}
        });
    }),
    never(
        "f6-status-without-approvals",
        |stage| differs(stage, Part::Pod, &|_| {}),
        &[
            PENDING,
            Do("the status says approved", |it| {
                it.answer(RELEASE, "pending", "approved");
            }),
            A_WHILE,
        ],
    ),
    forged("f7-other-approvers", |stage| {
        differs(stage, Part::Approval, &|it| {
            it["spec"]["approvers"] =
                json!([approver("mallory", "pending"), approver("alice", "pending")]);
        });
    }),
    forged("f7-other-count", |stage| {
        all_differ(stage, &|part, it| match part {
            Part::CustomRun => it["spec"]["params"][1]["value"] = "2".into(),
            Part::Run => {
                it["status"]["pipelineSpec"]["tasks"][0]["params"][1]["value"] = "2".into();
            }
            Part::TaskRun | Part::Approval | Part::Pod => {}
        });
    }),
    forged("f17-pod-of-an-adopted-task-run", |stage| {
        all_differ(stage, &|part, it| match part {
            Part::TaskRun => {
                it["metadata"]["name"] = "release-evil".into();
                it["spec"]["taskSpec"] = script("evil:1");
            }
            Part::Pod => {
                it["metadata"]["ownerReferences"][0]["name"] = "release-evil".into();
            }
            Part::Run => {
                let evil = RELEASE.child(Part::TaskRun, "release-evil", "deploy");
                list_too(it, evil);
            }
            Part::CustomRun | Part::Approval => {}
        });
    }),
    forged("f18-task-run-before-its-run", |stage| {
        differs(stage, Part::TaskRun, &first);
    }),
    forged("f18-task-run-with-another-script", |stage| {
        differs(stage, Part::TaskRun, &|it| {
            it["spec"]["taskSpec"] = script("evil:1");
        });
    }),
    forged("f19-pod-before-its-task-run", |stage| {
        differs(stage, Part::Pod, &first);
    }),
    forged("f20-pod-after-its-task-run", |stage| {
        differs(stage, Part::TaskRun, &|it| {
            it["status"]["conditions"][0]["status"] = "True".into();
        });
    }),
    forged("f20-pod-beside-the-current-one", |stage| {
        differs(stage, Part::TaskRun, &|it| {
            it["status"]["podName"] = "another".into();
        });
    }),
    forged("f21-approval-before-the-gate", |stage| {
        differs(stage, Part::Approval, &first);
    }),
    forged("asks-for-a-kind-without-lineage", |stage| {
        let edit: fn(&mut Value) = |spec| {
            let check = &mut spec["checkGrantedPermission"]["spec"]["checks"][0];
            check["selector"] = json!({
                "labels": {"run": "{.object.metadata.name}"},
                "objectRef": {"apiVersion": "tekton.dev/v1beta1", "kind": "CustomRun"},
            });
        };
        prepared(
            stage,
            PolicyForm {
                edit: Some(edit),
                ..OF_RUNS
            },
        );
        stage.run(RELEASE);
        stage.change_part(RELEASE, Part::CustomRun, |it| {
            it["metadata"]["labels"]["run"] = RELEASE.pod.into();
            it["status"]["state"] = "approved".into();
        });
        stage.request_named("for-deploy", RELEASE.pod);
    }),
    forged("pod-with-an-owner-that-does-not-control", |stage| {
        differs(stage, Part::Pod, &|it| {
            it["metadata"]["ownerReferences"][0]["controller"] = false.into();
        });
    }),
    forged("pod-of-another-account-than-its-task-run", |stage| {
        all_differ(stage, &|part, it| match part {
            Part::Run => run_as(it, "deployer"),
            Part::TaskRun | Part::CustomRun => {
                it["spec"]["serviceAccountName"] = "deployer".into();
            }
            Part::Approval | Part::Pod => {}
        });
    }),
    forged("children-of-another-account-than-their-run", |stage| {
        differs(stage, Part::Run, &|it| run_as(it, "deployer"));
    }),
    forged("task-run-with-more-fields", |stage| {
        differs(stage, Part::TaskRun, &|it| {
            it["spec"]["taskSpec"]["sidecars"] = json!([{"name": "spy", "image": "evil:1"}]);
        });
    }),
    forged("task-run-with-more-params", |stage| {
        differs(stage, Part::TaskRun, &|it| {
            it["spec"]["params"] = json!([{"name": "script", "value": "evil"}]);
        });
    }),
    forged("task-run-with-a-breakpoint", |stage| {
        differs(stage, Part::TaskRun, &|it| {
            it["spec"]["debug"] = json!({"breakpoints": {"onFailure": "enabled"}});
        });
    }),
    forged("task-run-of-two-tasks", |stage| {
        differs(stage, Part::Run, &|it| {
            let twice = RELEASE.child(Part::TaskRun, "release-deploy", "verify");
            list_too(it, twice);
        });
    }),
    forged("custom-run-of-a-skipped-task", |stage| {
        differs(stage, Part::Run, &|it| {
            it["status"]["skippedTasks"] = json!([{"name": "wait"}]);
        });
    }),
    forged("custom-run-that-asks-for-no-approval", |stage| {
        all_differ(stage, &|part, it| match part {
            Part::Run => {
                it["status"]["pipelineSpec"]["tasks"][0]["taskRef"]["kind"] = "Pause".into();
            }
            Part::CustomRun => it["spec"]["customRef"]["kind"] = "Pause".into(),
            Part::TaskRun | Part::Approval | Part::Pod => {}
        });
    }),
    forged("custom-run-that-was-cancelled", |stage| {
        differs(stage, Part::CustomRun, &|it| {
            it["spec"]["status"] = "RunCancelled".into();
        });
    }),
    never(
        "approval-of-another-name",
        |stage| {
            differs(stage, Part::Approval, &|it| {
                it["metadata"]["name"] = "release-x".into();
                answered(it, "approve", "approved");
            });
        },
        &[A_WHILE],
    ),
    forged("run-of-another-run", |stage| {
        differs(stage, Part::Run, &|it| {
            it["metadata"]["ownerReferences"] = ANOTHER.owns(Part::Run);
        });
    }),
    forged("run-of-another-controller", |stage| {
        differs(stage, Part::Run, &|it| {
            it["spec"]["managedBy"] = "example.com/other".into();
        });
    }),
    scenario(
        "a-stranger-says-no",
        |stage| {
            prepared(stage, OF_RUNS);
            stage.run(RELEASE);
            stage.request_named("for-deploy", RELEASE.pod);
            stage.put_part(RELEASE, Part::Approval, |it| {
                it["metadata"] = json!({
                    "name": "stranger", "namespace": APPS, "labels": {RUN_LABEL: RELEASE.name},
                });
                answered(it, "reject", "rejected");
            });
        },
        &[
            PENDING,
            APPROVED,
            A_WHILE,
            PENDING,
            Do("it is deleted", |it| {
                it.server.delete("approvaltasks", APPS, "stranger");
            }),
            GRANTED,
        ],
        granted,
    ),
];

/// The part was created before all others.
fn first(object: &mut Value) {
    object["metadata"]["creationTimestamp"] = BEFORE_ALL.into();
}

fn run_as(run: &mut Value, account: &str) {
    run["spec"]["taskRunTemplate"]["serviceAccountName"] = account.into();
}

pub(super) fn list_too(run: &mut Value, child: Value) {
    append(&mut run["status"]["childReferences"], child);
}

/// A run with differences from an honest one. Garbage collection would delete objects whose owner does not
/// exist.
pub(super) fn all_differ(stage: &Stage, edit: &dyn Fn(Part, &mut Value)) {
    differing(stage, ANY_OF_RUNS, RELEASE.pod, edit);
}

/// The same for a policy and a pod.
pub(super) fn differing(
    stage: &Stage,
    form: PolicyForm<'_>,
    pod: &str,
    edit: &dyn Fn(Part, &mut Value),
) {
    prepared(stage, form);
    stage.server.collect_garbage(None);
    for part in Part::ALL {
        stage.put_part(RELEASE, part, |it| edit(part, it));
    }
    stage.request_named("for-deploy", pod);
}

/// A run with one part that differs.
pub(super) fn differs(stage: &Stage, one: Part, edit: &dyn Fn(&mut Value)) {
    all_differ(stage, &|part, it| {
        if part == one {
            edit(it);
        }
    });
}

/// A stranger's `CustomRun` with everything copied that names its run, approved by the stranger. Tekton lists it.
fn adopt_custom_run(stage: &Stage) {
    let (name, uid) = ("release-x", "customruns-release-x");
    stage.put_part(RELEASE, Part::CustomRun, |it| {
        it["metadata"]["name"] = name.into();
        it["metadata"]["uid"] = uid.into();
        it["spec"]["params"] = params("mallory");
    });
    stage.put_part(RELEASE, Part::Approval, |it| {
        it["metadata"]["name"] = name.into();
        it["metadata"]["uid"] = "approvaltasks-release-x".into();
        it["metadata"]["ownerReferences"][0]["name"] = name.into();
        it["metadata"]["ownerReferences"][0]["uid"] = uid.into();
        it["spec"]["approvers"] = json!([approver("mallory", "approve")]);
        it["status"]["state"] = "approved".into();
    });
    stage.change_part(RELEASE, Part::Run, |it| {
        list_too(it, RELEASE.child(Part::CustomRun, name, "wait"));
    });
}
