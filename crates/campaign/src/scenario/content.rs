//! Children and pods that are not those that the pipeline calls for. Each run is honest but for one thing.

use serde_json::{Value, json};

use super::{
    Scenario,
    common::{A_WHILE, check_failed, scenario},
    forged::{ANY_OF_RUNS, all_differ, differing, differs, forged, list_too},
    runs::{APPROVED, append, never},
};
use crate::stage::{ANOTHER, APPS, GATE, Part, RELEASE, Stage, answered, script};

/// The place of the pod's pipeline task.
const DEPLOY: &str = "/status/pipelineSpec/tasks/1";

/// `TaskRuns`, `CustomRuns` and pods that prove nothing.
pub(super) const CONTENT: [Scenario; 37] = [
    forged("task-run-with-more-retries", |stage| {
        task_run(stage, |it| it["retries"] = 5.into());
    }),
    forged("task-run-of-another-controller", |stage| {
        task_run(stage, |it| {
            it["managedBy"] = "example.com/other".into();
        });
    }),
    forged("task-run-with-a-reference-beside-its-script", |stage| {
        task_run(stage, |it| {
            it["taskRef"] = json!({"name": "evil"});
        });
    }),
    forged("task-run-with-a-custom-reference", |stage| {
        task_run(stage, |it| {
            it["customRef"] = json!({"apiVersion": GATE, "kind": "ApprovalTask"});
        });
    }),
    forged("task-run-with-another-pod-template", |stage| {
        task_run(stage, |it| {
            it["podTemplate"] = json!({"nodeSelector": {"pool": "shared"}});
        });
    }),
    forged("task-run-with-other-sidecars", |stage| {
        task_run(stage, |it| {
            it["sidecarSpecs"] = json!([{"name": "spy", "computeResources": {}}]);
        });
    }),
    forged("task-run-with-a-script-beside-its-reference", |stage| {
        referred(stage, &json!({"name": "deploy"}), |it| {
            it["taskRef"] = json!({"name": "deploy"});
            it["taskSpec"] = script("evil:1");
        });
    }),
    forged("task-run-of-another-reference", |stage| {
        referred(stage, &json!({"name": "deploy"}), |it| {
            it["taskRef"] = json!({"name": "evil"});
        });
    }),
    forged("task-run-of-another-source", |stage| {
        let of = |url: &str| json!({"resolver": "git", "params": [{"name": "url", "value": url}]});
        referred(stage, &of("https://git.example.com/tasks"), |it| {
            it["taskRef"] = of("https://git.example.com/evil");
        });
    }),
    forged("task-run-with-another-number", |stage| {
        let of = |user: u64| json!({"steps": [{"name": "main", "securityContext": {"runAsUser": user}}]});
        embedded(stage, (&of(1000), &of(0)));
    }),
    forged("task-run-with-a-value-of-another-type", |stage| {
        let of = |command: Value| json!({"steps": [{"name": "main", "command": command}]});
        embedded(stage, (&of(json!(["deploy"])), &of(json!("evil"))));
    }),
    forged("custom-run-with-a-script", |stage| {
        differs(stage, Part::CustomRun, &|it| {
            it["spec"]["taskSpec"] = script("evil:1");
        });
    }),
    forged("task-run-of-another-account-than-its-own", |stage| {
        differs(stage, Part::Run, &|it| {
            it["spec"]["taskRunSpecs"] =
                json!([{"pipelineTaskName": "deploy", "serviceAccountName": "deployer"}]);
        });
    }),
    forged("task-run-with-another-workspace", |stage| {
        let of =
            |claim: &str| json!({"name": "src", "persistentVolumeClaim": {"claimName": claim}});
        bound(stage, &of("src"), &json!([of("evil")]));
    }),
    forged("task-run-without-its-workspace", |stage| {
        let bound_to = json!({"name": "src", "persistentVolumeClaim": {"claimName": "src"}});
        bound(stage, &bound_to, &json!([]));
    }),
    forged("task-run-with-another-claim", |stage| {
        let template = json!({"name": "src", "volumeClaimTemplate": {"spec": {}}});
        let evil = json!({"name": "src", "persistentVolumeClaim": {"claimName": "evil"}});
        bound(stage, &template, &json!([evil]));
    }),
    forged("task-run-with-another-result", |stage| {
        let image = script("$(tasks.build.results.tag)");
        built(stage, RELEASE.owns(Part::Run), (&image, &script("evil:1")));
    }),
    forged("task-run-with-other-items-of-a-result", |stage| {
        let of = |args: Value| json!({"steps": [{"name": "main", "args": args}]});
        let wanted = of(json!(["$(tasks.build.results.args[*])"]));
        built(
            stage,
            RELEASE.owns(Part::Run),
            (&wanted, &of(json!(["evil"]))),
        );
    }),
    forged("result-of-a-task-run-of-another-run", |stage| {
        let image = script("$(tasks.build.results.tag)");
        built(stage, ANOTHER.owns(Part::Run), (&image, &script("tool:2")));
    }),
    forged("task-run-with-a-value-that-only-tekton-knows", |stage| {
        let unknown = json!([{"name": "after", "value": "$(tasks.wait.status)"}]);
        all_differ(stage, &|part, it| match part {
            Part::Run => it["status"]["pipelineSpec"]["tasks"][1]["params"] = unknown.clone(),
            Part::TaskRun => it["spec"]["params"] = unknown.clone(),
            Part::CustomRun | Part::Approval | Part::Pod => {}
        });
    }),
    forged("pod-of-an-earlier-attempt", |stage| {
        all_differ(stage, &|part, it| match part {
            Part::Run => it["status"]["pipelineSpec"]["tasks"][1]["retries"] = 1.into(),
            Part::TaskRun => {
                it["spec"]["retries"] = 1.into();
                it["status"]["retriesStatus"] = json!([{"podName": RELEASE.pod}]);
            }
            Part::CustomRun | Part::Approval | Part::Pod => {}
        });
    }),
    forged("pod-of-one-attempt-too-many", |stage| {
        pod_named(stage, "release-deploy-pod-retry1", |it| {
            it["status"]["retriesStatus"] = json!([{"podName": RELEASE.pod}]);
        });
    }),
    forged("pod-that-a-forged-status-names", |stage| {
        pod_named(stage, "evil", |_| {});
    }),
    forged("pod-of-a-task-run-of-another-group", |stage| {
        differs(stage, Part::Pod, &|it| {
            it["metadata"]["ownerReferences"][0]["apiVersion"] = "example.com/v1".into();
        });
    }),
    forged("pod-of-another-kind-of-owner", |stage| {
        differs(stage, Part::Pod, &|it| {
            it["metadata"]["ownerReferences"][0]["kind"] = "Job".into();
        });
    }),
    forged("matrix-with-a-child-listed-twice", |stage| {
        matrix(stage, |it| {
            let twice = RELEASE.child(Part::TaskRun, "release-deploy-1", "deploy");
            list_too(it, twice);
        });
    }),
    forged("matrix-with-a-child-of-another-kind", |stage| {
        matrix(stage, |it| {
            let other = RELEASE.child(Part::CustomRun, "release-deploy-1", "deploy");
            it["status"]["childReferences"][2] = other;
        });
    }),
    forged("matrix-that-tekton-counts-otherwise", |stage| {
        matrix(stage, |it| {
            let matrix = &mut it["status"]["pipelineSpec"]["tasks"][1]["matrix"];
            let two = json!([{"name": "on", "value": "c"}, {"name": "in", "value": "d"}]);
            matrix["include"] = json!([{"name": "more", "params": two}]);
            let third = RELEASE.child(Part::TaskRun, "release-deploy-2", "deploy");
            list_too(it, third);
        });
    }),
    forged("matrix-with-a-parameter-of-its-task", |stage| {
        of_matrix(stage, &|part, it| match part {
            Part::Run => {
                it["status"]["pipelineSpec"]["tasks"][1]["params"] =
                    json!([{"name": "on", "value": "evil"}]);
            }
            Part::TaskRun => it["spec"]["params"][0]["value"] = "evil".into(),
            Part::CustomRun | Part::Approval | Part::Pod => {}
        });
    }),
    never(
        "matrix-without-one-of-its-approvals",
        |stage| {
            all_differ(stage, &|part, it| match part {
                Part::Run => {
                    it["status"]["pipelineSpec"]["tasks"][0]["matrix"] =
                        json!({"params": [{"name": "on", "value": ["a", "b"]}]});
                    it["status"]["childReferences"][0]["name"] = "release-wait-0".into();
                }
                Part::CustomRun => {
                    it["metadata"]["name"] = "release-wait-0".into();
                    append(
                        &mut it["spec"]["params"],
                        json!({"name": "on", "value": "a"}),
                    );
                }
                Part::Approval => {
                    it["metadata"]["name"] = "release-wait-0".into();
                    it["metadata"]["ownerReferences"][0]["name"] = "release-wait-0".into();
                    answered(it, "approve", "approved");
                }
                Part::TaskRun | Part::Pod => {}
            });
        },
        &[A_WHILE],
    ),
    forged("task-run-with-more-steps", |stage| {
        let step = |name: &str| json!({"name": name, "image": "tool:1"});
        let of = |steps: Value| json!({"steps": steps});
        let more = of(json!([step("main"), step("evil")]));
        embedded(stage, (&of(json!([step("main")])), &more));
    }),
    forged("custom-run-of-an-earlier-run", |stage| {
        differs(stage, Part::CustomRun, &|it| {
            it["metadata"]["ownerReferences"][0]["uid"] = "pipelineruns-release-before".into();
        });
    }),
    scenario(
        "custom-run-whose-place-another-has-taken",
        |stage| {
            differs(stage, Part::Run, &|it| {
                it["status"]["childReferences"][0]["name"] = "release-x".into();
            });
        },
        &[A_WHILE, APPROVED, A_WHILE],
        check_failed,
    ),
    forged("custom-run-that-failed", |stage| {
        differs(stage, Part::CustomRun, &|it| {
            it["status"]["conditions"][0]["status"] = "False".into();
        });
    }),
    forged("task-run-that-is-being-deleted", |stage| {
        all_differ(stage, &|_, _| ());
        stage.delete_and_keep("taskruns", APPS, "release-deploy");
    }),
    forged("approval-that-is-being-deleted", |stage| {
        all_differ(stage, &|_, _| ());
        stage.delete_and_keep("approvaltasks", APPS, "release-wait");
    }),
    forged("task-run-in-place-of-a-custom-run", |stage| {
        all_differ(stage, &|part, it| match part {
            Part::Run => {
                let wait = &mut it["status"]["pipelineSpec"]["tasks"][1];
                wait["taskRef"] = json!({"apiVersion": "example.com/v1", "kind": "Pause"});
                if let Some(fields) = wait.as_object_mut() {
                    fields.remove("taskSpec");
                }
            }
            Part::TaskRun => {
                it["spec"] = json!({
                    "serviceAccountName": "builder",
                    "taskRef": {"apiVersion": "example.com/v1", "kind": "Pause"},
                });
            }
            Part::CustomRun | Part::Approval | Part::Pod => {}
        });
    }),
];

/// A `TaskRun` with other settings.
fn task_run(stage: &Stage, edit: fn(&mut Value)) {
    differs(stage, Part::TaskRun, &|it| edit(&mut it["spec"]));
}

/// A pipeline task that refers to its task, and a `TaskRun` with these settings in place of the script.
fn referred(stage: &Stage, reference: &Value, edit: impl Fn(&mut Value)) {
    all_differ(stage, &|part, it| match part {
        Part::Run => {
            let task = it.pointer_mut(DEPLOY);
            if let Some(task) = task.and_then(Value::as_object_mut) {
                task.remove("taskSpec");
                task.insert("taskRef".to_owned(), reference.clone());
            }
        }
        Part::TaskRun => {
            it["spec"] = json!({"serviceAccountName": "builder"});
            edit(&mut it["spec"]);
        }
        Part::CustomRun | Part::Approval | Part::Pod => {}
    });
}

/// A pipeline task with one script, and a `TaskRun` with the other.
fn embedded(stage: &Stage, (wanted, found): (&Value, &Value)) {
    all_differ(stage, &|part, it| match part {
        Part::Run => it["status"]["pipelineSpec"]["tasks"][1]["taskSpec"] = wanted.clone(),
        Part::TaskRun => it["spec"]["taskSpec"] = found.clone(),
        Part::CustomRun | Part::Approval | Part::Pod => {}
    });
}

/// A run that binds a workspace, and a `TaskRun` with these workspaces.
fn bound(stage: &Stage, given: &Value, found: &Value) {
    all_differ(stage, &|part, it| match part {
        Part::Run => {
            it["spec"]["workspaces"] = json!([given]);
            it["status"]["pipelineSpec"]["tasks"][1]["workspaces"] = json!([{"name": "src"}]);
        }
        Part::TaskRun => it["spec"]["workspaces"] = found.clone(),
        Part::CustomRun | Part::Approval | Part::Pod => {}
    });
}

/// A task before that of the pod has ended with results, which the scripts use. Its `TaskRun` has these owners.
fn built(stage: &Stage, owners: Value, scripts: (&Value, &Value)) {
    let name = "release-build";
    let (wanted, found) = scripts;
    all_differ(stage, &|part, it| match part {
        Part::Run => {
            let pipeline = &mut it["status"]["pipelineSpec"];
            pipeline["tasks"][1]["taskSpec"] = wanted.clone();
            let build = json!({"name": "build", "taskSpec": script("tool:1")});
            append(&mut pipeline["tasks"], build);
            let child = RELEASE.child(Part::TaskRun, name, "build");
            list_too(it, child);
        }
        Part::TaskRun => it["spec"]["taskSpec"] = found.clone(),
        Part::CustomRun | Part::Approval | Part::Pod => {}
    });
    stage.put_part(RELEASE, Part::TaskRun, |it| {
        it["metadata"]["name"] = name.into();
        it["metadata"]["uid"] = "taskruns-release-build".into();
        it["metadata"]["ownerReferences"] = owners;
        it["status"] = json!({
            "conditions": [{"type": "Succeeded", "status": "True"}],
            "results": [{"name": "tag", "value": "tool:2"}, {"name": "args", "value": ["deploy"]}],
        });
    });
}

/// A run whose `TaskRun` says that this is its pod.
fn pod_named(stage: &Stage, pod: &str, edit: fn(&mut Value)) {
    made(stage, pod, &|part, it| match part {
        Part::TaskRun => edit(it),
        Part::Run | Part::CustomRun | Part::Approval | Part::Pod => {}
    });
}

/// A run of a matrix of two, and the pod of the first one.
fn of_matrix(stage: &Stage, edit: &dyn Fn(Part, &mut Value)) {
    let names = ["release-deploy-0", "release-deploy-1"];
    made(stage, "release-deploy-0-pod", &|part, it| {
        match part {
            Part::Run => {
                it["status"]["pipelineSpec"]["tasks"][1]["matrix"] = json!({"params": [
                    {"name": "on", "value": ["a", "b"]}, {"name": "in", "value": ["c"]},
                ]});
                let [first, second] = names.map(|it| RELEASE.child(Part::TaskRun, it, "deploy"));
                it["status"]["childReferences"][1] = first;
                list_too(it, second);
            }
            Part::TaskRun => {
                it["metadata"]["name"] = names[0].into();
                it["spec"]["params"] =
                    json!([{"name": "on", "value": "a"}, {"name": "in", "value": "c"}]);
            }
            Part::Pod => it["metadata"]["ownerReferences"][0]["name"] = names[0].into(),
            Part::CustomRun | Part::Approval => {}
        }
        edit(part, it);
    });
}

/// The same, with another run.
fn matrix(stage: &Stage, edit: fn(&mut Value)) {
    of_matrix(stage, &|part, it| {
        if part == Part::Run {
            edit(it);
        }
    });
}

/// A run with differences from an honest one, whose pod has this name.
fn made(stage: &Stage, pod: &str, edit: &dyn Fn(Part, &mut Value)) {
    differing(stage, ANY_OF_RUNS, pod, &|part, it| {
        match part {
            Part::TaskRun => it["status"]["podName"] = pod.into(),
            Part::Pod => it["metadata"]["name"] = pod.into(),
            Part::Run | Part::CustomRun | Part::Approval => {}
        }
        edit(part, it);
    });
}
